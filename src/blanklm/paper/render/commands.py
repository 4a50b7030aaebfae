"""Where the results come from: the command, commit, day and machine of each."""

from __future__ import annotations

import re

from blanklm.paper.provenance import Row, recorded
from blanklm.paper.render.source import checkout, lines, result


def commands() -> str:
    """All results that were measured since provenance is recorded."""
    root = checkout() / "results"
    names = sorted(str(path.relative_to(root).with_suffix("")) for path in root.glob("**/*.json"))
    found = {name: row["provenance"] for name in names if "provenance" in (row := result(name)) and recorded(row)}
    rows = [[f"`{name}`", f"`{_typed(about['command'])}`", *_when(about)] for name, about in found.items()]
    return lines(["results/", "command", "commit", "day", "hardware", "seconds"], rows)


def _typed(command: str) -> str:
    """A command as one types it in the checkout, wherever that was."""
    typed = command.replace("__main__.py ", "blanklm ", 1) if command.startswith("__main__.py ") else command
    return re.sub(r"\.\./\w+/(?=results/)", "", typed).replace("|", "\\|")


def _when(about: Row) -> list[str]:
    seconds = about.get("seconds")
    hardware = about["hardware"]
    machine = hardware["gpu"] or f"{hardware['cores']} x {hardware['cpu']}"
    return [about["commit"][:7], about["date"][:10], machine, "" if seconds is None else f"{seconds:,.0f}"]


TABLES = [commands]
