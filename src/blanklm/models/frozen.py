"""Windows of texts that are encoded again and again, changed, among keys and values of the whole that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from blanklm.core.packing import Packing
from blanklm.models.packed_linear import product

if TYPE_CHECKING:
    from blanklm.models.encoder import Encoder


@dataclass(frozen=True)
class Stretch:
    """``rows`` windows of ``length`` symbols each, packed end to end, all of one sequence."""

    sequence: int
    rows: int
    length: int


class FrozenCache(list["LayerFrozenCache"]):
    """Keys and values of bidirectional layers over whole sequences, so that windows of them can be read again, changed.

    Pass it to the encoder with the sequences, asking for nothing, then pass ``around`` with windows of them. On a CPU.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(LayerFrozenCache(layer is encoder.layers[-1]) for layer in encoder.layers)

    def leave_out(self, inside: Tensor) -> None:
        """Keep of each sequence what is outside of its window, the positions ``inside`` [B, L]."""
        for layer in self:
            layer.leave_out(inside)

    def around(self, stretches: Sequence[Stretch], asked: Tensor) -> list[LayerFrozenWindow]:
        """A cache for windows of the sequences, which attend to what is around them as it was first read.

        The last layer answers for the ``asked`` [K] symbols alone, in rising order.
        """
        return [LayerFrozenWindow(layer, stretches, asked if layer is self[-1] else None) for layer in self]


class LayerFrozenCache:
    def __init__(self, is_last: bool) -> None:
        self.is_last = is_last

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        lengths = packing.lengths.tolist()
        self.read = list(zip(k.split(lengths), v.split(lengths), strict=True))  # keys and values [L, H, d/H] of each
        if self.is_last:
            return q[:0]
        of_each = zip(q.split(lengths), self.read, strict=True)
        return torch.cat([_attend_far(queries, *_laid_out(*both))[0] for queries, both in of_each])

    def leave_out(self, inside: Tensor) -> None:
        self.far = []  # keys [H, F, d/H], scaled, and values [H, d/H, F]
        for number, (k, v) in enumerate(self.read):
            outside = ~inside[number, : len(k)]  # [L]
            self.far.append(_laid_out(k[outside], v[outside]))
        del self.read


class LayerFrozenWindow:
    def __init__(self, cache: LayerFrozenCache, stretches: Sequence[Stretch], asked: Tensor | None) -> None:
        self.cache, self.stretches, self.asked = cache, stretches, asked

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        """Attend within each window and, all windows of a sequence at once, to what is far: no key is copied."""
        attended, first = [], 0
        for stretch in self.stretches:
            end = first + stretch.rows * stretch.length
            queries = q[first:end]  # [R n, H, d/H]
            near, near_mass = _attend_near(queries, k[first:end], v[first:end], stretch.rows)
            if self.asked is not None:
                chosen = self.asked[(self.asked >= first) & (self.asked < end)] - first  # [A]
                queries, near, near_mass = queries[chosen], near[chosen], near_mass[chosen]
            keys, values = self.cache.far[stretch.sequence]
            if keys.shape[1]:
                far, far_mass = _attend_far(queries, keys, values)
                near = torch.lerp(near, far, torch.sigmoid(far_mass - near_mass)[..., None])
            attended.append(near)  # [A, H, d/H]
            first = end
        return torch.cat(attended)


def _laid_out(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values [F, H, d/H] as ``_attend_far`` reads them."""
    return (k * k.shape[2] ** -0.5).transpose(0, 1).contiguous(), v.permute(1, 2, 0).contiguous()


def _attend_near(q: Tensor, k: Tensor, v: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Attend within each of ``rows`` windows [R n, H, d/H]; also return the mass [R n, H]."""
    q, k, v = (part.unflatten(0, (rows, -1)).transpose(1, 2) for part in (q * q.shape[2] ** -0.5, k, v))
    share, mass = _shares(torch.matmul(q, k.transpose(2, 3)))  # [R, H, n, n], [R, H, n]
    attended = torch.matmul(share, v)  # [R, H, n, d/H]
    return attended.transpose(1, 2).flatten(0, 1), mass.transpose(1, 2).flatten(0, 1)


def _attend_far(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with q [A, H, d/H] to keys [H, F, d/H], scaled, and values [H, d/H, F]; also return the mass [A, H].

    Head by head, by the products of linear layers, which are twice as fast as those of attention.
    """
    attended, masses = torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:2])
    for head, (keys, values) in enumerate(zip(k, v, strict=True)):
        share, masses[:, head] = _shares(product(q[:, head], keys))  # [A, F], [A]
        attended[:, head] = product(share, values)
    return attended, masses


def _shares(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax of scores [..., F], and the log of the sum of their exp [...], to join two sets of keys."""
    highest, share = scores.amax(-1), scores.softmax(-1)
    return share, highest - share.amax(-1).log_()
