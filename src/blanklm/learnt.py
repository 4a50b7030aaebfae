"""What a training run has learnt, shown on texts that were held out: fills before and after, and BLEU."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from blanklm.api import BlankLM
from blanklm.data.masking import MaskedText, blank_out, mask_words, places_of_words

SHOWN = 3  # texts
MEASURED, MEASURED_WORDS = 100, 2000  # texts at most, and words of all of them together
SHORTEST, SHORT = 4, 30  # words: of a text that is measured, and of those that are taken first
SHARE = 0.3  # of the words, to measure
SPAN = range(1, 4)  # words, to show
SEED = 0


def compare(held_out: Sequence[str], folder: Path, before: str | None) -> Iterator[str]:
    """Yield lines that compare the model in ``folder`` with the one ``before``, and the next command to type."""
    models = {"before": BlankLM.from_pretrained(before)} if before else {}
    models["after"] = BlankLM.from_pretrained(folder)
    texts = _chosen(held_out, list(models.values()))
    if texts:
        yield from _fills(texts[:SHOWN], models)
        yield _bleu(texts, models)
    example = str(_one_span(texts[0], random.Random(SEED)).template) if texts else "___"
    yield f"now type: blanklm fill {shlex.quote(example)} --model {shlex.quote(str(folder))}"


def _chosen(held_out: Sequence[str], models: Sequence[BlankLM]) -> list[str]:
    """Return texts to compare the models on, short ones before long ones, no more than are filled within seconds."""
    words = {text: len(text.split()) for text in held_out}
    chosen: list[str] = []
    for text in sorted(held_out, key=lambda text: words[text] > SHORT):
        fits = all(len(model.tokenizer.encode(text)) < model.longest for model in models)
        enough = len(chosen) == MEASURED or sum(map(words.__getitem__, chosen)) + words[text] > MEASURED_WORDS
        if fits and words[text] >= SHORTEST and not enough:
            chosen.append(text)
    return chosen


def _fills(texts: Sequence[str], models: dict[str, BlankLM]) -> Iterator[str]:
    rng = random.Random(SEED)
    hidden = [_one_span(text, rng) for text in texts]
    fills = {name: model.fill([str(masked.template) for masked in hidden]) for name, model in models.items()}
    for i, masked in enumerate(hidden):
        yield f"held out  {masked.template}"
        yield from (f"  {name:8}{' / '.join(fills[name][i].spans)}" for name in models)
        yield f"  was     {' / '.join(masked.spans)}"


def _bleu(texts: Sequence[str], models: dict[str, BlankLM]) -> str:
    from sacrebleu.metrics import BLEU

    rng = random.Random(SEED)
    hidden = [mask_words(text, SHARE, rng) for text in texts]
    outputs = {"no infill": [masked.template.render([""] * len(masked.spans)) for masked in hidden]}
    canvases = [str(masked.template) for masked in hidden]
    for name, model in models.items():
        how: dict[str, Any] = {}
        if getattr(model.model.config, "spans", 0.0) < 1:  # it knows blanks of words: all at once is quick, and as good
            how = {"blanks": "words", "order": "parallel"}
        outputs[name] = [fill.text for fill in model.fill(canvases, **how)]
    scores = {
        name: BLEU(tokenize="none", force=True).corpus_score(filled, [list(texts)]).score
        for name, filled in outputs.items()
    }
    said = ", ".join(f"{score:.1f} {name}" for name, score in scores.items())
    return f"BLEU of {len(texts)} held-out texts with {SHARE:.0%} of their words hidden: {said}"


def _one_span(text: str, rng: random.Random) -> MaskedText:
    words = places_of_words(text)
    size = min(rng.choice(SPAN), len(words) - 1)
    start = rng.randrange(len(words) - size + 1)
    return blank_out(text, words, set(range(start, start + size)))
