"""Weights at a few bits each: groups of neighbours in a row of a matrix share a scale.

A weight is (q + 1/2) * scale with -2^(b-1) <= q < 2^(b-1). The scale is rounded to float16 before q is computed, so
that storing what was loaded changes nothing. Training with the same rounding in every pass (``rounded_in_place``) finds
weights that lose little by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

GROUP = 32  # columns that share a scale
# The widths of the planes that hold the bits of a code, lowest first: each divides a byte.
PLANES = {2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1), 8: (4, 4)}
LARGEST_SCALE = 65504.0  # in float16


def quantise(matrix: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return the packed codes (uint8) [R, C * bits / 8] and the scales (float16) [R, C / 32] of a matrix [R, C]."""
    codes, scales = codes_of(matrix, bits)
    codes = (codes + 2 ** (bits - 1)).to(torch.uint8).flatten(1)  # [R, C] from 0
    planes, offset = [], 0
    for width in PLANES[bits]:
        parts = ((codes >> offset) & (2**width - 1)).chunk(8 // width, 1)  # [R, C * width / 8] each
        plane = parts[0]
        for i, part in enumerate(parts[1:], 1):
            plane = plane | (part << i * width)  # [R, C * width / 8]
        planes.append(plane)
        offset += width
    return torch.cat(planes, 1), scales.squeeze(2)


def dequantise(packed: Tensor, scales: Tensor, bits: int) -> Tensor:
    """Return the matrix [R, C] in float32 of ``packed`` [R, C * bits / 8] and ``scales`` [R, C / 32]."""
    rows, columns = len(packed), scales.shape[1] * GROUP
    codes = torch.zeros(rows, columns, dtype=torch.uint8, device=packed.device)  # [R, C]
    widths, offset = PLANES[bits], 0
    for width, plane in zip(widths, packed.split([columns * width // 8 for width in widths], 1), strict=True):
        for i, part in enumerate(codes.chunk(8 // width, 1)):  # [R, C * width / 8] each
            part |= ((plane >> i * width) & (2**width - 1)) << offset
        offset += width
    groups = codes.unflatten(1, (-1, GROUP)).float()  # [R, C / 32, 32]
    return groups.sub_(2 ** (bits - 1) - 0.5).mul_(scales.float().unsqueeze(2)).flatten(1)


def bits_of(packed: Tensor, scales: Tensor) -> int:
    """Return the bits per weight by the shapes of what ``quantise`` returned; 0 if it cannot have returned them."""
    if packed.dtype != torch.uint8 or (packed.dim(), scales.dim()) != (2, 2):
        return 0
    if len(packed) != len(scales) or not scales.numel():
        return 0
    bits, rest = divmod(8 * packed.shape[1], scales.shape[1] * GROUP)
    return bits if bits in PLANES and not rest else 0


def rounded(matrix: Tensor, bits: int) -> Tensor:
    """Return the values [..., R, C] in float32 that storing and loading would give a matrix or a stack of them."""
    codes, scales = codes_of(matrix, bits)
    return codes.add_(0.5).mul_(scales.float()).flatten(-2)


def codes_of(matrix: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return q [..., R, C / 32, 32], whole numbers in float32, and the scales (float16) [..., R, C / 32, 1].

    A scale is never so small that float16 would change it much, so the largest weight of a group keeps the largest q
    and comes back as it is when stored again. Zeros come back as half of that scale: 2^-21 at 4 bits.
    """
    half = 2 ** (bits - 1)
    groups = matrix.detach().float().unflatten(-1, (-1, GROUP))  # [..., R, C / 32, 32]
    greatest = groups.abs().amax(-1, keepdim=True)  # [..., R, C / 32, 1]
    # Multiplied, since a GPU would not divide by a number exactly as a CPU does.
    scales = (greatest * (1 / (half - 0.5))).clamp(2.0 ** (bits - 24), LARGEST_SCALE).half()  # [..., R, C / 32, 1]
    return (groups / scales.float()).floor_().clamp_(-half, half - 1), scales


def spread_in_cells(matrix: Tensor, bits: int) -> Tensor:
    """Move each weight [R, C] to a random place among all that are rounded to what it is: rounded, nothing changes.

    Weights that were stored stand in the middle of their cells. Whatever moves one by less than half a cell would be
    lost when it is rounded again; spread, a small step carries some of the weights over a border at once. The largest
    of a group stay: the scale is theirs.
    """
    codes, scales = codes_of(matrix, bits)
    half = 2 ** (bits - 1)
    inner = (codes > -half) & (codes < half - 1)
    within = 0.98 * (torch.rand_like(codes) - 0.5) * inner  # clear of the borders, for the sake of float32
    return codes.add_(0.5 + within).mul_(scales.float()).flatten(-2)


def can_be_grouped(tensor: Tensor) -> bool:
    """Whether a tensor is a matrix whose rows are whole groups."""
    return tensor.is_floating_point() and tensor.dim() == 2 and tensor.numel() > 0 and tensor.shape[1] % GROUP == 0


def grouped_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return what is stored in groups, by name: matrices of linear layers, except those that are an embedding too."""
    words = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)} - words
    return {name: p for name, p in model.named_parameters() if id(p) in linear and can_be_grouped(p)}


def grouped_embeddings(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the vectors of words that can be stored in groups, by name."""
    words = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {name: p for name, p in model.named_parameters() if id(p) in words and can_be_grouped(p)}


@contextmanager
def rounded_in_place(matrices: Sequence[Tensor], bits: int) -> Iterator[None]:
    """Let matrices have the values that they would be stored with, and then their own again.

    Gradients that are computed inside are those of the rounded weights, and are applied to the exact ones (a
    straight-through estimator). Matrices of one shape are rounded together: a GPU has few calls to wait for.
    """
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for matrix in matrices:
        by_shape.setdefault(matrix.shape, []).append(matrix)
    with torch.no_grad():
        exact = {shape: torch.stack(alike) for shape, alike in by_shape.items()}  # [K, R, C] each
        for shape, alike in by_shape.items():
            torch._foreach_copy_(alike, list(rounded(exact[shape], bits).unbind()))
    try:
        yield
    finally:
        with torch.no_grad():
            for shape, alike in by_shape.items():
                torch._foreach_copy_(alike, list(exact[shape].unbind()))
