"""Rotary positions: each pair of a query or a key is turned by the angle of its position."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Turns = tuple[Tensor, Tensor]  # cos and sin [T, 1, d/H / 2] of the angles
TurnsOf = Callable[[Tensor, int], Turns]  # of positions [T] below a number


def rotate(x: Tensor, turns: Turns) -> Tensor:
    """Turn each pair (x_i, x_{i + d/2H}) of x [T, H, d/H] by its position's angle: q.k depends on distance alone."""
    cos, sin = (part.to(x.dtype) for part in turns)
    first, second = x.chunk(2, dim=-1)  # each [T, H, d/H / 2]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
