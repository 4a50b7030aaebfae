"""The tensor kernel: hide positions of a batch of texts and get the canvases and every target action at once.

``blanklm.core.canvas.conceal`` says the same for one text in plain Python; the tests hold the two equal.
Nothing here loops over texts or positions, and nothing leaves the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.core.special import BLANK, PAD


@dataclass(frozen=True)
class Concealed:
    """Canvases [B, C] of texts [B, L], and for each text position where and how its action applies."""

    canvas: Tensor  # [B, C] token ids, BLANK where a run is hidden, PAD after the end
    lengths: Tensor  # [B] symbols on each canvas
    place: Tensor  # [B, L] where on the canvas a position stands; for a hidden one, where its blank stands
    hidden: Tensor  # [B, L] true for hidden positions (false on padding)
    left: Tensor  # [B, L] for a hidden position, how many hidden ones adjoin on its left; 0 elsewhere
    right: Tensor  # [B, L] the same on its right
    emits: Tensor  # [B, L] true for positions that put a symbol on the canvas


def conceal(tokens: Tensor, lengths: Tensor, shown: Tensor, spread: Tensor | None = None) -> Concealed:
    """Show only the positions ``shown`` [B, L] of ``tokens`` [B, L]; each hidden run becomes one blank.

    Hidden positions of ``spread`` [B, L] put one blank symbol each on the canvas; a run of them ends where hidden
    positions follow that are not spread.
    """
    batch, width = tokens.shape
    position = torch.arange(width, device=tokens.device).expand(batch, width)  # [B, L]
    inside = position < lengths[:, None]  # [B, L]
    hidden = inside & ~shown
    spread = torch.zeros_like(hidden) if spread is None else spread & hidden
    same_run = [neighbour(hidden, side) & (neighbour(spread, side) == spread) for side in (+1, -1)]  # as the neighbour
    starts = hidden & ~same_run[0]  # [B, L] first position of each hidden run
    ends = hidden & ~same_run[1]  # [B, L] last position of each hidden run

    # A shown position emits itself; the first position of a hidden run emits the blank, or each of them does.
    emits = (inside & shown) | starts | spread  # [B, L]
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
        emits=emits,
    )


def neighbour(mask: Tensor, shift: int) -> Tensor:
    """``mask`` of the left (+1) or right (-1) neighbour; false beyond the ends."""
    moved = mask.roll(shift, dims=1)
    moved[:, 0 if shift > 0 else -1] = False
    return moved
