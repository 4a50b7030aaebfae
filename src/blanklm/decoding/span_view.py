"""What may follow a draft of spans, whichever model scores it: lengths first, then tokens from left to right."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from blanklm.core.policy import SIDES
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.around import CLOSING, QUOTE, SENTENCE_ENDS, Quotes
from blanklm.decoding.budget import OpenBlank, nearby
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import vocabulary_masks
from blanklm.decoding.options import SampleOptions
from blanklm.decoding.sample import pick, truncate
from blanklm.decoding.span_tasks import UNTOLD, Task, Writing
from blanklm.errors import ConstraintError

ONE_WORD = 0.2  # a single word is written where it is this probable
QUANTILES = (0.3, 0.5, 0.7)  # else these quantiles of the longer lengths are tried
IN_A_ROW = 3  # so many tokens are not written twice in a row
PARTS = 12  # tokens in a word, at most
LOOKED_AT = 16  # of the most probable words of a blank; more where rules refuse them
SPACE_AFTER = (",", ";", ":", "!", "?")
OPENING = ("$", "£", "€", "(", "[", "“", "‘")  # what a span does not end with
NEVER, STARTS, CONTINUES, SPACE = range(4)  # kinds of token: SPACE is a space before a word of other tokens


@dataclass(frozen=True)
class Vocabulary:
    """What the rules ask of tokens, looked up once."""

    kinds: Tensor  # [V] the kind of each token
    letters: Tensor  # [V] whether a token begins with a letter
    opening: frozenset[int]  # tokens that a span does not end with
    space_after: frozenset[int]  # tokens that end with a mark which a space follows
    quotes: Tensor  # [V] whether a token has straight quotation marks
    odd_quotes: frozenset[int]  # tokens that have an odd number of them
    ends: frozenset[int]  # tokens by which a sentence ends
    closing: frozenset[int]  # tokens of quotation marks and brackets alone, which may stand after these

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, tokenizer: Tokenizer, device: torch.device) -> Vocabulary:
        texts = tokenizer.token_texts
        ends = [text[-1:] for text in texts]
        return cls(
            kinds=_kinds(tokenizer, device),
            letters=torch.from_numpy(tokenizer.edges[:, 0] == 1).to(device),
            opening=frozenset(i for i, end in enumerate(ends) if end in OPENING),
            space_after=frozenset(i for i, end in enumerate(ends) if end in SPACE_AFTER),
            quotes=torch.tensor([QUOTE in text for text in texts], device=device),
            odd_quotes=frozenset(i for i, text in enumerate(texts) if text.count(QUOTE) % 2),
            ends=frozenset(i for i, text in enumerate(texts) if text.rstrip(CLOSING).endswith(SENTENCE_ENDS)),
            closing=frozenset(i for i, text in enumerate(texts) if text and not text.strip(CLOSING)),
        )


def _kinds(tokenizer: Tokenizer, device: torch.device) -> Tensor:
    """[V] the kind of each token."""
    starts, never = vocabulary_masks(tokenizer, device)
    for mark in (".", ")", *SPACE_AFTER):  # no space stands before them
        apart = tokenizer.backend.token_to_id(f"Ġ{mark}") if tokenizer.kind == "bpe" else None
        if apart is not None:
            never = never.index_fill(0, torch.tensor([apart], device=device), True)
    kinds = torch.where(never, NEVER, torch.where(starts, STARTS, CONTINUES))
    space = tokenizer.space
    if space is not None:
        kinds[space] = SPACE
    return kinds


def forbid(log_p: Tensor, members: Sequence[tuple[Task, Writing]]) -> None:
    """Set to -inf, in place, what may not be written next; ``log_p`` [R, V] has a row for each writing."""
    tokenizer, device = members[0][0].request.rules.tokenizer, log_p.device
    vocabulary = Vocabulary.of(tokenizer, device)
    allowed = torch.tensor([_kinds_allowed(*member, tokenizer) for member in members], device=device)  # [R, 4]
    log_p.masked_fill_(~allowed[:, vocabulary.kinds], -math.inf)
    for r, (task, writing) in enumerate(members):
        log_p[r, _repeats(writing.draft, tokenizer)] = -math.inf
        at = writing.draft.leftmost
        if at > 0 and writing.draft.items[at - 1] in vocabulary.space_after:  # "door," is not "door,and"
            log_p[r, vocabulary.letters] = -math.inf
        rule = task.span(writing.draft).rules[0]
        if rule.quotes is Quotes.NONE:
            log_p[r, vocabulary.quotes] = -math.inf
        writable = rule.writable
        if writable is not None:
            log_p[r, ~torch.from_numpy(writable).to(device)] = -math.inf


def _kinds_allowed(task: Task, writing: Writing, tokenizer: Tokenizer) -> list[bool]:
    """Which kinds of token may come next."""
    draft, span = writing.draft, task.span(writing.draft)
    at = draft.leftmost
    leads = at == 0 or draft.origins[at - 1] != draft.origins[at]
    starts = bool(writing.words or writing.spare) and not writing.after_space and (not leads or span.starts_word)
    parts = max(PARTS, *(rule.longest_only for rule in span.rules))
    continues = writing.parts < parts and (not leads or not span.starts_word)
    return [False, starts, continues or not starts, starts]


def _repeats(draft: Draft, tokenizer: Tokenizer) -> list[int]:
    """What is not written again into the leftmost blank: long words nearby, the word before, three tokens in a row."""
    if not tokenizer.words_have_parts:
        return []  # tokenised corpora repeat themselves, and their models are measured against them
    at = draft.leftmost
    left = draft.items[:at]
    repeats = [token for token in nearby(draft, at) if tokenizer.long_words[token]]
    if left and tokenizer.starts_word[left[-1]]:
        repeats.append(left[-1])
    rows = (left[i : i + IN_A_ROW] for i in range(len(left) - IN_A_ROW + 1))
    repeats += [row[-1] for row in rows if row[:-1] == left[1 - IN_A_ROW :]]
    return repeats


@dataclass(frozen=True)
class View(ABC):
    """What may follow a writing, with its probability."""

    task: Task
    writing: Writing
    log_p: Tensor  # [V] of the next token; -inf for what may not be written
    log_p_length: np.ndarray  # [LENGTHS]

    @abstractmethod
    def following(self, tokens: Sequence[int]) -> list[list[Writing]]:
        """By each of these tokens, what may follow."""

    def best(self, need: int) -> list[Writing]:
        """The most probable successors; where the length is open, one for each that is worth a try."""
        return self.with_chosen_lengths() if self.writing.words == UNTOLD else self.with_tokens(need)

    def draw(self, options: SampleOptions, stream: np.random.Generator) -> Writing:
        """A random successor."""
        if self.writing.words == UNTOLD:
            return self._of_length(pick(self._log_p_lengths, options.temperature, stream))
        log_p = self.log_p.double().cpu().numpy()
        while np.isfinite(log_p).any():
            token = pick(truncate(log_p, options), options.temperature, stream)
            (found,) = self.following([token])
            if found:
                shares = np.array([writing.draft.log_prob for writing in found])
                return found[pick(shares, options.temperature, stream)]
            log_p[token] = -math.inf
        raise ConstraintError("no sample was found that meets the constraints: relax them or change the seed")

    # --- Lengths ----------------------------------------------------------------------------------------------------

    def with_chosen_lengths(self) -> list[Writing]:
        """The writing with each of the lengths that are worth a try."""
        return [self._of_length(i) for i in choose_lengths(np.exp(self._log_p_lengths), self._lengths)]

    def with_lengths(self, need: int) -> list[Writing]:
        """The writing with its ``need`` most probable lengths."""
        return [self._of_length(i) for i in np.argsort(-self._log_p_lengths, kind="stable")[:need]]

    @cached_property
    def _lengths(self) -> list[int]:
        """The lengths that are open, in words that begin inside."""
        span = self.task.span(self.writing.draft)
        return list(range(max(int(span.least), int(span.starts_word)), self.task.longest(self.writing.draft) + 1))

    @cached_property
    def _log_p_lengths(self) -> np.ndarray:
        """Log p(n) of these lengths [n] among themselves; the last that the model tells apart stands for all longer."""
        words, last = self._lengths, len(self.log_p_length) - 1
        log_p = self.log_p_length[np.minimum(words, last)]
        if words[-1] > last:  # spread over them, falling by half from one to the next
            log_p = log_p - math.log(2) * np.maximum(0, np.asarray(words) - last + 1)
        return log_p - np.logaddexp.reduce(log_p)

    def of_words(self, words: int) -> Writing:
        """The writing with this length."""
        return self._of_length(self._lengths.index(words))

    def _of_length(self, number: int) -> Writing:
        """The writing with the length of this number among those that are open."""
        return self.task.of_length(self.writing, self._lengths[number], float(self._log_p_lengths[number]))

    # --- Tokens -----------------------------------------------------------------------------------------------------

    def with_tokens(self, need: int) -> list[Writing]:
        """The ``need`` most probable writings that follow."""
        vocabulary = len(self.log_p)
        looked_at = min(vocabulary, max(LOOKED_AT, 2 * need))
        while True:
            log_p, tokens = self.log_p.topk(looked_at)  # [k] each
            open_tokens = tokens[log_p > -math.inf].tolist()
            found = [writing for after in self.following(open_tokens) for writing in after]
            if len(found) >= need or len(open_tokens) < looked_at or looked_at == vocabulary:
                break
            looked_at = min(vocabulary, 8 * looked_at)
        return sorted(found, key=lambda writing: -writing.draft.log_prob)[:need]

    def mores(self, token: int) -> list[bool]:
        """Whether a span may go on after a token (True), or may end (False), by its length and how it looks."""
        tokenizer = self.task.request.rules.tokenizer
        words, _, parts, is_space = self.task.counts_after(self.writing, token)
        room = self.task.has_room(self.writing.draft)
        if room and (is_space or not self._may_end(token)):
            return [True]
        mores = [False] if words == 0 or not room else []
        if room and (words > 0 or (tokenizer.words_have_parts and parts < PARTS)):
            mores.append(True)
        return mores

    @cached_property
    def _spans(self) -> list[list[int]]:
        """What was written into each blank, up to the one that is open."""
        draft = self.writing.draft
        *before, here = draft.spans(len(self.task.spans))[: draft.origins[draft.leftmost] + 1]
        return [*before, here[:-1]]

    def _may_end(self, token: int) -> bool:
        """Whether the span may end with a token, by its marks; and not if it stands in another blank of the text."""
        tokenizer, rule = self.task.request.rules.tokenizer, self.task.span(self.writing.draft).rules[-1]
        vocabulary = Vocabulary.of(tokenizer, self.log_p.device)
        *others, begun = self._spans
        span = [*begun, token]
        if token in vocabulary.opening or (tokenizer.words_have_parts and span in others):
            return False
        if rule.quotes is Quotes.EVEN and sum(part in vocabulary.odd_quotes for part in span) % 2:
            return False
        while len(span) > 1 and span[-1] in vocabulary.closing:
            span.pop()
        return not rule.sentence or span[-1] in vocabulary.ends

    def accepts(self, token: int, more: bool) -> bool:
        """Whether the words that this spells are allowed."""
        draft, rules = self.writing.draft, self.task.request.rules
        if len(self.task.spans) != len(rules.by_blank):
            return True  # some blanks touch: no words are checked
        open_blank = OpenBlank(0, rules.by_blank[draft.origins[draft.leftmost]], None, _any_sides)
        return rules.accepts(draft, open_blank, token, SIDES.index((False, more)))


def _any_sides() -> np.ndarray:
    return np.ones((2, 4), dtype=bool)


def choose_lengths(p: np.ndarray, words: Sequence[int]) -> list[int]:
    """The places among ``words`` of the lengths worth a try, given their probabilities ``p`` [n].

    A single word if that is probable enough; else lengths about the median of the longer ones.
    """
    if len(words) == 1 or (words[0] <= 1 and p[0] >= ONE_WORD):
        return [0]
    longer = np.where(np.asarray(words) == words[0], 0.0 if words[0] <= 1 else p, p)
    places = np.searchsorted(np.cumsum(longer), np.asarray(QUANTILES) * longer.sum())
    return list(dict.fromkeys(places.tolist()))
