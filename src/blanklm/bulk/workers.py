"""Fill shards on the processes of one machine, or on the actors of a Ray cluster."""

from __future__ import annotations

import atexit
import importlib.util
import json
import logging
import multiprocessing
import os
import queue
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from blanklm.bulk.shards import ATTEMPTS, DIED, Filling, Shard, ShardFiller, ShardReport
from blanklm.cores import available
from blanklm.errors import BlankLMError
from blanklm.extras import how_to_install

LOOK_EVERY = 0.5  # seconds
AGAIN = "run the same command again, which goes on where this one stopped"

_filler: ShardFiller  # of this worker process


def _start_worker(filling: Filling, number: int, workers: int) -> None:
    import torch

    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends this one
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, available() // workers))
    if filling.device is None and torch.cuda.is_available():
        filling = replace(filling, device=f"cuda:{number % torch.cuda.device_count()}")
    global _filler
    _filler = ShardFiller(filling)


def _fill_here(shard: Shard) -> ShardReport:
    return _filler.fill(shard)


def on_this_machine(shards: list[Shard], filling: Filling, workers: int | None) -> Iterator[ShardReport]:
    """Fill shards by ``workers`` processes and yield the reports as they are done; a process that dies is replaced.

    By default there is one process per GPU, or per core.
    """
    if workers is None:
        import torch

        workers = torch.cuda.device_count() or available()
    workers = min(workers, len(shards))
    free: queue.SimpleQueue[tuple[int, ProcessPoolExecutor]] = queue.SimpleQueue()

    # Workers are forked from a process that has loaded torch and done nothing with it: they start in no time.
    quick = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if quick else "spawn")
    if quick:
        context.set_forkserver_preload(["blanklm.api"])

    pools: list[ProcessPoolExecutor] = []
    ended = threading.Event()

    def process(number: int) -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(1, context, initializer=_start_worker, initargs=(filling, number, workers)))
        return pools[-1]

    def end_workers() -> None:
        ended.set()
        for pool in pools:
            for worker in list((pool._processes or {}).values()):
                worker.kill()

    def fill(shard: Shard) -> ShardReport:
        number, worker = free.get()
        try:
            for _ in range(ATTEMPTS + 1):  # the last finds that it was tried often enough
                if ended.is_set():
                    break
                try:
                    return worker.submit(_fill_here, shard).result()
                except BrokenProcessPool:
                    worker.shutdown()
                    worker = process(number)
                except (ConnectionError, EOFError):  # of the process that forks workers
                    raise BlankLMError(f"the process that starts workers died: {AGAIN}") from None
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
        except BaseException:
            end_workers()  # nobody waits for what they are doing
            raise
        finally:
            for future in waiting:
                future.cancel()
            for _ in range(workers):
                free.get()[1].shutdown()


def on_ray(shards: list[Shard], filling: Filling, workers: int | None, address: str) -> Iterator[ShardReport]:
    """Fill shards on a Ray cluster, by a pool of 1 to ``workers`` actors; yield the reports as they are done."""
    if importlib.util.find_spec("ray") is None:
        raise BlankLMError(f"filling on Ray needs the extra ray: {how_to_install('ray')}")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data

    with _connected(ray, address) as lost:
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
        for row in _watched(reports.iter_rows(), lost):
            if row["stop"]:
                raise BlankLMError(row["stop"])
            yield ShardReport(**json.loads(row["report"]))


def _watched(rows: Iterable[dict[str, str]], lost: Callable[[], bool]) -> Iterator[dict[str, str]]:
    """Yield rows as they come; look now and then whether the cluster is ``lost``, which Ray notices after a minute."""
    coming: queue.SimpleQueue[dict[str, str] | BaseException | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for row in rows:
                coming.put(row)
            coming.put(None)
        except BaseException as error:
            coming.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            row = coming.get(timeout=LOOK_EVERY)
        except queue.Empty:
            if lost():
                raise BlankLMError(f"a process of Ray died: {AGAIN}") from None
            continue
        if isinstance(row, BaseException):
            if lost():
                raise BlankLMError(f"a process of Ray died: {AGAIN}") from None
            raise row
        if row is None:
            return
        yield row


class _RayFiller(ShardFiller):
    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        try:
            return {"report": json.dumps(asdict(self.fill(Shard(**row)))), "stop": ""}
        except BlankLMError as error:
            return {"report": "", "stop": str(error)}


def _end_at_once() -> None:
    """End this process as failed, before native code of Ray looks for its cluster and crashes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Throw away what native code writes on standard error."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[Callable[[], bool]]:
    """Connect to the cluster at ``address``, to the one that RAY_ADDRESS names, or to a new one on this machine.

    Yields what tells whether a process of a cluster that was started here has died.
    """
    already = ray.is_initialized()
    if not already:
        try:
            if host_and_port := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address):
                # Ray itself tries for minutes.
                socket.create_connection((host_and_port[1], int(host_and_port[2])), timeout=10).close()
            with _without_stderr():  # on which Ray says what RAY_BACKEND_LOG_LEVEL is
                ray.init(address=address or None, log_to_driver=False, include_dashboard=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError, OverflowError) as error:
            raise BlankLMError(f"no Ray cluster at {address or 'this machine'}: {str(error).splitlines()[0]}") from None
    logging.getLogger("ray.data").setLevel("ERROR")
    node = ray._private.worker._global_node  # of the driver; it holds the processes of a cluster that it has started

    def lost() -> bool:
        return bool(node is not None and node.dead_processes())

    try:
        yield lost
    finally:
        if lost():  # there is nothing to say goodbye to, and waiting for that takes minutes
            node.kill_all_processes(check_alive=False)
            atexit.register(_end_at_once)
        elif not already:
            ray.shutdown()
