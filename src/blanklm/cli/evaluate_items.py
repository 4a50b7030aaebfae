"""``blanklm evaluate`` for questions and items that anybody may write: choices, middles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from blanklm.bulk.lines import one_line_json
from blanklm.cli.output import progress_bar
from blanklm.errors import BlankLMError


def evaluate_items(
    task: Literal["choices", "middles"], file: Path, model: str | None, device: str | None, as_json: bool
) -> None:
    """Answer the questions of a file, or fill its items, and print the scores."""
    from blanklm.api import BlankLM
    from blanklm.data.readers import read_lines
    from blanklm.paper.tasks import choices, middles
    from blanklm.pretrained import DEFAULT

    lines = [line for line in read_lines(file) if line.strip()]
    if not lines:
        raise BlankLMError(f"{file} holds no line of JSON")
    row: dict[str, Any]
    if task == "choices":
        questions = list(choices.read_questions(lines))
        system = BlankLM.from_pretrained(model or DEFAULT, device)
        with progress_bar(len(questions), "questions") as advance:
            row = choices.accuracy(choices.in_place(system, questions, advance), questions)
    else:
        items = list(middles.read_items(lines))
        system = BlankLM.from_pretrained(model or DEFAULT, device)
        with progress_bar(len(items), "items to fill") as advance:
            row = middles.score(middles.fills_of(system, items, advance), items)
    if as_json:
        print(one_line_json({"task": task, "model": model or DEFAULT, "file": file.name} | row))
    else:
        print(_choices(row) if task == "choices" else _middles(row))


def _choices(row: dict[str, Any]) -> str:
    lines = [f"{row['questions']:,} questions: {row['accuracy']:.1%} right {_between(row['interval'], '.1%')}"]
    if len(row["groups"]) > 1:
        lines += [f"{share:>8.1%}  {group}" for group, share in row["groups"].items()]
    return "\n".join(lines)


def _middles(row: dict[str, Any]) -> str:
    return (
        f"{row['items']:,} items: BLEU {row['bleu']:.1f} {_between(row['bleu_interval'], '.1f')}, "
        f"ROUGE-L {row['rouge_l']:.1f} {_between(row['rouge_l_interval'], '.1f')}; "
        f"{row['words']:.1f} words where people wrote {row['reference_words']:.1f}"
    )


def _between(interval: list[float], how: str) -> str:
    return f"({' to '.join(format(end, how) for end in interval)})"
