"""Compare what is pinned with a stored copy of PyPI's advisories, without a network.

    git clone https://github.com/pypa/advisory-database ../advisory-database
    python .ci/audit.py ../advisory-database [--out results/audit.json]

It knows what its copy knows: the record has the day of it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import Version

from blanklm.paper.provenance import write_result

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;+]+)", re.MULTILINE)


def is_affected(version: str, affected: dict[str, Any]) -> bool:
    """Tell whether an advisory lists a version, or a range of versions with it in."""
    if version in affected.get("versions", ()):
        return True
    own = Version(version)
    for ranges in affected.get("ranges", ()):
        if ranges["type"] != "ECOSYSTEM":  # but GIT, whose bounds are commits
            continue
        inside = False
        for bound, kind in sorted(
            (Version(bound), kind) for event in ranges["events"] for kind, bound in event.items()
        ):
            if kind == "introduced" and bound <= own:
                inside = True
            elif (kind == "fixed" and bound <= own) or (kind == "last_affected" and bound < own):
                inside = False
        if inside:
            return True
    return False


def advisories(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the advisories that have not been withdrawn."""
    for path in sorted((folder / "vulns").rglob("*.yaml")):
        advisory = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        if not advisory.get("withdrawn"):
            yield advisory


def audit(folder: Path, constraints: Path) -> dict[str, Any]:
    pins = {canonicalize_name(name): version for name, version in PIN.findall(constraints.read_text("utf-8"))}
    number, named, findings = 0, set(), []
    for advisory in advisories(folder):
        number += 1
        for affected in advisory.get("affected", ()):
            name = canonicalize_name(affected["package"]["name"])
            if name in pins:
                named.add(name)
                if is_affected(pins[name], affected):
                    findings.append(f"{name} {pins[name]}: {advisory['id']}")
    if not number:
        raise SystemExit(f"{folder} holds no advisories: give a copy of github.com/pypa/advisory-database")
    command = ["git", "-C", str(folder), "log", "-1", "--format=%H %cs"]
    commit, _, date = subprocess.run(command, capture_output=True, text=True).stdout.strip().partition(" ")
    snapshot = {"commit": commit, "date": date, "advisories": number}
    counts = {"pins": len(pins), "pins_with_advisories": len(named), "affected": len(findings)}
    return {"snapshot": snapshot, **counts, "findings": sorted(findings)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("advisories", type=Path)
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "audit.json")
    options = parser.parse_args()
    report = write_result(options.out, audit(options.advisories, options.constraints))
    print(json.dumps({name: value for name, value in report.items() if name != "provenance"}, indent=1))
    if report["findings"]:
        raise SystemExit("a pinned version has a known vulnerability")


if __name__ == "__main__":
    main()
