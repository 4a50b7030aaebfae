"""Words of a character model's context, as hashed vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from blanklm.core.orders import shift_right, signed


def hashed_words(symbols: Tensor, ends: Tensor, lost: Tensor, buckets: int) -> Tensor:
    """[B, C] a number of 1 ... buckets - 1 for the word that each of the ``symbols`` [B, C] stands in, by its spelling.

    Words lie between the symbols that ``ends`` [B, C] marks. A word with a ``lost`` [B, C] symbol has 0, as have ends.
    """
    number = ends.cumsum(1)  # [B, C] of the word; an end has that of the word after it
    place = torch.arange(symbols.shape[1], device=symbols.device).expand_as(symbols)
    begin = torch.where(ends, place, -1).cummax(1).values  # [B, C] the end before the word
    powers = [signed(pow(0x5851F42D4C957F2D, i, 1 << 64)) for i in range(64)]
    power = torch.tensor(powers, device=symbols.device)[(place - begin).clamp_max(63)]  # [B, C]
    zeros = torch.nn.functional.pad(torch.zeros_like(symbols), (0, 1))  # [B, C + 1]
    letters = torch.where(ends, 0, (symbols + 1) * power)  # wraps around, as hashes may
    total = zeros.scatter_add(1, number, letters).gather(1, number)  # [B, C]
    broken = zeros.scatter_add(1, number, (lost & ~ends).long()).gather(1, number)  # [B, C]
    mixed = (total ^ shift_right(total, 29)) * signed(0xBF58476D1CE4E5B9)
    bucket = 1 + shift_right(mixed, 20).remainder(buckets - 1)
    return torch.where(ends | (broken > 0), 0, bucket)
