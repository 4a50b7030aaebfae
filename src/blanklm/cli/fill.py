"""``blanklm fill`` and ``blanklm sample``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import Answer, EveryBlank, Line, answers, one_line_json
from blanklm.cli.options import Device, File, Json, Jsonl, Model, Strict, Texts, Trace, expanded, load_model, read_lines
from blanklm.cli.output import Patience, print_error, print_line, progress_bar, say, terminal, warn_of_unknown
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text as RichText

    from blanklm.api import BlankLM
    from blanklm.bulk.shards import Filling
    from blanklm.core.canvas import Canvas, Fill, Trajectory

NARROW = 60  # columns of a terminal, below which a table has no room


@expanded
def fill(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    *,
    options: FillOptions,
    every_blank: EveryBlank,
    as_json: Json = False,
    jsonl: Jsonl = False,
    trace: Trace = False,
    strict: Strict = False,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder for the results of --file, a path or 'pattern'.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="With --out: processes; by default one per GPU or core.")] = None,
    ray: Annotated[str | None, typer.Option(metavar="[ADDRESS]", help="With --out: fill on a Ray cluster.")] = None,
) -> None:
    """Fill the blanks of each text with the most probable words.

    blanklm fill "She opened the ___ and ___."
    """
    if out is None:
        if workers is not None or ray is not None:
            raise BlankLMError("--workers and --ray fill files into a folder: give --file and --out")
        lines = read_lines(texts, file, jsonl)
        _print_answers(_answers(load_model(model, device), lines, options, every_blank, strict), as_json, trace)
        return
    if texts or file is None or file == Path("-"):
        raise BlankLMError("--out takes the results of files: give --file, a path or a quoted pattern")
    from blanklm.bulk.shards import Filling
    from blanklm.pretrained import DEFAULT

    where = str(Path(model).absolute()) if model and Path(model).is_dir() else model or DEFAULT
    filling = Filling(where, device, options, every_blank, jsonl, strict, trace)
    _fill_files(str(file), filling, out, workers, ray, as_json)


def _fill_files(pattern: str, filling: Filling, out: Path, workers: int | None, ray: str | None, as_json: bool) -> None:
    """Fill whole files into a folder and print the totals."""
    from blanklm.bulk.fill import fill_shards
    from blanklm.bulk.shards import plan

    with progress_bar(len(plan(pattern, out)), "shards") as advance:
        totals = fill_shards(pattern, filling, out, workers, ray, advance)
    for failure in totals.failed_shards:
        say(f"error: {failure['shard']}: {' '.join(failure['error'].split())}")
    if totals.failed_lines:
        say(f"error: {totals.failed_lines:,} lines could not be filled: see {out / 'failures.jsonl'}")
    if as_json:
        print(one_line_json(asdict(totals)))
    else:
        notes = [f"{totals.skipped} done before"] * bool(totals.skipped)
        notes += [f"{totals.changed} done again: their inputs have changed"] * bool(totals.changed)
        before = f" ({', '.join(notes)})" if notes else ""
        print(f"{totals.shards} shards{before}, {totals.lines:,} lines in {totals.seconds:.1f} s; they are in {out}")
    if totals.failed_shards or totals.failed_lines:
        sys.exit(1)


@expanded
def sample(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts with blanks; by default just a blank.")] = None,
    file: File = None,
    model: Model = None,
    *,
    options: SampleOptions,
    every_blank: EveryBlank,
    as_json: Json = False,
    jsonl: Jsonl = False,
    trace: Trace = False,
    strict: Strict = False,
    device: Device = None,
) -> None:
    """Sample fills from the model; without a text, write whole texts from a single blank.

    blanklm sample -n 5 --temperature 0.8
    """
    lines = iter([Line(None, "___")]) if not texts and file is None and not jsonl else read_lines(texts, file, jsonl)
    _print_answers(_answers(load_model(model, device), lines, options, every_blank, strict), as_json, trace)


def _answers(
    model: BlankLM, lines: Iterator[Line], options: FillOptions | SampleOptions, every_blank: EveryBlank, strict: bool
) -> Iterator[list[Answer]]:
    watch = Patience().watch if sys.stderr.isatty() else None
    return answers(model, lines, options, every_blank, strict, watch=watch)


def _print_answers(groups: Iterator[list[Answer]], as_json: bool, trace: bool) -> None:
    """Print a group of answers at a time, in order; bad lines are reported and skipped."""
    failed = 0
    with progress_bar(None, "texts") as advance:
        for group in groups:
            for answer in group:
                warn_of_unknown(answer.unknown, answer.line)
            for answer in group:
                failed += answer.error is not None
                _print_answer(answer, as_json, trace)
            sys.stdout.flush()
            advance(len(group))
    if failed:
        sys.exit(1)


def _print_answer(answer: Answer, as_json: bool, trace: bool) -> None:
    if answer.error is not None:
        print_error(answer, as_json)
        return
    if as_json:
        print(one_line_json(answer.to_json(trace)))
        return
    for fill in answer.fills:
        score = f"{fill.log_prob:9.3f}  " if len(answer.fills) > 1 else ""
        if sys.stdout.isatty():
            terminal().print(score, end="", highlight=False)
            terminal().print(_highlighted(fill), soft_wrap=True)
        else:
            print_line(answer.line, fill.text, score)
        if trace and fill.trajectory is not None:
            console = terminal()
            if console.width < NARROW:
                for step in _steps(fill.trajectory):
                    console.print(step, soft_wrap=True)
            else:
                console.print(_figure(fill.trajectory))


def _highlighted(fill: Fill) -> RichText:
    """The filled text with what was filled in underlined and green, as the paper prints it."""
    from rich.text import Text as RichText

    shown = RichText()
    for number, part in enumerate(fill.parts):
        shown.append(part, style="underline green" if number % 2 else "")
    return shown


def _figure(trajectory: Trajectory) -> Table:
    """The trajectory as the paper's Figure 2 draws it: blanks are numbered, from 1."""
    from rich.box import HORIZONTALS
    from rich.table import Table

    table = Table(box=HORIZONTALS)
    for heading in ("Step t", "Canvas c", "Location b", "Word w", "Left l", "Right r", "log p"):
        table.add_column(heading, justify="left" if heading in ("Canvas c", "Word w") else "center")
    for t, canvas in enumerate(trajectory.canvases):
        table.add_row(f"{t}.", _drawn(canvas), *_action(trajectory, t))
    return table


def _steps(trajectory: Trajectory) -> Iterator[RichText]:
    """The same without columns, where there is no room for them."""
    from rich.text import Text as RichText

    for t, canvas in enumerate(trajectory.canvases):
        yield _drawn(canvas)
        yield RichText(f"  {t}. {' '.join(_action(trajectory, t))}", style="dim")


def _drawn(canvas: Canvas) -> RichText:
    from rich.text import Text as RichText

    from blanklm.core.template import Blank

    row, number = RichText(), 0
    for i, item in enumerate(canvas.items):
        if i:
            row.append(canvas.separator)
        if isinstance(item, Blank):
            number += 1
            row.append(f"__#{number}__", style="bold")
        else:
            row.append(str(item), style="green" if canvas.origins[i] is not None else "")
    return row


def _action(trajectory: Trajectory, t: int) -> list[str]:
    """What was done at a step: blank, word, left, right, log p."""
    if t == len(trajectory.actions):
        return ["-End-"]
    action, log_p = trajectory.actions[t], f"{trajectory.log_probs[t]:.2f}" if trajectory.log_probs else ""
    sides = ["Yes" if side else "No" for side in (action.left, action.right)]
    return [f"#{action.blank + 1}", str(action.token).strip(), *sides, log_p]
