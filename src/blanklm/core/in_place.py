"""The likelihood of what stands in the blanks of a text, given the rest: p(hidden | shown), by Eq. 5 within the blanks.

``exact`` sums over all orders in which the hidden tokens may be written, state by state: a state is how far each word
has been written. ``monte_carlo`` draws orders, the same for all alternatives, so that their differences have little
noise. Alternatives of one text meet on the same canvases, which are scored once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from blanklm.core.policy import OrderedModel, Scorer, Scores
from blanklm.core.special import BLANK
from blanklm.core.texts import pad

TOKENS_AT_ONCE = {"cpu": 4096, "cuda": 2**17}  # of canvases scored together: each blank takes a row of the vocabulary
Check = Callable[[int], None]  # called with the number of canvases just scored; what it raises stops the work


class Policy(Scorer, OrderedModel, Protocol):
    """What this module asks of a model."""


@dataclass(frozen=True)
class Alternative:
    """A whole text in tokens, and which positions were hidden; ``blanks`` tells which blank each of them is in."""

    tokens: tuple[int, ...]
    hidden: tuple[int, ...]  # rising
    blanks: tuple[int, ...] = ()  # of each hidden position; all the first by default


@dataclass(frozen=True)
class Action:
    """Write the token at ``position`` of a text whose ``hidden`` positions are those; the slow half of a query."""

    canvas: tuple[int, ...]
    blank: int  # counted from the left
    token: int
    side: int  # as in policy.SIDES


def action(tokens: Sequence[int], hidden: Sequence[int], position: int) -> Action:
    """The canvas on which the positions ``hidden`` (rising) are missing, and the action that writes one of them."""
    canvas: list[int] = []
    missing, blank, blanks, before = set(hidden), 0, -1, False
    for i, token in enumerate(tokens):
        if i not in missing:
            canvas.append(token)
            blanks += token == BLANK  # one that stays open
        elif not before:
            canvas.append(BLANK)
            blanks += 1
        before = i in missing
        if i == position:
            blank = blanks
    side = 2 * (position - 1 in missing) + (position + 1 in missing)
    return Action(tuple(canvas), blank, tokens[position], side)


@torch.inference_mode()
def action_log_probs(policy: Scorer, actions: Sequence[Action], check: Check | None = None) -> np.ndarray:
    """log p(b, w, l, r | c) [A] of actions on any canvases; a canvas that several share is read once."""
    by_canvas: dict[tuple[int, ...], list[int]] = {}
    for number, one in enumerate(actions):
        by_canvas.setdefault(one.canvas, []).append(number)
    found = np.zeros(len(actions))
    for group, scores, first in read(policy, list(by_canvas), check):
        asked = [
            (row + actions[n].blank, n) for canvas, row in zip(group, first, strict=True) for n in by_canvas[canvas]
        ]
        rows = torch.tensor([row for row, _ in asked], device=policy.device)  # [M]
        words = torch.tensor([actions[n].token for _, n in asked], device=policy.device)  # [M]
        sides = torch.tensor([[actions[n].side] for _, n in asked], device=policy.device)  # [M, 1]
        log_p = scores.log_p_blank[rows] + scores.log_p_word[rows, words]
        log_p = log_p + scores.log_p_sides(rows, words).gather(1, sides).squeeze(1)  # [M]
        found[[n for _, n in asked]] = log_p.double().cpu().numpy()
    return found


def read(
    policy: Scorer, canvases: Sequence[tuple[int, ...]], check: Check | None = None
) -> Iterator[tuple[Sequence[tuple[int, ...]], Scores, list[int]]]:
    """Score canvases a pass at a time: those of the pass, their scores, and the row of the first blank of each."""
    for group in passes(sorted(canvases, key=len), TOKENS_AT_ONCE.get(policy.device.type, 4096)):
        ids, lengths = pad(group)
        scores = policy.score(ids.to(policy.device), lengths.to(policy.device), ids.shape[1])
        blanks = (ids == BLANK).sum(1)  # [B]
        yield group, scores, (blanks.cumsum(0) - blanks).tolist()
        if check:
            check(len(group))


def passes(canvases: Sequence[tuple[int, ...]], tokens: int) -> Iterator[Sequence[tuple[int, ...]]]:
    """Cut canvases of rising length into groups of about so many tokens with their padding."""
    start = 0
    while start < len(canvases):
        end = start + 1
        while end < len(canvases) and len(canvases[end]) * (end + 1 - start) <= tokens:
            end += 1
        yield canvases[start:end]
        start = end


@dataclass(frozen=True)
class Words:
    """The hidden positions of an alternative, word by word: a word's tokens are written from left to right."""

    alternative: Alternative
    words: tuple[tuple[int, ...], ...]
    states: int = field(init=False)  # how many states there are between nothing written and all

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", math.prod(len(word) + 1 for word in self.words))

    @property
    def log_orders(self) -> float:
        """The log of the number of orders."""
        count = len(self.alternative.hidden)
        return math.lgamma(count + 1) - sum(math.lgamma(len(word) + 1) for word in self.words)

    def hidden_in(self, state: Sequence[int]) -> list[int]:
        """The positions that are still hidden where so many tokens of each word have been written."""
        return sorted(i for word, written in zip(self.words, state, strict=True) for i in word[written:])

    def order(self, keys: Callable[[int], np.ndarray]) -> Iterator[tuple[list[int], int]]:
        """Each step of the order that ``keys`` of a blank give: what is still hidden, and what is written next."""
        place = dict.fromkeys(self.alternative.blanks, 0)
        key = {}
        for i, blank in zip(self.alternative.hidden, self.alternative.blanks, strict=True):
            key[i] = keys(blank)[place[blank]]
            place[blank] += 1
        ranked = sorted((value, position) for word in self.words for value, position in _in_order(word, key))
        left = list(self.alternative.hidden)
        for _, position in ranked:
            yield list(left), position
            left.remove(position)


def _in_order(word: Sequence[int], key: dict[int, float]) -> list[tuple[float, int]]:
    """A word's positions with its keys sorted, so that its tokens come from left to right."""
    return list(zip(sorted(key[i] for i in word), word, strict=True))


def words_of(policy: OrderedModel, alternatives: Sequence[Alternative]) -> list[Words]:
    """Find the words of the hidden positions: those tokens that the model's orders keep together."""
    found = []
    for start in range(0, len(alternatives), 256):
        group = alternatives[start : start + 256]
        tokens, _ = pad([alternative.tokens for alternative in group])  # [B, L]
        hidden = torch.zeros_like(tokens, dtype=torch.bool)
        for row, alternative in enumerate(group):
            hidden[row, list(alternative.hidden)] = True
        starts = (policy.next_weights(tokens.to(policy.device), hidden.to(policy.device)) > 0).cpu().numpy()
        for row, alternative in enumerate(group):
            words: list[list[int]] = []
            for i in alternative.hidden:
                if starts[row, i] or not words:
                    words.append([i])
                else:
                    words[-1].append(i)
            found.append(Words(_with_blanks(alternative), tuple(map(tuple, words))))
    return found


def _with_blanks(alternative: Alternative) -> Alternative:
    if alternative.blanks:
        return alternative
    return Alternative(alternative.tokens, alternative.hidden, (0,) * len(alternative.hidden))


def exact(policy: Policy, alternatives: Sequence[Words], check: Check | None = None) -> np.ndarray:
    """log p(hidden | shown) [N]: the sum over all orders, f(state + a token) += f(state) p(write it | state)."""
    plans = [_Plan.of(words) for words in alternatives]
    log_probs = action_log_probs(policy, [one for plan in plans for one in plan.actions], check)
    totals, start = [], 0
    for plan in plans:
        totals.append(plan.total(log_probs[start : start + len(plan.actions)]))
        start += len(plan.actions)
    return np.array(totals)


@dataclass(frozen=True)
class _Plan:
    """The states of one alternative, in an order in which each comes after those it follows from."""

    sources: list[int]
    targets: list[int]
    actions: list[Action]
    states: int

    @classmethod
    def of(cls, words: Words) -> _Plan:
        lengths = [len(word) for word in words.words]
        number = {state: n for n, state in enumerate(itertools.product(*(range(n + 1) for n in lengths)))}
        sources, targets, actions = [], [], []
        for state, source in number.items():
            hidden = words.hidden_in(state)
            for w, word in enumerate(words.words):
                if state[w] < len(word):
                    target = (*state[:w], state[w] + 1, *state[w + 1 :])
                    sources.append(source)
                    targets.append(number[target])
                    actions.append(action(words.alternative.tokens, hidden, word[state[w]]))
        return cls(sources, targets, actions, len(number))

    def total(self, log_probs: np.ndarray) -> float:
        reached = np.full(self.states, -np.inf)
        reached[0] = 0.0
        for source, target, log_p in zip(self.sources, self.targets, log_probs, strict=True):
            reached[target] = np.logaddexp(reached[target], reached[source] + log_p)
        return float(reached[-1])


def monte_carlo(
    policy: Policy, alternatives: Sequence[Words], orders: int, seed: int = 0, check: Check | None = None
) -> np.ndarray:
    """log weights [N, m], whose means exp are unbiased for p(hidden | shown); the m-th orders of all belong together.

    An order follows from a random number for each place of each blank: alternatives of one shape have the same order.
    """
    steps: list[Action] = []
    for words in alternatives:
        for m in range(orders):
            steps += [
                action(words.alternative.tokens, left, position)
                for left, position in words.order(_Keys(seed, m, len(words.alternative.tokens)))
            ]
    log_probs, start = action_log_probs(policy, steps, check), 0
    log_weights = np.zeros((len(alternatives), orders))
    for n, words in enumerate(alternatives):
        count = len(words.alternative.hidden)
        joint = log_probs[start : start + orders * count].reshape(orders, count).sum(1)
        log_weights[n] = joint + words.log_orders
        start += orders * count
    return log_weights


@dataclass(frozen=True)
class _Keys:
    """The random numbers of the places of each blank; the first are the same however many there are."""

    seed: int
    order: int
    width: int

    def __call__(self, blank: int) -> np.ndarray:
        return np.random.default_rng([self.seed, self.order, blank]).random(self.width)
