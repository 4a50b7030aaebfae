"""Canvases that are read once, and what is written after them, a symbol at a time.

The model reads a canvas and what is written into it as one sequence (``core/writing.py``). Of what it has read, only
keys and values are asked for again, so these are kept: those of a canvas for all that is written after it, those of
what was written for whatever goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from blanklm.core.packing import Packing
from blanklm.core.rotation import Turns, rotate
from blanklm.models.attention import attend


@dataclass(frozen=True, eq=False)
class CanvasRead:
    """Keys and values of a canvas, as they stand for what is written after it."""

    read: Tensor  # [layers, 2, C, G, d/H]
    blanks: tuple[int, ...]  # the positions of its blanks, with the gaps before them


@dataclass(frozen=True, eq=False)
class Page:
    """A canvas, and what was written after it so far: t symbols."""

    canvas: CanvasRead
    written: Tensor  # [layers, 2, t, G, d/H] keys and values
    begun: int = 0  # spans
    position: int = -1  # of the last symbol

    def position_of_next(self, begins: bool) -> int:
        return self.canvas.blanks[self.begun] if begins else self.position + 1

    def with_next(self, written: Tensor, begins: bool) -> Page:
        return Page(self.canvas, written, self.begun + begins, self.position_of_next(begins))


class Reading(list["LayerReading"]):
    """A cache that keeps what the layers of an encoder read of canvases; ``shifts`` turn keys by the gaps."""

    def __init__(self, layers: int, shifts: Turns) -> None:
        super().__init__(LayerReading(shifts) for _ in range(layers))

    def pages(self, packing: Packing, blanks: Sequence[tuple[int, ...]]) -> list[Page]:
        """An empty page of each canvas; ``blanks`` are the positions of theirs."""
        read = torch.stack([torch.stack((layer.keys, layer.values)) for layer in self])  # [layers, 2, T, G, d/H]
        canvases = map(CanvasRead, read.split(packing.lengths.tolist(), 2), blanks)
        return [Page(canvas, canvas.read[:, :, :0]) for canvas in canvases]


class LayerReading:
    keys: Tensor  # [T, G, d/H]
    values: Tensor

    def __init__(self, shifts: Turns) -> None:
        self.shifts = shifts

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        self.keys, self.values = rotate(k, self.shifts), v
        return attend(q, k, v, packing, causal=False)


class Continuing(list["LayerContinuing"]):
    """A cache by which the next symbol of each of R pages reads its page, and is kept there.

    Many pages go on from one canvas: its keys are multiplied by the queries of all of them at once, and never copied.
    """

    def __init__(self, pages: Sequence[Page]) -> None:
        canvases = list({id(page.canvas): page.canvas for page in pages}.values())
        number = {id(canvas): c for c, canvas in enumerate(canvases)}
        of = [number[id(page.canvas)] for page in pages]
        counters = [count() for _ in canvases]
        device = pages[0].written.device
        self.of = torch.tensor(of, device=device)  # [R] the canvas of each page
        self.slot = torch.tensor([next(counters[c]) for c in of], device=device)  # [R] which of that canvas's pages
        self.canvases, self.canvas_inside = _padded([canvas.read for canvas in canvases])  # [layers, 2, N, C, G, d/H]
        room = [page.written.shape[2] for page in pages]
        self.end = torch.tensor(room, device=device)  # [R]
        self.written, _ = _padded([page.written for page in pages], max(room) + 1)  # [layers, 2, R, t + 1, G, d/H]
        self.written_inside = torch.arange(max(room) + 1, device=device) <= self.end[:, None]  # [R, t + 1]
        super().__init__(LayerContinuing(self, layer) for layer in range(len(self.written)))

    def pages(self, pages: Sequence[Page], begins: Sequence[bool]) -> list[Page]:
        """The pages after their next symbol was read."""
        ends = (self.end + 1).tolist()
        return [
            page.with_next(self.written[:, :, r, : ends[r]], begins[r]) for r, page in enumerate(pages)
        ]  # views: what is not gone on from is forgotten with the tensor of its step


class LayerContinuing:
    def __init__(self, of_all: Continuing, layer: int) -> None:
        self.of_all, self.layer = of_all, layer

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        """Attention of one symbol a page, q [R, H, d/H], k and v [R, G, d/H], over its canvas and what it wrote."""
        whole, layer = self.of_all, self.layer
        written_keys, written_values = whole.written[layer]  # [R, t + 1, G, d/H] each
        rows = torch.arange(len(q), device=q.device)
        written_keys[rows, whole.end], written_values[rows, whole.end] = k.to(written_keys), v.to(written_values)
        canvas_keys, canvas_values = whole.canvases[layer].transpose(2, 3)  # [N, G, C, d/H] each
        q = q.to(written_keys).unflatten(1, (k.shape[1], -1)) * q.shape[-1] ** -0.5  # [R, G, H/G, d/H]

        asked = q.new_zeros(len(canvas_keys), int(whole.slot.max()) + 1, *q.shape[1:])  # [N, n, G, H/G, d/H]
        asked[whole.of, whole.slot] = q
        on_canvas = asked.transpose(1, 2).flatten(2, 3) @ canvas_keys.transpose(2, 3)  # [N, G, n * H/G, C]
        on_canvas = on_canvas.unflatten(2, asked.shape[1:4:2]).transpose(1, 2)[whole.of, whole.slot]  # [R, G, H/G, C]
        on_written = q @ written_keys.permute(0, 2, 3, 1)  # [R, G, H/G, t + 1]
        inside = torch.cat((whole.canvas_inside[whole.of], whole.written_inside), 1)[:, None, None]  # [R, 1, 1, C + t]
        weights = torch.cat((on_canvas, on_written), 3).masked_fill(~inside, -torch.inf).softmax(3)
        on_canvas, on_written = weights.split((on_canvas.shape[3], on_written.shape[3]), 3)

        share = weights.new_zeros(*asked.shape[:4], on_canvas.shape[3])  # [N, n, G, H/G, C]
        share[whole.of, whole.slot] = on_canvas
        read = share.transpose(1, 2).flatten(2, 3) @ canvas_values  # [N, G, n * H/G, d/H]
        read = read.unflatten(2, asked.shape[1:4:2]).transpose(1, 2)[whole.of, whole.slot]  # [R, G, H/G, d/H]
        return (read + on_written @ written_values.transpose(1, 2)).flatten(1, 2).to(v)  # [R, H, d/H]


def _padded(parts: Sequence[Tensor], longest: int | None = None) -> tuple[Tensor, Tensor]:
    """Stack tensors [layers, 2, l, G, d/H] of several l -> [layers, 2, N, L, G, d/H]; and [N, L], what is inside."""
    lengths = [part.shape[2] for part in parts]
    longest = max(lengths) if longest is None else longest
    layers, two, _, *rest = parts[0].shape
    stacked = parts[0].new_zeros(layers, two, len(parts), longest, *rest)
    for n, part in enumerate(parts):
        stacked[:, :, n, : lengths[n]] = part
    inside = torch.arange(longest, device=stacked.device) < torch.tensor(lengths, device=stacked.device)[:, None]
    return stacked, inside
