"""Filling many files: one answer for each line, whoever is killed, on one machine's processes and on Ray."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
import torch

from blanklm.bulk.fill import fill_shards
from blanklm.bulk.lines import EveryBlank
from blanklm.bulk.shards import ATTEMPTS, Filling, ShardFiller, plan
from blanklm.data import read_lines
from blanklm.decoding.options import FillOptions
from blanklm.errors import BlankLMError, CheckpointError, DataError
from blanklm.extras import how_to_install
from tests.support.paths import YELP_WORDS

YELP = Filling(YELP_WORDS, "cpu")
BAD = [{"text": "no blank"}, {"texts": "___"}, {"text": "___[5-2]"}]


def write_shards(folder: Path, shards: int = 4, lines: int = 40) -> dict[str, list[str]]:
    """Shards of texts that are all different; the first lines of each are bad. What was written, by name."""
    texts = {}
    (folder / "deep").mkdir(parents=True)
    for shard in range(shards):
        rows = BAD + [{"text": f"{'the ' * (line % 7)}food {shard} {line} was ___[1] ."} for line in range(lines)]
        name = f"deep/{shard}.jsonl.gz" if shard % 2 else f"{shard}.jsonl"
        raw = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (folder / name).write_bytes(gzip.compress(raw) if shard % 2 else raw)
        texts[name] = [row.get("text", json.dumps(row)) for row in rows]
    return texts


def results(out: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in read_lines(out / name)]


def check_exactly_one_answer_each(out: Path, texts: dict[str, list[str]]) -> None:
    for name, lines in texts.items():
        records = results(out, name)
        assert [record["line"] for record in records] == list(range(1, len(lines) + 1))
        assert [record["input"] for record in records] == lines
        assert ["error" in record for record in records] == [i < len(BAD) for i in range(len(lines))]
    failures = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    assert len(failures) == len(BAD) * len(texts) and all(f["line"] <= len(BAD) and f["error"] for f in failures)
    assert not list(out.rglob(".*.tmp")) and not list(out.rglob("*.attempts"))


def contents(out: Path) -> dict[str, bytes]:
    """The finished results, by name."""
    kept = [path for path in out.rglob("*.jsonl*") if not {"reports", "failures.jsonl"} & set(path.parts)]
    return {str(path.relative_to(out)): path.read_bytes() for path in kept if not path.name.startswith(".")}


# --- One worker -----------------------------------------------------------------------------------------------


def test_a_shard_keeps_its_place_and_its_compression(tmp_path):
    write_shards(tmp_path / "in")
    (tmp_path / "in" / "plain.txt").write_text("the ___ .\n")
    shards = plan(f"{tmp_path}/in/**/*", tmp_path / "out")
    assert sorted(str(Path(shard.target).relative_to(tmp_path / "out")) for shard in shards) == [
        "0.jsonl", "2.jsonl", "deep/1.jsonl.gz", "deep/3.jsonl.gz", "plain.txt.jsonl"
    ]  # fmt: skip


def test_what_cannot_be_planned_is_named(tmp_path):
    write_shards(tmp_path / "in")
    with pytest.raises(DataError, match="no file matches"):
        plan(f"{tmp_path}/none/*.jsonl", tmp_path / "out")
    with pytest.raises(DataError, match="would overwrite"):
        plan(f"{tmp_path}/in/**/*", tmp_path / "in")
    (tmp_path / "in" / "5.txt").write_text("a ___\n")
    (tmp_path / "in" / "5.txt.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="each other"):
        plan(f"{tmp_path}/in/*", tmp_path / "out")
    with pytest.raises(DataError, match="holds other things"):
        fill_shards(f"{tmp_path}/in/0.jsonl", YELP, tmp_path)
    with pytest.raises(BlankLMError, match="--workers must be at least 1"):
        fill_shards(f"{tmp_path}/in/0.jsonl", YELP, tmp_path / "out", workers=0)
    with pytest.raises(CheckpointError, match="there is no model"):
        fill_shards(f"{tmp_path}/in/0.jsonl", Filling("nonesuch"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_other_settings_do_not_mix_with_what_is_there(tmp_path):
    write_shards(tmp_path / "in", shards=1, lines=1)
    go = lambda filling: fill_shards(f"{tmp_path}/in/*.jsonl", filling, tmp_path / "out", workers=1)  # noqa: E731
    go(YELP)
    assert go(replace(YELP, device=None)).skipped == 1
    with pytest.raises(DataError, match="filled with beam = 1, now it is 3"):
        go(replace(YELP, options=FillOptions(beam=3)))
    with pytest.raises(DataError, match="every_blank"):
        go(replace(YELP, every_blank=EveryBlank(max=2)))


@pytest.mark.slow
def test_a_damaged_shard_is_reported_and_the_others_are_filled(tmp_path):
    texts = write_shards(tmp_path / "in", shards=2)
    whole = (tmp_path / "in/deep/1.jsonl.gz").read_bytes()
    (tmp_path / "in/deep/1.jsonl.gz").write_bytes(whole[:-20])
    totals = fill_shards(f"{tmp_path}/in/**/*", YELP, tmp_path / "out", workers=1)
    assert totals.shards == 1 and "cannot be read further" in totals.failed_shards[0]["error"]
    assert not (tmp_path / "out/deep/1.jsonl.gz").exists()
    (tmp_path / "in/deep/1.jsonl.gz").write_bytes(whole)
    totals = fill_shards(f"{tmp_path}/in/**/*", YELP, tmp_path / "out", workers=1)
    assert (totals.shards, totals.skipped, totals.failed_shards) == (2, 1, ())
    check_exactly_one_answer_each(tmp_path / "out", texts)


def test_a_full_disk_stops_the_work_and_leaves_no_half_of_a_shard(tmp_path, monkeypatch):
    write_shards(tmp_path / "in", shards=1)
    shard = plan(f"{tmp_path}/in/*.jsonl", tmp_path / "out")[0]

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("blanklm.bulk.shards.one_line_json", no_space)
    with pytest.raises(CheckpointError, match="disk is full"):
        ShardFiller(YELP).fill(shard)
    assert not (tmp_path / "out/0.jsonl").exists() and not list((tmp_path / "out").rglob("*.tmp"))


@dataclass(frozen=True)
class Forgetful(Filling):
    """Out of memory over more than one text, and over some texts always."""

    def load(self):
        model = super().load()

        def fill(requests, options):
            if len(requests) > 1 or "large" in requests[0].template.pieces[0]:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return type(model).fill(model, requests, options)

        model.fill = fill
        return model


def test_short_of_memory_each_text_is_filled_alone(tmp_path):
    (tmp_path / "in.txt").write_text("a ___[1] .\na large ___[1] .\nthe ___[1] .\n")
    (shard,) = plan(str(tmp_path / "in.txt"), tmp_path / "out")
    report = ShardFiller(Forgetful(YELP_WORDS, "cpu")).fill(shard)
    assert report.lines == 3 and report.failures == ({"line": 2, "error": "out of memory: shorten the text"},)


@pytest.mark.slow
def test_unusual_lines_have_their_answer_too(tmp_path):
    """Long ones, NUL bytes, right-to-left and combining characters; what was given comes back as it was."""
    odd = [
        "the \0 ___[1] .",
        "שלום ___[1] ‮עולם‬",
        "e\u0301 ___[1] a" + "\u0300" * 50,
        "👩‍👩‍👧 ___[1]",
        "\u2028 ___[1] \x85",
    ]
    lines = [*odd, "x" * 999_000 + " ___[1]", "x " * 499_000 + "___"]
    (tmp_path / "in.txt").write_bytes("\n".join(lines).encode() + b"\nbad \xff ___\nthe ___[1] .\n")
    (shard,) = plan(str(tmp_path / "in.txt"), tmp_path / "out")
    assert ShardFiller(YELP).fill(shard).error is None
    records = results(tmp_path / "out", "in.txt.jsonl")
    assert len(records) == len(lines) + 2 and [record["input"] for record in records[:-2]] == lines
    for record in records[:6]:
        before, after = record["input"].split("___[1]")
        text = record["fills"][0]["text"]
        assert text.startswith(before) and text.endswith(after) and len(text) > len(before + after)
    assert "takes 499,001 tokens" in records[6]["error"] and "not UTF-8" in records[7]["error"]
    assert "fills" in records[8]


# --- Many workers, some killed --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deadly(Filling):
    """Fills as ever, but a worker that meets the text in one of the trap files dies at once."""

    traps: str = ""  # a folder; the trap "once" is gone when it has caught a worker

    def load(self):
        model = super().load()

        def fill(requests, options):
            for trap in Path(self.traps).iterdir():
                text = trap.read_text()
                if any(text in request.template.pieces[0] for request in requests):
                    if trap.name == "once":
                        trap.unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
            return type(model).fill(model, requests, options)

        model.fill = fill
        return model


@pytest.fixture(params=["processes", "ray"])
def two_workers(request, monkeypatch):
    """Options of fill_shards for two workers of either kind."""
    if request.param == "processes":
        yield {"workers": 2}
        return
    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield {"workers": 2, "ray": cluster.address}
    cluster.shutdown()


@pytest.mark.slow
def test_killed_workers_lose_and_double_nothing(tmp_path, two_workers):
    """One worker dies in the middle of a shard, which another does again. One text kills every worker: its shard is
    reported, and filled when the cause is gone."""
    texts = write_shards(tmp_path / "in", shards=5, lines=100)
    pattern, out, traps = f"{tmp_path}/in/**/*", tmp_path / "out", tmp_path / "traps"
    traps.mkdir()
    (traps / "once").write_text("food 2 70 ")
    (traps / "always").write_text("food 3 50 ")
    filling = Deadly(YELP_WORDS, "cpu", traps=str(traps))
    totals = fill_shards(pattern, filling, out, **two_workers)
    assert not (traps / "once").exists()
    assert (totals.shards, totals.lines, totals.skipped) == (4, 4 * 103, 0)
    assert [Path(failed["shard"]).name for failed in totals.failed_shards] == ["3.jsonl.gz"]
    assert f"died {ATTEMPTS} times" in totals.failed_shards[0]["error"]
    (traps / "always").unlink()
    totals = fill_shards(pattern, filling, out, **two_workers)
    assert (totals.shards, totals.lines, totals.skipped, totals.failed_shards) == (5, 5 * 103, 4, ())
    check_exactly_one_answer_each(out, texts)
    filler = ShardFiller(YELP)
    assert all(filler.fill(shard).error is None for shard in plan(pattern, tmp_path / "undisturbed"))
    assert contents(out) == contents(tmp_path / "undisturbed")


@pytest.mark.slow
def test_the_command_killed_and_run_again_finishes_the_work(tmp_path):
    """Everything is killed: the command, whose workers then end by themselves. Finished shards are not touched."""
    texts = write_shards(tmp_path / "in", shards=8, lines=60)
    out = tmp_path / "out"
    model = ["--model", "english-small"]  # the default takes minutes
    command = [sys.executable, "-m", "blanklm", "fill", "--file", f"{tmp_path}/in/**/*", "--out", str(out), *model]
    process = subprocess.Popen([*command, "--workers", "2", "--device", "cpu"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(contents(out)) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    before = {out / name: (out / name).stat().st_mtime_ns for name in contents(out)}
    assert 2 <= len(before) < 8
    done = subprocess.run([*command, "--workers", "2", "--device", "cpu", "--json"], capture_output=True, text=True)
    totals = json.loads(done.stdout)
    assert done.returncode == 1 and "24 lines could not be filled" in done.stderr  # the bad ones
    assert totals["shards"] == 8 and totals["skipped"] == len(before) and totals["lines"] == 8 * 63
    assert all(path.stat().st_mtime_ns == written for path, written in before.items())
    check_exactly_one_answer_each(out, texts)


# --- The command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a ___", "--out", "x"], "--out takes the results of files"),
        (["--out", "x"], "--out takes the results of files"),
        (["a ___", "--workers", "2"], "give --file and --out"),
        (["--ray", "--file", "x"], "give --file and --out"),
        (["--file", "none/*.jsonl", "--out", "x", "--ray"], "no file matches none/*.jsonl"),
    ],
)
def test_mistakes_get_one_plain_line(blanklm, arguments, message):
    code, out, err = blanklm("fill", *arguments)
    assert code == 1 and not out and len(err.splitlines()) == 1 and message in err


def test_ray_that_is_not_installed_or_not_there_is_named(tmp_path, blanklm, monkeypatch):
    (tmp_path / "in.jsonl").write_text('{"text": "the ___ ."}\n')
    arguments = ["fill", "--file", tmp_path / "in.jsonl", "--out", tmp_path / "out", "--ray"]
    with monkeypatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda name: None)
        code, _, err = blanklm(*arguments)
    assert code == 1 and how_to_install("ray") in err and len(err.splitlines()) == 1
    code, _, err = blanklm(*arguments, "127.0.0.1:1")
    assert code == 1 and "no Ray cluster at 127.0.0.1:1" in err and len(err.splitlines()) == 1, err


def test_without_the_package_a_zst_file_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "in.jsonl.zst").write_bytes(b"")
    (shard,) = plan(str(tmp_path / "in.jsonl.zst"), tmp_path / "out")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert "needs the zstandard package: pip install zstandard" in ShardFiller(YELP).fill(shard).error


# --- A rerun, and others at the same folder -------------------------------------------------------------------


@pytest.mark.slow
def test_an_input_that_has_changed_is_filled_again_and_only_that(tmp_path):
    """Of the same size and the same age, too: its content is what counts."""
    texts = write_shards(tmp_path / "in", shards=2, lines=3)
    go = lambda: fill_shards(f"{tmp_path}/in/**/*", YELP, tmp_path / "out", workers=1)  # noqa: E731
    assert (go().changed, go().skipped) == (0, 2)
    source = tmp_path / "in/0.jsonl"
    age, untouched = source.stat(), (tmp_path / "out/deep/1.jsonl.gz").stat().st_mtime_ns
    source.write_text(source.read_text().replace("food", "fish"))
    os.utime(source, ns=(age.st_atime_ns, age.st_mtime_ns))
    totals = go()
    assert (totals.changed, totals.skipped, totals.shards) == (1, 1, 2)
    texts["0.jsonl"] = [text.replace("food", "fish") for text in texts["0.jsonl"]]
    check_exactly_one_answer_each(tmp_path / "out", texts)
    assert (tmp_path / "out/deep/1.jsonl.gz").stat().st_mtime_ns == untouched


def test_an_input_that_changes_while_it_is_filled_has_no_results(tmp_path):
    (tmp_path / "in.txt").write_text("the ___[1] .\n" * 70)
    (shard,) = plan(str(tmp_path / "in.txt"), tmp_path / "out")

    @dataclass(frozen=True)
    class Disturbed(Filling):
        def load(self):
            model = super().load()

            def fill(requests, options):
                (tmp_path / "in.txt").write_text("a ___[1] .\n" * 70)
                return type(model).fill(model, requests, options)

            model.fill = fill
            return model

    report = ShardFiller(Disturbed(YELP_WORDS, "cpu")).fill(shard)
    assert "changed while it was filled" in report.error and not Path(shard.target).exists()


@pytest.mark.slow
def test_another_model_of_the_same_name_is_refused(tmp_path):
    model = shutil.copytree(YELP_WORDS, tmp_path / "model")
    (tmp_path / "in.txt").write_text("the ___[1] .\n")
    go = lambda: fill_shards(str(tmp_path / "in.txt"), Filling(str(model), "cpu"), tmp_path / "out", workers=1)  # noqa: E731
    go()
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"about": {"name": "trained further"}}))
    with pytest.raises(DataError, match="filled with model_sha256"):
        go()


@pytest.mark.slow
def test_an_input_may_have_the_name_of_the_report(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("failures.jsonl", "report.json.jsonl", "fill.jsonl"):
        (tmp_path / "in" / name).write_text('{"text": "the ___[1] ."}\n{"text": "no blank"}\n')
    totals = fill_shards(f"{tmp_path}/in/*", YELP, tmp_path / "out", workers=1)
    assert (totals.shards, totals.lines, totals.failed_lines) == (3, 6, 3)
    assert [record["line"] for record in results(tmp_path / "out", "failures.jsonl.jsonl")] == [1, 2]
    assert [record["line"] for record in results(tmp_path / "out", "failures.jsonl")] == [2, 2, 2]


@pytest.mark.slow
def test_of_several_commands_on_one_folder_one_fills_and_the_others_say_so_in_one_line(tmp_path):
    texts = write_shards(tmp_path / "in", shards=4, lines=100)
    command = [sys.executable, "-m", "blanklm", "fill", "--file", f"{tmp_path}/in/**/*", "--out", str(tmp_path / "out")]
    command += ["--model", YELP_WORDS, "--workers", "1", "--device", "cpu"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 90
    while not contents(tmp_path / "out") and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGSTOP)  # so that it is still at it when the others come
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in others:
        (line,) = process.communicate(timeout=120)[1].splitlines()
        assert "error: another process is filling into" in line
    first.send_signal(signal.SIGCONT)
    (line,) = first.communicate(timeout=120)[1].splitlines()
    assert "12 lines could not be filled" in line
    check_exactly_one_answer_each(tmp_path / "out", texts)


def start_filling(tmp_path, *options):
    """Start the command on enough shards that it will be at work for a while; wait until the first is done."""
    texts = write_shards(tmp_path / "in", shards=8, lines=400)
    command = [sys.executable, "-m", "blanklm", "fill", "--file", f"{tmp_path}/in/**/*", "--out", str(tmp_path / "out")]
    command += ["--model", YELP_WORDS, "--device", "cpu", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 90
    while not contents(tmp_path / "out") and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    return texts, command, process


@pytest.mark.slow
def test_ctrl_c_stops_the_workers_too_and_says_so(tmp_path):
    _, _, process = start_filling(tmp_path, "--workers", "2")
    workers = psutil.Process(process.pid).children(recursive=True)
    for one in (process, *workers):  # as a terminal sends it
        one.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "stopped\n")
    assert not psutil.wait_procs(workers, timeout=10)[1]


@pytest.mark.slow
def test_a_process_of_ray_that_dies_is_one_line_and_soon(tmp_path):
    """Ray itself waits a minute for it, and then ends the process without a word."""
    pytest.importorskip("ray")
    _, _, process = start_filling(tmp_path, "--ray", "--workers", "1")
    (raylet,) = [one for one in psutil.Process(process.pid).children(recursive=True) if one.name() == "raylet"]
    raylet.kill()
    _, err = process.communicate(timeout=30)
    (line,) = err.splitlines()
    assert process.returncode == 1 and line.startswith("error: a process of Ray died: run the same command again")


@pytest.mark.slow
def test_a_killed_fork_server_is_one_line_and_a_rerun_goes_on(tmp_path):
    """The server dies first, and then a worker that it would have to replace."""
    texts, command, process = start_filling(tmp_path, "--workers", "1")
    started = psutil.Process(process.pid).children(recursive=True)
    (server,) = [one for one in started if "forkserver" in " ".join(one.cmdline()) and one.children()]
    workers = server.children()
    server.kill()
    server.wait(10)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    _, err = process.communicate(timeout=60)
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["shards"] == 8
    check_exactly_one_answer_each(tmp_path / "out", texts)
    assert len(err.splitlines()) == 1, err
    assert process.returncode == 1
