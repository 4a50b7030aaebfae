"""What may be done on a draft: length budgets, required words, and whole words spelt by BPE tokens.

Rules remove actions and never change the probability of those that stay. Lengths belong to the blank the user wrote and
are shared by all blanks that descend from it.

Natural text does not repeat a long word at once, and the most probable word is too often one that is there already: a
word of four letters or more (``Tokenizer.long_words``) is not written within NO_REPEAT_WITHIN symbols of itself. This
holds where the user asks for nothing: with lengths or words to keep to, it would lead the search astray.

Required words are written first: while one is missing, only actions that write it are left, in every blank, position
and order, and these compete by their probability. A word of several tokens is written from left to right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from blanklm.core.policy import SIDES
from blanklm.core.special import BLANK
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.constraint import Rule
from blanklm.decoding.draft import Draft
from blanklm.decoding.spelling import Spelling
from blanklm.errors import ConstraintError

NO_REPEAT_WITHIN = 6  # symbols of the canvas on either side
LONGEST_SPAN = 64  # tokens in a blank of unknown length, because greedy decoding can loop
TOKENS_IN_WORD = 8  # at most, on average over the words of a span
LEFT = np.array([left for left, _ in SIDES])
RIGHT = np.array([right for _, right in SIDES])


def nearby(draft: Draft, position: int) -> tuple[int, ...]:
    """The symbols of a draft within which no long word stands twice, but for the one at the position itself."""
    before = draft.items[max(0, position - NO_REPEAT_WITHIN) : position]
    return before + draft.items[position + 1 : position + 1 + NO_REPEAT_WITHIN]


@dataclass
class OpenBlank:
    """A blank of a draft that may be acted on now, and how."""

    blank: int  # its number among the draft's blanks
    rule: Rule
    words: tuple[int, ...] | None  # the only tokens to choose from; None: whatever the rule lets be written
    find_sides: Callable[[], np.ndarray]

    @cached_property
    def sides(self) -> np.ndarray:
        """[2, 4] bool: which sides are open to tokens that do not / do start a word."""
        return self.find_sides()


@dataclass(frozen=True)
class SpanBudget:
    """The state of a span: what is written, what is open and what it still must take."""

    units: int  # words (or characters) written
    open_blanks: int
    first_is_open: bool  # BPE: the first token, which counts as a word, is not written yet
    every_token_counts: bool  # word and character models
    phrases: int  # required phrases that are missing or being written
    phrase_tokens: int  # tokens of theirs that remain
    phrase_units: int

    def after(self, starts_word: bool, side: int, leads: bool, phrase_rest: int | None) -> SpanBudget:
        """The budget after an action; if it writes part of a required phrase, ``phrase_rest`` tokens of it remain."""
        left, right = SIDES[side]
        is_first = leads and not left
        unit, of_phrase = bool(starts_word or is_first), phrase_rest is not None
        return replace(
            self,
            units=self.units + unit,
            open_blanks=self.open_blanks - 1 + left + right,
            first_is_open=self.first_is_open and not is_first,
            phrases=self.phrases - (phrase_rest == 0),
            phrase_tokens=self.phrase_tokens - of_phrase,
            phrase_units=self.phrase_units - (of_phrase and unit),
        )

    def sides_in_words(self, rule: Rule, room: int) -> np.ndarray:
        """[4] ``after(...).keepable`` of every side at once, where each token counts and nothing is required."""
        more = LEFT.astype(int) + RIGHT  # blanks that stay
        units, open_blanks = self.units + 1, self.open_blanks - 1 + more
        growth = np.maximum(0, rule.min - units - open_blanks)
        return (units + open_blanks <= rule.max) & (growth <= room - more) & ((open_blanks > 0) | (units >= rule.min))

    def growth(self, rule: Rule) -> int:
        """By how many tokens the canvas must still grow for the span to be allowed to end."""
        tokens = max(rule.min - self.units, self.phrase_tokens + max(0, self.open_blanks - self.phrases))
        # Any open blank may turn out to need the longest of the only-these words, or the rest of it.
        return max(0, tokens - self.open_blanks) + self.open_blanks * (rule.longest_only - 1)

    def keepable(self, rule: Rule, room: int) -> bool:
        """Can the span still end between its minimum and maximum, with all its required words, in this room?"""
        if self.every_token_counts:  # so every open blank takes a unit at least
            further = self.phrase_units + max(0, self.open_blanks - self.phrases)
        else:
            further = max(self.phrase_units, int(self.first_is_open))
        ended = self.open_blanks == 0
        enough = self.units >= rule.min and self.phrases == 0
        return self.units + further <= rule.max and self.growth(rule) <= room and (enough or not ended)


class Rules:
    """The rules of one text, applied to its drafts."""

    def __init__(
        self, rules: Sequence[Rule], max_length: int, tokenizer: Tokenizer, longest_span: int | None = None
    ) -> None:
        self.by_blank, self.max_length, self.tokenizer = tuple(rules), max_length, tokenizer
        self.longest_span = longest_span or max_length  # tokens and blanks in a blank of no given length
        self.spelling = Spelling(self.by_blank, tokenizer)
        self._checks_words = any(rule.banned or rule.only for rule in self.by_blank)
        self._last_budgets: tuple[Draft, dict[int, SpanBudget]] | None = None
        self._last_growth: dict[int, int] = {}
        self._total_growth = 0

    @cached_property
    def start_of_required(self) -> tuple[tuple[int, ...], ...]:
        """The phrases still missing at the beginning, by blank."""
        return tuple(tuple(range(len(rule.required))) for rule in self.by_blank)

    def open_blanks(self, draft: Draft) -> list[OpenBlank]:
        """The blanks that may be acted on; all of them, unless a required word is missing or being written."""
        if draft.pending:
            position, tail = draft.pending
            rule = self.by_blank[draft.origins[position]]
            # The phrase continues right after its last token, and leaves room for the rest of it.
            fitting = ~LEFT & RIGHT if len(tail) > 1 else ~LEFT
            return [
                OpenBlank(draft.blanks.index(position), rule, tail[:1], lambda: self._sides(draft, position) & fitting)
            ]
        open_blanks = []
        anything_missing = any(draft.missing)
        for number, position in enumerate(draft.blanks):
            origin = draft.origins[position]
            if anything_missing and not draft.missing[origin]:
                continue
            words = self._heads(draft, origin) if anything_missing else None
            open_blanks.append(OpenBlank(number, self.by_blank[origin], words, partial(self._sides, draft, position)))
        return open_blanks

    def repeats(self, draft: Draft, position: int) -> list[int]:
        """The long words near a blank's position, which are not written there again."""
        rule = self.by_blank[draft.origins[position]]
        return [token for token in nearby(draft, position) if self.keeps_from_repeating(rule, token)]

    def keeps_from_repeating(self, rule: Rule, token: int) -> bool:
        asked = rule.counts or rule.checks_words or rule.writable is not None
        return bool(self.tokenizer.long_words[token]) and not asked

    def _heads(self, draft: Draft, origin: int) -> tuple[int, ...]:
        """The first tokens of the phrases that are missing in a blank."""
        rule = self.by_blank[origin]
        phrases = [rule.required[i] for i in draft.missing[origin]]
        heads = [phrase.tokens[0] for phrase in phrases]
        if rule.lead_starts_word is False:
            heads += [phrase.unspaced[0] for phrase in phrases if phrase.unspaced]
        return tuple(dict.fromkeys(heads))

    def _sides(self, draft: Draft, position: int) -> np.ndarray:
        """[2, 4]: for tokens that do not / do start a word, the sides that keep every promise keepable."""
        origin = draft.origins[position]
        rule = self.by_blank[origin]
        room = self._room_beside(draft, origin)
        room = int(min(room, max(0, self._span_limit(rule) - draft.origins.count(origin))))
        sides = np.broadcast_to(LEFT.astype(int) + RIGHT <= room, (2, 4)).copy()
        leads = self._leads(draft, position)
        if leads:  # the first token of the span carries the user's space, or does not, as the user wrote it
            sides[0 if rule.lead_starts_word else 1] &= LEFT
        begins_required = bool(draft.missing[origin]) and not draft.pending
        if rule.lead_starts_word is not None and (rule.banned or rule.only or begins_required):
            # Words grow from left to right, so that a word's beginning is always known.
            sides[0] &= ~LEFT
            if begins_required and not leads:
                sides[0] = False  # a required word never continues another one
        if rule.counts and not begins_required:  # which phrase begins, and so what it takes, ``accepts`` knows
            budget = self._budget(draft, origin)
            if budget.every_token_counts and not draft.pending:
                sides[:] = budget.sides_in_words(rule, room)
                return sides
            phrase_rest = len(draft.pending[1]) - 1 if draft.pending else None
            for starts_word, side in zip(*np.nonzero(sides), strict=True):
                after = budget.after(bool(starts_word), side, leads, phrase_rest)
                sides[starts_word, side] = after.keepable(rule, room - sum(SIDES[side]))
        return sides

    def _span_limit(self, rule: Rule) -> float:
        """How many tokens and blanks a span may hold where its words do not say: a word is not spelt for ever."""
        if not rule.counts:
            return self.longest_span
        if rule.lead_starts_word is None:
            return math.inf  # tokens are the unit of length
        phrases = sum(len(phrase.tokens) for phrase in rule.required)
        if rule.max < math.inf:
            return math.inf if rule.only else TOKENS_IN_WORD * rule.max + phrases  # allowed words end by themselves
        # Every word may be the longest that is allowed, and ``growth`` takes one that is begun for a whole one.
        in_word = max(TOKENS_IN_WORD, 2 * rule.longest_only)
        return max(self.longest_span, in_word * rule.min + phrases)

    def _leads(self, draft: Draft, position: int) -> bool:
        """Whether a BPE blank is the leftmost of its span, where the first token will stand."""
        first = position == 0 or draft.origins[position - 1] != draft.origins[position]
        return first and self.by_blank[draft.origins[position]].lead_starts_word is not None

    def _budget(self, draft: Draft, origin: int) -> SpanBudget:
        return self._budgets(draft)[origin]

    def _budgets(self, draft: Draft) -> dict[int, SpanBudget]:
        """Of every span with something to count. Asked for many times on the same draft, so the last are kept."""
        if self._last_budgets is None or self._last_budgets[0] is not draft:
            spans: dict[int, list[int]] = {
                o: [] for o, rule in enumerate(self.by_blank) if rule.counts or rule.checks_words
            }
            for item, origin in zip(draft.items, draft.origins, strict=True):
                if origin in spans:
                    spans[origin].append(item)
            budgets = {o: self._budget_of(draft, o, span) for o, span in spans.items()}
            self._last_budgets = draft, budgets
            self._last_growth = {o: budget.growth(self.by_blank[o]) for o, budget in budgets.items()}
            self._total_growth = sum(self._last_growth.values())
        return self._last_budgets[1]

    def _budget_of(self, draft: Draft, origin: int, span: list[int]) -> SpanBudget:
        rule = self.by_blank[origin]
        tokens = [item for item in span if item != BLANK]
        phrases = [rule.required[i].tokens for i in draft.missing[origin]]
        if draft.pending and draft.origins[draft.pending[0]] == origin:
            phrases.append(draft.pending[1])
        bpe = rule.lead_starts_word is not None
        units = self._units(tokens) if bpe else len(tokens)
        if bpe and span[0] != BLANK and not self.tokenizer.starts_word[span[0]]:
            units += 1
        return SpanBudget(
            units=units,
            open_blanks=len(span) - len(tokens),
            first_is_open=bpe and span[0] == BLANK,
            every_token_counts=not bpe,
            phrases=len(phrases),
            phrase_tokens=sum(map(len, phrases)),
            phrase_units=sum(self._units(phrase) if bpe else len(phrase) for phrase in phrases),
        )

    def _units(self, tokens: Sequence[int]) -> int:
        return sum(bool(self.tokenizer.starts_word[token]) for token in tokens)

    def _room_beside(self, draft: Draft, origin: int) -> int:
        """By how much the canvas may grow, with room kept for what other blanks still must take."""
        self._budgets(draft)
        return self.max_length - len(draft.items) - self._total_growth + self._last_growth.get(origin, 0)

    def check_room(self, draft: Draft) -> None:
        """Refuse a canvas whose minimum lengths and required words cannot fit into the model's longest text."""
        room = self._room_beside(draft, origin=-1)
        if room < 0:
            raise ConstraintError(
                f"the text and what its blanks must hold take {self.max_length - room} tokens, and the model takes "
                f"{self.max_length}: shorten the text or lower the minimum lengths"
            )

    # --- Required words: what an action writes of them ---------------------------------------------------------

    def advance(self, draft: Draft, open_blank: OpenBlank, token: int, side: int, log_prob: float) -> Draft:
        """The next draft, with what is left of its required words."""
        position = draft.blanks[open_blank.blank]
        left, right = SIDES[side]
        missing = draft.missing
        tail: tuple[int, ...] = ()
        if draft.pending:
            tail = draft.pending[1][1:]
        elif open_blank.words is not None:
            origin = draft.origins[position]
            index, tail = self._begun(draft, origin, token)
            still = tuple(i for i in draft.missing[origin] if i != index)
            missing = (*draft.missing[:origin], still, *draft.missing[origin + 1 :])
        next_draft = draft.write(open_blank.blank, token, left, right, log_prob)
        pending = (position + int(left) + 1, tail) if tail else None
        return next_draft.requiring(missing, pending)

    def _begun(self, draft: Draft, origin: int, token: int) -> tuple[int, tuple[int, ...]]:
        """Which missing phrase a token begins, and the tokens that follow."""
        rule = self.by_blank[origin]
        for index in draft.missing[origin]:
            for spelling in (rule.required[index].tokens, rule.required[index].unspaced):
                if spelling and spelling[0] == token:
                    return index, spelling[1:]
        raise AssertionError("the search wrote a token that begins no required word")

    # --- Whole words spelt by BPE tokens -----------------------------------------------------------------------

    def accepts(self, draft: Draft, open_blank: OpenBlank, token: int, side: int) -> bool:
        """What ``sides`` cannot tell by the kind of token: which required phrase begins, which words are spelt."""
        position = draft.blanks[open_blank.blank]
        origin, (left, right) = draft.origins[position], SIDES[side]
        rule = self.by_blank[origin]
        if token == self.tokenizer.space and not right:
            return False  # what begins with it stands to its right
        tail: tuple[int, ...] | None = None  # the rest of the required phrase that this action is part of
        if draft.pending:
            tail = draft.pending[1][1:]
        elif open_blank.words is not None:
            tail = self._begun(draft, origin, token)[1]
        if tail is None and not rule.checks_words and not self._checks_words:
            return True
        starts_word = bool(self.tokenizer.starts_word[token])
        if tail is not None:
            after = self._budget_after(draft, position, starts_word, side, len(tail))
            room = self._room_beside(draft, origin) - left - right
            if (tail and not right) or not after.keepable(rule, room):
                return False
        if not rule.checks_words and not self._checks_words:
            return True
        items = draft.items[:position] + (BLANK,) * left + (token,) + (BLANK,) * right + draft.items[position + 1 :]
        origins = draft.origins[:position] + (origin,) * (left + 1 + right) + draft.origins[position + 1 :]
        at = position + left
        if self._checks_words and not self.spelling.allows(items, origins, at):
            return False
        if not rule.checks_words:
            return True
        if (
            tail is None
            and not left
            and not starts_word
            and self.spelling.ends_required(draft.items, draft.origins, position)
        ):
            return False  # it would continue a required word
        if rule.max == math.inf:
            return True
        after = self._budget_after(draft, position, starts_word, side, None if tail is None else len(tail))
        # A blank after a word that cannot continue takes a new word: count those against the maximum.
        wanting = sum(
            not (tail and i == at + 1) and not self.spelling.can_continue(items, origins, i)
            for i, item in enumerate(items)
            if item == BLANK and origins[i] == origin
        )
        further = after.phrase_units + max(0, wanting - (after.phrases - bool(tail)))
        return after.units + further <= rule.max

    def _budget_after(
        self, draft: Draft, position: int, starts_word: bool, side: int, phrase_rest: int | None
    ) -> SpanBudget:
        budget = self._budget(draft, draft.origins[position])
        return budget.after(starts_word, side, self._leads(draft, position), phrase_rest)
