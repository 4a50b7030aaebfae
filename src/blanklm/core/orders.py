"""Orders in which a text is written: uniform, or uniform over those that keep words whole; Algorithm 1 and Eq. 8."""

from __future__ import annotations

import torch
from torch import Tensor

from blanklm.core.conceal import neighbour


def random_keys(seeds: Tensor, width: int) -> Tensor:
    """Pseudo-random int64 keys [B, width], a function of each text's own seed [B] alone.

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
    """[B, width] numbers in [0, 1), hashed from each text's seed as ``random_keys`` are."""
    return shift_right(random_keys(seeds, width), 11).to(torch.float64) / 2**53


def uniform_ranks(seeds: Tensor, lengths: Tensor, width: int) -> Tensor:
    """The rank [B, L] of each position in a random order of its text: 0 is written first."""
    keys = random_keys(seeds, width)  # [B, L]
    inside = torch.arange(width, device=keys.device) < lengths[:, None]
    keys = keys.masked_fill(~inside, torch.iinfo(torch.int64).max)
    return keys.argsort(1).argsort(1)


def uniform_orders(seeds: Tensor, lengths: Tensor, width: int, given: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """``uniform_ranks`` [B, L], all n! orders being alike, and log n! [B].

    Of texts whose first ``given`` [B] positions are known, the order of the n others; ranks of the known are below 0.
    """
    ranks = uniform_ranks(seeds, lengths, width)
    if given is not None:
        position, lengths = torch.arange(width, device=ranks.device), lengths - given
        ranks = ranks.masked_fill(position < given[:, None], -1).argsort(1).argsort(1) - given[:, None]
    return ranks, torch.lgamma(lengths + 1.0)


def whole_word_ranks(seeds: Tensor, lengths: Tensor, word: Tensor) -> Tensor:
    """The same for an order in which the tokens of each word come from left to right, words being interleaved.

    ``word`` [B, L] numbers the word of its text that each position belongs to. Every such order is equally likely:
    it is an order of all positions in which each word's places have been sorted.
    """
    width = word.shape[1]
    ranks = uniform_ranks(seeds, lengths, width)  # [B, L]
    return (word * width + ranks).sort(1).values % width  # words stay where they are, each word's ranks rise


def words_of(tokens: Tensor, edges: Tensor) -> Tensor:
    """The number of the word [B, L] each position belongs to: a run of letters, of digits or of marks.

    ``edges`` [V, 2] says what a token begins and ends with (``Tokenizer.edges``); a space (0) begins a new word.
    """
    first, last = edges[tokens].unbind(-1)  # [B, L] each
    starts = torch.ones_like(tokens, dtype=torch.bool)
    first, before = first[:, 1:], last[:, :-1]
    starts[:, 1:] = (first == 0) | ((first != before) & (before != 0))  # a token of mere space belongs to what follows
    return starts.cumsum(1) - 1


def next_in_words(hidden: Tensor, word: Tensor) -> Tensor:
    """[B, L] for the next token of each word, how many tokens of the word are ``hidden`` [B, L]; 0 elsewhere.

    Divided by the number of hidden tokens, that is the chance that an order of ``whole_word_ranks`` goes on there.
    """
    in_word = torch.zeros_like(word).scatter_add_(1, word, hidden.to(word.dtype))  # [B, L] by number of the word
    same_word = torch.zeros_like(hidden)  # as the position before
    same_word[:, 1:] = word[:, 1:] == word[:, :-1]
    is_next = hidden & ~(same_word & neighbour(hidden, +1))
    return torch.where(is_next, in_word.gather(1, word), 0)


def show_first(ranks: Tensor, lengths: Tensor, fractions: Tensor) -> Tensor:
    """Algorithm 1: [B, L] the first t positions of each order, t = floor(fraction * n) being uniform in 0..n-1."""
    steps = torch.minimum((fractions * lengths).floor().to(torch.int64), lengths - 1).clamp_min(0)  # [B]
    return ranks < steps[:, None]


def bound(log_prob: Tensor, lengths: Tensor, hidden: Tensor, log_orders: Tensor) -> Tensor:
    """Eq. 8 [B], an upper bound on -log p(x): - log n! - n / (n - t) * log_prob.

    ``log_prob`` [B] sums the log p of a canvas's possible next actions, ``hidden`` [B] is n - t, and ``log_orders`` [B]
    is - log q of the order drawn: the log of the number of orders, n! where none is ruled out, if they are alike.
    """
    return -log_orders - lengths / hidden.clamp_min(1) * log_prob


class UniformOrders:
    """Positions may be written in any order, and orders are alike: what likelihoods ask of such a model."""

    def orders(
        self, tokens: Tensor, lengths: Tensor, seeds: Tensor, *, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """A random order of each text, as the rank [B, L] of each position, and the log of how many there are [B]."""
        return uniform_orders(seeds, lengths, tokens.shape[1], given)

    def next_weights(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """[B, L] 1 for each hidden position: orders go on at any of them alike."""
        return hidden.long()
