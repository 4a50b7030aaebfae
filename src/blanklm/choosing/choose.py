"""Rank the combinations of options by p(options | rest), calibrated, with an error bar."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blanklm.choosing.options import ChooseOptions
from blanklm.choosing.question import Question
from blanklm.core.in_place import Check, Policy, Words, exact, monte_carlo, words_of

MOST_AT_ONCE = 2000  # combinations that are ranked jointly; of more, a beam
MOST_STATES = 256  # of an alternative whose orders are summed exactly
ROUGH_ORDERS = 4  # by which a beam is chosen
SHOWN = 10  # combinations, where they are printed


@dataclass(frozen=True)
class Choice:
    """What stands in the blanks, with its probability among all that were compared."""

    text: str
    spans: tuple[str, ...]
    probability: float
    standard_error: float  # of the probability; 0 where all orders were summed
    log_prob: float  # log p(spans | rest), as the model gives it

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "spans": list(self.spans),
            "probability": round(self.probability, 6),
            "standard_error": round(self.standard_error, 6),
            "log_prob": round(self.log_prob, 6),
        }


@dataclass(frozen=True)
class Choices:
    """All combinations that were compared, the most probable first; their probabilities sum to 1."""

    choices: tuple[Choice, ...]
    combinations: int  # there are in all; a beam compares fewer

    def __str__(self) -> str:
        """Show the first ten, a line for each."""
        return "\n".join(f"{100 * choice.probability:5.1f}%  {choice.text}" for choice in self.choices[:SHOWN])

    def _repr_html_(self) -> str:
        """Show the first ten in a notebook, as a table."""
        left = "<td style='text-align:left'>"
        rows = (
            f"<tr><td>{100 * choice.probability:.1f} %</td>{left}{html.escape(choice.text)}</td></tr>"
            for choice in self.choices[:SHOWN]
        )
        return f"<table>{''.join(rows)}</table>"

    @property
    def best(self) -> Choice:
        return self.choices[0]

    @property
    def text(self) -> str:
        """The text with the most probable options."""
        return self.best.text

    def of_blank(self, number: int) -> dict[str, float]:
        """The probability of each option of a blank (from 0), whatever stands in the others; the best first."""
        totals: dict[str, float] = {}
        for choice in self.choices:
            totals[choice.spans[number]] = totals.get(choice.spans[number], 0.0) + choice.probability
        return dict(sorted(totals.items(), key=lambda pair: -pair[1]))

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        return {
            "combinations": self.combinations,
            "compared": len(self.choices),
            "choices": [choice.to_json() for choice in self.choices[:top]],
        }


def rank(
    policy: Policy, questions: Sequence[Question], options: ChooseOptions, check: Check | None = None
) -> list[Choices]:
    """Rank the combinations of each question; the options have a temperature."""
    combinations = [_compared(policy, question, options, check) for question in questions]
    alternatives = [
        question.alternative(spans)
        for question, compared in zip(questions, combinations, strict=True)
        for spans in compared
    ]
    log_weights = iter(weigh(policy, words_of(policy, alternatives), options.orders, options.seed, check))
    ranked = []
    for question, compared in zip(questions, combinations, strict=True):
        own = [next(log_weights) for _ in compared]
        width = max(map(len, own))
        paired = np.stack([np.broadcast_to(weights, (width,)) for weights in own])  # [N, m]
        words = np.array([len(" ".join(spans).split()) for spans in compared])
        log_p, probabilities, errors = calibrated(paired, options.temperature or 1.0, (options.per_word or 0.0) * words)
        choices = [
            Choice(question.tokenizer.render(question.template, spans), spans, *map(float, numbers))
            for spans, *numbers in zip(compared, probabilities, errors, log_p, strict=True)
        ]
        choices.sort(key=lambda choice: -choice.probability)
        ranked.append(Choices(tuple(choices), question.count))
    return ranked


def _compared(policy: Policy, question: Question, options: ChooseOptions, check: Check | None) -> list[tuple[str, ...]]:
    """The combinations that are ranked jointly: all, or those that a beam finds."""
    if question.rows is None and question.count > MOST_AT_ONCE:
        return _survivors(policy, question, options, check)
    return _distinct(question, question.combinations())


def most_canvases(question: Question, options: ChooseOptions) -> int:
    """How many canvases ``rank`` scores for a question, at most."""
    tokens = sum(
        max(len(question.tokens[number, entry]) for entry in entries) for number, entries in enumerate(question.options)
    )
    each = 2**tokens if 2**tokens <= MOST_STATES else max(MOST_STATES, options.orders * tokens)
    if question.rows is not None or question.count <= MOST_AT_ONCE:
        return question.count * each
    tried = sum(options.beam * len(entries) for entries in question.options)
    return options.beam * each + tried * ROUGH_ORDERS * tokens


def calibrated(
    log_weights: np.ndarray, temperature: float, credit: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p [N] from log weights [N, m] of paired orders, the probabilities among them, and the errors of these.

    The probabilities are those of (log p + credit) / temperature. Their errors are by the delta method: what all
    alternatives have in common in an order cancels.
    """
    most = log_weights.max(1, keepdims=True)
    weights = np.exp(log_weights - most)  # [N, m]
    mean = weights.mean(1)
    log_p = most[:, 0] + np.log(mean)
    scaled = (log_p + credit) / temperature
    probabilities = np.exp(scaled - np.logaddexp.reduce(scaled))  # [N]
    orders = log_weights.shape[1]
    if orders == 1:
        return log_p, probabilities, np.zeros(len(log_p))
    relative = weights / mean[:, None] / temperature  # [N, m]
    deviations = relative - probabilities @ relative  # what an order adds to log p of one more than to all
    return log_p, probabilities, probabilities * deviations.std(1, ddof=1) / np.sqrt(orders)


def weigh(
    policy: Policy, alternatives: Sequence[Words], orders: int, seed: int = 0, check: Check | None = None
) -> list[np.ndarray]:
    """log weights of each alternative: one where all orders were summed, else of m orders."""
    summed = [n for n, words in enumerate(alternatives) if words.states <= MOST_STATES]
    drawn = [n for n, words in enumerate(alternatives) if words.states > MOST_STATES]
    found: dict[int, np.ndarray] = {}
    found |= zip(summed, exact(policy, [alternatives[n] for n in summed], check)[:, None], strict=True)
    weights = monte_carlo(policy, [alternatives[n] for n in drawn], orders, seed, check)
    found |= zip(drawn, weights, strict=True)
    return [found[n] for n in range(len(alternatives))]


def _survivors(
    policy: Policy, question: Question, options: ChooseOptions, check: Check | None
) -> list[tuple[str, ...]]:
    """The combinations that a beam finds, blank by blank, later blanks being open."""
    beam: list[tuple[str, ...]] = [()]
    for entries in question.options:
        spans = _distinct(question, [(*partial, entry) for partial in beam for entry in entries])
        if len(spans) > options.beam:
            words = words_of(policy, [question.alternative(each) for each in spans])
            log_p = monte_carlo(policy, words, ROUGH_ORDERS, options.seed, check)
            best = np.argsort(-np.logaddexp.reduce(log_p, axis=1), kind="stable")[: options.beam]
            spans = [spans[n] for n in best]
        beam = spans
    return beam


def _distinct(question: Question, combinations: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Merge combinations that write the same tokens, as those of blanks that touch may."""
    merged: dict[tuple[int, ...], tuple[str, ...]] = {}
    for spans in combinations:
        merged.setdefault(question.alternative(spans).tokens, spans)
    return list(merged.values())
