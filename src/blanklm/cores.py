"""How many cores are free: threads beyond that wait for each other, and a fill takes longer with two than with one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
SHORTEST = 0.2  # seconds over which other programs are watched


@dataclass(frozen=True)
class Reading:
    """Clocks at one moment, in seconds: the wall's, those of all idle cores, and this process's own work."""

    wall: float
    idle: float | None
    own: float

    @classmethod
    def now(cls) -> Reading:
        try:
            ticks = STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
            idle = (int(ticks[4]) + int(ticks[5])) / os.sysconf("SC_CLK_TCK")  # idle, and waiting for a disk
        except (OSError, ValueError, IndexError):
            idle = None  # not Linux
        return cls(time.monotonic(), idle, time.process_time())


def available() -> int:
    """Count the cores that this process may use: those it is bound to, or fewer if its container has a quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):  # none, or "max"
        return max(1, cores)


def free(since: Reading, now: Reading) -> int:
    """Count the cores that other programs have left idle between two readings, at least one."""
    most = available()
    if since.idle is None or now.idle is None or now.wall - since.wall < SHORTEST:
        return most
    unused = now.idle - since.idle + now.own - since.own
    return max(1, min(most, round(unused / (now.wall - since.wall))))


def use_free_cores(since: Reading) -> None:
    """Let torch compute on the cores that are free, unless $OMP_NUM_THREADS says on how many."""
    if "OMP_NUM_THREADS" in os.environ:
        return
    import torch

    torch.set_num_threads(free(since, Reading.now()))
