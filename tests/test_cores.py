"""Threads are as many as the cores that other programs leave."""

import os
import subprocess
import sys

import pytest

from blanklm import cores
from blanklm.cores import Reading, available, free


@pytest.mark.parametrize(
    ("idle", "own", "expected"),
    [(8.0, 0.0, 4), (6.0, 2.0, 4), (0.0, 2.0, 1), (0.0, 0.1, 1), (4.0, 0.2, 2), (20.0, 2.0, 4)],
)
def test_what_is_idle_and_what_this_process_itself_used_is_free(monkeypatch, idle, own, expected):
    monkeypatch.setattr(cores, "available", lambda: 4)
    assert free(Reading(10.0, 100.0, 1.0), Reading(12.0, 100.0 + idle, 1.0 + own)) == expected


def test_all_cores_are_taken_where_nothing_is_known(monkeypatch):
    monkeypatch.setattr(cores, "available", lambda: 4)
    assert free(Reading(10.0, None, 1.0), Reading(12.0, None, 1.5)) == 4
    assert free(Reading(10.0, 5.0, 1.0), Reading(10.01, 5.0, 1.0)) == 4


def test_a_quota_of_the_container_and_the_cores_bound_to_are_heeded(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    for quota, expected in (("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1), ("9900000 100000", 8)):
        (tmp_path / "cpu.max").write_text(quota + "\n")
        monkeypatch.setattr(cores, "QUOTA", tmp_path / "cpu.max")
        assert available() == expected


def test_omp_num_threads_has_the_last_word():
    code = "from blanklm.cores import *; use_free_cores(Reading.now()); import torch; print(torch.get_num_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.stdout == "1\n"
