"""A shard, one file, is the unit of work: plan it, fill it, write it under a temporary name, rename it, report it.

Its results take their name only when every line has its answer, so whatever is killed, a shard is either finished or
still to do: nothing is lost and nothing is doubled. Processes of one machine and actors of a Ray cluster (``workers``)
do the same work and give the same files.

An output folder holds
  fill.json                       the settings and the model's checksum, checked when the work is resumed
  .lock                           held by the process that fills into the folder
  a/b.jsonl.zst                   the results of the shard a/b.jsonl.zst: one JSON object per line, for each line in
  reports/a/b.jsonl.zst.json      its counts and failures and the checksum of its input, written before the results
  report.json, failures.jsonl     the totals, and one line for each line that could not be filled
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from blanklm.bulk.lines import EveryBlank, answers, lines_of, one_line_json
from blanklm.data.readers import COMPRESSED, is_jsonl, matching_files, zstandard_for
from blanklm.decoding.options import FillOptions
from blanklm.errors import BlankLMError, CheckpointError, DataError

if TYPE_CHECKING:
    from blanklm.api import BlankLM

FAILURES = "failures.jsonl"
ATTEMPTS = 3  # a shard whose worker dies this often is reported, and the others go on

DIED = f"its worker died {ATTEMPTS} times: does a text take too much memory?"


@dataclass(frozen=True)
class Filling:
    """How to fill texts; with the same settings a shard's results are the same, whichever worker fills it."""

    model: str
    device: str | None = None
    options: FillOptions = field(default_factory=FillOptions)
    every_blank: EveryBlank = field(default_factory=EveryBlank)
    jsonl: bool = False
    strict: bool = False
    trace: bool = False

    def load(self) -> BlankLM:
        from blanklm.api import BlankLM

        return BlankLM.from_pretrained(self.model, self.device)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the results, as it stands in fill.json: everything but the device."""
        settings = asdict(self)
        del settings["device"]
        return json.loads(json.dumps(settings.pop("options") | settings))  # as it will be read back


@dataclass(frozen=True)
class Shard:
    source: str  # absolute paths, as strings: they travel to other processes and machines
    target: str
    report: str

    @property
    def attempts(self) -> str:
        """A file with a byte for each time that a worker began this shard."""
        return f"{self.report}.attempts"


@dataclass(frozen=True)
class ShardReport:
    """The outcome of a shard; ``error`` if it has no results at all."""

    source: str
    lines: int = 0
    failures: tuple[dict[str, Any], ...] = ()  # {"line": 7, "error": "..."}
    seconds: float = 0.0
    error: str | None = None
    sha256: str | None = None  # of the source that the results are of


@dataclass(frozen=True)
class Totals:
    shards: int  # finished, now or before
    skipped: int  # of these, finished before
    changed: int  # finished before, and done again because their inputs are others now
    lines: int
    failed_lines: int
    failed_shards: tuple[dict[str, str], ...]  # {"shard": ..., "error": ...}
    seconds: float  # of this run


# --- Plan -----------------------------------------------------------------------------------------------------


def plan(pattern: str, out: Path) -> list[Shard]:
    """Plan a shard for each file that matches, its results at the same place below ``out``."""
    sources = [path.absolute() for path in matching_files(pattern)]
    root = Path(os.path.commonpath([source.parent for source in sources]))
    out = out.absolute()
    shards = []
    for source in sources:
        place = source.relative_to(root)
        suffix = place.suffix if place.suffix in COMPRESSED else ""
        is_ours = str(place) == FAILURES  # which the results may not be called
        name = place.name if is_jsonl(place) and not is_ours else f"{place.name.removesuffix(suffix)}.jsonl{suffix}"
        target = out / place.with_name(name)
        shards.append(Shard(str(source), str(target), f"{out / 'reports' / target.relative_to(out)}.json"))
    targets = [shard.target for shard in shards]
    if len(set(targets)) < len(targets) or set(targets) & {shard.source for shard in shards}:
        raise DataError(f"results in {out} would overwrite texts or each other: choose another folder for --out")
    return shards


@contextmanager
def folder_for(filling: Filling, out: Path) -> Iterator[None]:
    """Make the folder and keep others out of it, or check that what it holds was filled with the same settings."""
    from filelock import FileLock, Timeout

    lock = out / ".lock"
    is_new = not (out / "fill.json").exists()
    if is_new and out.exists() and (not out.is_dir() or any(path != lock for path in out.iterdir())):
        raise DataError(f"{out} holds other things: choose a new folder for --out")
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            _check_settings(filling, out)
            yield
    except Timeout:
        raise DataError(f"another process is filling into {out}: wait for it, or choose another folder") from None


def _check_settings(filling: Filling, out: Path) -> None:
    """Write the settings down, or refuse others than were written before."""
    from blanklm.files import MODEL_FILES, replacing, sha256_of
    from blanklm.pretrained import locate

    model = locate(filling.model)
    parts = [model / name for name in MODEL_FILES if (model / name).exists()]
    settings = filling.settings | {"model_sha256": sha256_of(*parts)}
    path = out / "fill.json"
    if path.exists():
        try:
            before = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise DataError(f"{path} is damaged: choose another folder for --out") from None
        before.setdefault("model_sha256", settings["model_sha256"])  # which was not written down at first
        for name in settings | before:
            if settings.get(name) != before.get(name):
                raise DataError(
                    f"{out} was filled with {name} = {before.get(name)!r}, now it is {settings.get(name)!r}: "
                    "choose another folder for --out"
                )
        return
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# --- Fill one shard -------------------------------------------------------------------------------------------


class ShardFiller:
    """A worker: load the model for the first shard, then fill one shard after another."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    @cached_property
    def language_model(self) -> BlankLM:
        return self.filling.load()

    def fill(self, shard: Shard) -> ShardReport:
        """Fill a shard. What is wrong with its file is in the report; what no shard can do without is raised."""
        from blanklm.files import sha256_of

        if report := finished(shard):
            return report
        # Counted on disk, since neither this process nor Ray can tell how often a worker died over a shard.
        attempts = Path(shard.attempts)
        attempts.parent.mkdir(parents=True, exist_ok=True)
        with open(attempts, "ab") as file:
            if file.tell() == ATTEMPTS:
                return ShardReport(shard.source, error=DIED)
            file.write(b".")
        started, language_model = time.perf_counter(), self.language_model
        try:
            return self._write(shard, language_model, sha256_of(Path(shard.source)))
        except CheckpointError:
            raise
        except Exception as error:  # the other shards go on, whatever this one did
            reason = str(error) if isinstance(error, BlankLMError) else f"{type(error).__name__}: {error}"
            return ShardReport(shard.source, seconds=time.perf_counter() - started, error=reason)

    def _write(self, shard: Shard, language_model: BlankLM, sha256: str) -> ShardReport:
        from blanklm.files import replacing, sha256_of

        Path(shard.target).parent.mkdir(parents=True, exist_ok=True)
        filling, started = self.filling, time.perf_counter()
        lines, failures = 0, []
        with replacing(Path(shard.target)) as results, replacing(Path(shard.report)) as report_file:
            with open(results, "wb") as file, _compressed(file, Path(shard.target).suffix) as out:
                texts = lines_of(Path(shard.source), filling.jsonl)
                others = (filling.every_blank, filling.strict, language_model.texts_at_once)
                for group in answers(language_model, texts, filling.options, *others):
                    for answer in group:
                        lines += 1
                        record = {"line": lines, **answer.to_json(filling.trace)}
                        if answer.unknown:
                            record["unknown"] = answer.unknown
                        if answer.error is not None:
                            failures.append({"line": lines, "error": answer.error})
                        out.write(one_line_json(record).encode() + b"\n")
            if sha256_of(Path(shard.source)) != sha256:
                raise DataError(f"{shard.source} changed while it was filled: run the command again")
            seconds = round(time.perf_counter() - started, 3)
            report = ShardReport(shard.source, lines, tuple(failures), seconds, sha256=sha256)
            report_file.write_text(json.dumps(asdict(report)) + "\n", encoding="utf-8")
        return report  # leaving the block gave the report its name, and then the results theirs


def has_changed(shard: Shard) -> bool:
    """Whether a finished shard has results of another input than is there now, or of one that was not written down."""
    from blanklm.files import sha256_of

    report = finished(shard)
    return report is not None and report.sha256 != sha256_of(Path(shard.source))


def finished(shard: Shard) -> ShardReport | None:
    """The report of a shard that has its results."""
    if not Path(shard.target).exists():
        return None
    try:
        values = json.loads(Path(shard.report).read_text(encoding="utf-8"))
        return ShardReport(**values | {"failures": tuple(values["failures"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None  # not ours, or damaged: fill it again


def _compressed(file: BinaryIO, suffix: str) -> Any:
    """Return a context that compresses into ``file`` as the suffix says; the time and the name leave no trace."""
    match suffix:
        case ".xz":
            return lzma.open(file, "wb")
        case ".gz":
            return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        case ".bz2":
            return bz2.open(file, "wb")
        case ".zst":
            return zstandard_for(Path(file.name)).open(file, "wb", closefd=False)
    return nullcontext(file)
