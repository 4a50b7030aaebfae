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


def ranges(*events):
    return [
        {"ranges": [{"type": "ECOSYSTEM", "events": list(events)}, {"type": "GIT", "events": [{"introduced": "0"}]}]}
    ]


ADVISORIES = {
    "A listed": [{"versions": ["1.0", "1.2"]}],
    "B in a range": ranges({"introduced": "1.1"}, {"fixed": "1.3"}),
    "C last": ranges({"introduced": "0"}, {"last_affected": "1.2"}),
    "D not fixed": ranges({"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.2"}),
    "e fixed": ranges({"fixed": "1.2"}, {"introduced": "0"}),
    "f before": ranges({"introduced": "0"}, {"last_affected": "1.1"}),
    "g after": ranges({"introduced": "1.10"}),
    "h withdrawn": [{"versions": ["1.2"]}],
    "i of another": [{"versions": ["1.2"]}],
}


def test_the_audit_finds_the_advisories_that_hold_for_what_is_pinned(tmp_path):
    (tmp_path / "db" / "vulns").mkdir(parents=True)
    for name, affected in ADVISORIES.items():
        package = {"name": "other" if "another" in name else "Some_Package", "ecosystem": "PyPI"}
        advisory = {"id": name, "affected": [{"package": package, **part} for part in affected]}
        advisory |= {"withdrawn": "2020-01-01T00:00:00Z"} if "withdrawn" in name else {}
        (tmp_path / "db" / "vulns" / f"{name}.yaml").write_text(json.dumps(advisory))
    (tmp_path / "pins.txt").write_text("# pins\nsome-package==1.2\n    # via x\nfine[extra]==2.0\n")
    program, out = ROOT / ".ci" / "audit.py", tmp_path / "audit.json"
    options = ["--constraints", tmp_path / "pins.txt", "--out", out]
    done = subprocess.run([sys.executable, program, tmp_path / "db", *options], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    report = json.loads(out.read_text())
    found = [name for name in ADVISORIES if name[0].isupper()]
    assert report["findings"] == [f"some-package 1.2: {name}" for name in found]
    assert (report["pins"], report["pins_with_advisories"], report["snapshot"]["advisories"]) == (2, 1, 8)
    empty = subprocess.run([sys.executable, program, tmp_path, *options], capture_output=True, text=True)
    assert empty.returncode == 1 and "holds no advisories" in empty.stderr
