"""The memory of a server that runs for long."""

import os
import time
from pathlib import Path

import pytest

from blanklm.serve import memory
from tests.support.serving import client_of

MB = 1_000_000


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(memory._trim() is None, reason="only glibc keeps such memory")
def test_memory_freed_between_objects_that_stay_goes_back_to_the_system(model, monkeypatch):
    memory._trim()(0)
    before = resident()
    blocks, staying = [], []
    for _ in range(3000):  # each block below what glibc maps by itself, and behind it an object that stays
        blocks.append(bytearray(64_000))
        staying.append(bytearray(600))
    del blocks
    assert resident() > before + 150 * MB  # glibc has kept it
    monkeypatch.setattr(memory, "SECONDS", 0.05)
    with client_of(model) as client:
        until = time.monotonic() + 20
        while resident() > before + 50 * MB:
            assert time.monotonic() < until, f"{(resident() - before) / MB:.0f} MB are still held"
            time.sleep(0.05)
        assert client.get("/healthz").status_code == 200
    assert len(staying) == 3000
