"""Hash the words in a character model's context, so that they can be embedded."""

from __future__ import annotations

import torch
from torch import Tensor

from blanklm.core.orders import shift_right, signed


def hashed_words(symbols: Tensor, ends: Tensor, lost: Tensor, buckets: int) -> Tensor:
    """Return a hash [B, C] in 1 ... buckets - 1 of the spelling of the word that each of the ``symbols`` [B, C] is in.

    Words are separated by the symbols where ``ends`` [B, C] is true. Ends, and words with a ``lost`` [B, C] symbol,
    have 0.
    """
    number = ends.cumsum(1)  # [B, C] of the word; an end has the number of the word after it
    place = torch.arange(symbols.shape[1], device=symbols.device).expand_as(symbols)  # [B, C]
    begin = torch.where(ends, place, -1).cummax(1).values  # [B, C] the end before the word
    powers = [signed(pow(0x5851F42D4C957F2D, i, 1 << 64)) for i in range(64)]
    power = torch.tensor(powers, device=symbols.device)[(place - begin).clamp_max(63)]  # [B, C]
    zeros = torch.nn.functional.pad(torch.zeros_like(symbols), (0, 1))  # [B, C + 1]
    letters = torch.where(ends, 0, (symbols + 1) * power)  # [B, C] overflow wraps around, which a hash may
    total = zeros.scatter_add(1, number, letters).gather(1, number)  # [B, C]
    broken = zeros.scatter_add(1, number, (lost & ~ends).long()).gather(1, number)  # [B, C]
    mixed = (total ^ shift_right(total, 29)) * signed(0xBF58476D1CE4E5B9)  # [B, C]
    bucket = 1 + shift_right(mixed, 20).remainder(buckets - 1)  # [B, C]
    return torch.where(ends | (broken > 0), 0, bucket)
