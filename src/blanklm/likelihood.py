"""The likelihood of a text under a policy (Eq. 5): exact, bounded, and by Monte Carlo (Appendix B).

A canvas depends only on *which* positions are shown, so the sum over n! orders is a sum over 2^n subsets
(``exact``), and under uniform orders all canvases of an estimate are known in advance: one flat batch of work.

A policy trained on whole-word orders is estimated on those: ``monte_carlo`` and ``bound`` then leave out what other
orders add to p(x), which ``exact`` counts.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from blanklm.batching import pad
from blanklm.conceal import bound as bound_of
from blanklm.conceal import show_first
from blanklm.errors import BlankLMError
from blanklm.policy import Policy

LONGEST_EXACT = 16  # 2^16 canvases
Progress = Callable[[int], None]  # called with the number of canvases just scored


@torch.inference_mode()
def exact(policy: Policy, text: Sequence[int], tokens_per_batch: int = 32768) -> float:
    """log p(x): f(S) = p of having shown exactly the set S; f(S + i) += f(S) p(write i | canvas showing S)."""
    n = len(text)
    if n == 0:
        return 0.0
    if n > LONGEST_EXACT:
        raise BlankLMError(
            f"the exact likelihood sums over 2^n canvases: {n} tokens are too many (at most {LONGEST_EXACT})"
        )
    tokens = pad([text])[0].to(policy.device)
    subsets = torch.arange(2**n - 1)  # all but the full set, as bit masks
    shown = (subsets[:, None] >> torch.arange(n)) & 1 == 1  # [2^n - 1, n]
    chunk = max(1, tokens_per_batch // max(n, 1))
    log_probs = torch.cat(
        [
            policy.action_log_probs(
                tokens.expand(len(part), n), part.new_full((len(part),), n, dtype=torch.long), part
            ).cpu()
            for part in shown.to(policy.device).split(chunk)
        ]
    ).double()  # [2^n - 1, n]
    reached = torch.full((2**n,), float("-inf"), dtype=torch.double)
    reached[0] = 0.0
    for position_count in range(n):  # sets of one size at a time: each depends on those one smaller
        members = (shown.sum(1) == position_count).nonzero().squeeze(1)
        for i in range(n):
            sources = members[~shown[members, i]]
            targets = sources + (1 << i)
            reached[targets] = torch.logaddexp(reached[targets], reached[sources] + log_probs[sources, i])
    return float(reached[-1])


@dataclass(frozen=True)
class Estimate:
    """log X_m of each text, X_m being unbiased for p(x).

    E[log X_m] <= log p(x), with equality only as m grows: ``standard_error`` is that of the estimate of
    E[log X_m] (delta method over the m orders), never an interval for log p(x) itself.
    """

    log_likelihoods: np.ndarray  # [texts]
    standard_errors: np.ndarray  # [texts]
    tokens: np.ndarray  # [texts]
    orders: int  # m

    @property
    def perplexity(self) -> float:
        """exp(- sum of log X_m / number of tokens)."""
        return math.exp(-self.log_likelihoods.sum() / self.tokens.sum())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval for the perplexity at this m, which is above the model's own perplexity at any m."""
        mean = -self.log_likelihoods.sum() / self.tokens.sum()
        error = 1.96 * math.sqrt((self.standard_errors**2).sum()) / self.tokens.sum()
        return math.exp(mean - error), math.exp(mean + error)


@torch.inference_mode()
def monte_carlo(
    policy: Policy,
    texts: Sequence[Sequence[int]],
    orders: int,
    seed: int = 0,
    tokens_per_batch: int = 32768,
    progress: Progress | None = None,
) -> Estimate:
    """X_m = n!/m * sum over m uniform orders of p(x, order). Empty texts have log p = 0."""
    log_joint = [np.zeros(orders) for _ in texts]  # log p(x, order_i) of each text
    log_orders = np.zeros(len(texts))  # log n!
    seeds = np.stack([stream.integers(np.iinfo(np.int64).max, size=orders) for stream in _streams(texts, seed)])
    for group in _budgeted(_canvases_of(texts, orders), texts, tokens_per_batch):
        tokens, lengths = pad([texts[k] for k, _, _ in group])  # [B, L], [B]
        order_seeds = torch.from_numpy(seeds[[k for k, _, _ in group], [order for _, order, _ in group]])  # [B]
        step = torch.tensor([t for _, _, t in group])[:, None]  # [B, 1]
        tokens, lengths, order_seeds, step = (part.to(policy.device) for part in (tokens, lengths, order_seeds, step))
        rank, log_count = policy.orders(tokens, lengths, order_seeds)  # [B, L], [B]
        log_probs = policy.action_log_probs(tokens, lengths, rank < step, rank == step).sum(1).cpu().numpy()
        for (k, order, _), log_prob, count in zip(group, log_probs, log_count.tolist(), strict=True):
            log_joint[k][order] += log_prob
            log_orders[k] = count
        if progress:
            progress(len(group))
    return _average_orders(log_joint, log_orders, texts, orders)


def _streams(texts: Sequence[Sequence[int]], seed: int) -> list[np.random.Generator]:
    """A random stream for each text that depends on the text (and how often it stood before), not on its place."""
    seen: Counter[int] = Counter()
    streams = []
    for text in texts:
        digest = zlib.crc32(np.asarray(text, dtype=np.int64).tobytes())
        streams.append(np.random.default_rng([seed, digest, seen[digest]]))
        seen[digest] += 1
    return streams


def _canvases_of(texts: Sequence[Sequence[int]], orders: int) -> Iterator[tuple[int, int, int]]:
    """(text, order, step) of every canvas, texts of like length together."""
    for k in sorted(range(len(texts)), key=lambda k: len(texts[k])):
        for order in range(orders):
            for step in range(len(texts[k])):
                yield k, order, step


def _budgeted(
    canvases: Iterator[tuple[int, int, int]], texts: Sequence[Sequence[int]], tokens_per_batch: int
) -> Iterator[list[tuple[int, int, int]]]:
    group: list[tuple[int, int, int]] = []
    for canvas in canvases:
        if group and (len(group) + 1) * len(texts[canvas[0]]) > tokens_per_batch:
            yield group
            group = []
        group.append(canvas)
    if group:
        yield group


def _average_orders(
    log_joint: list[np.ndarray], log_orders: np.ndarray, texts: Sequence[Sequence[int]], orders: int
) -> Estimate:
    log_x, errors = np.zeros(len(texts)), np.zeros(len(texts))
    for k, log_p in enumerate(log_joint):
        top = log_p.max()
        weights = np.exp(log_p - top)  # [m]
        log_x[k] = log_orders[k] + top + math.log(weights.mean())
        if orders > 1:
            errors[k] = weights.std(ddof=1) / weights.mean() / math.sqrt(orders)
    return Estimate(log_x, errors, np.array([len(text) for text in texts]), orders)


@torch.inference_mode()
def bound(
    policy: Policy,
    texts: Sequence[Sequence[int]],
    draws: int = 1,
    seed: int = 0,
    tokens_per_batch: int = 32768,
    progress: Progress | None = None,
) -> np.ndarray:
    """The lower bound of Eq. 6 on log p(x) [texts], from ``draws`` canvases a text.

    The draws of a text are stratified over t: one in each ``draws``-th of 0..n-1, so the estimate is unbiased.
    """
    streams = _streams(texts, seed)
    seeds = np.stack([stream.integers(np.iinfo(np.int64).max, size=draws) for stream in streams])
    fractions = (np.arange(draws) + np.stack([stream.random(draws) for stream in streams])) / draws
    total = np.zeros(len(texts))
    kept = [k for k in sorted(range(len(texts)), key=lambda k: len(texts[k])) if len(texts[k])]
    canvases = ((k, draw, 0) for k in kept for draw in range(draws))
    for group in _budgeted(canvases, texts, tokens_per_batch):
        tokens, lengths = pad([texts[k] for k, _, _ in group])
        rows = np.array([(k, draw) for k, draw, _ in group]).T
        tokens, lengths = tokens.to(policy.device), lengths.to(policy.device)
        fraction, order_seed = (torch.from_numpy(part[*rows]).to(policy.device) for part in (fractions, seeds))  # [B]
        rank, log_count = policy.orders(tokens, lengths, order_seed)  # [B, L], [B]
        shown = show_first(rank, lengths, fraction)  # [B, L]
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        possible = policy.possible(tokens, inside & ~shown)  # [B, L]
        log_probs = policy.action_log_probs(tokens, lengths, shown, possible).sum(1)  # [B]
        losses = bound_of(log_probs, lengths, possible.sum(1), log_count).cpu()
        np.add.at(total, rows[0], -losses.double().numpy() / draws)
        if progress:
            progress(len(group))
    return total


def canvas_count(texts: Sequence[Sequence[int]], orders: int) -> int:
    """How many canvases ``monte_carlo`` scores, for a progress bar."""
    return orders * sum(len(text) for text in texts)
