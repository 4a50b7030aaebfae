"""Spans that are written from left to right after their canvas, so that one pass learns from every word of them.

    canvas    She opened the _ and _ .
    written   _ door <end> _ looked out of the window <end>        (what is predicted: door <end>, looked out of ...)

A canvas reads itself in both directions, as any canvas, and knows nothing of what is written. What is written reads
the whole canvas and all that was written before it. To what is written, each blank of the canvas is followed by a gap
in the positions, and its words stand there: after what precedes the blank and before what follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from blanklm.core.conceal import Concealed
from blanklm.core.packing import Attention, Packing
from blanklm.core.rotation import Turns, TurnsOf, rotate
from blanklm.core.special import BLANK, EOS, PAD

END = EOS  # what is predicted where a span ends
GAP = 64  # positions that are kept free after a blank


@dataclass(frozen=True, kw_only=True)
class WritingPacking(Packing):
    """Canvases, each followed by what is written into its blanks."""

    along: Packing  # each canvas and what follows it as one sequence
    apart: Packing  # as two
    on_canvas: Tensor  # [T] bool
    shift: Tensor  # [T] how much further on a symbol of a canvas stands for what is written: by the gaps before it
    shift_turns: Turns | None = None  # of keys, by the shift

    @classmethod
    def of_both(
        cls, canvases: Tensor, written: Tensor, longest: int, position: Tensor, shift: Tensor
    ) -> WritingPacking:
        """``canvases`` and ``written`` [B] are lengths; ``position`` and ``shift`` [B, longest], of each symbol."""
        along = Packing.of(canvases + written, longest)
        apart = Packing.of(torch.stack((canvases, written), 1).flatten(), longest)
        position, shift = (part[along.sequence, along.position] for part in (position, shift))  # [T] each
        return cls(
            starts=along.starts,
            lengths=along.lengths,
            sequence=along.sequence,
            position=position,
            longest=int((position + shift).max()) + 1,
            along=along,
            apart=apart,
            on_canvas=along.position < canvases[along.sequence],
            shift=shift,
        )

    def turned(self, turns: TurnsOf) -> tuple[Turns, Packing]:
        return turns(self.position, self.longest), replace(self, shift_turns=turns(self.shift, self.longest))

    def attend(self, within: Attention, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        both_ways = within(q, k, v, self.apart, False)
        after = within(q, k if self.shift_turns is None else rotate(k, self.shift_turns), v, self.along, True)
        return torch.where(self.on_canvas[:, None, None], both_ways, after)


@dataclass(frozen=True)
class Writings:
    """Canvases with all their spans written out, S symbols in all, K blanks."""

    symbols: Tensor  # [T] token ids; BLANK on the canvas, and again where a span begins
    packing: WritingPacking
    predicts: Tensor  # [S] where the symbols stand that predict what comes next
    target: Tensor  # [S] what that is, END after the last token of a span
    text: Tensor  # [S] whose
    told: Tensor  # [T] what is told at each symbol of a span, see ``write_out``; 0 on canvases
    begins: Tensor  # [K] where spans begin, among the T symbols
    canvas_blanks: Tensor  # [K'] the blanks of canvases


def gaps_before(canvas: Tensor) -> Tensor:
    """How many positions are kept free before each symbol of ``canvas`` [B, C], for what stands in earlier blanks."""
    is_blank = (canvas == BLANK).long()  # [B, C]
    return GAP * (is_blank.cumsum(1) - is_blank)


def write_out(tokens: Tensor, concealed: Concealed, told_first: Tensor, told_after: Tensor) -> Writings:
    """Lay out canvases on which all that is hidden of ``tokens`` [B, L] is still to be written.

    Where a span begins, what ``told_first`` [B, L] says of its first token is told; with each token, ``told_after``.
    """
    hidden, device = concealed.hidden, tokens.device
    begins = hidden & (concealed.left == 0)  # [B, L]
    run, so_far = begins.cumsum(1), hidden.cumsum(1) - 1  # [B, L] spans begun, tokens hidden before
    written = hidden.sum(1) + begins.sum(1)  # [B]
    longest_canvas, longest_written = int(concealed.lengths.max()), int(written.max())
    canvas = concealed.canvas[:, :longest_canvas]  # [B, C]
    at = torch.where(hidden, so_far + run, longest_written)  # [B, L] where a token stands among what is written
    start = torch.where(begins, so_far + run - 1, longest_written)  # [B, L] where its span begins
    following = torch.where(concealed.right > 0, tokens.roll(-1, 1), END)  # [B, L]
    gaps = gaps_before(canvas)  # [B, C]
    on_canvas = torch.arange(longest_canvas, device=device).expand_as(gaps)  # [B, C] positions
    blank = (on_canvas + gaps).gather(1, concealed.place.clamp_max(longest_canvas - 1))  # [B, L] where its blank is

    def laid(of_tokens: Tensor, of_starts: Tensor) -> Tensor:
        out = tokens.new_full((len(tokens), longest_written + 1), PAD)  # the last column takes what is shown
        return out.scatter_(1, at, of_tokens).scatter_(1, start, of_starts)[:, :longest_written]

    symbols = torch.cat((canvas, laid(tokens, torch.full_like(tokens, BLANK))), 1)  # [B, C + S]
    targets = torch.cat((torch.zeros_like(canvas), laid(following, tokens)), 1)
    told = torch.cat((torch.zeros_like(canvas), laid(told_after, told_first)), 1)
    positions = torch.cat((on_canvas, laid(blank + concealed.left + 1, blank)), 1)
    shifts = torch.cat((gaps, gaps.new_zeros(len(tokens), longest_written)), 1)
    longest = longest_canvas + longest_written
    column = torch.arange(longest, device=device)
    canvases = concealed.lengths[:, None]
    source = torch.where(column < canvases, column, (longest_canvas + column - canvases).clamp_max(longest - 1))
    parts = (symbols, targets, told, positions, shifts)
    symbols, targets, told, positions, shifts = (part.gather(1, source) for part in parts)
    packing = WritingPacking.of_both(concealed.lengths, written, longest, positions, shifts)
    packed = packing.along.lay(symbols)  # [T]
    predicts = (~packing.on_canvas).nonzero().squeeze(1)  # [S]
    return Writings(
        symbols=packed,
        packing=packing,
        predicts=predicts,
        target=packing.along.lay(targets)[predicts],
        text=packing.sequence[predicts],
        told=packing.along.lay(told),
        begins=((packed == BLANK) & ~packing.on_canvas).nonzero().squeeze(1),
        canvas_blanks=((packed == BLANK) & packing.on_canvas).nonzero().squeeze(1),
    )
