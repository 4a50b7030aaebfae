"""The command line. Nothing heavy is imported before a command needs it, so ``blanklm --help`` is quick."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from blanklm.cli.about import data, info, models
from blanklm.cli.choose import choose
from blanklm.cli.evaluate import evaluate
from blanklm.cli.fill import fill, sample
from blanklm.cli.repair import repair
from blanklm.cli.reproduce import reproduce
from blanklm.cli.restore import restore
from blanklm.cli.score import score
from blanklm.cli.serve import serve
from blanklm.cli.train import train
from blanklm.cli.transfer import transfer
from blanklm.errors import BlankLMError

UsageError: Any = typer.BadParameter.__base__  # whichever click typer brings along

app = typer.Typer(
    name="blanklm",
    help="Fill blanks of any length in text: write ___ where words are missing, ___[3] for three, ___[2-5] for 2 to 5.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (
    fill,
    sample,
    choose,
    repair,
    restore,
    score,
    train,
    evaluate,
    transfer,
    serve,
    models,
    info,
    data,
    reproduce,
):
    app.command()(command)


def main() -> None:
    """Run a command; whatever the user can cause ends in one line on standard error, never in a traceback."""
    # Threads that wait for each other sleep: where other programs use the cores, spinning takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        sys.exit(app(_with_ray_address(sys.argv[1:]), standalone_mode=False) or 0)
    except BlankLMError as error:
        _fail(str(error), 1)
    except UsageError as error:
        if not sys.argv[1:]:
            print(error.format_message())  # the help, which is what no arguments ask for
            sys.exit(2)
        known = {command.callback.__name__ for command in app.registered_commands if command.callback}
        command = "".join(f"{name} " for name in sys.argv[1:2] if name in known)
        message = f"{error.format_message()} (blanklm {command}--help says what there is)"
        _fail(message.replace("Value error, ", ""), 2)  # which typer puts before some messages
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped", 130)
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    except MemoryError:
        _fail("out of memory: fill fewer or shorter texts at a time", 1)


def _with_ray_address(arguments: list[str]) -> list[str]:
    """``--ray`` may stand alone, which typer's options cannot: then its address is empty."""
    if "--ray" not in arguments:
        return arguments
    after = arguments.index("--ray") + 1
    alone = after == len(arguments) or arguments[after].startswith("-")
    return [*arguments[:after], "", *arguments[after:]] if alone else arguments


def _fail(message: str, code: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
