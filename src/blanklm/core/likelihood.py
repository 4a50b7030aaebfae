"""The likelihood of a text: exact (Eq. 5), by Monte Carlo over orders (Appendix B), and its lower bound (Eq. 6).

A canvas depends only on *which* positions are shown, so the sum over n! orders is a sum over 2^n subsets
(``exact``), and under uniform orders all canvases of an estimate are known in advance: one flat batch of work.

A model trained on whole-word orders is estimated on those: ``monte_carlo`` and ``bound`` then leave out what other
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

from blanklm.core.orders import bound as bound_of
from blanklm.core.orders import random_keys, show_first
from blanklm.core.packing import representatives
from blanklm.core.policy import OrderedModel
from blanklm.core.texts import TokenisedTexts, pad
from blanklm.errors import BlankLMError

LONGEST_EXACT = 16  # 2^16 canvases
TOKENS_PER_BATCH = {"cpu": 32_768, "cuda": 2**20}  # of the texts whose canvases are scored together
Progress = Callable[[int], None]  # called with the number of canvases just scored


@torch.inference_mode()
def exact(
    policy: OrderedModel,
    text: Sequence[int],
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
    given: int = 0,
) -> float:
    """Eq. 5, log p(x): f(S) = p of having shown exactly the set S; f(S + i) += f(S) p(write i | canvas showing S).

    If the first tokens are ``given``, S is a set of the others: log p of the rest after them.
    """
    n = len(text) - given
    if given < 0 or n < 0:
        raise BlankLMError(f"`given` must be between 0 and the length of the text ({len(text)}), not {given}")
    if n == 0:
        return 0.0
    if n > LONGEST_EXACT:
        raise BlankLMError(
            f"the exact likelihood sums over 2^n canvases: {n} tokens are too many (at most {LONGEST_EXACT})"
        )
    tokens = pad([text])[0].to(policy.device)
    subsets = torch.arange(2**n - 1)  # all but the full set, as bit masks
    shown = (subsets[:, None] >> torch.arange(n)) & 1 == 1  # [2^n - 1, n]
    chunk = max(1, _budget(tokens_per_batch, policy) // len(text))
    parts = []
    for part in torch.nn.functional.pad(shown, (given, 0), value=True).to(policy.device).split(chunk):
        lengths = part.new_full((len(part),), len(text), dtype=torch.long)
        context = torch.full_like(lengths, given) if given else None  # [S]
        log_probs = policy.action_log_probs(tokens.expand(len(part), -1), lengths, part, None, context)  # [S, L]
        parts.append(log_probs[:, given:].cpu())
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


@dataclass(frozen=True, repr=False)
class Estimate:
    """log X_m of each text, X_m being unbiased for p(x): the mean of the weights p(x, order) / q(order) of m orders.

    E[log X_m] <= log p(x), with equality only as m grows: ``standard_errors`` and ``interval`` are those of the
    estimate of E[log X_m], never of log p(x) itself.
    """

    log_weights: np.ndarray  # [texts, m]
    tokens: np.ndarray  # [texts]

    def __repr__(self) -> str:
        low, high = self.interval
        counts = f"{len(self.tokens):,} texts, {int(self.tokens.sum()):,} tokens, {self.orders} orders"
        return f"<Estimate: perplexity {self.perplexity:.2f} ({low:.2f} to {high:.2f}), {counts}>"

    @property
    def orders(self) -> int:
        return self.log_weights.shape[1]

    @property
    def log_likelihoods(self) -> np.ndarray:
        """log X_m [texts]."""
        return _log_mean(self.log_weights)

    @property
    def standard_errors(self) -> np.ndarray:
        """[texts] by the delta method over the orders: too small where few orders outweigh the others."""
        if self.orders == 1:
            return np.zeros(len(self.tokens))
        weights = np.exp(self.log_weights - self.log_weights.max(1, keepdims=True))  # [texts, m]
        return weights.std(1, ddof=1) / weights.mean(1) / math.sqrt(self.orders)

    @property
    def perplexity(self) -> float:
        """exp(- sum of log X_m / number of tokens)."""
        return math.exp(-self.log_likelihoods.sum() / self.tokens.sum())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval for the perplexity at this m, which is above the model's own perplexity at any m.

        The variance of log X_m is at most that of log X_(m/2), which the two halves of every text's orders show: an
        conservative interval for any distribution of the weights.
        """
        half = self.orders // 2
        if not half:
            return 0.0, math.inf
        halves = [_log_mean(part) for part in (self.log_weights[:, :half], self.log_weights[:, half : 2 * half])]
        error = 1.96 * math.sqrt(((halves[0] - halves[1]) ** 2 / 2).sum()) / self.tokens.sum()
        return self.perplexity * math.exp(-error), self.perplexity * math.exp(error)

    def at(self, orders: int) -> float:
        """The perplexity at another, smaller m: the mean of log X_m over as many groups of orders as there are."""
        groups = self.orders // orders
        log_weights = self.log_weights[:, : groups * orders].reshape(len(self.tokens), groups, orders)
        return math.exp(-_log_mean(log_weights).mean(1).sum() / self.tokens.sum())


def _log_mean(log_weights: np.ndarray) -> np.ndarray:
    """The log of the mean of weights [..., m]."""
    return np.logaddexp.reduce(log_weights, axis=-1) - math.log(log_weights.shape[-1])


@torch.inference_mode()
def monte_carlo(
    policy: OrderedModel,
    texts: Sequence[Sequence[int]],
    orders: int,
    seed: int = 0,
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
    given: Sequence[int] | None = None,
) -> Estimate:
    """X_m = n!/m * sum over m uniform orders of p(x, order). Empty texts have log p = 0.

    ``given``: for each text, how many of its first tokens are context: p is that of the n others after them.
    """
    pairs = _Pairs.of(texts, orders, seed, given)
    log_joint = torch.zeros(len(pairs.seeds), dtype=torch.double, device=policy.device)  # log p(x, order) of each pair
    log_orders = torch.zeros_like(log_joint)  # log n! of uniform orders; in general - log q(order)
    for pair, steps in _budgeted(pairs.lengths, pairs.written, _budget(tokens_per_batch, policy)):
        # [B], [P, L], [P], [P] or None, [P, L], [P]
        member, tokens, lengths, known, rank, log_count = pairs.ordered(pair, policy)
        rank, step = rank[member], torch.from_numpy(steps).to(policy.device)[:, None]  # [B, L], [B, 1]
        text = torch.from_numpy(pair // orders).to(policy.device)  # [B]
        shown, written = rank < step, (rank == step).long().argmax(1)  # [B, L], [B]
        canvas, kind = _distinct(text, shown)  # [U], [B]
        wanted = torch.zeros_like(shown[: len(canvas)])  # [U, L]
        wanted[kind, written] = True
        row = member[canvas]  # [U] of P
        context = None if known is None else known[row]
        log_probs = policy.action_log_probs(tokens[row], lengths[row], shown[canvas], wanted, context)  # [U, L]
        first = int(pair[0])
        log_joint.index_add_(0, member + first, log_probs[kind, written].double())
        log_orders[first : first + len(tokens)] = log_count.double()
        if progress:
            progress(len(steps))
    log_weights = np.zeros((len(texts), orders))
    log_weights[pairs.texts] = (log_joint + log_orders).view(-1, orders).cpu().numpy()
    token_counts = np.array([len(text) for text in texts])
    return Estimate(log_weights, token_counts if given is None else token_counts - np.asarray(given))


def _distinct(text: Tensor, shown: Tensor) -> tuple[Tensor, Tensor]:
    """Find one of each kind of canvas [U], and the kind [B] of each: orders meet where they show the same positions."""
    # Canvases are told apart by the text [B] and a sum of 64-bit keys of the positions ``shown`` [B, L].
    keys = random_keys(text.new_full((1,), -1), shown.shape[1])  # [1, L]
    key = torch.where(shown, keys, 0).sum(1) + random_keys(text, 1).squeeze(1)  # [B] wraps around
    return representatives(key)


def _budget(tokens_per_batch: int | None, policy: OrderedModel) -> int:
    return tokens_per_batch or TOKENS_PER_BATCH.get(policy.device.type, 32_768)


@dataclass(frozen=True)
class _Pairs:
    """Every (text, draw), texts of similar length together; texts with nothing to write are left out."""

    texts: np.ndarray  # [N] the kept texts, by rising length
    tokenised: TokenisedTexts  # of them
    draws: int
    lengths: np.ndarray  # [N * draws]
    written: np.ndarray  # [N * draws] the tokens that are not given
    seeds: np.ndarray  # [N * draws] of each draw's order
    fractions: np.ndarray  # [N * draws] of each draw's t, stratified over the draws of a text

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], draws: int, seed: int, given: Sequence[int] | None) -> _Pairs:
        streams = _streams(texts, seed)
        seeds = [stream.integers(np.iinfo(np.int64).max, size=draws) for stream in streams]
        fractions = [(np.arange(draws) + stream.random(draws)) / draws for stream in streams]
        lengths = np.array([len(text) for text in texts], dtype=int)
        written = lengths if given is None else lengths - np.asarray(given, dtype=int).reshape(len(given))  # [texts]
        if len(written) != len(lengths) or (written < 0).any() or (written > lengths).any():
            raise BlankLMError("`given` must be between 0 and the length of each text")
        kept = np.array(sorted(np.flatnonzero(written > 0), key=lambda k: lengths[k]), dtype=int)
        tokenised = TokenisedTexts.from_ids(texts[k] for k in kept)
        each = (np.concatenate([part[k] for k in kept]) if len(kept) else np.zeros(0) for part in (seeds, fractions))
        return cls(kept, tokenised, draws, tokenised.lengths.repeat(draws), written[kept].repeat(draws), *each)

    def ordered(
        self, pair: np.ndarray, policy: OrderedModel
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor]:
        """For canvases of the pairs [B]: which of the P pairs each belongs to, counted from the first; then tokens,
        lengths, tokens given (if any are), ranks and - log q of the orders of those P pairs."""
        members = np.arange(pair[0], pair[-1] + 1)  # [P]
        tokens, lengths = (part.to(policy.device) for part in self.tokenised.padded(members // self.draws))
        parts = (self.seeds[members], self.written[members])
        seeds, written = (torch.from_numpy(part).to(policy.device) for part in parts)  # [P] each
        given = lengths - written if (self.written[members] < self.lengths[members]).any() else None  # [P]
        ranks, log_count = policy.orders(tokens, lengths, seeds, given=given)
        return torch.from_numpy(pair - pair[0]).to(policy.device), tokens, lengths, given, ranks, log_count


def _budgeted(
    lengths: np.ndarray, canvases: np.ndarray, tokens_per_batch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Group canvases within the budget: the pair of each and its number there, for pairs of rising ``lengths``."""
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
    """Seed a random stream per text by the text itself (and how often it came before), not by its place."""
    seen: Counter[int] = Counter()
    streams = []
    for text in texts:
        digest = zlib.crc32(np.asarray(text, dtype=np.int64).tobytes())
        streams.append(np.random.default_rng([seed, digest, seen[digest]]))
        seen[digest] += 1
    return streams


@torch.inference_mode()
def bound(
    policy: OrderedModel,
    texts: Sequence[Sequence[int]],
    draws: int = 1,
    seed: int = 0,
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
    given: Sequence[int] | None = None,
) -> np.ndarray:
    """Eq. 6: the lower bound on log p(x) [texts], from ``draws`` canvases per text; ``given`` as in ``monte_carlo``.

    The draws of a text are stratified over t: one in each ``draws``-th of 0..n-1, so the estimate is unbiased.
    """
    pairs, total = _Pairs.of(texts, draws, seed, given), np.zeros(len(texts))
    for pair, _ in _budgeted(pairs.lengths, np.ones_like(pairs.lengths), _budget(tokens_per_batch, policy)):
        _, tokens, lengths, known, rank, log_count = pairs.ordered(pair, policy)  # [B, L], [B], [B], [B, L], [B]
        written = torch.from_numpy(pairs.written[pair]).to(policy.device)  # [B]
        shown = show_first(rank, written, torch.from_numpy(pairs.fractions[pair]).to(policy.device))  # [B, L]
        hidden = ~shown & (torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])  # [B, L]
        weights = policy.next_weights(tokens, hidden)  # [B, L]
        log_probs = (weights * policy.action_log_probs(tokens, lengths, shown, weights > 0, known)).sum(1)  # [B]
        losses = bound_of(log_probs, written, hidden.sum(1), log_count).cpu()
        np.add.at(total, pairs.texts[pair // draws], -losses.double().numpy() / draws)
        if progress:
            progress(len(pair))
    return total
