"""The registry of corpora: what each is, where it comes from, its licence, and the checksum of every file.

The package contains no text. A corpus is a folder of the data root (``data_root()``), and a *split* is one of its
files, named without ``.txt`` and ``.xz``: ``train``, ``valid.0`` (negative; 1 is positive),
``reference.0.0``, ``train.marked``, ``train.jsonl``, ``baseline_outputs/DualRL.test.0.tsf``.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from blanklm.data.readers import DAMAGE, open_bytes, read_lines
from blanklm.errors import DataError


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus. ``text_sha256`` is the checksum of the text inside, however it is compressed."""

    path: str  # relative to the data root
    sha256: str
    lines: int
    text_sha256: str


@dataclass(frozen=True)
class Corpus:
    """A corpus and its files by split; ``sources`` lists the origins of a corpus compiled from several."""

    name: str
    summary: str
    origin: str
    licence: str
    files: dict[str, CorpusFile] = field(default_factory=dict, repr=False)
    sources: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True)
class FileStatus:
    split: str
    path: Path
    status: Literal["ok", "missing", "differs"]


def corpora() -> list[Corpus]:
    """Return every registered corpus, whether its text is on this machine or not."""
    return list(known_corpora().values())


def data_root() -> Path:
    """Return $BLANKLM_DATA; else ./data if it holds a registered corpus; else the user's cache folder."""
    if chosen := os.environ.get("BLANKLM_DATA"):
        return Path(chosen).expanduser()
    # Many projects have a ./data folder; one without any registered corpus must not hide the cache folder.
    beside = Path.cwd() / "data"
    if any((beside / name).is_dir() for name in known_corpora()):
        return beside
    return Path.home() / ".cache" / "blanklm" / "data"


def find(name: str, split: str) -> Path:
    """Return the path of a split's file, compressed or plain; if it is missing, DataError says what to do."""
    corpus = corpus_named(name)
    if not corpus.files:
        beside = [data_root() / name / f"{split}{ending}" for ending in (".txt", ".txt.xz")]
        if present := [path for path in beside if path.is_file()]:
            return present[0]
        raise DataError(
            f"{name} is not distributed here: get it from {corpus.origin} and put {split}.txt into "
            f"{data_root() / name}, or pass the path of your text file instead of the name"
        )
    if split not in corpus.files:
        splits = ", ".join(known for known in corpus.files if "/" not in known)
        raise DataError(f"{name} has no split {split!r}: choose {splits}")
    path = _path_of(corpus.files[split])
    if path is None:
        expected = data_root() / corpus.files[split].path
        raise DataError(
            f"{name}/{split} is not here: looked for {expected} (or without .xz); set BLANKLM_DATA to the folder "
            f"that holds {name}/, or put the text there; it comes from {corpus.origin}"
        )
    return path


def read_corpus(name: str, split: str) -> Iterator[str]:
    """Yield the lines of a split unchanged: texts or, for some splits, JSON or tab-separated records."""
    return read_lines(find(name, split))


def verify(name: str) -> list[FileStatus]:
    """Check for each file of a corpus that it exists and that its text has the registered checksum."""
    statuses = []
    for split, file in corpus_named(name).files.items():
        path = _path_of(file)
        if path is None:
            statuses.append(FileStatus(split, data_root() / file.path, "missing"))
        else:
            statuses.append(FileStatus(split, path, "ok" if _is_intact(path, file) else "differs"))
    return statuses


def corpus_named(name: str) -> Corpus:
    """Return a registered corpus; an unknown name is an error that lists the known ones."""
    if name not in known_corpora():
        raise DataError(f"there is no corpus {name!r}: choose {', '.join(known_corpora())}")
    return known_corpora()[name]


def _path_of(file: CorpusFile) -> Path | None:
    path = data_root() / file.path
    plain = path.with_name(path.name.removesuffix(".xz"))  # as the origins publish it
    return next((candidate for candidate in (path, plain) if candidate.is_file()), None)


def _is_intact(path: Path, file: CorpusFile) -> bool:
    try:
        with open(path, "rb") as stream:
            if _sha256(stream) == file.sha256:
                return True
        # The same text compressed elsewhere has other bytes: compare the text inside.
        with open_bytes(path) as stream:
            return _sha256(stream) == file.text_sha256
    except DAMAGE:
        return False


def _sha256(stream: io.BufferedReader) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def known_corpora() -> dict[str, Corpus]:
    """Return each corpus of corpora.toml with its rows of files.tsv (path, lines, sha256, text_sha256)."""
    import tomllib  # here, since most commands name no corpus

    table = tomllib.loads(Path(__file__).with_name("corpora.toml").read_text(encoding="utf-8"))
    files: dict[str, dict[str, CorpusFile]] = {name: {} for name in table}
    _, *rows = Path(__file__).with_name("files.tsv").read_text(encoding="utf-8").splitlines()
    for row in rows:
        path, lines, sha256, text_sha256 = row.split("\t")
        name, _, file_name = path.partition("/")
        split = file_name.removesuffix(".xz").removesuffix(".txt")
        files[name][split] = CorpusFile(path, sha256, int(lines), text_sha256)
    return {name: Corpus(name, files=files[name], **description) for name, description in table.items()}
