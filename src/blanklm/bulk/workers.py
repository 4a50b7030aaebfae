"""Fill shards on the processes of one machine."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

from blanklm.bulk.shards import ATTEMPTS, DIED, Filling, Shard, ShardFiller, ShardReport

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
