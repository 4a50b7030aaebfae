"""Standard input, output and error as they are found: closed, broken, or in an encoding that cannot hold a text."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any


def prepare_streams() -> None:
    """Let nothing that is printed fail for want of a stream or of a character.

    A closed stream gives way to one that goes nowhere, before a file that is opened takes its number. Files and pipes
    get UTF-8, as they are read, whatever the terminal has, unless PYTHONIOENCODING says otherwise. What an encoding
    cannot hold is written as an escape.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            keeps = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=stream.encoding if keeps else "utf-8", errors="backslashreplace")


def silence_streams(*streams: Any) -> None:
    """Send what is still to be written by these streams, or by both, nowhere: their reader went away."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # not a file
            os.dup2(nowhere, stream.fileno())


def settle_stderr() -> None:
    """Leave nothing on standard error that Python would fail to write at its end, with an exit code of its own."""
    try:
        sys.stderr.flush()
    except OSError:  # its disk is full
        silence_streams(sys.stderr)
