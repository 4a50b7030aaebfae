"""Write docs/tutorial.ipynb from docs/tutorial.md: its Python blocks become cells without their outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE, NOTEBOOK = HERE / "tutorial.md", HERE / "tutorial.ipynb"
BLOCK = re.compile(r"```python\n(.*?)```\n?", re.DOTALL)


def code_of(block: str) -> str:
    """Return the statements of a block; in one with prompts, what has none is output."""
    lines = block.splitlines()
    if not lines[0].startswith(">>> "):
        return block.rstrip("\n")
    return "\n".join(line.removeprefix(">>> ") for line in lines if line.startswith(">>> "))


def cell(kind: str, number: int, source: str) -> dict:
    made = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(page: str) -> str:
    to_checkout = "%cd -q .."  # to the checkout, where the page's paths begin
    cells = [("code", to_checkout)]
    for i, part in enumerate(BLOCK.split(page)):
        if part.strip():
            cells.append(("code", code_of(part)) if i % 2 else ("markdown", part.strip()))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    record = {
        "cells": [cell(kind, number, source) for number, (kind, source) in enumerate(cells)],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
