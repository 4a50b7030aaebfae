"""Sequences packed end to end, or several to a row, so that little or nothing is computed for padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.core.conceal import Concealed
from blanklm.core.rotation import Turns, TurnsOf
from blanklm.core.special import BLANK, PAD

Attention = Callable[[Tensor, Tensor, Tensor, "Packing", bool], Tensor]  # of q, k, v [T, H, d/H]; whether causal
ROWS = (64, 128)  # symbols of the rows that short sequences are laid into on a GPU


@dataclass(frozen=True)
class Packing:
    """Sequences laid out in one dimension, T symbols in all: end to end, or several to a row of ``row`` symbols."""

    starts: Tensor  # [B + 1] int32: where each sequence begins, and T
    lengths: Tensor  # [B]
    sequence: Tensor  # [T] which sequence a symbol belongs to; -1 for what is left over in a row
    position: Tensor  # [T] its place there
    longest: int
    row: int = 0  # 0: end to end

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, lengths: Tensor, longest: int) -> Packing:
        """Sequences of these ``lengths`` [B] end to end."""
        sequence = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)  # [T]
        starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))  # [B + 1]
        position = torch.arange(len(sequence), device=lengths.device) - starts[sequence]  # [T]
        return cls(starts.to(torch.int32), lengths, sequence, position, longest)

    @classmethod
    def in_rows(cls, lengths: Tensor, longest: int, row: int) -> Packing:
        """Short sequences in rows that no sequence crosses: attention is then one small square per row."""
        device, order = lengths.device, lengths.argsort()
        fillings = _fillings(torch.bincount(lengths, minlength=row + 1).tolist(), row)
        # Stretches of the order: ``number`` sequences of ``length``, ``per_row`` to a row from column ``start`` on.
        length, number, per_row, start, first_row = torch.tensor(fillings, device=device).view(-1, 5).T
        stretch = torch.arange(len(number), device=device).repeat_interleave(number)  # [B] of each, in the order
        rank = torch.arange(len(order), device=device) - (number.cumsum(0) - number)[stretch]  # [B] in its stretch
        rows = first_row[stretch] + rank // per_row[stretch]  # [B]
        starts = torch.empty_like(lengths)
        starts[order] = rows * row + start[stretch] + rank % per_row[stretch] * length[stretch]  # [B]
        total = (int(rows.max()) + 1) * row if len(rows) else 0
        sequence = torch.full((total,), -1, device=device)
        position = torch.zeros_like(sequence)
        column = torch.arange(longest, device=device)  # [L]
        inside = column < lengths[:, None]  # [B, L]
        place = (starts[:, None] + column)[inside]  # [symbols]
        sequence[place] = torch.arange(len(lengths), device=device).repeat_interleave(lengths)
        position[place] = column.expand(len(lengths), -1)[inside]
        starts = torch.nn.functional.pad(starts, (0, 1), value=total).to(torch.int32)
        return cls(starts, lengths, sequence, position, longest, row)

    @classmethod
    def best_for(cls, lengths: Tensor, longest: int, on_gpu: bool) -> Packing:
        """Pack in rows where a GPU would spend a whole tile on each short sequence, else end to end."""
        if on_gpu and 2 * longest <= ROWS[-1]:
            return cls.in_rows(lengths, longest, next(row for row in ROWS if 2 * longest <= row))
        return cls.of(lengths, longest)

    def turned(self, turns: TurnsOf) -> tuple[Turns, Packing]:
        """Return the turns of all symbols, and the packing with what else its attention needs of them."""
        return turns(self.position, self.longest), self

    def attend(self, within: Attention, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        """Let every sequence attend to itself by attention ``within`` sequences; others override what they read."""
        return within(q, k, v, self, causal)

    def lay(self, sequences: Tensor) -> Tensor:
        """Padded ids [B, L] -> packed ids [T]."""
        packed = sequences[self.sequence.clamp_min(0), self.position]  # [T]
        return torch.where(self.sequence < 0, PAD, packed) if self.row else packed

    def padded(self, packed: Tensor) -> Tensor:
        """Ids or vectors [T, ...], packed end to end -> [B, L, ...], 0 (which is PAD) after each sequence's end."""
        padded = packed.new_zeros(len(self), self.longest, *packed.shape[1:])
        padded[self.sequence, self.position] = packed
        return padded

    def places(self, where: Tensor) -> Tensor:
        """The packed places of the true positions of ``where`` [B, L], sequence by sequence."""
        sequence, position = where.nonzero(as_tuple=True)
        return self.starts[sequence] + position


def _fillings(counts: list[int], row: int) -> list[tuple[int, int, int, int, int]]:
    """Plan rows of ``counts[n]`` sequences of each length n: the longest first, then the longest that fit.

    Rows of the same lengths come together. Returns (length, number, per_row, start, first row) by rising length.
    """
    left, rows, stretches = list(counts), 0, []
    left[0] = 0  # what is empty takes no place
    while any(left):
        pattern, space = [], row  # (length, per_row) of one row
        for n in range(row, 0, -1):
            if per_row := min(left[n], space // n):
                pattern.append((n, per_row))
                space -= n * per_row
        times, start = min(left[n] // per_row for n, per_row in pattern), 0
        for n, per_row in pattern:
            stretches.append((n, times * per_row, per_row, start, rows))
            left[n] -= times * per_row
            start += n * per_row
        rows += times
    stretches.sort(key=lambda filling: filling[0])
    return [(0, counts[0], 1, 0, 0), *stretches] if counts[0] else stretches


@dataclass(frozen=True)
class PackedActions:
    """Packed canvases, their blanks, and the actions to score on them. A counts the actions, K the blanks."""

    canvas: Tensor  # [T] token ids
    packing: Packing
    blanks: Tensor  # [K] where on the packed canvas the blanks stand, canvas by canvas
    queried: Tensor  # [Q] which of the blanks are filled by some action: only they need a row of the vocabulary
    row: Tensor  # [A] which of the queried blanks an action fills
    word: Tensor  # [A] the token it writes
    left: Tensor  # [A] how many hidden positions adjoin on its left
    right: Tensor  # [A] and on its right
    text: Tensor  # [A] the text it belongs to
    position: Tensor  # [A] the position of the text that it writes


def pack(tokens: Tensor, concealed: Concealed, wanted: Tensor | None = None, on_gpu: bool = False) -> PackedActions:
    """Pack concealed canvases, with the actions of the ``wanted`` [B, L] hidden positions (default: all)."""
    packing = Packing.best_for(concealed.lengths, int(concealed.lengths.max()), on_gpu)
    is_blank = concealed.canvas == BLANK  # [B, L]
    text, position = (concealed.hidden if wanted is None else concealed.hidden & wanted).nonzero(as_tuple=True)  # [A]
    number = is_blank.flatten().cumsum(0).view_as(is_blank) - 1  # [B, L] of each blank among all
    blank = number[text, concealed.place[text, position]]  # [A]
    blanks = packing.places(is_blank)  # [K]
    is_queried = torch.zeros(len(blanks), dtype=torch.bool, device=tokens.device)
    is_queried[blank] = True
    return PackedActions(
        canvas=packing.lay(concealed.canvas),
        packing=packing,
        blanks=blanks,
        queried=is_queried.nonzero().squeeze(1),
        row=(is_queried.cumsum(0) - 1)[blank],
        word=tokens[text, position],
        left=concealed.left[text, position],
        right=concealed.right[text, position],
        text=text,
        position=position,
    )


def grouped_log_softmax(logits: Tensor, group: Tensor, groups: int) -> Tensor:
    """Log-softmax [K] of ``logits`` [K] within each group; ``group`` [K] says whose they are."""
    highest = logits.new_full((groups,), -torch.inf).scatter_reduce(0, group, logits.detach(), "amax")  # [groups]
    total = logits.new_zeros(groups).index_add(0, group, (logits - highest[group]).exp())  # [groups]
    return logits - (highest + total.log())[group]


def representatives(key: Tensor) -> tuple[Tensor, Tensor]:
    """Where one of each kind of ``key`` [B] stands [U], whichever, and the kind [B] of each."""
    kinds, kind = key.unique(return_inverse=True)  # [U], [B]
    index = torch.arange(len(kind), device=key.device)
    return index.new_zeros(len(kinds)).scatter_(0, kind, index), kind
