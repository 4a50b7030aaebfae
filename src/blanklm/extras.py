"""What to type where a package of an extra is missing."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

HERE = Path(__file__).resolve().parents[2]


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra: from the checkout that is here, or else its packages by name."""
    pip = "pip" if sys.prefix != sys.base_prefix else f"{shlex.quote(sys.executable)} -m pip"
    for folder in (Path.cwd(), HERE, _origin()):
        if folder is not None and _is_checkout(folder):
            where = "." if folder == Path.cwd() else str(folder)
            return f"{pip} install {shlex.quote(f'{where}[{extra}]')}"
    packages = [name for name in _packages(extra) if name]
    return f"{pip} install {' '.join(packages) or shlex.quote(f'blanklm[{extra}]')}"


def _is_checkout(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file() and (folder / "src" / "blanklm").is_dir()


def _origin() -> Path | None:
    """Return the folder that pip installed from, if it was one."""
    try:
        url = urlparse(json.loads(metadata.distribution("blanklm").read_text("direct_url.json") or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return Path(unquote(url.path)) if url.scheme == "file" else None


def _packages(extra: str) -> list[str]:
    try:
        required = metadata.requires("blanklm") or []
    except metadata.PackageNotFoundError:
        return []
    wanted = re.compile(rf"""extra\s*==\s*["']{extra}["']""")
    return [shlex.quote(entry.partition(";")[0].strip()) for entry in required if wanted.search(entry)]
