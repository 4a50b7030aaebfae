"""What a blank may hold, as the user says it (``Constraint``) and in tokens (``Rule``).

The unit of length is the word for word and BPE models, the character for character models.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from blanklm.core.characters import check_text
from blanklm.core.special import UNK
from blanklm.core.template import Blank, Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.around import Quotes
from blanklm.errors import ConstraintError, shortened
from blanklm.options import LONGEST_LENGTH

PUNCTUATION = string.punctuation + "…“”‘’«»—–"
SENTENCE = 2  # words in a sentence, at least
LONGEST_WORD = 200  # characters of a word; all the beginnings of an only-these word are kept
LONGEST_PHRASE = 2000  # characters of what is required


@dataclass(frozen=True)
class Constraint:
    """What one blank may hold, as the user says it. ``require`` may name phrases: "ice cream"."""

    min: int | None = None
    max: int | None = None
    ban: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("ban", "require", "only"):
            words = getattr(self, name)
            if not isinstance(words, list | tuple):
                raise ConstraintError(f"{name} takes a list of words, not {shortened(repr(words))}")
            if not all(isinstance(word, str) and word.strip() for word in words):
                raise ConstraintError(f"{name} holds an empty word")
            longest = LONGEST_PHRASE if name == "require" else LONGEST_WORD
            if too_long := next((word for word in words if len(word) > longest), None):
                raise ConstraintError(
                    f"{name} holds a word of {len(too_long):,} characters: at most {longest:,} are allowed"
                )
            for word in words:
                check_text(word)
            object.__setattr__(self, name, tuple(" ".join(word.split()) for word in words))
        for name in ("min", "max"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and 1 <= value <= LONGEST_LENGTH):
                limits = f"a whole number from 1 to {LONGEST_LENGTH:,}"
                raise ConstraintError(f"{name} length must be {limits}, not {shortened(repr(value))}")

    @classmethod
    def from_json(cls, value: Mapping) -> Constraint:
        unknown = set(value) - {"min", "max", "ban", "require", "only"}
        if unknown:
            raise ConstraintError(f"there is no constraint {sorted(unknown)[0]!r}: use min, max, ban, require, only")
        return cls(**value)


def per_blank(constraints: Any, blanks: int) -> list[Constraint]:
    """One constraint for each blank, from one for all or a list of one each."""
    if constraints is None or isinstance(constraints, Constraint | Mapping):
        constraints = [constraints or Constraint()] * blanks
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        raise ConstraintError(f"constraints are one for all blanks or a list of one each; not {constraints!r}")
    constraints = list(constraints)
    if len(constraints) != blanks:
        raise ConstraintError(f"the text has {blanks} blanks and there are {len(constraints)} constraints")
    wrong = [c for c in constraints if not isinstance(c, Constraint | Mapping | None)]
    if wrong:
        raise ConstraintError(f"a constraint is an object with min, max, ban, require, only; not {wrong[0]!r}")
    return [c if isinstance(c, Constraint) else Constraint.from_json(c or {}) for c in constraints]


@dataclass(frozen=True)
class Phrase:
    """A required word or phrase as tokens; where BPE is used, also as it is spelt with no space before it."""

    tokens: tuple[int, ...]
    units: int
    unspaced: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Rule:
    """The constraint of one blank, in tokens."""

    min: int
    max: float  # math.inf where there is no maximum
    lead_starts_word: bool | None  # BPE: must the first token carry the space before it? None: no such thing
    required: tuple[Phrase, ...] = ()
    writable: np.ndarray | None = field(default=None, compare=False)  # [V] tokens allowed here; None: all
    banned: frozenset[str] = frozenset()  # whole words that BPE tokens may not spell
    only: frozenset[str] = frozenset()  # the whole words that they must spell
    only_prefixes: frozenset[tuple[int, ...]] = frozenset()  # token sequences that begin one of them
    longest_only: int = 1  # tokens in the longest of them
    sentence: bool = False  # whether it stands for one or more whole sentences
    quotes: Quotes = Quotes.ANY  # the quotation marks that may be written

    @property
    def checks_words(self) -> bool:
        return bool(self.banned or self.only or (self.required and self.lead_starts_word is not None))

    @property
    def counts(self) -> bool:
        return self.min > 1 or self.max < math.inf or bool(self.required) or self.longest_only > 1


# --- From what the user says to tokens ---------------------------------------------------------------------------


def compile_rules(
    template: Template, constraints: Sequence[Constraint], spaces: Sequence[bool], tokenizer: Tokenizer
) -> tuple[Rule, ...]:
    """One rule a blank; contradictions and words that the model cannot write raise ConstraintError."""
    rules = []
    for number, (blank, constraint, space) in enumerate(zip(template.blanks, constraints, spaces, strict=True), 1):
        try:
            rules.append(_compile(blank, constraint, space, tokenizer))
        except ConstraintError as error:
            raise ConstraintError(f"blank {number}: {error}") from None
    return tuple(rules)


def _compile(blank: Blank, constraint: Constraint, space: bool, tokenizer: Tokenizer) -> Rule:
    least = max(blank.min, constraint.min or 1)
    most = min(blank.max or math.inf, constraint.max or math.inf)
    if least > most:
        raise ConstraintError(f"the minimum length {least} is greater than the maximum {most}")
    bpe = tokenizer.words_have_parts
    required = tuple(_phrase(words, tokenizer) for words in constraint.require)
    units = sum(phrase.units for phrase in required)
    if units > most:
        raise ConstraintError(f"the required words take {units}, and the maximum length is {most}")
    if bpe:
        return _compile_whole_words(constraint, Rule(least, most, space, required), tokenizer)
    writable = None
    if constraint.only or constraint.ban:
        allowed = [_one_token(word, tokenizer, "allow") for word in constraint.only]
        banned = [_one_token(word, tokenizer, "ban") for word in constraint.ban]
        if UNK in allowed:
            word = constraint.only[allowed.index(UNK)]
            raise ConstraintError(
                f"{word!r} is not in the model's vocabulary, so it cannot be one of the only-these words"
            )
        writable = ~tokenizer.never_written
        if constraint.only:
            for word, token in zip(constraint.only, allowed, strict=True):
                _check_written(word, [token], tokenizer, "one of the only-these words")
            writable = np.zeros(len(tokenizer), dtype=bool)
            writable[allowed] = True
        writable[banned] = False
        if not writable.any():
            raise ConstraintError("all the words that may be written are banned")
        for phrase, words in zip(required, constraint.require, strict=True):
            if not writable[list(phrase.tokens)].all():
                raise ConstraintError(f"{words!r} is required, but banned or not one of the only-these words")
    return Rule(least, most, None, required, writable)


def _compile_whole_words(constraint: Constraint, rule: Rule, tokenizer: Tokenizer) -> Rule:
    """Banned and only-these words for BPE, where a word may be several tokens and is known only when it is complete."""
    for word in (*constraint.ban, *constraint.only):
        if " " in word:
            raise ConstraintError(f"{word!r} is several words: ban or allow single words")
    banned = frozenset(bare_word(word) for word in constraint.ban)
    required = [word for words in constraint.require for word in words.split()]
    clash = [word for word in required if bare_word(word) in banned]
    if clash:
        raise ConstraintError(f"{clash[0]!r} is required, but banned or not one of the only-these words")
    if not constraint.only:
        return replace(rule, banned=banned)
    words = [word for word in constraint.only if bare_word(word) not in banned]
    only = frozenset(bare_word(word) for word in words)
    if not words:
        raise ConstraintError("all the words that may be written are banned")
    missing = [word for word in required if bare_word(word) not in only]
    if missing:
        raise ConstraintError(f"{missing[0]!r} is required, but banned or not one of the only-these words")
    spellings = [tuple(tokenizer.encode(mark + word)) for word in words for mark in (" ", "")]
    writable = np.zeros(len(tokenizer), dtype=bool)
    writable[[token for spelling in spellings for token in spelling]] = True
    return replace(
        rule,
        writable=writable,
        banned=banned,
        only=only,
        only_prefixes=frozenset(s[:end] for s in spellings for end in range(1, len(s) + 1)),
        longest_only=max(map(len, spellings)),
    )


def _phrase(words: str, tokenizer: Tokenizer) -> Phrase:
    if tokenizer.words_have_parts:
        return Phrase(tuple(tokenizer.encode(" " + words)), len(words.split()), tuple(tokenizer.encode(words)))
    tokens = tuple(tokenizer.encode(words))
    if UNK in tokens:
        raise ConstraintError(f"{words!r} is not in the model's vocabulary, so it cannot be required")
    _check_written(words, tokens, tokenizer, "required")
    return Phrase(tokens, len(tokens))


def _check_written(words: str, tokens: Sequence[int], tokenizer: Tokenizer, role: str) -> None:
    """Refuse special tokens, such as <eos>, which a text may hold as a word."""
    if tokenizer.never_written[list(tokens)].any():
        raise ConstraintError(f"{words!r} is a special token, which is never written, so it cannot be {role}")


def _one_token(word: str, tokenizer: Tokenizer, verb: str) -> int:
    ids = tokenizer.encode(word)
    if len(ids) != 1:
        unit = "character" if tokenizer.kind == "character" else "word"
        raise ConstraintError(f"{word!r} is not one {unit}: this model can {verb} only single {unit}s")
    return ids[0]


def bare_word(word: str) -> str:
    """A word as it is compared: without punctuation around it, in lower case; pure punctuation as it is."""
    return (word.strip(PUNCTUATION) or word).casefold()


# --- What may be done on a draft ----------------------------------------------------------------------------------
