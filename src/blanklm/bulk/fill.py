"""Fill many files: plan the shards, fill those that are not finished, report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from blanklm.bulk.lines import one_line_json
from blanklm.bulk.shards import FAILURES, Filling, Shard, Totals, finished, folder_for, has_changed, plan
from blanklm.bulk.workers import on_ray, on_this_machine
from blanklm.options import check_number
from blanklm.pretrained import locate


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
    if workers is not None:
        check_number("--workers", workers, ge=1, le=10_000)
    shards = plan(pattern, out)
    locate(filling.model)
    with folder_for(filling, out):
        return _fill(shards, filling, out, workers, ray, progress, started)


def _fill(
    shards: list[Shard],
    filling: Filling,
    out: Path,
    workers: int | None,
    ray: str | None,
    progress: Callable[[int], None],
    started: float,
) -> Totals:
    changed = [shard for shard in shards if has_changed(shard)]
    for shard in changed:
        Path(shard.target).unlink()
    to_do = [shard for shard in shards if finished(shard) is None]
    for shard in to_do:
        Path(shard.attempts).unlink(missing_ok=True)
    failed: list[dict[str, str]] = []
    progress(len(shards) - len(to_do))
    if to_do:
        reports = on_this_machine(to_do, filling, workers) if ray is None else on_ray(to_do, filling, workers, ray)
        for report in reports:
            if report.error is not None:
                failed.append({"shard": report.source, "error": report.error})
            progress(1)
    before = len(shards) - len(to_do), len(changed)
    return _sum_up(shards, *before, failed, out, time.perf_counter() - started)


def _sum_up(
    shards: list[Shard], skipped: int, changed: int, failed: list[dict[str, str]], out: Path, seconds: float
) -> Totals:
    """Write the totals and the failures of all shards."""
    from blanklm.files import replacing

    done = lines = failed_lines = 0
    with replacing(out / FAILURES) as failures, replacing(out / "report.json") as report_file:
        with open(failures, "w", encoding="utf-8") as file:
            for shard in shards:
                _clean(shard)
                if (report := finished(shard)) is None:
                    continue
                done, lines, failed_lines = done + 1, lines + report.lines, failed_lines + len(report.failures)
                for failure in report.failures:
                    file.write(one_line_json({"shard": shard.source, **failure}) + "\n")
        totals = Totals(done, skipped, changed, lines, failed_lines, tuple(failed), round(seconds, 3))
        report_file.write_text(json.dumps(asdict(totals), indent=2) + "\n", encoding="utf-8")
    return totals


def _clean(shard: Shard) -> None:
    """Remove what killed workers left half-written."""
    from blanklm.files import leftovers

    for leftover in (Path(shard.attempts), *leftovers(Path(shard.target)), *leftovers(Path(shard.report))):
        with suppress(OSError):
            leftover.unlink()
