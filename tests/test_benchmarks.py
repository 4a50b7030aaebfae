"""The benchmark of the core runs from a checkout, prints its table and leaves a complete record."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import DATA, ROOT

pytestmark = pytest.mark.slow

RATES = [
    "training_tokens_per_second",
    "filled_tokens_batch_1_per_second",
    "filled_tokens_batch_32_per_second",
    "filled_tokens_parallel_batch_32_per_second",
    "likelihood_token_orders_per_second",
]


def test_the_core_benchmark_prints_a_table_and_writes_its_numbers(tmp_path: Path):
    out = tmp_path / "new" / "core.json"
    options = ["--sizes", "tiny", "--device", "cpu", "--seconds", "0.2", "--threads", "1", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "core.py"), *options],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert "tiny: 0.9 M parameters" in done.stdout
    for what in ("training: tokens", "batch 1: tokens", "batch 32: tokens", "all blanks at once", "likelihood: tokens"):
        assert what in done.stdout

    record = json.loads(out.read_text(encoding="utf-8"))
    assert record["device"] == "cpu" and record["threads"] == 1 and record["settings"]["vocabulary"] == 10_000
    assert record["hardware"] and record["provenance"]["versions"]["torch"] and record["provenance"]["date"]
    (size, result), *others = record["sizes"].items()
    assert size == "tiny" and not others
    for field in ("parameters", *RATES):
        assert math.isfinite(result[field]) and result[field] > 0, field
    for name, measurement in result["measurements"].items():
        assert measurement["calls"] >= 1 and measurement["seconds"] > 0, name
        assert math.isclose(measurement["units"] / measurement["seconds"], result[f"{name}_per_second"]), name
    assert {f"{name}_per_second" for name in result["measurements"]} == set(RATES)


def test_the_filling_benchmark_gives_the_fills_of_the_formula(tmp_path):
    out = tmp_path / "filling.json"
    command = [sys.executable, "benchmarks/filling.py", "--size", "tiny", "--texts", "5", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    report = json.loads(out.read_text())
    assert report["same_fills"] == report["texts"] == 5
    assert report["ratio"] > 1 and 0 < report["encoder_share"] < 1


def test_the_benchmarks_of_scale_leave_their_numbers(tmp_path):
    """Filling by one worker, and memory over 100 MB that stream by."""
    scale, streaming = tmp_path / "scale.json", tmp_path / "streaming.json"
    for script, *options in (
        ("scale.py", "--workers", "1", "--shards", "2", "--lines", "5", "--out", str(scale)),
        ("streaming.py", "--gigabytes", "0.1", "--out", str(streaming)),
    ):
        subprocess.run([sys.executable, f"benchmarks/{script}", *options], cwd=ROOT, check=True, timeout=120)
    report = json.loads(scale.read_text())
    assert report["lines"] == 10 and [row["workers"] for row in report["rows"]] == [1]
    assert report["rows"][0]["lines_per_second"] > 0 and report["rows"][0]["filling_seconds"] > 0
    assert json.loads(streaming.read_text())["gigabytes"] == 0.1


def test_the_serving_benchmark_loses_and_crosses_no_answer(tmp_path):
    out = tmp_path / "serving.json"
    options = ["--sizes", "bundled", "--clients", "2,16", "--seconds", "2", "--requests", "100", "--out", str(out)]
    command = [sys.executable, "benchmarks/serving.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())["sizes"]["bundled"]
    assert set(report["clients"]) == {"2", "16"}
    for load in report["clients"].values():
        assert set(load["codes"]) == {"200"} and load["crossed"] == load["different"] == 0
        assert 0 < load["p50_seconds"] <= load["p99_seconds"] and load["share_of_offline"] > 0
    assert report["memory"]["codes"] == {"200": 100}
    assert report["memory"]["megabytes_at_the_end"] < 1.2 * report["memory"]["megabytes_after_a_tenth"]


def test_the_benchmark_of_passes_times_each_precision(tmp_path):
    out = tmp_path / "passes.json"
    options = ["--model", "english-small", "--times", "1", "--threads", "1", "--out", str(out)]
    subprocess.run([sys.executable, "benchmarks/passes.py", *options], cwd=ROOT, check=True, timeout=120)
    report = json.loads(out.read_text())
    assert len(report["milliseconds"]) == 6
    for row in report["milliseconds"].values():
        assert set(row) == {"int8", "bfloat16", "float32"} and all(time > 0 for time in row.values())


@pytest.mark.skipif(not (DATA / "english").is_dir(), reason="the English corpus is not here: set BLANKLM_DATA")
def test_the_benchmark_of_precision_compares_bleu(tmp_path):
    out = tmp_path / "precision.json"
    options = ["--model", "english-small", "--texts", "2", "--out", str(out)]
    environment = os.environ | {"BLANKLM_DATA": str(DATA)}
    subprocess.run([sys.executable, "benchmarks/precision.py", *options], cwd=ROOT, env=environment, check=True)
    report = json.loads(out.read_text())
    assert report["texts"] == 2 and set(report["lost"]) == {"0.1", "0.3", "0.5"}
    recorded = json.loads((ROOT / "results" / "benchmarks" / "precision-cpu.json").read_text())["lost"]
    assert max(recorded.values()) <= 0.2  # what is promised, as it was measured


def test_the_first_fill_benchmark_times_a_fresh_process(tmp_path):
    out = tmp_path / "first-fill.json"
    command = [sys.executable, "benchmarks/first_fill.py", "--processes", "1", "--threads", "1", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    report = json.loads(out.read_text())
    seconds = report["median_seconds"]
    assert report["sentence"].count("___") == 2 and report["threads"] == 1 and all(s > 0 for s in seconds.values())
    assert seconds["command"] > seconds["fill"]
    recorded = json.loads((ROOT / "results" / "benchmarks" / "first-fill-cpu.json").read_text())["median_seconds"]
    assert recorded["load"] < 2 and recorded["first_fill"] < 0.6  # what is promised, as it was measured
