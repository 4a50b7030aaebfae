"""What a release says of itself: its bill of materials."""

import json
import re
import subprocess
import sys

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
