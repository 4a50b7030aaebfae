"""``blanklm evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blanklm.bulk.lines import one_line_json
from blanklm.cli.options import Device, Json, Model
from blanklm.cli.output import progress_bar, say
from blanklm.decoding.options import Order
from blanklm.errors import BlankLMError, CheckpointError
from blanklm.options import Blanks, check_number

if TYPE_CHECKING:
    from blanklm.api import BlankLM
    from blanklm.paper.baselines.systems import Infiller
    from blanklm.paper.tasks.fluency import Judge
    from blanklm.paper.tasks.spans import Kind

Task = Literal["infilling", "choices", "middles"]
RATIOS, KINDS = "10,20,30,40,50", "1,2,3,5,8,sentence"


def evaluate(
    task: Annotated[Task, typer.Argument(help="What to evaluate.")],
    file: Annotated[
        Path,
        typer.Option("--file", "-f", help="infilling: a text per line, or .jsonl; else JSON lines. May be compressed."),
    ],
    model: Model = None,
    blanks: Annotated[
        Blanks, typer.Option(help="What to hide: random words (the paper's protocol), or spans.")
    ] = "words",
    ratios: Annotated[
        str | None, typer.Option(help="Shares of the words to hide, in percent.", show_default=RATIOS)
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(help="With spans: how many words each hides, or sentence.", show_default=KINDS)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed hides the same words.")] = 0,
    beam: Annotated[int | None, typer.Option(help="Beam width; 1 is greedy.", show_default="1")] = None,
    order: Annotated[
        Order | None,
        typer.Option(help="Which blank to fill next; by default parallel, or confident with a beam; spans as in fill."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="A left-to-right model for the perplexity of fills: a folder, a .gguf file or a Hub id."),
    ] = None,
    as_json: Json = False,
    device: Device = None,
) -> None:
    """Hide words or spans of each text, fill them, and compare with the original.

    blanklm evaluate infilling --file held-out.txt --ratios 10,30,50

    choices: questions with one right answer, each {"text": "... ___ ...", "options": [...], "answer": 0}; without a
    text the options are whole texts. middles: {"text": "... ___ ...", "references": [...]}, by BLEU and ROUGE-L.
    """
    if task != "infilling":
        from blanklm.cli.evaluate_items import evaluate_items

        given = {"ratios": ratios, "kinds": kinds, "beam": beam, "order": order, "judge": judge}
        if unfit := [f"--{name}" for name, value in given.items() if value is not None]:
            raise BlankLMError(f"{task} does not take {', '.join(unfit)}: leave it out")
        evaluate_items(task, file, model, device, as_json)
        return
    from blanklm.paper.baselines.systems import load_system
    from blanklm.paper.tasks.infilling import evaluate as evaluate_words
    from blanklm.paper.tasks.spans import evaluate_spans
    from blanklm.pretrained import DEFAULT

    if blanks == "spans" and ratios is not None:
        raise BlankLMError("--ratios apply to words: leave them out, or use --kinds for spans")
    if blanks == "words" and kinds is not None:
        raise BlankLMError("--kinds apply to spans: leave them out, or add --blanks spans")
    check_number("seed", seed, ge=-(2**62), lt=2**62)
    shares, lengths = _percentages(ratios or RATIOS), _kinds(kinds or KINDS)
    system = load_system(model or DEFAULT, device)
    options = _options(system, blanks, beam, order)
    fluency = _judge(judge, device) if judge else None
    fitting, cut, left_out = _fitting_texts(file, system)
    canvases = len(fitting) * len(lengths if blanks == "spans" else shares)
    rows: dict[str, Any]
    with progress_bar(canvases, "texts to fill") as advance:
        if blanks == "spans":
            rows = evaluate_spans(system, fitting, lengths, seed, advance, fluency, **options)
        else:
            rows = evaluate_words(system, fitting, shares, seed, advance, fluency, **options)
    if as_json:
        report = {"task": task, "model": model or DEFAULT, "file": file.name, "seed": seed} | options
        rows_of = {"blanks": blanks, "kinds": rows} if blanks == "spans" else {"ratios": rows}
        print(one_line_json(report | {"cut": cut, "too_long": left_out} | rows_of))
        return
    print(
        f"{len(fitting)} texts"
        + (f", {cut} of them longer than the model takes and filled in pieces" if cut else "")
        + (f", {left_out} left out: a word too long for the model" if left_out else "")
    )
    (_print_spans if blanks == "spans" else _print_words)(rows, judge is not None)


def _options(system: BlankLM | Infiller, blanks: Blanks, beam: int | None, order: Order | None) -> dict[str, Any]:
    """Return how to fill: a model that knows both kinds of blanks is told which these are."""
    from blanklm.paper.baselines.systems import Infiller

    if isinstance(system, Infiller):
        if beam not in (None, 1) or order is not None:
            raise BlankLMError("a baseline has one way to fill: leave out --beam and --order")
        return {}
    if blanks == "words":
        beam = beam or 1
        return {"beam": beam, "order": order or ("parallel" if beam == 1 else "confident"), "blanks": blanks}
    chosen = {name: value for name, value in (("beam", beam), ("order", order)) if value is not None}
    try:
        system.model.for_blanks("spans")
    except BlankLMError:  # it has learnt words only: they are all it can be asked for
        return chosen
    return chosen | {"blanks": blanks}


def _judge(name: str, device: str | None) -> Judge:
    from blanklm.models.causal_backbone import is_causal
    from blanklm.paper.baselines.systems import LanguageModel
    from blanklm.paper.tasks.causal_judge import CausalJudge
    from blanklm.pretrained import locate
    from blanklm.training.checkpoint import read_config

    if name.endswith(".gguf"):
        return CausalJudge.load(name, device)
    try:
        read_config(locate(name))
    except CheckpointError:  # not one of ours
        if not is_causal(name):
            raise
        return CausalJudge.load(name, device)
    return LanguageModel.from_pretrained(name, device)


def _fitting_texts(file: Path, system: BlankLM | Infiller) -> tuple[list[str], int, int]:
    """Return the texts that the model can take, how many of them in pieces, and how many are left out."""
    from blanklm.data import read_texts

    texts = [text for text in read_texts(file) if text.strip()]
    if blanks := sum("___" in text for text in texts):
        say(f"note: ___ counts as a word (texts that have it: {blanks:,}); evaluate hides words of whole texts itself")
    longest, encode_many = system.longest, system.tokenizer.encode_many
    long = [text for text, ids in zip(texts, encode_many(texts), strict=True) if len(ids) > longest]
    too_long = {text for text in long if max(map(len, encode_many(text.split()))) >= longest}  # in a single word
    fitting = [text for text in texts if text not in too_long]
    if not fitting:
        raise BlankLMError(f"{file} holds no text that the model can take")
    left_out = len(texts) - len(fitting)
    return fitting, len(long) - left_out, left_out


def _print_words(rows: dict[str, dict[str, float]], judged: bool) -> None:
    columns = f"{'hidden':>8} {'no infill':>10} {'BLEU':>7} {'failures':>9} {'length error':>13} {'words/s':>9}"
    print(columns + (f" {'perplexity':>11} {'(original)':>11}" if judged else ""))
    for share, row in rows.items():
        print(
            f"{float(share):>8.0%} {row['no_infill_bleu']:>10.1f} {row['bleu']:>7.1f} {row['failure_rate']:>9.1%} "
            f"{row['length_error']:>13.2f} {row['words_per_second']:>9.0f}"
            + (f" {row['perplexity']:>11.1f} {row['original_perplexity']:>11.1f}" if judged else "")
        )


# Columns of the table of spans: their heads, what they show and how.
_COLUMNS = (
    ("texts", "texts", "d"),
    ("hidden", "hidden", ".2f"),
    ("written", "written", ".2f"),
    ("exact", "exact", ".0%"),
    ("length error", "length_error", ".2f"),
    ("BLEU", "bleu", ".1f"),
    ("distinct", "distinct", ".0%"),
    ("echoes", "echoes", ".1%"),
    ("failures", "failure_rate", ".1%"),
)
_JUDGED = (("perplexity", "perplexity", ".1f"), ("(original)", "original_perplexity", ".1f"))


def _print_spans(rows: dict[str, dict[str, Any]], judged: bool) -> None:
    columns = _COLUMNS + (_JUDGED if judged else ())
    print(f"{'kind':>8}" + "".join(f" {head:>{max(8, len(head))}}" for head, _, _ in columns))
    for kind, row in rows.items():
        shown = [("-" if row[name] is None else format(row[name], how), head) for head, name, how in columns]
        print(f"{kind:>8}" + "".join(f" {value:>{max(8, len(head))}}" for value, head in shown))


def _percentages(written: str) -> list[float]:
    try:
        shares = [float(part) / 100 for part in written.split(",")]
    except ValueError:
        raise BlankLMError(f"--ratios takes percentages such as 10,20,30, not {written!r}") from None
    if not all(0.01 <= share <= 1 for share in shares):
        raise BlankLMError(f"--ratios takes percentages from 1 to 100, so 30 and not 0.3; it was given {written!r}")
    return shares


def _kinds(written: str) -> list[Kind]:
    parts = [part.strip() for part in written.split(",")]
    if not all(part == "sentence" or (part.isdecimal() and int(part) >= 1) for part in parts):
        raise BlankLMError(f"--kinds takes numbers of words and `sentence`, such as {KINDS}, not {written!r}")
    return ["sentence" if part == "sentence" else int(part) for part in parts]
