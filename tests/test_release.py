"""What a release says of itself: its bill of materials, and a lock with the checksums of what it is built on."""

import json
import re
import subprocess
import sys

import pytest

from blanklm.pretrained import bundled
from tests.support.paths import ROOT


def test_the_bill_of_materials_names_every_model_and_every_dependency_with_version_and_licence():
    done = subprocess.run([sys.executable, ROOT / ".ci" / "sbom.py"], capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    parts = {part["name"]: part for part in bill["components"]}
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "blanklm")
    assert {*bundled(), "torch", "numpy", "tokenizers", "safetensors", "fastapi", "filelock"} <= set(parts)
    assert "pytest" not in parts
    pins = dict(re.findall(r"^([\w.-]+)==([^\s+]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {name: part["version"] for name, part in parts.items() if name in pins} == {
        name: pins[name] for name in parts if name in pins
    }
    assert all("CC BY-SA 4.0" in parts[name]["licenses"][0]["license"]["name"] for name in bundled())
    without = [name for name, part in parts.items() if "licenses" not in part]
    assert len(without) <= len(parts) // 10, without


LOCK = ROOT / "requirements.lock"


def test_the_lock_pins_what_the_constraints_pin_each_with_checksums():
    pins, locked = (re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", file.read_text(), re.MULTILINE)
                    for file in (ROOT / "constraints.txt", LOCK))  # fmt: skip
    assert sorted(locked) == sorted(pin for pin in pins if pin[0] != "torch")  # whose builds depend on the machine
    entries = re.split(r"\n(?=\S)", LOCK.read_text().strip())
    assert len(entries) == len(locked) and all("--hash=sha256:" in entry for entry in entries)


def install(lock):
    """Let pip do all but write: find what the lock names and compare checksums."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"]
    return subprocess.run([*command, "--require-hashes", "-r", str(lock)], capture_output=True, text=True)


@pytest.mark.slow
def test_the_lock_installs_with_checksums_and_not_with_others(tmp_path):
    one = next(entry for entry in re.split(r"\n(?=\S)", LOCK.read_text()) if entry.startswith("filelock=="))
    wrong = tmp_path / "wrong.lock"
    wrong.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", one))
    refused = install(wrong)
    if "No matching distribution" in refused.stderr:
        pytest.skip("no package index can be reached")
    assert refused.returncode != 0 and "DO NOT MATCH THE HASHES" in refused.stderr
    done = install(LOCK)
    assert done.returncode == 0 and "Would install" in done.stdout, done.stderr
