"""Rerank fills by how well every word fits in its place, the given ones too.

A span that is probable word by word from left to right may fit badly with what follows it ("I hope you have a wonderful
every day"), or say less than the text around it asks for. So the words near the span are left out in turn, and the
log-probabilities of writing them again are summed: a pseudo-log-likelihood, by which fills of different lengths
compare once each word is worth WORTH. Marks at the end of a word stay when it is left out, as people leave them. Words
that stand APART are left out together, which saves passes. A word that is said again costs ECHO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from blanklm.core.in_place import passes
from blanklm.core.policy import SpanScorer
from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.core.tokenizer import LONG_WORD, Tokenizer
from blanklm.decoding.draft import Draft

NEAR = 16  # tokens on either side of a span that are looked at
APART = 6  # words: those that stand nearer need each other to be told
WORTH = 0.25  # of a word that was written: of two fills that fit as well, the longer one says more
ECHO = 2.0  # off for a long word that stands in the text already: of two, each makes the other probable
TOKENS_AT_ONCE = 4096  # of canvases scored together


@dataclass(frozen=True)
class Place:
    """A token that is left out, with what follows it in its word."""

    number: int  # of the word
    start: int
    end: int  # of what follows, but for the marks at the end
    words: int  # that its blank is told to hold: 1, or 0 for the rest of a word
    token: int
    more: bool  # whether its word goes on
    worth: float  # added to its log-probability: that of a word that was written, where it begins


@dataclass(frozen=True)
class LeftOut:
    """A canvas on which some places are blanks; blanks that were open stay."""

    canvas: tuple[int, ...]
    places: tuple[Place, ...]
    blanks: tuple[int, ...]  # where those of the places stand on the canvas


def canvases_near(draft: Draft, origin: int, tokenizer: Tokenizer) -> list[LeftOut]:
    """Leave out each token of the words in and near the span of the blank with this number."""
    together: list[list[Place]] = []
    for place in _places(draft, origin, tokenizer):
        room = (group for group in together if place.number - group[-1].number >= APART)
        if (group := next(room, None)) is not None:
            group.append(place)
        else:
            together.append([place])
    return [_without(draft.items, group) for group in together]


def _places(draft: Draft, origin: int, tokenizer: Tokenizer) -> list[Place]:
    items = draft.items
    span = [i for i, of in enumerate(draft.origins) if of == origin]
    begins = [i == 0 or bool(tokenizer.starts_word[item]) for i, item in enumerate(items)]
    starts = [i for i, item in enumerate(items) if begins[i] or BLANK in (item, items[i - 1])]
    words = [
        (start, start + core_end(items[start:end], tokenizer), end) for start, end in pairwise((*starts, len(items)))
    ]
    texts = Counter(items[start:core] for start, core, _ in words)
    places = []
    for number, (start, core, end) in enumerate(words):
        if items[start] == BLANK or end <= span[0] - NEAR or start > span[-1] + NEAR:
            continue
        worth = WORTH if draft.origins[start] == origin else 0.0
        if worth and texts[items[start:core]] > 1 and _is_long(items[start:core], tokenizer):
            worth -= ECHO
        for at in range(start, end):
            until = core if at < core else end
            places.append(Place(number, at, until, int(begins[at]), items[at], at + 1 < until, worth))
            worth = 0.0
    return places


def core_end(word: Sequence[int], tokenizer: Tokenizer) -> int:
    """Where the marks at the end of a word begin."""
    return next((i + 1 for i in reversed(range(len(word))) if not tokenizer.marks[word[i]]), 0)


def _is_long(word: Sequence[int], tokenizer: Tokenizer) -> bool:
    text = "".join(tokenizer.token_texts[token] for token in word).strip()
    return tokenizer.kind == "bpe" and text.isalpha() and len(text) >= LONG_WORD


def _without(items: Sequence[int], places: Sequence[Place]) -> LeftOut:
    canvas: list[int] = []
    blanks, shown = [], 0
    for place in places:
        canvas += items[shown : place.start]
        blanks.append(len(canvas))
        canvas.append(BLANK)
        shown = place.end
    return LeftOut((*canvas, *items[shown:]), tuple(places), tuple(blanks))


@torch.inference_mode()
def fit_in_place(policy: SpanScorer, fills: Sequence[Sequence[LeftOut]]) -> list[float]:
    """The sum of the log-probabilities of all that was left out of each fill, and of what its words are worth."""
    every = [(number, left_out) for number, own in enumerate(fills) for left_out in own]
    every.sort(key=lambda entry: len(entry[1].canvas))
    sums, read = [0.0] * len(fills), 0
    for group in passes([left_out.canvas for _, left_out in every], TOKENS_AT_ONCE):
        members = every[read : read + len(group)]
        log_p = iter(_log_probs(policy, [left_out for _, left_out in members]))
        for number, left_out in members:
            sums[number] += sum(next(log_p) + place.worth for place in left_out.places)
        read += len(group)
    return sums


def _log_probs(policy: SpanScorer, group: Sequence[LeftOut]) -> list[float]:
    """log p(w, r | c, b, n) of the M places of these canvases, one after the other."""
    ids, lengths = pad([left_out.canvas for left_out in group])  # [B, L], [B]
    places = [place for left_out in group for place in left_out.places]
    row = torch.tensor([b for b, left_out in enumerate(group) for _ in left_out.places])  # [M]
    at = torch.tensor([i for left_out in group for i in left_out.blanks])  # [M]
    words = torch.full_like(ids, -1)  # [B, L]: open blanks are told nothing
    words[row, at] = torch.tensor([place.words for place in places])
    device = policy.device
    scores = policy.score_spans(ids.to(device), lengths.to(device), ids.shape[1], words.to(device))
    blank = (ids == BLANK).flatten().cumsum(0).view_as(ids)[row, at] - 1  # [M] its number among all blanks
    blank, token = blank.to(device), torch.tensor([place.token for place in places], device=device)
    more = torch.tensor([[int(place.more)] for place in places], device=device)  # [M, 1]
    log_p = scores.log_p_first[blank, token] + scores.log_p_more(blank, token).gather(1, more).squeeze(1)  # [M]
    return log_p.double().tolist()
