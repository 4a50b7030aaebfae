"""Orders in which a text is written, and the loss over them (Algorithm 1, Eq. 7 and 8).

Orders are uniform over all n!, or uniform over those in which the tokens of each word come from left to right.
"""

from __future__ import annotations

import torch
from torch import Tensor

from blanklm.core.conceal import neighbour


def random_keys(seeds: Tensor, width: int) -> Tensor:
    """Hash pseudo-random int64 keys [B, width] from each text's own seed [B].

    A text's canvas must not depend on the batch it stands in or on the number of processes, and a resumed run
    must draw what the unbroken run would have drawn; so the keys are hashed (splitmix64), not drawn in turn.
    """
    position = torch.arange(1, width + 1, device=seeds.device, dtype=torch.int64)
    key = seeds.to(torch.int64)[:, None] * signed(0xD1342543DE82EF95) + position * signed(0x9E3779B97F4A7C15)
    key = (key ^ shift_right(key, 30)) * signed(0xBF58476D1CE4E5B9)
    key = (key ^ shift_right(key, 27)) * signed(0x94D049BB133111EB)
    return key ^ shift_right(key, 31)  # [B, width]


def signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant


def shift_right(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def uniform(seeds: Tensor, width: int) -> Tensor:
    """Hash uniform numbers in [0, 1) [B, width] from each text's seed, as ``random_keys`` does."""
    return shift_right(random_keys(seeds, width), 11).to(torch.float64) / 2**53


def uniform_ranks(seeds: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Draw a uniform order of each text: the rank [B, L] of each position, 0 being written first."""
    keys = random_keys(seeds, width)  # [B, L]
    inside = torch.arange(width, device=keys.device) < lengths[:, None]
    keys = keys.masked_fill(~inside, torch.iinfo(torch.int64).max)
    return keys.argsort(1).argsort(1)


def uniform_orders(seeds: Tensor, lengths: Tensor, width: int, given: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Draw one of the n! orders of each text uniformly: the ranks [B, L], and log n! [B].

    Where the first ``given`` [B] positions are context, this is an order of the n others; context has ranks below 0.
    """
    ranks = uniform_ranks(seeds, lengths, width)
    if given is not None:
        ranks, lengths = restrict(ranks, after(given, width)), lengths - given
    return ranks, torch.lgamma(lengths + 1.0)


def after(given: Tensor, width: int) -> Tensor:
    """[B, L] the positions after the first ``given`` [B]."""
    return torch.arange(width, device=given.device) >= given[:, None]


def restrict(ranks: Tensor, region: Tensor) -> Tensor:
    """Restrict orders to a region: the ranks [B, L] of its positions among themselves; all others are below 0.

    ``region`` [B, L] may hold padding, whose ranks are the greatest. A uniform order of a text is one of the region.
    """
    outside = ~region  # [B, L]
    return ranks.masked_fill(outside, -1).argsort(1).argsort(1) - outside.sum(1, keepdim=True)


def whole_word_ranks(seeds: Tensor, lengths: Tensor, word: Tensor) -> Tensor:
    """Draw uniformly among the orders in which the tokens of each word come from left to right: the ranks [B, L].

    ``word`` [B, L] is the number of the word that each position belongs to; words are interleaved. Such an order is a
    uniform order of all positions in which each word's ranks have been sorted.
    """
    width = word.shape[1]
    ranks = uniform_ranks(seeds, lengths, width)  # [B, L]
    return (word * width + ranks).sort(1).values % width  # words stay where they are, each word's ranks rise


def words_of(tokens: Tensor, edges: Tensor) -> Tensor:
    """Number the word [B, L] that each position belongs to: a run of letters, of digits or of marks.

    ``edges`` [V, 2] says what a token begins and ends with (``Tokenizer.edges``); a space (0) begins a new word.
    """
    first, last = edges[tokens].unbind(-1)  # [B, L] each
    starts = torch.ones_like(tokens, dtype=torch.bool)
    first, before = first[:, 1:], last[:, :-1]
    starts[:, 1:] = (first == 0) | ((first != before) & (before != 0))  # a token of mere space belongs to what follows
    return starts.cumsum(1) - 1


def next_in_words(hidden: Tensor, word: Tensor) -> Tensor:
    """Count, at the next token of each word, the tokens of that word that are ``hidden`` [B, L]; 0 elsewhere.

    Divided by the number of hidden tokens, this is the probability that a whole-word order continues there.
    """
    in_word = torch.zeros_like(word).scatter_add_(1, word, hidden.to(word.dtype))  # [B, L] by number of the word
    same_word = torch.zeros_like(hidden)  # as the position before
    same_word[:, 1:] = word[:, 1:] == word[:, :-1]
    is_next = hidden & ~(same_word & neighbour(hidden, +1))
    return torch.where(is_next, in_word.gather(1, word), 0)


def show_first(ranks: Tensor, lengths: Tensor, fractions: Tensor) -> Tensor:
    """Algorithm 1: show [B, L] the first t positions of each order, t = floor(fraction * n), uniform in 0..n-1.

    Eq. 7: an action is drawn at step t of a random order; its canvas is the first t positions, and every hidden
    position is equally likely to come next, so all of them are scored on one canvas.
    """
    steps = torch.minimum((fractions * lengths).floor().to(torch.int64), lengths - 1).clamp_min(0)  # [B]
    return ranks < steps[:, None]


def bound(log_prob: Tensor, lengths: Tensor, hidden: Tensor, log_orders: Tensor) -> Tensor:
    """Eq. 8 [B], whose expectation is an upper bound on -log p(x): - log n! - n / (n - t) * log_prob.

    ``log_prob`` [B] sums log p over a canvas's possible next actions, ``hidden`` [B] is n - t, and ``log_orders`` [B]
    is - log q of the order drawn: for uniform orders the log of their number, log n! if none is ruled out.
    """
    return -log_orders - lengths / hidden.clamp_min(1) * log_prob


class UniformOrders:
    """What likelihood asks of a model that is trained on all n! orders, each equally likely."""

    def orders(
        self, tokens: Tensor, lengths: Tensor, seeds: Tensor, *, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw an order of each text: the rank [B, L] of each position, and log n! [B]."""
        return uniform_orders(seeds, lengths, tokens.shape[1], given)

    def next_weights(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """[B, L] 1 for each hidden position: each is equally likely to come next."""
        return hidden.long()
