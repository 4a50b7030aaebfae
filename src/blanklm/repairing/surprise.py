"""How probable each word is in its place, given all the others: leave one out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import torch

from blanklm.core.in_place import Alternative, Check, Policy, action, exact, read, words_of
from blanklm.core.special import BLANK
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.repairing.units import Unit, Window, units_of

LOOKED_AT = 16  # of the most probable tokens of a blank, to find words that fill it
ALONE = 0  # of policy.SIDES: no blank stays on either side
MOST_PARTS = 24  # tokens of a word that is scored


@dataclass(frozen=True)
class WordScore:
    """A word or mark of a text with log p of it in a blank in its place, and what the model expects there."""

    text: str
    start: int  # offsets of characters
    end: int
    log_prob: float
    # Words of one token with log p, the most probable first.
    expected: tuple[tuple[str, float], ...] = field(default=(), repr=False)

    @property
    def surprise(self) -> float:
        """Nats by which the most probable word is above this one."""
        return max(0.0, self.expected[0][1] - self.log_prob) if self.expected else 0.0

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"text": self.text, "start": self.start, "end": self.end}
        record |= {"log_prob": round(self.log_prob, 4), "surprise": round(self.surprise, 4)}
        return record | {"expected": [{"text": w, "log_prob": round(p, 4)} for w, p in self.expected[:3]]}


def check_units(text: str, tokenizer: Tokenizer, longest: int) -> list[Unit]:
    """The units of a text; a text that cannot be scored raises."""
    units = units_of(text)
    if not units:
        raise BlankLMError("the text is empty: there is no word in it")
    over = [unit for unit in units if len(tokenizer.encode(unit.text)) > MOST_PARTS]
    if over:
        raise BlankLMError(f"the word {over[0].text[:20]!r}... is too long to be scored: take it out")
    around = [Window.over(text, units, i, i) for i in range(len(units))]
    most = max(len(window.with_text(units[i].text, tokenizer).tokens) for i, window in enumerate(around))
    if most > longest:
        raise BlankLMError(f"the words around a word take {most:,} tokens, and this model takes {longest:,}: split it")
    return units


def left_out(tokenizer: Tokenizer, text: str, units: Sequence[Unit]) -> list[Alternative]:
    """A text with one of its units hidden, for each of them."""
    windows = [Window.over(text, list(units), i, i) for i in range(len(units))]
    return [window.with_text(unit.text, tokenizer) for window, unit in zip(windows, units, strict=True)]


@torch.inference_mode()
def mean_in_place(policy: Policy, tokenizer: Tokenizer, texts: Sequence[str]) -> list[float]:
    """The mean log p of the units of each text in their places; what several texts have in common is read once."""
    each = [left_out(tokenizer, text, units_of(text)) for text in texts]
    log_probs = exact(policy, words_of(policy, [one for own in each for one in own]))
    ends = list(accumulate(map(len, each), initial=0))
    return [float(log_probs[start:end].mean()) for start, end in pairwise(ends)]


@torch.inference_mode()
def leave_one_out(
    policy: Policy, tokenizer: Tokenizer, text: str, units: Sequence[Unit], check: Check | None = None
) -> list[WordScore]:
    """Score each unit of a text in a blank in its place."""
    hidden = left_out(tokenizer, text, units)
    log_probs = exact(policy, words_of(policy, hidden), check)
    canvases = [action(one.tokens, one.hidden, one.hidden[0]).canvas for one in hidden]
    expected = expected_words(policy, tokenizer, canvases, check)
    return [
        WordScore(unit.text, unit.start, unit.end, float(log_p), expected[canvas])
        for unit, canvas, log_p in zip(units, canvases, log_probs, strict=True)
    ]


@torch.inference_mode()
def expected_words(
    policy: Policy, tokenizer: Tokenizer, canvases: Sequence[tuple[int, ...]], check: Check | None = None
) -> dict[tuple[int, ...], tuple[tuple[str, float], ...]]:
    """The most probable words of one token for the only blank of each canvas, with log p."""
    found: dict[tuple[int, ...], tuple[tuple[str, float], ...]] = {}
    for group, scores, rows in read(policy, list(dict.fromkeys(canvases)), check):
        log_p, tokens = scores.log_p_word[rows].topk(min(LOOKED_AT, scores.log_p_word.shape[1]))  # [B, k] each
        flat = torch.tensor(rows, device=tokens.device).repeat_interleave(tokens.shape[1])
        alone = scores.log_p_sides(flat, tokens.flatten())[:, ALONE].view_as(log_p)  # [B, k]
        total = (log_p + alone).double().cpu()
        for canvas, own, ids in zip(group, total.tolist(), tokens.tolist(), strict=True):
            starts = canvas[0] == BLANK or tokenizer.kind != "bpe"
            ranked = sorted(zip(own, ids, strict=True), reverse=True)
            words = [(tokenizer.token_text(i), p) for p, i in ranked if not tokenizer.never_written[i]]
            found[canvas] = tuple((w.strip(), p) for w, p in words if starts or w[:1] == " " or not w[:1].isalnum())
    return found
