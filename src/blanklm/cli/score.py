"""``blanklm score``."""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blanklm.bulk.lines import LINES_AT_ONCE, Answer, Line, attempt, each_or_its_error, one_line_json
from blanklm.cli.options import Device, File, Json, Jsonl, Model, WholeTexts, load_model, read_lines
from blanklm.cli.output import print_error, progress_bar, say, warn_of_unknown
from blanklm.cli.repair import print_words
from blanklm.core.characters import check_text
from blanklm.errors import BlankLMError
from blanklm.options import ScoreMethod

if TYPE_CHECKING:
    from blanklm.api import BlankLM
    from blanklm.scoring import Score


def score(
    texts: WholeTexts = None,
    file: File = None,
    model: Model = None,
    method: Annotated[ScoreMethod, typer.Option(help="exact: up to 16 tokens.")] = "monte-carlo",
    orders: Annotated[int, typer.Option(help="Orders (monte-carlo) or canvases (bound) per text.")] = 64,
    words: Annotated[bool, typer.Option("--words", help="Show how probable each word is in its place.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Perplexity of all texts as one stream with <eos>.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed draws the same orders.")] = 0,
    as_json: Json = False,
    jsonl: Jsonl = False,
    device: Device = None,
) -> None:
    """Score whole texts: log p of each text, and the perplexity of all.

    blanklm score "The food was really good."
    """
    if any("___" in text for text in texts or ()):
        say("note: score takes whole texts, so ___ is scored as it is; to fill it, use blanklm fill")
    language_model = load_model(model, device)
    lines = read_lines(texts, file, jsonl, 'score "The food was really good."', whole=True)
    if words:
        if stream or method != "monte-carlo":
            raise BlankLMError("--words scores each word given the others: leave out --stream and --method")
        print_words(language_model, lines, as_json)
        return
    if stream:
        if method != "monte-carlo":
            raise BlankLMError("--stream estimates by Monte Carlo: leave out --method")
        _score_stream(language_model, list(lines), orders, seed, as_json)
        return
    how: dict[str, Any] = {"method": method, "orders": orders, "seed": seed}
    failed = scored = tokens = 0
    total = 0.0
    while group := list(islice(lines, LINES_AT_ONCE)):
        encoded = [attempt(line, partial(language_model.to_score, method=method)) for line in group]
        good = [line.text for line, ids in zip(group, encoded, strict=True) if not isinstance(ids, str)]
        with progress_bar(language_model.score_work(good, method, orders), "canvases") as advance:
            answers = list(each_or_its_error(partial(_scores, language_model, how | {"progress": advance}), good))
        remaining = iter(answers)
        for line, ids in zip(group, encoded, strict=True):
            answer = ids if isinstance(ids, str) else next(remaining)
            if isinstance(answer, str):
                failed += 1
                print_error(Answer(line, error=answer), as_json)
                continue
            warn_of_unknown(tuple(language_model.tokenizer.unknown_words(line.text)), line)
            scored, tokens, total = scored + 1, tokens + answer.tokens, total + answer.log_prob
            if as_json:
                print(one_line_json(answer.to_json()))
            else:
                print(f"{answer.log_prob:10.3f}  {answer.perplexity:10.2f}  {answer.text}")
        sys.stdout.flush()
    if scored > 1 and not as_json:
        from blanklm.scoring import Score

        perplexity = Score("", total, tokens, method).perplexity
        print(f"{total:10.3f}  {perplexity:10.2f}  (all {scored} texts, {tokens} tokens)")
    if failed:
        sys.exit(1)
    if not scored:
        raise BlankLMError("there is no text to score: give one, or a --file with some")


def _scores(language_model: BlankLM, how: dict[str, Any], texts: list[str]) -> list[Score]:
    return language_model.score(texts, **how)


def _score_stream(language_model: BlankLM, lines: list[Line], orders: int, seed: int, as_json: bool) -> None:
    """Print the perplexity of all texts as one stream with <eos>, as language models are compared."""
    checked = [attempt(line, check_text) for line in lines]
    texts, unknown = [], dict[str, None]()
    for line, wrong in zip(lines, checked, strict=True):
        if wrong != line.text or line.error:
            print_error(Answer(line, error=wrong), as_json=False)
            continue
        texts.append(line.text)
        unknown |= dict.fromkeys(language_model.tokenizer.unknown_words(line.text))
    warn_of_unknown(tuple(unknown), Line(None, ""))
    if not texts:
        raise BlankLMError("there is no text to score")
    config = language_model.model.config
    context = language_model.model.context or 0
    chunk = config.max_length - context
    work = orders * sum(len(language_model.tokenizer.encode(text)) + 1 for text in texts)
    with progress_bar(work, "canvases") as advance:
        estimate = language_model.perplexity(texts, orders, seed=seed, progress=advance)
    low, high = estimate.interval
    record = {
        "perplexity": estimate.perplexity,
        "interval": [low, high],
        "orders": orders,
        "tokens_with_eos": int(estimate.tokens.sum()),
        "chunk": chunk,
        "context": context,
    }
    if as_json:
        print(one_line_json(record))
    else:
        print(
            f"perplexity {estimate.perplexity:.2f} ({low:.2f} to {high:.2f} at m = {orders} orders; lower as m grows), "
            f"{record['tokens_with_eos']:,} tokens with <eos>, "
            + (f"sentences of at most {chunk} after {context} tokens" if context else f"chunks of {chunk}")
        )
    if len(texts) < len(lines):
        sys.exit(1)
