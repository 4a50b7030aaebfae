"""List the files of the repository that are too large for it; exit with 1 if there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1_000_000  # bytes
EXEMPT = ("src/blanklm/pretrained/", "tests/fixtures/")


def large_files(root: Path) -> list[str]:
    """Return the tracked and staged files over the limit, with their sizes."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    sizes = {name: (root / name).stat().st_size for name in names.split("\0") if (root / name).is_file()}
    return [
        f"{name}: {size:,} bytes, over {LIMIT:,}"
        for name, size in sizes.items()
        if size > LIMIT and not name.startswith(EXEMPT)
    ]


if __name__ == "__main__":
    found = large_files(ROOT)
    print("\n".join(found))
    sys.exit(bool(found))
