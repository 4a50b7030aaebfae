"""The command line. Nothing heavy is imported before a command needs it, so ``blanklm --help`` is quick."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from blanklm import __version__
from blanklm.cli.about import data, info, models
from blanklm.cli.choose import choose
from blanklm.cli.evaluate import evaluate
from blanklm.cli.export import export
from blanklm.cli.fill import fill, sample
from blanklm.cli.repair import repair
from blanklm.cli.reproduce import reproduce
from blanklm.cli.restore import restore
from blanklm.cli.score import score
from blanklm.cli.serve import serve
from blanklm.cli.streams import prepare_streams, settle_stderr, silence_streams
from blanklm.cli.train import train
from blanklm.cli.transfer import transfer
from blanklm.errors import LONGEST_MESSAGE, BlankLMError, BlankLMWarning, shortened

UsageError: Any = typer.BadParameter.__base__  # whichever click typer brings along
STOPPED, BROKEN_PIPE = 130, 141  # exit codes: 128 and the number of the signal


class FlagsAsFlags:
    """Shows flags in the help as flags, without a type, and what may be repeated with the type of one of them."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # that of the command beside it
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif getattr(parameter, "multiple", False) and parameter.metavar is None:
                parameter.metavar = "<str>"
            elif parameter.nargs == -1:
                parameter.display_type_rich = lambda ctx: "<str>"
        return parameters


class Command(FlagsAsFlags, TyperCommand):
    pass


class Group(FlagsAsFlags, TyperGroup):
    pass


app = typer.Typer(
    name="blanklm",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
COMMANDS = (
    fill, sample, choose, repair, restore, score, train, evaluate, transfer, serve, export, models, info, data,
    reproduce,
)  # fmt: skip
for command in COMMANDS:
    app.command(cls=Command)(command)


@app.callback()
def version(
    asked: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Fill blanks of any length in text: write ___ where words are missing, ___[3] for three, ___[2-5] for 2 to 5."""


def main() -> None:
    """Run a command; whatever the user can cause ends in one line on standard error, never in a traceback."""
    try:
        _main()
    finally:
        settle_stderr()


def _main() -> None:
    # Threads that wait for each other sleep: where other programs use the cores, spinning takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    warnings.showwarning = _show_warning  # type: ignore[assignment]  # which takes any arguments
    if sys.argv[1:] == ["--version"]:
        return print(f"blanklm {__version__}")
    prepare_streams()
    try:
        code = _run(_with_ray_address(sys.argv[1:]))
        sys.stdout.flush()  # here, where a full disk and a closed pipe are still told apart
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
        _say("stopped")
        sys.exit(STOPPED)
    except BrokenPipeError:  # the reader of our output went away
        silence_streams()
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        silence_streams(sys.stdout)
        _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    except MemoryError:
        _fail("out of memory: fill fewer or shorter texts at a time", 1)
    sys.exit(code)


def _run(arguments: list[str]) -> int | str | None:
    """Run a command and return its exit code; unlike typer, let through what makes it end early."""
    try:
        command = get_command(app)
        with command.make_context("blanklm", arguments) as context:
            command.invoke(context)
    except SystemExit as end:
        return end.code
    except typer.Exit as end:
        return end.exit_code
    return 0


def _with_ray_address(arguments: list[str]) -> list[str]:
    """``--ray`` may stand alone, which typer's options cannot: then its address is empty."""
    if "--ray" not in arguments:
        return arguments
    after = arguments.index("--ray") + 1
    alone = after == len(arguments) or arguments[after].startswith("-")
    return [*arguments[:after], "", *arguments[after:]] if alone else arguments


def _show_warning(message: Warning | str, *where: Any) -> None:
    """Print warnings of ours as a line; others, of libraries, are not for the users of a command."""
    if isinstance(message, BlankLMWarning):
        print(f"warning: {message}", file=sys.stderr)


def _fail(message: str, code: int) -> NoReturn:
    _say(f"error: {shortened(' '.join(message.split()), LONGEST_MESSAGE)}")
    sys.exit(code)


def _say(message: str) -> None:
    with suppress(OSError):
        print(message, file=sys.stderr)
