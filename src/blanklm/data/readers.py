"""Stream texts from files, plain or compressed: one line at a time, never the whole file in memory.

Files must be valid UTF-8: a wrong byte would otherwise end up in the vocabulary unnoticed. A line ends at a newline
(LF or CRLF) and nowhere else; the other Unicode line separators are ordinary characters of the text.

A few kilobytes of .xz can hold terabytes, and a file without newlines is one line: both are bounded, and a file that
exceeds the bounds is refused by name. Archives (.zip, .tar) are never unpacked.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from blanklm.core.characters import check_text
from blanklm.errors import BlankLMError, DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

OPENERS: dict[str, Callable[[Path], Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
COMPRESSED = (*OPENERS, ".zst")
ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar")
LONGEST_LINE = 2**26  # bytes
CHUNK = 2**20  # bytes read at a time
GREATEST_EXPANSION = 200  # decompressed over compressed size; text reaches 3 to 20
ZST_INPUT = 2**12  # compressed bytes at a time: zstd may expand them some ten thousand times
SMALL = 2**26  # bytes that even the smallest file may expand to
DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error)  # what the standard readers raise on a damaged file


def read_lines(path: str | PathLike[str]) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, plain or .xz, .gz, .bz2 or .zst, without their newline.

    A byte order mark at the start of the file is dropped. A missing file raises here, not at the first line.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no file {path}: check the path")
    return _decoded_lines(path)


def read_texts(path: str | PathLike[str], field: str = "text") -> Iterator[str]:
    """Yield the texts of a file: its lines, or the ``field`` of each object of a .jsonl file (compressed or not).

    Blank lines of a .jsonl file are skipped; those of a plain text file are empty texts.
    """
    path = Path(path)
    lines = read_lines(path)
    return _fields(path, lines, field) if is_jsonl(path) else lines


def matching_files(pattern: str) -> list[Path]:
    """Return the files that a path or glob pattern names, sorted."""
    if Path(pattern).exists():
        return [Path(pattern)]
    files = sorted(Path(name) for name in glob.glob(pattern, recursive=True) if Path(name).is_file())
    if not files and glob.has_magic(pattern):
        raise DataError(f"no file matches {pattern}: check the path, and quote a pattern such as 'texts/*.jsonl.zst'")
    if not files:
        raise DataError(f"there is no file {pattern}: check the path")
    return files


def is_jsonl(path: Path) -> bool:
    """Tell by its name whether a file, compressed or not, holds JSON lines."""
    return (path.stem if path.suffix in COMPRESSED else path.name).endswith(".jsonl")


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file for reading, decompressed as its suffix says."""
    if path.suffix in ARCHIVES or ".tar" in path.suffixes:
        raise DataError(f"{path} is an archive: unpack it and pass the text files inside")
    if path.suffix not in COMPRESSED:
        return open(path, "rb")
    chunks = _zst_chunks(path) if path.suffix == ".zst" else _read_chunks(OPENERS[path.suffix], path)
    return io.BufferedReader(_ChunkStream(_bounded(chunks, path)), CHUNK)


def bounded_lines(stream: IO[bytes], name: str | PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a stream with their newlines; refuse one too long to be a text before it is in memory."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise DataError(f"{name}:{number} is longer than {LONGEST_LINE // 2**20} MiB: is this a text file?")
        yield line


def _read_chunks(opener: Callable[[Path], Any], path: Path) -> Iterator[bytes]:
    with opener(path) as stream:
        yield from iter(lambda: stream.read(CHUNK), b"")


def _bounded(chunks: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the chunks of a compressed file, up to the greatest size that is plausible for text."""
    left = max(SMALL, GREATEST_EXPANSION * path.stat().st_size)
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise DataError(
                f"{path} expands to more than {GREATEST_EXPANSION} times its size, which text never does: "
                "if you trust it, decompress it first"
            )
        yield chunk


def zstandard_for(path: Path) -> Any:
    """Import the package that reads and writes .zst files, or say how to install it."""
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{path} needs the zstandard package: pip install zstandard, or take .gz files") from None
    return zstandard


def _zst_chunks(path: Path) -> Iterator[bytes]:
    zstandard = zstandard_for(path)
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**31)  # also what `zstd --long` writes

    # The package's own file objects silently accept a truncated file; this checks that every frame is complete.
    def chunks() -> Iterator[bytes]:
        frame = None
        with open(path, "rb") as file:
            while compressed := file.read(ZST_INPUT):
                while compressed:
                    frame = frame or decompressor.decompressobj()
                    try:
                        yield frame.decompress(compressed)
                    except zstandard.ZstdError as error:
                        raise OSError(str(error)) from error
                    compressed = frame.unused_data if frame.eof else b""
                    frame = None if frame.eof else frame
        if frame is not None:
            raise EOFError("the last frame is truncated")

    return chunks()


class _ChunkStream(io.RawIOBase):
    """Present an iterator of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer)
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _decoded_lines(path: Path) -> Iterator[str]:
    try:
        with open_bytes(path) as stream:
            for number, line in enumerate(bounded_lines(stream, path), start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield _decode(line.removesuffix(b"\n").removesuffix(b"\r"), path, number)
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read ({error}): download it again or check its permissions") from error


def _decode(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number} is not UTF-8 (0x{line[error.start]:02x} is byte {error.start + 1} of the line): "
            "convert the file first, for example iconv -f LATIN1 -t UTF-8 old.txt > new.txt"
        ) from None


def _fields(path: Path, lines: Iterator[str], field: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{path}:{number} is not JSON ({error.msg} at column {error.colno}): fix or remove the line"
            ) from None
        except (RecursionError, ValueError):
            raise DataError(f"{path}:{number} is nested too deeply, or a number in it is too long") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}:{number} is not a JSON object: write one {{...}} per line")
        if field not in record:
            raise DataError(f"{path}:{number} has no field {field!r}: its fields are {', '.join(record) or 'none'}")
        if not isinstance(record[field], str):
            raise DataError(f"{path}:{number}: the field {field!r} is not a string: put the text in quotes")
        try:
            yield check_text(record[field])
        except BlankLMError as error:
            raise DataError(f"{path}:{number}: {error}") from None
