"""``blanklm fill`` and ``blanklm sample``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import (
    Answer,
    Line,
    answers,
    one_line_json,
)
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    from rich.text import Text as RichText

    from blanklm.api import BlankLM, Request
    from blanklm.core.canvas import Fill, Trajectory
from blanklm.cli.options import (
    Ban,
    Device,
    File,
    Json,
    Jsonl,
    Max,
    Min,
    Model,
    Only,
    Order,
    Require,
    Strict,
    Texts,
    Trace,
    every_blank,
    load_model,
    read_lines,
)
from blanklm.cli.output import print_error, progress_bar, say, terminal, warn_of_unknown


def fill(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many fills of each text, best first.")] = 1,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy.")] = 1,
    order: Annotated[Order, typer.Option(help="Which blank next; parallel: many at once.")] = Order.confident,
    length_penalty: Annotated[float, typer.Option(help="Rank by log p / steps^this.")] = 0.0,
    threshold: Annotated[float, typer.Option(help="With parallel: how sure a blank must be to act.")] = 0.0,
    least: Min = None,
    most: Max = None,
    ban: Ban = None,
    require: Require = None,
    only: Only = None,
    as_json: Json = False,
    jsonl: Jsonl = False,
    trace: Trace = False,
    strict: Strict = False,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the results of --file, a path or 'pattern'.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="With --out: so many processes; by default one a GPU or core.")
    ] = None,
    ray: Annotated[str | None, typer.Option(metavar="[ADDRESS]", help="With --out: fill on a Ray cluster.")] = None,
) -> None:
    """Fill the blanks of each text with the most probable words.

    blanklm fill "They also have ___ which ___."
    """
    from blanklm.bulk.shards import Filling
    from blanklm.pretrained import DEFAULT

    shared = every_blank(least, most, ban, require, only)
    where = str(Path(model).absolute()) if model and Path(model).is_dir() else model or DEFAULT
    filling = Filling(where, device, n, beam, order.value, length_penalty, threshold, shared, jsonl, strict, trace)
    if out is not None:
        _fill_files(texts, file, filling, out, workers, ray, as_json)
        return
    if workers is not None or ray is not None:
        raise BlankLMError("--workers and --ray fill files into a folder: give --file and --out")
    _fill_all(filling.fills, read_lines(texts, file, jsonl), model, device, shared, as_json, trace, strict)


def _fill_files(texts, pattern: Path | None, filling, out: Path, workers, ray: str | None, as_json: bool) -> None:
    """Fill whole files into a folder and print the totals."""
    from blanklm.bulk.shards import fill_shards, plan

    if texts or pattern is None or pattern == Path("-"):
        raise BlankLMError("--out takes the results of files: give --file, a path or a quoted pattern")
    with progress_bar(len(plan(str(pattern), out)), "shards") as advance:
        totals = fill_shards(str(pattern), filling, out, workers, ray, advance)
    for failure in totals.failed_shards:
        say(f"error: {failure['shard']}: {' '.join(failure['error'].split())}")
    if totals.failed_lines:
        say(f"error: {totals.failed_lines:,} lines could not be filled: see {out / 'failures.jsonl'}")
    if as_json:
        print(one_line_json(asdict(totals)))
    else:
        before = f" ({totals.skipped} done before)" if totals.skipped else ""
        print(f"{totals.shards} shards{before}, {totals.lines:,} lines in {totals.seconds:.1f} s; they are in {out}")
    if totals.failed_shards or totals.failed_lines:
        sys.exit(1)


def sample(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts with blanks; by default nothing but a blank.")
    ] = None,
    file: File = None,
    model: Model = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many samples of each text.")] = 1,
    temperature: Annotated[float, typer.Option(help="Below 1: safer; above 1: wilder.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Draw from the k most probable words; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the fewest words that hold this probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same samples.")] = 0,
    order: Annotated[Order, typer.Option(help="Which blank next.")] = Order.model,
    least: Min = None,
    most: Max = None,
    ban: Ban = None,
    require: Require = None,
    only: Only = None,
    as_json: Json = False,
    jsonl: Jsonl = False,
    trace: Trace = False,
    strict: Strict = False,
    device: Device = None,
) -> None:
    """Fill the blanks at random, as probable as the model finds it; write whole texts from a single blank.

    blanklm sample -n 5 --temperature 0.8
    """
    drawing = {"n": n, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "order": order.value}

    def draw(language_model: BlankLM, requests: list[Request], numbers: list[int]) -> list[list[Fill]]:
        return language_model.sample(requests, **drawing, numbers=numbers)

    lines = iter([Line(None, "___")]) if not texts and file is None and not jsonl else read_lines(texts, file, jsonl)
    shared = every_blank(least, most, ban, require, only)
    _fill_all(draw, lines, model, device, shared, as_json, trace, strict)


def _fill_all(fills, lines: Iterator[Line], model, device, shared, as_json: bool, trace: bool, strict: bool) -> None:
    """Fill and print a group of lines at a time, in order; bad lines are reported and passed over."""
    language_model = load_model(model, device)
    failed = 0
    with progress_bar(None, "texts") as advance:
        for group in answers(language_model, lines, fills, shared, strict):
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
            terminal().print(_highlighted(answer.line.text, fill), soft_wrap=True)
        else:
            print(score + fill.text)
        if trace and fill.trajectory is not None:
            terminal().print(_figure(fill.trajectory))


def _highlighted(text: str, fill: Fill) -> RichText:
    """The filled text with what was filled in underlined and green, as the paper prints it."""
    from rich.text import Text as RichText

    from blanklm.core.template import Template

    shown, rest = RichText(), fill.text
    for piece, span in zip(Template.parse(text).pieces, (*fill.spans, ""), strict=True):
        shown.append(piece)
        rest = rest[len(piece) :]
        at = rest.index(span)  # touching word-level blanks have a space between them
        shown.append(rest[:at])
        shown.append(span, style="underline green")
        rest = rest[at + len(span) :]
    return shown


def _figure(trajectory: Trajectory):
    """The trajectory as the paper's Figure 2 draws it: blanks are numbered, from 1."""
    from rich.box import HORIZONTALS
    from rich.table import Table
    from rich.text import Text as RichText

    from blanklm.core.template import Blank

    table = Table(box=HORIZONTALS)
    for heading in ("Step t", "Canvas c", "Location b", "Word w", "Left l", "Right r", "log p"):
        table.add_column(heading, justify="left" if heading in ("Canvas c", "Word w") else "center")
    for t, canvas in enumerate(trajectory.canvases):
        row, number = RichText(), 0
        for i, item in enumerate(canvas.items):
            if i:
                row.append(canvas.separator)
            if isinstance(item, Blank):
                number += 1
                row.append(f"__#{number}__", style="bold")
            else:
                row.append(str(item), style="green" if canvas.origins[i] is not None else "")
        if t == len(trajectory.actions):
            table.add_row(f"{t}.", row, "-End-")
            continue
        action, log_p = trajectory.actions[t], f"{trajectory.log_probs[t]:.2f}" if trajectory.log_probs else ""
        sides = ("Yes" if side else "No" for side in (action.left, action.right))
        table.add_row(f"{t}.", row, f"#{action.blank + 1}", str(action.token).strip(), *sides, log_p)
    return table
