"""``blanklm repair``, and the map of ``blanklm score --words``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blanklm.bulk.lines import Answer, Line, attempt, one_line_json
from blanklm.cli.options import Device, File, Json, Jsonl, Model, WholeTexts, expanded, load_model, read_lines
from blanklm.cli.output import print_error, print_line, terminal
from blanklm.repairing.options import RepairOptions

if TYPE_CHECKING:
    from rich.text import Text as RichText

    from blanklm.api import BlankLM
    from blanklm.repairing.repair import Repair
    from blanklm.repairing.surprise import WordScore

SHADES = ((0.3, "default"), (0.05, "yellow"), (0.005, "dark_orange"), (0.0, "bold red"))  # from this probability on


@expanded
def repair(
    texts: WholeTexts = None,
    file: File = None,
    model: Model = None,
    *,
    options: RepairOptions,
    diff: Annotated[
        bool | None, typer.Option("--diff/--no-diff", help="Show what was changed; by default at a terminal.")
    ] = None,
    as_json: Json = False,
    jsonl: Jsonl = False,
    device: Device = None,
) -> None:
    """Correct words that are improbable in context: misspelt, repeated, missing and swapped words.

    blanklm repair "He go to school yesterday and and buyed a book."
    """
    language_model = load_model(model, device)
    shows = sys.stdout.isatty() if diff is None else diff

    def show(line: Line, repaired: Repair) -> None:
        if as_json:
            print(one_line_json(repaired.to_json()))
        elif sys.stdout.isatty() and shows:
            terminal().print(_coloured(repaired), soft_wrap=True)
        else:
            print_line(line, _marked(repaired) if shows else repaired.text)

    lines = read_lines(texts, file, jsonl, 'repair "He go to school yesterday."', whole=True)
    _each(lines, lambda text: language_model.repair(text, options), show, as_json)


def print_words(language_model: BlankLM, lines: Iterator[Line], as_json: bool) -> None:
    """Print how probable each word of each text is: as shades at a terminal, else a word a line."""

    def scored(text: str) -> tuple[str, list[WordScore]]:
        return text, language_model.surprise(text)

    def show(line: Line, found: tuple[str, list[WordScore]]) -> None:
        text, words = found
        if as_json:
            print(one_line_json({"input": text, "words": [word.to_json() for word in words]}))
        elif sys.stdout.isatty():
            terminal().print(_shaded(text, words), soft_wrap=True)
        else:
            for word in words:
                likeliest = word.expected[0][0] if word.expected else word.text
                expected = f"  {likeliest}" if likeliest != word.text else ""
                print(f"{100 * math.exp(word.log_prob):8.3f}%  {word.text:<16}{expected}".rstrip())

    _each(lines, scored, show, as_json)


def _each(lines: Iterator[Line], work: Callable[[str], Any], show: Callable[[Line, Any], None], as_json: bool) -> None:
    """Show the answer to each line as it comes; a bad line is reported, and the rest continue."""
    failed = 0
    for line in lines:
        answer = attempt(line, work)
        if isinstance(answer, str):
            failed += 1
            print_error(Answer(line, error=answer), as_json)
        else:
            show(line, answer)
        sys.stdout.flush()
    if failed:
        sys.exit(1)


def _pieces(repaired: Repair) -> Iterator[tuple[str, str, str]]:
    """What stays, and what is taken out and put in after it."""
    at = 0
    for edit in repaired.edits:
        yield repaired.original[at : edit.start], edit.old, edit.new
        at = edit.end
    yield repaired.original[at:], "", ""


def _coloured(repaired: Repair) -> RichText:
    from rich.text import Text as RichText

    shown = RichText()
    for kept, old, new in _pieces(repaired):
        shown.append(kept)
        shown.append(old, style="red strike")
        if old.strip() and new.strip():
            shown.append(" ")
        shown.append(new, style="green")
    return shown


def _marked(repaired: Repair) -> str:
    """The changes as ``git diff --word-diff`` writes them."""
    parts = []
    for kept, old, new in _pieces(repaired):
        parts += [kept, f"[-{old}-]" if old else "", f"{{+{new}+}}" if new else ""]
    return "".join(parts)


def _shaded(text: str, words: list[WordScore]) -> RichText:
    from rich.text import Text as RichText

    shown = RichText(text)
    for word in words:
        style = next(style for least, style in SHADES if math.exp(word.log_prob) >= least)
        shown.stylize(style, word.start, word.end)
    return shown
