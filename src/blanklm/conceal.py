"""The tensor kernel: hide positions of a batch of texts and get the canvases and every target action at once.

``blanklm.canvas.conceal`` says the same for one text in plain Python; the tests hold the two equal.
Nothing here loops over texts or positions, and nothing leaves the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.special import BLANK, PAD


@dataclass(frozen=True)
class Concealed:
    """Canvases [B, C] of texts [B, L], and for each text position where and how its action applies."""

    canvas: Tensor  # [B, C] token ids, BLANK where a run is hidden, PAD after the end
    lengths: Tensor  # [B] symbols on each canvas
    place: Tensor  # [B, L] where on the canvas a position stands; for a hidden one, where its blank stands
    hidden: Tensor  # [B, L] true for hidden positions (false on padding)
    left: Tensor  # [B, L] for a hidden position, how many hidden ones adjoin on its left; 0 elsewhere
    right: Tensor  # [B, L] the same on its right


def conceal(tokens: Tensor, lengths: Tensor, shown: Tensor) -> Concealed:
    """Show only the positions ``shown`` [B, L] of ``tokens`` [B, L]; each hidden run becomes one blank."""
    batch, width = tokens.shape
    position = torch.arange(width, device=tokens.device).expand(batch, width)  # [B, L]
    inside = position < lengths[:, None]  # [B, L]
    hidden = inside & ~shown
    starts = hidden & ~_neighbour(hidden, +1)  # [B, L] first position of each hidden run
    ends = hidden & ~_neighbour(hidden, -1)  # [B, L] last position of each hidden run

    # A shown position emits itself; the first position of a hidden run emits the blank.
    emits = (inside & shown) | starts  # [B, L]
    place = emits.cumsum(1) - 1  # [B, L]
    symbols = torch.where(hidden, BLANK, tokens)  # [B, L]
    canvas = tokens.new_full((batch, width + 1), PAD)
    canvas.scatter_(1, torch.where(emits, place, width), symbols)  # the last column takes what emits nothing

    run_start = torch.where(starts, position, -1).cummax(1).values  # [B, L]
    run_end = torch.where(ends, position, width).flip(1).cummin(1).values.flip(1)  # [B, L]
    return Concealed(
        canvas=canvas[:, :width],
        lengths=emits.sum(1),
        place=place.clamp_min(0),
        hidden=hidden,
        left=torch.where(hidden, position - run_start, 0),
        right=torch.where(hidden, run_end - position, 0),
    )


def _neighbour(mask: Tensor, shift: int) -> Tensor:
    """``mask`` of the left (+1) or right (-1) neighbour; false beyond the ends."""
    moved = mask.roll(shift, dims=1)
    moved[:, 0 if shift > 0 else -1] = False
    return moved


# --- Packed: no padding -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packing:
    """Sequences laid end to end in one dimension, T symbols in all."""

    starts: Tensor  # [B + 1] int32: where each sequence begins, and T
    sequence: Tensor  # [T] which sequence a symbol belongs to
    position: Tensor  # [T] its place there
    longest: int

    @classmethod
    def of(cls, lengths: Tensor, longest: int) -> Packing:
        """The packing of sequences of these ``lengths`` [B]."""
        sequence = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)  # [T]
        starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))  # [B + 1]
        position = torch.arange(len(sequence), device=lengths.device) - starts[sequence]  # [T]
        return cls(starts.to(torch.int32), sequence, position, longest)


@dataclass(frozen=True)
class PackedActions:
    """Canvases end to end, their blanks, and the actions to score on them. A counts the actions, K the blanks."""

    canvas: Tensor  # [T] token ids
    packing: Packing
    blanks: Tensor  # [K] where on the packed canvas the blanks stand
    asked: Tensor  # [Q] which of the blanks are filled by some action: only they need a row of the vocabulary
    row: Tensor  # [A] which of the asked blanks an action fills
    word: Tensor  # [A] the token it writes
    left: Tensor  # [A] how many hidden positions adjoin on its left
    right: Tensor  # [A] and on its right
    text: Tensor  # [A] the text it belongs to
    position: Tensor  # [A] the position of the text that it writes


def pack(tokens: Tensor, concealed: Concealed, wanted: Tensor | None = None) -> PackedActions:
    """The concealed canvases without their padding, and the actions of the ``wanted`` [B, L] hidden positions (all)."""
    width = concealed.canvas.shape[1]
    inside = torch.arange(width, device=tokens.device) < concealed.lengths[:, None]  # [B, L]
    canvas = concealed.canvas[inside]  # [T]
    packing = Packing.of(concealed.lengths, int(concealed.lengths.max()))
    is_blank = canvas == BLANK  # [T]
    text, position = (concealed.hidden if wanted is None else concealed.hidden & wanted).nonzero(as_tuple=True)  # [A]
    place = packing.starts[text] + concealed.place[text, position]  # [A] of the blank on the packed canvas
    blank = (is_blank.cumsum(0) - 1)[place]  # [A] the number of that blank
    blanks = is_blank.nonzero().squeeze(1)  # [K]
    is_asked = torch.zeros(len(blanks), dtype=torch.bool, device=tokens.device)
    is_asked[blank] = True
    return PackedActions(
        canvas=canvas,
        packing=packing,
        blanks=blanks,
        asked=is_asked.nonzero().squeeze(1),
        row=(is_asked.cumsum(0) - 1)[blank],
        word=tokens[text, position],
        left=concealed.left[text, position],
        right=concealed.right[text, position],
        text=text,
        position=position,
    )


# --- Which positions are shown ------------------------------------------------------------------------------


def random_keys(seeds: Tensor, width: int) -> Tensor:
    """Pseudo-random int64 keys [B, width], a function of each text's own seed [B] alone.

    A text's canvas must not depend on the batch it stands in or on the number of processes, and a resumed run
    must draw what the unbroken run would have drawn; so the keys are hashed (splitmix64), not drawn in turn.
    """
    position = torch.arange(1, width + 1, device=seeds.device, dtype=torch.int64)
    key = seeds.to(torch.int64)[:, None] * _signed(0xD1342543DE82EF95) + position * _signed(0x9E3779B97F4A7C15)
    key = (key ^ _shift_right(key, 30)) * _signed(0xBF58476D1CE4E5B9)
    key = (key ^ _shift_right(key, 27)) * _signed(0x94D049BB133111EB)
    return key ^ _shift_right(key, 31)  # [B, width]


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant


def _shift_right(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def random_ranks(seeds: Tensor, lengths: Tensor, width: int) -> Tensor:
    """The rank [B, L] of each position in a random order of its text: 0 is written first."""
    keys = random_keys(seeds, width)  # [B, L]
    inside = torch.arange(width, device=keys.device) < lengths[:, None]
    keys = keys.masked_fill(~inside, torch.iinfo(torch.int64).max)
    return keys.argsort(1).argsort(1)


def random_word_ranks(seeds: Tensor, lengths: Tensor, word: Tensor) -> Tensor:
    """The same for an order in which the tokens of each word come from left to right, words being interleaved.

    ``word`` [B, L] numbers the word of its text that each position belongs to. Every such order is equally likely:
    it is an order of all positions in which each word's places have been sorted.
    """
    width = word.shape[1]
    ranks = random_ranks(seeds, lengths, width)  # [B, L]
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


def next_of_words(hidden: Tensor, word: Tensor) -> Tensor:
    """[B, L] for the next token of each word, how many tokens of the word are ``hidden`` [B, L]; 0 elsewhere.

    Divided by the number of hidden tokens, that is the chance that an order of ``random_word_ranks`` goes on there.
    """
    in_word = torch.zeros_like(word).scatter_add_(1, word, hidden.to(word.dtype))  # [B, L] by number of the word
    same_word = torch.zeros_like(hidden)  # as the position before
    same_word[:, 1:] = word[:, 1:] == word[:, :-1]
    is_next = hidden & ~(same_word & _neighbour(hidden, +1))
    return torch.where(is_next, in_word.gather(1, word), 0)


def show_first(ranks: Tensor, lengths: Tensor, fractions: Tensor) -> Tensor:
    """Algorithm 1: [B, L] the first t positions of each order, t = floor(fraction * n) being uniform in 0..n-1."""
    steps = torch.minimum((fractions * lengths).floor().to(torch.int64), lengths - 1).clamp_min(0)  # [B]
    return ranks < steps[:, None]


# --- The objective -------------------------------------------------------------------------------------------


def bound(log_prob: Tensor, lengths: Tensor, hidden: Tensor, log_orders: Tensor) -> Tensor:
    """Eq. 8 [B], an upper bound on -log p(x): - log n! - n / (n - t) * log_prob.

    ``log_prob`` [B] sums the log p of a canvas's possible next actions, ``hidden`` [B] is n - t, and ``log_orders`` [B]
    is the log of the number of orders, n! where none is ruled out.
    """
    return -log_orders - lengths / hidden.clamp_min(1) * log_prob
