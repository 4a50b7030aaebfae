"""Filling many files: plan, fill one shard, write it under a temporary name, rename it, report.

The shard (one file) is the unit of work. Its results take their name only when every line has its answer, so whatever
is killed, a shard is either finished or still to do: nothing is lost and nothing is doubled. The same pipeline runs on
the processes of one machine and, with Ray Data, on the actors of a cluster; both give the same files.

An output folder holds
  fill.json                       the settings, checked when the work is taken up again
  a/b.jsonl.zst                   the results of the shard a/b.jsonl.zst: one JSON object a line, for each line in
  reports/a/b.jsonl.zst.json      its counts and failures, there before the results are
  report.json, failures.jsonl     the totals, and one line for each line that could not be filled
"""

from __future__ import annotations

import bz2
import glob
import gzip
import importlib.util
import json
import logging
import lzma
import multiprocessing
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from blanklm.bulk.lines import EveryBlank, answers, lines_of, one_line_json
from blanklm.data.readers import COMPRESSED, is_jsonl, matching_files
from blanklm.decoding.options import FillOptions
from blanklm.errors import BlankLMError, CheckpointError, DataError
from blanklm.pretrained import locate

if TYPE_CHECKING:
    from blanklm.api import BlankLM

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


@dataclass(frozen=True)
class Totals:
    shards: int  # finished, now or before
    skipped: int  # of these, finished before
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
        name = place.name if is_jsonl(place) else f"{place.name.removesuffix(suffix)}.jsonl{suffix}"
        target = out / place.with_name(name)
        shards.append(Shard(str(source), str(target), f"{out / 'reports' / target.relative_to(out)}.json"))
    targets = [shard.target for shard in shards]
    if len(set(targets)) < len(targets) or set(targets) & {shard.source for shard in shards}:
        raise DataError(f"results in {out} would overwrite texts or each other: choose another folder for --out")
    return shards


def begin(filling: Filling, out: Path) -> None:
    """Make the folder, or check that what it holds was filled with the same settings."""
    from blanklm.files import replacing

    settings = filling.settings
    path = out / "fill.json"
    if path.exists():
        try:
            before = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise DataError(f"{path} is damaged: choose another folder for --out") from None
        for name in settings | before:
            if settings.get(name) != before.get(name):
                raise DataError(
                    f"{out} was filled with {name} = {before.get(name)!r}, now it is {settings.get(name)!r}: "
                    "choose another folder for --out"
                )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} holds other things: choose a new folder for --out")
    out.mkdir(parents=True, exist_ok=True)
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
            return self._write(shard, language_model)
        except CheckpointError:
            raise
        except Exception as error:  # the other shards go on, whatever this one did
            reason = str(error) if isinstance(error, BlankLMError) else f"{type(error).__name__}: {error}"
            return ShardReport(shard.source, seconds=time.perf_counter() - started, error=reason)

    def _write(self, shard: Shard, language_model: BlankLM) -> ShardReport:
        from blanklm.files import replacing

        Path(shard.target).parent.mkdir(parents=True, exist_ok=True)
        filling, started = self.filling, time.perf_counter()
        lines, failures = 0, []
        with replacing(Path(shard.target)) as results, replacing(Path(shard.report)) as report_file:
            with _create(results, Path(shard.target).suffix) as out:
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
            report = ShardReport(shard.source, lines, tuple(failures), round(time.perf_counter() - started, 3))
            report_file.write_text(json.dumps(asdict(report)) + "\n", encoding="utf-8")
        return report  # leaving the block gave the report its name, and then the results theirs


def finished(shard: Shard) -> ShardReport | None:
    """The report of a shard that has its results."""
    if not Path(shard.target).exists():
        return None
    try:
        values = json.loads(Path(shard.report).read_text(encoding="utf-8"))
        return ShardReport(**values | {"failures": tuple(values["failures"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None  # not ours, or damaged: fill it again


@contextmanager
def _create(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    """A file to write, compressed as the suffix says; the same bytes whenever and under whatever name."""
    with open(path, "wb") as file, _compressed(file, suffix) as out:
        yield out


def _compressed(file: BinaryIO, suffix: str) -> Any:
    """A context that compresses into ``file`` as the suffix says."""
    match suffix:
        case ".xz":
            return lzma.open(file, "wb")
        case ".gz":
            return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        case ".bz2":
            return bz2.open(file, "wb")
        case ".zst":
            import zstandard

            return zstandard.open(file, "wb", closefd=False)
    return nullcontext(file)


# --- The workers of one machine -------------------------------------------------------------------------------


_filler: ShardFiller  # of this worker process


def _start_worker(filling: Filling, number: int, workers: int) -> None:
    import torch

    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    if filling.device is None and torch.cuda.is_available():
        filling = replace(filling, device=f"cuda:{number % torch.cuda.device_count()}")
    global _filler
    _filler = ShardFiller(filling)


def _fill_here(shard: Shard) -> ShardReport:
    return _filler.fill(shard)


def on_this_machine(shards: list[Shard], filling: Filling, workers: int) -> Iterator[ShardReport]:
    """Fill shards by ``workers`` processes and yield the reports as they are done; a process that dies is replaced."""
    free: queue.SimpleQueue[tuple[int, ProcessPoolExecutor]] = queue.SimpleQueue()

    # Workers are forked from a process that has loaded torch and done nothing with it: they start in no time.
    quick = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if quick else "spawn")
    if quick:
        context.set_forkserver_preload(["blanklm.api"])

    def process(number: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, context, initializer=_start_worker, initargs=(filling, number, workers))

    def fill(shard: Shard) -> ShardReport:
        number, worker = free.get()
        try:
            for _ in range(ATTEMPTS + 1):  # the last finds that it was tried often enough
                try:
                    return worker.submit(_fill_here, shard).result()
                except BrokenProcessPool:
                    worker.shutdown()
                    worker = process(number)
            return ShardReport(shard.source, error=DIED)
        finally:
            free.put((number, worker))

    for number in range(workers):
        free.put((number, process(number)))
    with ThreadPoolExecutor(workers) as threads:  # one thread waits for each process
        waiting = [threads.submit(fill, shard) for shard in shards]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for future in waiting:
                future.cancel()
            for _ in range(workers):
                free.get()[1].shutdown()


# --- The actors of a Ray cluster ------------------------------------------------------------------------------


def on_ray(shards: list[Shard], filling: Filling, workers: int | None, address: str | None) -> Iterator[ShardReport]:
    """Fill shards on a Ray cluster, by a pool of 1 to ``workers`` actors; yield the reports as they are done."""
    if importlib.util.find_spec("ray") is None:
        raise BlankLMError('filling on Ray needs the extra ray: pip install "blanklm[ray]"')
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data

    with _connected(ray, address):
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0)) if filling.device in (None, "cuda") else 0
        most = min(workers or gpus or int(resources.get("CPU", 1)), len(shards))
        reports = ray.data.from_items([asdict(shard) for shard in shards], override_num_blocks=len(shards)).map(
            _RayFiller,  # type: ignore[arg-type]  # Ray takes a class and makes actors of it
            fn_constructor_args=(filling,),
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
            num_cpus=0 if gpus else 1,
            num_gpus=1 if gpus else 0,
        )
        for row in reports.iter_rows():
            if row["stop"]:
                raise BlankLMError(row["stop"])
            yield ShardReport(**json.loads(row["report"]))


class _RayFiller(ShardFiller):
    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        try:
            return {"report": json.dumps(asdict(self.fill(Shard(**row)))), "stop": ""}
        except BlankLMError as error:
            return {"report": "", "stop": str(error)}


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to the cluster at ``address``, to the one that RAY_ADDRESS names, or to a new one on this machine."""
    already = ray.is_initialized()
    if not already:
        try:
            if host_and_port := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or ""):
                # Ray itself tries for minutes.
                socket.create_connection((host_and_port[1], int(host_and_port[2])), timeout=10).close()
            ray.init(address=address, log_to_driver=False, include_dashboard=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError, OverflowError) as error:
            raise BlankLMError(f"no Ray cluster at {address or 'this machine'}: {str(error).splitlines()[0]}") from None
    logging.getLogger("ray.data").setLevel("ERROR")
    try:
        yield
    finally:
        if not already:
            ray.shutdown()


# --- The whole of it ------------------------------------------------------------------------------------------


def fill_shards(
    pattern: str,
    filling: Filling,
    out: Path,
    workers: int | None = None,
    ray: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Totals:
    """Fill every file that matches ``pattern`` into ``out``; what is finished there already stays as it is.

    ``ray``: an address of a Ray cluster, or "" for the one of this machine; None fills with ``workers`` processes.
    ``progress`` is told the number of shards just done.
    """
    started = time.perf_counter()
    if workers is not None and workers < 1:
        raise BlankLMError(f"--workers must be at least 1, not {workers}")
    shards = plan(pattern, out)
    locate(filling.model)
    begin(filling, out)
    to_do = [shard for shard in shards if finished(shard) is None]
    for shard in to_do:
        Path(shard.attempts).unlink(missing_ok=True)
    failed: list[dict[str, str]] = []
    progress(len(shards) - len(to_do))
    if to_do:
        reports = (
            on_this_machine(to_do, filling, min(_workers(workers), len(to_do)))
            if ray is None
            else on_ray(to_do, filling, workers, ray or None)
        )
        for report in reports:
            if report.error is not None:
                failed.append({"shard": report.source, "error": report.error})
            progress(1)
    return _sum_up(shards, len(shards) - len(to_do), failed, out, time.perf_counter() - started)


def _workers(workers: int | None) -> int:
    """The number of processes on this machine: by default one per GPU, or per core."""
    if workers is not None:
        return workers
    import torch

    return torch.cuda.device_count() or os.cpu_count() or 1


def _sum_up(shards: list[Shard], skipped: int, failed: list[dict[str, str]], out: Path, seconds: float) -> Totals:
    """Write the totals and the failures of all shards."""
    from blanklm.files import replacing

    done = lines = failed_lines = 0
    with replacing(out / "failures.jsonl") as failures, replacing(out / "report.json") as report_file:
        with open(failures, "w", encoding="utf-8") as file:
            for shard in shards:
                _clean(shard)
                if (report := finished(shard)) is None:
                    continue
                done, lines, failed_lines = done + 1, lines + report.lines, failed_lines + len(report.failures)
                for failure in report.failures:
                    file.write(one_line_json({"shard": shard.source, **failure}) + "\n")
        totals = Totals(done, skipped, lines, failed_lines, tuple(failed), round(seconds, 3))
        report_file.write_text(json.dumps(asdict(totals), indent=2) + "\n", encoding="utf-8")
    return totals


def _clean(shard: Shard) -> None:
    """Remove what killed workers left half-written."""
    leftovers = [Path(shard.attempts)]
    for path in (Path(shard.target), Path(shard.report)):
        leftovers += path.parent.glob(f".{glob.escape(path.name)}.*.tmp")
    for leftover in leftovers:
        with suppress(OSError):
            leftover.unlink()
