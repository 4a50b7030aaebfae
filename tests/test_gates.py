"""The gates of .pre-commit-config.yaml hold: what a commit is checked for, CI checks too."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.mutants import MUTANTS, survives
from tests.support.large_files import LIMIT, large_files
from tests.support.paths import ROOT

HOOKS = {
    hook["id"]: hook["entry"]
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
}
SLOW = {"mypy"}


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, entry in HOOKS.items()]
)
def test_gate(entry):
    program, *arguments = shlex.split(entry)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": tools, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([program, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{entry}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


def test_a_large_file_is_found_unless_it_is_a_model_or_a_fixture(tmp_path):
    names = ("data.bin", "small.bin", "src/blanklm/pretrained/data.bin", "tests/fixtures/data.bin")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100 if "small" in name else LIMIT + 1))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert large_files(tmp_path) == ["data.bin: 1,000,001 bytes, over 1,000,000"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_of_the_code_as_it_is(mutant):
    assert (ROOT / "src" / "blanklm" / mutant.file).read_text(encoding="utf-8").count(mutant.right) == 1
    assert (ROOT / mutant.tests).is_file() and mutant.right != mutant.wrong


@pytest.mark.slow
def test_a_mutant_that_is_run_is_killed():
    (mutant,) = (mutant for mutant in MUTANTS if "calibration" in mutant.name)
    assert not survives(mutant)
