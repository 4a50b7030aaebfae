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
from torch import Tensor

from blanklm.batching import TokenisedTexts, pad
from blanklm.conceal import bound as bound_of
from blanklm.conceal import random_keys, show_first
from blanklm.errors import BlankLMError
from blanklm.policy import Policy

LONGEST_EXACT = 16  # 2^16 canvases
TOKENS_PER_BATCH = {"cpu": 32_768, "cuda": 2**20}  # of the texts whose canvases are scored together
Progress = Callable[[int], None]  # called with the number of canvases just scored


@torch.inference_mode()
def exact(
    policy: Policy, text: Sequence[int], tokens_per_batch: int | None = None, progress: Progress | None = None
) -> float:
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
    chunk = max(1, _budget(tokens_per_batch, policy) // max(n, 1))
    parts = []
    for part in shown.to(policy.device).split(chunk):
        lengths = part.new_full((len(part),), n, dtype=torch.long)
        parts.append(policy.action_log_probs(tokens.expand(len(part), n), lengths, part).cpu())
        if progress:
            progress(len(part))
    log_probs = torch.cat(parts).double()  # [2^n - 1, n]
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
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """X_m = n!/m * sum over m uniform orders of p(x, order). Empty texts have log p = 0."""
    pairs = _Pairs.of(texts, orders, seed)
    log_joint = torch.zeros(len(pairs.seeds), dtype=torch.double, device=policy.device)  # log p(x, order) of each pair
    log_orders = torch.zeros_like(log_joint)  # log n!
    for pair, step in _budgeted(pairs.lengths, pairs.lengths, _budget(tokens_per_batch, policy)):
        some, tokens, lengths, rank, log_count = pairs.ordered(pair, policy)  # [B], [P, L], [P], [P, L], [P]
        rank, step = rank[some], torch.from_numpy(step).to(policy.device)[:, None]  # [B, L], [B, 1]
        text = torch.from_numpy(pair // orders).to(policy.device)  # [B]
        shown, written = rank < step, (rank == step).long().argmax(1)  # [B, L], [B]
        canvas, alike = _distinct(text, shown)  # [U], [B]
        wanted = torch.zeros_like(shown[: len(canvas)])  # [U, L]
        wanted[alike, written] = True
        each = policy.action_log_probs(tokens[some[canvas]], lengths[some[canvas]], shown[canvas], wanted)  # [U, L]
        first = int(pair[0])
        log_joint.index_add_(0, some + first, each[alike, written].double())
        log_orders[first : first + len(tokens)] = log_count.double()
        if progress:
            progress(len(step))
    by_text = (part.view(-1, orders).cpu().numpy() for part in (log_joint, log_orders))
    return _average_orders(*by_text, pairs.texts, texts)


def _distinct(text: Tensor, shown: Tensor) -> tuple[Tensor, Tensor]:
    """One of each kind of canvas [U], and the kind [B] of each: orders meet where they have shown the same positions.

    Canvases are told apart by the text [B] and a sum of 64-bit keys of the positions ``shown`` [B, L].
    """
    keys = random_keys(text.new_full((1,), -1), shown.shape[1])  # [1, L]
    key = torch.where(shown, keys, 0).sum(1) + random_keys(text, 1).squeeze(1)  # [B] wraps around
    kinds, kind = key.unique(return_inverse=True)  # [U], [B]
    index = torch.arange(len(kind), device=shown.device)
    return index.new_zeros(len(kinds)).scatter_(0, kind, index), kind


def _budget(tokens_per_batch: int | None, policy: Policy) -> int:
    return tokens_per_batch or TOKENS_PER_BATCH.get(policy.device.type, 32_768)


@dataclass(frozen=True)
class _Pairs:
    """Every (text, draw), texts of like length together; empty texts are left out."""

    texts: np.ndarray  # [N] the kept texts, by rising length
    tokenised: TokenisedTexts  # of them
    draws: int
    lengths: np.ndarray  # [N * draws]
    seeds: np.ndarray  # [N * draws] of each draw's order
    fractions: np.ndarray  # [N * draws] of each draw's t, stratified over the draws of a text

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], draws: int, seed: int) -> _Pairs:
        streams = _streams(texts, seed)
        seeds = [stream.integers(np.iinfo(np.int64).max, size=draws) for stream in streams]
        fractions = [(np.arange(draws) + stream.random(draws)) / draws for stream in streams]
        kept = np.array(sorted((k for k in range(len(texts)) if len(texts[k])), key=lambda k: len(texts[k])), dtype=int)
        tokenised = TokenisedTexts(texts[k] for k in kept)
        each = (np.concatenate([part[k] for k in kept]) if len(kept) else np.zeros(0) for part in (seeds, fractions))
        return cls(kept, tokenised, draws, tokenised.lengths.repeat(draws), *each)

    def ordered(self, pair: np.ndarray, policy: Policy) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """For canvases of the pairs [B]: whose they are, counted from the first pair on; then tokens, lengths, ranks
        and log-number of orders of those P pairs."""
        some = np.arange(pair[0], pair[-1] + 1)  # [P]
        tokens, lengths = (part.to(policy.device) for part in self.tokenised.padded(some // self.draws))
        ranks, log_count = policy.orders(tokens, lengths, torch.from_numpy(self.seeds[some]).to(policy.device))
        return torch.from_numpy(pair - pair[0]).to(policy.device), tokens, lengths, ranks, log_count


def _budgeted(
    lengths: np.ndarray, canvases: np.ndarray, tokens_per_batch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of canvases within the budget: the pair of each and its number there, pairs having rising ``lengths``."""
    ends = canvases.cumsum()
    start, total = 0, int(ends[-1]) if len(ends) else 0
    while start < total:
        end = total
        for last in (start, None):  # as many as the first length lets in, then as the longest of those lets in
            longest = lengths[np.searchsorted(ends, end - 1 if last is None else last, side="right")]
            end = min(end, start + max(1, tokens_per_batch // int(longest)))
        canvas = np.arange(start, end)
        pair = np.searchsorted(ends, canvas, side="right")
        yield pair, canvas - (ends - canvases)[pair]
        start = end


def _streams(texts: Sequence[Sequence[int]], seed: int) -> list[np.random.Generator]:
    """A random stream for each text that depends on the text (and how often it stood before), not on its place."""
    seen: Counter[int] = Counter()
    streams = []
    for text in texts:
        digest = zlib.crc32(np.asarray(text, dtype=np.int64).tobytes())
        streams.append(np.random.default_rng([seed, digest, seen[digest]]))
        seen[digest] += 1
    return streams


def _average_orders(
    log_joint: np.ndarray, log_orders: np.ndarray, kept: np.ndarray, texts: Sequence[Sequence[int]]
) -> Estimate:
    """Of the texts ``kept`` [N], whose log p(x, order) and log n! are [N, m]."""
    orders = log_joint.shape[1]
    log_x, errors = np.zeros(len(texts)), np.zeros(len(texts))
    top = log_joint.max(1, keepdims=True) if len(kept) else log_joint  # [N, 1]
    weights = np.exp(log_joint - top)  # [N, m]
    log_x[kept] = log_orders[:, 0] + top[:, 0] + np.log(weights.mean(1))
    if orders > 1:
        errors[kept] = weights.std(1, ddof=1) / weights.mean(1) / math.sqrt(orders)
    return Estimate(log_x, errors, np.array([len(text) for text in texts]), orders)


@torch.inference_mode()
def bound(
    policy: Policy,
    texts: Sequence[Sequence[int]],
    draws: int = 1,
    seed: int = 0,
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """The lower bound of Eq. 6 on log p(x) [texts], from ``draws`` canvases a text.

    The draws of a text are stratified over t: one in each ``draws``-th of 0..n-1, so the estimate is unbiased.
    """
    pairs, total = _Pairs.of(texts, draws, seed), np.zeros(len(texts))
    for pair, _ in _budgeted(pairs.lengths, np.ones_like(pairs.lengths), _budget(tokens_per_batch, policy)):
        _, tokens, lengths, rank, log_count = pairs.ordered(pair, policy)  # [B, L], [B], [B, L], [B]
        shown = show_first(rank, lengths, torch.from_numpy(pairs.fractions[pair]).to(policy.device))  # [B, L]
        hidden = ~shown & (torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])  # [B, L]
        weights = policy.next_weights(tokens, hidden)  # [B, L]
        log_probs = (weights * policy.action_log_probs(tokens, lengths, shown, weights > 0)).sum(1)  # [B]
        losses = bound_of(log_probs, lengths, hidden.sum(1), log_count).cpu()
        np.add.at(total, pairs.texts[pair // draws], -losses.double().numpy() / draws)
        if progress:
            progress(len(pair))
    return total


def canvas_count(texts: Sequence[Sequence[int]], orders: int) -> int:
    """How many canvases ``monte_carlo`` scores, for a progress bar."""
    return orders * sum(len(text) for text in texts)
