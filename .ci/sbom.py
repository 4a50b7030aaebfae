"""Write the bill of materials of a release, CycloneDX in JSON, from what is installed.

    python .ci/sbom.py > dist/sbom.json

It names the package, its bundled models, and everything that it needs with any of its extras but ``dev``.
"""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from blanklm.pretrained import HERE, bundled

EXTRAS = ("", "eval", "train", "ray", "serve")


def needed(name: str, extras: tuple[str, ...], found: dict[str, Distribution]) -> None:
    """Collect a distribution and all that it needs; what is not installed here is for other platforms."""
    try:
        one = distribution(name)
    except PackageNotFoundError:
        return
    found[canonicalize_name(name)] = one
    for requirement in map(Requirement, one.requires or ()):
        wanted = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        if wanted and canonicalize_name(requirement.name) not in found:
            needed(requirement.name, ("", *requirement.extras), found)


def component(name: str, one: Distribution) -> dict[str, Any]:
    metadata = one.metadata
    version = one.version.partition("+")[0]
    licence = (
        metadata.get("License-Expression")
        or metadata.get("License")
        or "; ".join(
            entry.rpartition(" :: ")[2]
            for entry in metadata.get_all("Classifier", [])
            if entry.startswith("License ::")
        )
    )
    record: dict[str, Any] = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
    if licence:
        record["licenses"] = [{"license": {"name": licence.strip().splitlines()[0][:200]}}]
    return record


def main() -> None:
    found: dict[str, Distribution] = {}
    needed("blanklm", EXTRAS, found)
    package = component("blanklm", found.pop("blanklm"))
    models = [
        {
            "type": "machine-learning-model",
            "name": name,
            "version": package["version"],
            "licenses": [
                {"license": {"name": json.loads((HERE / name / "config.json").read_text("utf-8"))["about"]["licence"]}}
            ],
        }
        for name in bundled()
    ]
    libraries = [component(name, found[name]) for name in sorted(found)]
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": package}}
    print(json.dumps(bill | {"components": models + libraries}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
