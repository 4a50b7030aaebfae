"""Questions with one right answer, by likelihood: options in place, or whole texts.

A file of questions has a line of JSON for each: ``text`` with blanks and ``options`` (a string for each, or a list with
one for every blank), or ``options`` alone, which are whole texts then; ``answer``, the number of the right one (from 0)
or its letter; and a ``group`` where results are to be told apart.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import numpy as np

from blanklm.api import BlankLM
from blanklm.core.in_place import Alternative, monte_carlo, words_of
from blanklm.errors import BlankLMError, DataError
from blanklm.options import Blanks

AT_ONCE = 32  # questions
ORDERS = 64  # where there are too many to sum them all
RESAMPLES = 2000

Progress = Callable[[int], None]  # called with the number of questions just answered


@dataclass(frozen=True)
class Asked:
    """A question with one right answer: a string for each blank in each of the options.

    Without a ``text`` the options are whole texts.
    """

    text: str | None
    alternatives: tuple[tuple[str, ...], ...]
    answer: int
    group: str = ""

    @property
    def blanks(self) -> int:
        return len(self.alternatives[0])

    @property
    def texts(self) -> list[str]:
        """The options, which are whole texts."""
        return [option for (option,) in self.alternatives]


def read_questions(lines: Iterable[str]) -> Iterator[Asked]:
    for number, line in enumerate(lines, 1):
        try:
            record: dict[str, Any] = json.loads(line)
            rows = [(row,) if isinstance(row, str) else tuple(map(str, row)) for row in record["options"]]
            right = record["answer"]
            answer = ascii_lowercase.index(right.lower()) if isinstance(right, str) else int(right)
            rows[answer]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise DataError(
                f'line {number} is no question: write {{"text": "... ___ ...", "options": [...], "answer": 0}}'
            ) from None
        yield Asked(record.get("text"), tuple(rows), answer, str(record.get("group", "")))


# --- Likelihoods ------------------------------------------------------------------------------------------------------


def in_place(model: BlankLM, questions: Sequence[Asked], progress: Progress | None = None) -> list[np.ndarray]:
    """log p(option | rest) of each option of each question, as the model gives it.

    Of whole texts, what they begin and end with in common is given, and the rest is compared.
    """
    found = []
    for start in range(0, len(questions), AT_ONCE):
        group = questions[start : start + AT_ONCE]
        parsed = [_parsed(model, asked) for asked in group]
        for question, choices in zip(parsed, model.choose(parsed, orders=ORDERS), strict=True):
            by_spans = {choice.spans: choice.log_prob for choice in choices.choices}
            assert question.rows is not None
            found.append(np.array([by_spans[row] for row in question.rows]))
        if progress:
            progress(len(group))
    return found


def _parsed(model: BlankLM, asked: Asked) -> Any:
    rows: Any = asked.texts if asked.text is None else asked.alternatives
    if len(set(rows)) < len(rows):
        raise BlankLMError(f"two options of a question are the same: {rows}")
    return model.question(asked.text, alternatives=rows)


def of_whole_texts(
    model: BlankLM,
    questions: Sequence[Asked],
    orders: int,
    seed: int = 0,
    progress: Progress | None = None,
    blanks: Blanks | None = "words",
) -> list[np.ndarray]:
    """log p(text) of each option, which are whole texts: by Monte Carlo, with the same orders for all options."""
    policy: Any = model.model.for_blanks(blanks)
    found = []
    for start in range(0, len(questions), AT_ONCE):
        group = questions[start : start + AT_ONCE]
        texts = [text for asked in group for text in asked.texts]
        tokens = [tuple(ids) for ids in model.tokenizer.encode_many(texts)]
        hidden = [Alternative(ids, tuple(range(len(ids)))) for ids in tokens]
        weights = monte_carlo(policy, words_of(policy, hidden), orders, seed)  # [N, m]
        log_p = iter(np.logaddexp.reduce(weights, axis=1) - math.log(orders))
        found += [np.array([next(log_p) for _ in asked.alternatives]) for asked in group]
        if progress:
            progress(len(group))
    return found


# --- Scores -----------------------------------------------------------------------------------------------------------


def right(log_probs: Sequence[np.ndarray], questions: Sequence[Asked]) -> np.ndarray:
    """Whether the answer of each question [N] is the most probable option; a tie is wrong."""
    return np.array(
        [
            all(log_p[asked.answer] > other for n, other in enumerate(log_p) if n != asked.answer)
            for log_p, asked in zip(log_probs, questions, strict=True)
        ]
    )


def accuracy(log_probs: Sequence[np.ndarray], questions: Sequence[Asked], seed: int = 0) -> dict[str, Any]:
    """The share of right answers, the mean over groups, with a 95 % interval by bootstrap within each group.

    Groups of one question are drawn together: by itself, one question has no spread.
    """
    answers = right(log_probs, questions)
    members: dict[str, list[int]] = defaultdict(list)
    for number, asked in enumerate(questions):
        members[asked.group].append(number)
    rng = np.random.default_rng(seed)
    strata = [of for of in members.values() if len(of) > 1]
    if alone := [of[0] for of in members.values() if len(of) == 1]:
        strata.append(alone)
    weights = [1 if len(set(questions[i].group for i in of)) == 1 else len(of) for of in strata]  # groups in each
    drawn = np.average([_resampled(answers[of], rng) for of in strata], axis=0, weights=weights)  # [R]
    groups = {group: float(answers[of].mean()) for group, of in members.items()}
    return {
        "questions": len(answers),
        "accuracy": float(np.mean(list(groups.values()))),
        "interval": [float(np.quantile(drawn, level)) for level in (0.025, 0.975)],
        "groups": groups,
    }


def _resampled(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means [R] of as many values drawn with replacement."""
    return values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(1)
