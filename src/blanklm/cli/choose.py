"""``blanklm choose``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import LINES_AT_ONCE, Answer, Line, attempt, each_or_its_error, one_line_json
from blanklm.choosing.options import ChooseOptions, parse_options, split_options
from blanklm.cli.options import Device, File, Json, Jsonl, Model, Texts, expanded, load_model, read_lines
from blanklm.cli.output import print_error, print_line, warn_of_unknown
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    from blanklm.api import BlankLM
    from blanklm.choosing.choose import Choices
    from blanklm.choosing.question import Question

Options = Annotated[
    list[str] | None,
    typer.Option("--options", metavar="A|B", help="Options for every blank; 2=A|B: only for blank 2."),
]
Alternatives = Annotated[
    list[str] | None,
    typer.Option("--alternative", metavar="A|B", help="A part for each blank; without a text: a whole text."),
]


@expanded
def choose(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    *,
    given: Options = None,
    alternative: Alternatives = None,
    options: ChooseOptions,
    top: Annotated[int, typer.Option("-n", "--top", min=1, help="How many combinations to show.")] = 5,
    as_json: Json = False,
    jsonl: Jsonl = False,
    device: Device = None,
) -> None:
    """Rank the options for the blanks of each text; the probabilities of all combinations sum to 1.

    blanklm choose "The ___ sat on the ___." --options "1=cat|dog|old man" --options "2=mat|moon"
    """
    given, alternative = given or [], alternative or []
    if alternative and not texts and file is None:
        if given:
            raise BlankLMError("--options are for blanks in a text: give a text, or leave them out")
        language_model = load_model(model, device)
        found = language_model.choose(alternatives=alternative, how=options)
        _print(Line(None, ""), found, top, as_json)
        return
    lines = read_lines(texts, file, jsonl, 'choose "The ___ sat on the mat." --options "cat|old man"')
    language_model, failed = load_model(model, device), 0
    while group := list(islice(lines, LINES_AT_ONCE)):
        for line, answer in zip(group, _answers(language_model, group, given, alternative, options), strict=True):
            if isinstance(answer, str):
                failed += 1
                print_error(Answer(line, error=answer), as_json)
            else:
                question, choices = answer
                warn_of_unknown(question.unknown, line)
                _print(line, choices, top, as_json)
        sys.stdout.flush()
    if failed:
        sys.exit(1)


def _answers(
    model: BlankLM, lines: Sequence[Line], given: list[str], alternatives: list[str], options: ChooseOptions
) -> list[tuple[Question, Choices] | str]:
    """Return the choices of each line, or what is wrong with it."""

    def parsed(line: Line) -> Question | str:
        return attempt(line, lambda text: _question(model, line, given, alternatives))

    questions = [parsed(line) for line in lines]
    good = [question for question in questions if not isinstance(question, str)]
    ranked = each_or_its_error(lambda group: zip(group, model.choose(group, how=options), strict=True), good)
    return [question if isinstance(question, str) else next(ranked) for question in questions]


def _question(model: BlankLM, line: Line, given: list[str], alternatives: list[str]) -> Question:
    """A line's own options or alternatives, or those of the command."""
    from blanklm.core.template import Template

    if line.options is not None or line.alternatives is not None:
        return model.question(line.text, line.options, line.alternatives)
    if alternatives:
        if given:
            raise BlankLMError("give --options or --alternative, not both")
        return model.question(line.text, alternatives=[split_options(row) for row in alternatives])
    blanks = len(Template.parse(line.text).blanks)
    if not given:
        raise BlankLMError('there are no options: write --options "cat|dog", or --options "2=mat|moon" for blank 2')
    return model.question(line.text, parse_options(given, blanks))


def _print(line: Line, choices: Choices, top: int, as_json: bool) -> None:
    if as_json:
        print(one_line_json(({"input": line.text} if line.text else {}) | choices.to_json(top)))
        return
    for choice in choices.choices[:top]:
        error = f" ± {100 * choice.standard_error:4.1f}" if any(c.standard_error for c in choices.choices) else ""
        print_line(line, choice.text, f"{100 * choice.probability:6.1f}%{error}  ")
    if len(choices.choices) < choices.combinations:
        print(f"         the best of {len(choices.choices):,} that a beam found among {choices.combinations:,}")
