"""Fill shards on the actors of a Ray cluster."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from blanklm.bulk.shards import Filling, Shard, ShardFiller, ShardReport
from blanklm.errors import BlankLMError


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
