"""What is to be written into spans: blanks that touch taken as one, lengths counted in words, a draft on its way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from blanklm.core.special import BLANK
from blanklm.decoding.budget import LONGEST_SPAN
from blanklm.decoding.constraint import SENTENCE, Rule
from blanklm.decoding.draft import Draft
from blanklm.decoding.request import Request

UNTOLD = -1  # words of a blank whose length is not chosen yet
EASY = -0.25  # log p of each token to come, where a search looks whether it could still win
TOKENS = 1.2  # in a word to come, about
EVEN = 0.8  # fills of different lengths are compared by log p / tokens^this: by 1, longer ones win, by 0, shorter ones
SPARE = 2  # words by which a span may become longer than the length chosen
LONGEST = LONGEST_SPAN // 2  # words in a blank of no given length


@dataclass(frozen=True)
class Span:
    """A blank to write, or several that touch; lengths are counted in words that begin inside."""

    rules: tuple[Rule, ...]  # of each of its blanks
    least: int
    most: float  # math.inf where there is no maximum
    starts_word: bool  # whether its first token begins a word; else it continues what stands before it

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> Span:
        starts = rules[0].lead_starts_word is not False
        least = sum(max(rule.min, SENTENCE if rule.sentence else 1) for rule in rules)
        most = sum(rule.max for rule in rules)
        return cls(tuple(rules), least - (not starts), most - (not starts), starts)


@dataclass(frozen=True)
class Task:
    """A request, with blanks that touch taken as one."""

    request: Request
    ids: tuple[int, ...]
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, request: Request) -> Task:
        rules = iter(request.rules.by_blank)
        ids: list[int] = []
        spans = []
        for is_blank, run in groupby(request.ids, lambda i: i == BLANK):
            if is_blank:
                spans.append(Span.of([next(rules) for _ in run]))
                ids.append(BLANK)
            else:
                ids += run
        return cls(request, tuple(ids), tuple(spans))

    def begin(self, page: Any = None) -> Writing:
        return self.writing(Draft.begin(self.ids, ((),) * len(self.spans)), page)

    def writing(self, draft: Draft, page: Any) -> Writing:
        """Go on with the leftmost blank of a draft; a length that its rules fix needs no choice."""
        if draft.finished:
            return Writing(draft)
        span, before = self.span(draft), (draft.steps, draft.log_prob)
        length = int(span.least) if span.least == span.most else UNTOLD
        return Writing(draft, length, length=length, before=before, page=page)

    def following(self, before: Writing, after: Writing) -> Writing:
        """What to go on with after a step: the next blank, if the step has filled the one before."""
        filled = after.draft.items.count(BLANK) < before.draft.items.count(BLANK)
        return self.writing(after.draft, after.page) if filled else after

    def of_length(self, writing: Writing, words: int, log_prob: float) -> Writing:
        """The writing with a length chosen for its leftmost blank."""
        draft = writing.draft
        draft = replace(draft, log_prob=draft.log_prob + log_prob, path_log_prob=draft.path_log_prob + log_prob)
        room = self.longest(draft) - words
        return replace(writing, draft=draft, words=words, length=words, spare=max(0, min(SPARE, room)))

    def after(self, writing: Writing, token: int, more: bool, log_prob: float) -> Writing:
        """The writing with a token more; without ``more``, it ends the span."""
        words, spare, parts, after_space = self.counts_after(writing, token)
        draft = writing.draft.write(0, token, False, more, log_prob)
        return replace(writing, draft=draft, words=words, spare=spare, parts=parts, after_space=more and after_space)

    def counts_after(self, writing: Writing, token: int) -> tuple[int, int, int, bool]:
        """After a token: words still to begin and to spare, tokens of the last word, whether that is a mere space."""
        tokenizer = self.request.rules.tokenizer
        starts = bool(tokenizer.starts_word[token])
        more, spared = (0, 1) if starts and writing.words == 0 else (int(starts), 0)
        parts = 1 if starts else writing.parts + 1
        return writing.words - more, writing.spare - spared, parts, token == tokenizer.space

    def span(self, draft: Draft) -> Span:
        return self.spans[draft.origins[draft.leftmost]]

    def longest(self, draft: Draft) -> int:
        """How many words the leftmost blank may hold at most."""
        room = self.request.rules.max_length - len(draft.items) + 1
        span = self.span(draft)
        others = sum(max(1, span.least) for span in self.spans[draft.origins[draft.leftmost] + 1 :])
        capped = LONGEST if span.most == math.inf else span.most
        return int(max(span.least, min(capped, room - others + draft.items.count(BLANK) - 1)))

    def has_room(self, draft: Draft) -> bool:
        """Whether the leftmost blank may take another token and stay open."""
        origin = draft.origins[draft.leftmost]
        limited = self.spans[origin].most == math.inf and draft.origins.count(origin) > LONGEST_SPAN
        return len(draft.items) < self.request.rules.max_length and not limited

    def finish(self, writing: Writing) -> Draft:
        """The draft of the request that a writing stands for; what is open in the writing stays as it was."""
        starts_word = self.request.rules.tokenizer.starts_word
        _, log_probs = writing.draft.actions()
        steps = iter(log_probs)
        draft = self.request.first_draft()
        for span, ids in zip(self.spans, writing.draft.spans(len(self.spans)), strict=True):
            if BLANK in ids:
                break
            for part in divide(ids, starts_word, span.rules):
                for i, token in enumerate(part, 1):
                    draft = draft.write(0, token, False, i < len(part), next(steps))
        return replace(draft, log_prob=writing.draft.log_prob, path_log_prob=writing.draft.log_prob)


@dataclass(frozen=True, slots=True)
class Writing:
    """A draft whose leftmost blank is being written."""

    draft: Draft
    words: int = UNTOLD  # that are still to begin in that blank; UNTOLD: its length is not chosen yet
    spare: int = 0  # by how many words it may become longer than that, if its last word cannot be the last
    parts: int = 0  # tokens of the word that was begun last
    after_space: bool = False  # that word is only a space so far
    length: int = UNTOLD  # the words that were chosen for the blank
    before: tuple[int, float] = (0, 0.0)  # steps and log-probability of the draft when the blank was begun
    # For a model that writes on pages:
    page: Any = None  # with all that was written but its last symbol
    symbol: int = BLANK  # that symbol; BLANK where the span begins
    mores: tuple[bool, ...] = (True,)  # whether the span may end after it (False) or go on (True)

    @property
    def score(self) -> float:
        """How good the fill of the last blank is, beside others of other lengths."""
        return self._score_after(0.0)

    @property
    def hope(self) -> float:
        """How good it can become, as far as is known: if all tokens to come are easy ones."""
        return self._score_after(TOKENS * max(1, self.words))

    def _score_after(self, tokens: float) -> float:
        steps, log_prob = self.before
        written = self.draft.log_prob - log_prob + EASY * tokens
        return written / max(1, self.draft.steps - steps + tokens) ** EVEN


def divide(ids: Sequence[int], starts_word: np.ndarray, rules: Sequence[Rule]) -> list[Sequence[int]]:
    """Divide what was written over blanks that touch: whole words, as evenly as their lengths allow."""
    if len(rules) == 1:
        return [ids]
    starts = [i for i, token in enumerate(ids) if i == 0 or starts_word[token]]
    counts = [rule.min for rule in rules]
    for _ in range(len(starts) - sum(counts)):
        open_rules = [i for i, rule in enumerate(rules) if counts[i] < rule.max] or [len(rules) - 1]
        counts[min(open_rules, key=counts.__getitem__)] += 1
    ends = np.cumsum(counts)
    cuts = [0, *(starts[end] if end < len(starts) else len(ids) for end in ends[:-1]), len(ids)]
    return [ids[a:b] for a, b in pairwise(cuts)]


def can_write(request: Request) -> bool:
    """Whether nothing is required: required words may stand anywhere in a span, and are left to ``beam``."""
    rules = request.rules.by_blank
    touching = any(a == b == BLANK for a, b in zip(request.ids, request.ids[1:], strict=False))
    checked = any(rule.checks_words or rule.writable is not None for rule in rules)
    return not any(rule.required for rule in rules) and not (touching and checked)
