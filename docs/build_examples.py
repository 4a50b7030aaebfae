"""Run the examples of README.md and docs/*.md and write what they print below them; ``--check`` only compares.

In a ```console block each line that begins with ``$ `` is a command (``blanklm``, or ``curl`` to a server of the
bundled models), in a ```python block each that begins with ``>>> ``; what follows, up to the next one, is its output.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

from blanklm import cli

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(?<=```)(console|python)\n(.*?)(?=```)", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+")


def run_command(command: str) -> str:
    """The output and errors of a ``blanklm`` command, which may read from a pipe; run here, to load torch once."""
    before, _, after = command.rpartition(" | ")
    piped = subprocess.run(before, shell=True, capture_output=True, check=True).stdout if before else b""
    program, *arguments = shlex.split(after)
    if program == "curl":
        return run_curl(arguments)
    if program != "blanklm":
        raise SystemExit(f"only blanklm and curl commands can be examples, not {command!r}")
    printed = io.StringIO()
    old_stdin, old_arguments, corpora = sys.stdin, sys.argv, os.environ.pop("BLANKLM_DATA", None)
    sys.stdin, sys.argv = io.TextIOWrapper(io.BytesIO(piped)), ["blanklm", *arguments]
    try:  # as on a machine without corpora, which has the bundled index of formulae
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
            cli.main()
    finally:
        sys.stdin, sys.argv = old_stdin, old_arguments
        if corpora is not None:
            os.environ["BLANKLM_DATA"] = corpora
    return printed.getvalue()


@cache
def client():
    """The server that the examples speak to, in this process."""
    from fastapi.testclient import TestClient

    from blanklm.serve.app import create_app
    from blanklm.serve.loading import load, served

    models = {name: load(name, "cpu") for name in served()}
    started = TestClient(create_app(models), base_url="http://127.0.0.1:8000")
    started.__enter__()
    atexit.register(started.__exit__, None, None, None)
    return started


def run_curl(arguments: list[str]) -> str:
    parser = argparse.ArgumentParser("curl")
    parser.add_argument("url")
    parser.add_argument("-N", action="store_true")
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    headers = dict(header.split(": ", 1) for header in options.H)
    if options.json is None:
        return client().get(options.url, headers=headers).text
    headers["Content-Type"] = "application/json"  # as curl's --json says
    return client().post(options.url, content=options.json, headers=headers).text


def run_statement(statement: str, names: dict) -> str:
    """What the interactive interpreter would print."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if isinstance(ast.parse(statement).body[0], ast.Expr):
            value = eval(statement, names)
            if value is not None:
                print(repr(value))
        else:
            exec(statement, names)
    return printed.getvalue()


def rendered(text: str) -> str:
    names: dict = {}

    def with_outputs(match: re.Match[str]) -> str:
        kind, lines = match[1], []
        prompt = "$ " if kind == "console" else ">>> "
        if not match[2].startswith(prompt):
            return match[0]  # a signature or a fragment, not a session
        for line in match[2].splitlines():
            if line.startswith(prompt):
                source = line.removeprefix(prompt)
                output = run_command(source) if kind == "console" else run_statement(source, names)
                lines += [line, *(printed.rstrip() for printed in output.splitlines())]
        return f"{kind}\n" + "".join(f"{line}\n" for line in lines)

    return BLOCK.sub(with_outputs, text)


def comparable(text: str) -> str:
    """Numbers to one decimal: another processor may round the last digits otherwise."""
    return NUMBER.sub(lambda number: f"{float(number[0]):.1f}", text)


def main(check: bool) -> int:
    stale = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = path.read_text(encoding="utf-8")
        after = rendered(before)
        if comparable(after) == comparable(before):
            continue
        stale += 1
        if check:
            print(f"the examples of {path.relative_to(ROOT)} print something else: run python docs/build_examples.py")
        else:
            path.write_text(after, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
