"""What may follow a draft of spans, whichever model scores it: lengths first, then tokens from left to right."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from blanklm.core.policy import SIDES
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.budget import OpenBlank, nearby
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import vocabulary_masks
from blanklm.decoding.options import SampleOptions
from blanklm.decoding.sample import pick, truncate
from blanklm.decoding.span_tasks import UNTOLD, Task, Writing
from blanklm.errors import ConstraintError

ONE_WORD = 0.2  # a single word is written where it is this probable
QUANTILES = (0.3, 0.5, 0.7)  # else these quantiles of the longer lengths are tried
SPARE = 2  # words by which a span may become longer than the length chosen
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

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, tokenizer: Tokenizer, device: torch.device) -> Vocabulary:
        ends = [text[-1:] for text in tokenizer.token_texts]
        return cls(
            kinds=_kinds(tokenizer, device),
            letters=torch.from_numpy(tokenizer.edges[:, 0] == 1).to(device),
            opening=frozenset(i for i, end in enumerate(ends) if end in OPENING),
            space_after=frozenset(i for i, end in enumerate(ends) if end in SPACE_AFTER),
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
        writable = task.span(writing.draft).rules[0].writable
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

    def _of_length(self, number: int) -> Writing:
        """The writing with the length of this number among those that are open."""
        words, log_p = self._lengths[number], float(self._log_p_lengths[number])
        draft = self.writing.draft
        draft = replace(draft, log_prob=draft.log_prob + log_p, path_log_prob=draft.path_log_prob + log_p)
        room = self.task.longest(draft) - words
        return replace(self.writing, draft=draft, words=words, length=words, spare=max(0, min(SPARE, room)))

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
        words, _, parts, is_space = self._counts_after(token)
        room = self.task.has_room(self.writing.draft)
        if room and (is_space or token in Vocabulary.of(tokenizer, self.log_p.device).opening):
            return [True]
        mores = [False] if words == 0 or not room else []
        if room and (words > 0 or (tokenizer.words_have_parts and parts < PARTS)):
            mores.append(True)
        return mores

    def accepts(self, token: int, more: bool) -> bool:
        """Whether the words that this spells are allowed."""
        draft, rules = self.writing.draft, self.task.request.rules
        if len(self.task.spans) != len(rules.by_blank):
            return True  # some blanks touch: no words are checked
        open_blank = OpenBlank(0, rules.by_blank[draft.origins[draft.leftmost]], None, _any_sides)
        return rules.accepts(draft, open_blank, token, SIDES.index((False, more)))

    def after(self, token: int, more: bool, log_prob: float) -> Writing:
        """The writing with a token more; without ``more``, it ends the span."""
        words, spare, parts, after_space = self._counts_after(token)
        draft = self.writing.draft.write(0, token, False, more, log_prob)
        return replace(
            self.writing, draft=draft, words=words, spare=spare, parts=parts, after_space=more and after_space
        )

    def _counts_after(self, token: int) -> tuple[int, int, int, bool]:
        """After a token: words still to begin and to spare, tokens of the last word, whether that is a mere space."""
        tokenizer, writing = self.task.request.rules.tokenizer, self.writing
        starts = bool(tokenizer.starts_word[token])
        more, spared = (0, 1) if starts and writing.words == 0 else (int(starts), 0)
        parts = 1 if starts else writing.parts + 1
        return writing.words - more, writing.spare - spared, parts, token == tokenizer.space


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
