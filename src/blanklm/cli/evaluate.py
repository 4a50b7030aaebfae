"""``blanklm evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from blanklm.bulk.lines import one_line_json
from blanklm.cli.options import Device, Json, Model
from blanklm.cli.output import progress_bar
from blanklm.decoding.options import Order
from blanklm.errors import BlankLMError

Task = Literal["infilling"]


def evaluate(
    task: Annotated[Task, typer.Argument(help="What to evaluate.")],
    file: Annotated[Path, typer.Option("--file", "-f", help="One text per line, or .jsonl; may be compressed.")],
    model: Model = None,
    ratios: Annotated[str, typer.Option(help="Shares of the words to hide, in percent.")] = "10,20,30,40,50",
    seed: Annotated[int, typer.Option(help="The same seed hides the same words.")] = 0,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy.")] = 1,
    order: Annotated[
        Order | None, typer.Option(help="Which blank next; by default many at once (parallel), with a beam confident.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Folder of a left-to-right model that gives the perplexity of the fills.")
    ] = None,
    as_json: Json = False,
    device: Device = None,
) -> None:
    """Hide a share of each text's words, fill, and compare with the original.

    blanklm evaluate infilling --file held-out.txt --ratios 10,30,50
    """
    from blanklm.data import read_texts
    from blanklm.paper.baselines.systems import Infiller, LanguageModel, load_system
    from blanklm.paper.tasks.infilling import evaluate as evaluate_infilling
    from blanklm.pretrained import DEFAULT

    shares = _percentages(ratios)
    language_model = load_system(model or DEFAULT, device)
    options: dict[str, Any] = {"beam": beam, "order": order or ("parallel" if beam == 1 else "confident")}
    options["blanks"] = "words"  # which this protocol hides
    if isinstance(language_model, Infiller):
        if beam != 1 or order is not None:
            raise BlankLMError("a baseline has one way to fill: leave out --beam and --order")
        options = {}
    fluency = LanguageModel.from_pretrained(judge, device) if judge else None
    texts = [text for text in read_texts(file) if text.strip()]
    longest, encode_many = language_model.longest, language_model.tokenizer.encode_many
    long = [text for text, ids in zip(texts, encode_many(texts), strict=True) if len(ids) > longest]
    too_long = {text for text in long if max(map(len, encode_many(text.split()))) >= longest}  # in a single word
    fitting = [text for text in texts if text not in too_long]
    if not fitting:
        raise BlankLMError(f"{file} holds no text that the model can take")
    with progress_bar(len(shares) * len(fitting), "texts to fill") as advance:
        rows = evaluate_infilling(language_model, fitting, shares, seed, advance, fluency, **options)
    left_out = len(texts) - len(fitting)
    cut = len(long) - left_out
    if as_json:
        report = {"task": task, "model": model or DEFAULT, "file": file.name, "seed": seed} | options
        print(one_line_json(report | {"cut": cut, "too_long": left_out, "ratios": rows}))
        return
    print(
        f"{len(fitting)} texts"
        + (f", {cut} of them longer than the model takes and filled in pieces" if cut else "")
        + (f", {left_out} left out: a word too long for the model" if left_out else "")
    )
    columns = f"{'hidden':>8} {'no infill':>10} {'BLEU':>7} {'failures':>9} {'length error':>13} {'words/s':>9}"
    print(columns + (f" {'perplexity':>11} {'(original)':>11}" if judge else ""))
    for share, row in rows.items():
        print(
            f"{float(share):>8.0%} {row['no_infill_bleu']:>10.1f} {row['bleu']:>7.1f} {row['failure_rate']:>9.1%} "
            f"{row['length_error']:>13.2f} {row['words_per_second']:>9.0f}"
            + (f" {row['perplexity']:>11.1f} {row['original_perplexity']:>11.1f}" if judge else "")
        )


def _percentages(written: str) -> list[float]:
    try:
        shares = [float(part) / 100 for part in written.split(",")]
    except ValueError:
        raise BlankLMError(f"--ratios takes percentages such as 10,20,30, not {written!r}") from None
    if not all(0.01 <= share <= 1 for share in shares):
        raise BlankLMError(f"--ratios takes percentages from 1 to 100, so 30 and not 0.3; it was given {written!r}")
    return shares
