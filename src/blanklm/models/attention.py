"""Attention over packed sequences, and what it asks of a cache of keys and values."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from blanklm.core.packing import ROWS, Packing

A_CALL = 500_000  # products of two numbers that take about the time of calling attention once


class LayerCache(Protocol):
    """What a layer's attention asks of a cache."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor: ...


def attend(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    """Attention within each packed sequence; q, k, v and the answer are [T, H, d/H]."""
    if not q.is_cuda and q.dtype == torch.bfloat16:  # on a CPU its backward pass is several times slower
        with torch.autocast(q.device.type, enabled=False):
            return attend(q.float(), k.float(), v.float(), packing, causal).to(q.dtype)
    return packing.attend(_attend_within, q, k, v, causal)


def _attend_within(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    if packing.row:
        return _attend_rows(q, k, v, packing, causal)
    if has_packed_kernel(q):
        return attend_packed(q, packing, k, v, packing, causal)
    return _attend_padded(q, k, v, packing, causal)


def has_packed_kernel(q: Tensor) -> bool:
    return q.is_cuda and q.dtype in (torch.bfloat16, torch.float16)


def attend_packed(q: Tensor, asking: Packing, k: Tensor, v: Tensor, read: Packing, causal: bool) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    window = (-1, 0) if causal else (-1, -1)
    attended = varlen_attn(q, k, v, asking.starts, read.starts, asking.longest, read.longest, window_size=window)
    assert isinstance(attended, Tensor)
    return attended


def _attend_rows(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    """Attend within rows of several short sequences: a mask keeps them apart."""
    row = next(size for size in ROWS if size == packing.row)  # the same number, but a constant to a compiler
    q, k, v = (part.unflatten(0, (-1, row)).transpose(1, 2) for part in (q, k, v))  # [R, H, S, d/H]
    sequence, position = (part.view(-1, row) for part in (packing.sequence, packing.position))  # [R, S]
    mask = sequence[:, :, None] == sequence[:, None]  # [R, S, S]; what is left over attends to itself
    if causal:
        mask = mask & (position[:, None] <= position[:, :, None])
    # Not cuDNN's attention, which takes 10 ms to get ready for every new number of rows.
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]) if q.is_cuda else nullcontext():
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])  # [R, H, S, d/H]
    return attended.transpose(1, 2).flatten(0, 1)


def _attend_padded(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    """Attend without a kernel for packed sequences: pad, attend, and remove the padding."""
    batch, longest = len(packing), packing.longest
    if len(q) == batch * longest:  # nothing to pad: all are of one length, as the drafts of one text are
        q, k, v = (part.view(batch, longest, *part.shape[1:]).transpose(1, 2) for part in (q, k, v))  # [B, H, L, d/H]
        return _scaled_dot_product(q, k, v, causal=causal).transpose(1, 2).flatten(0, 1)
    waste = batch * longest**2 - int(packing.lengths.square().sum())  # pairs of symbols of which one is padding
    if waste * q[0].numel() > batch * A_CALL:
        lengths = packing.lengths.tolist()
        parts = zip(
            *(part.transpose(0, 1)[None].split(lengths, 2) for part in (q, k, v)), strict=True
        )  # [1, H, l, d/H]
        apart = [_scaled_dot_product(*of_one, causal=causal) for of_one in parts]
        return torch.cat(apart, 2).squeeze(0).transpose(0, 1)
    q, k, v = (packing.padded(part).transpose(1, 2) for part in (q, k, v))  # each [B, H, L, d/H]
    column = torch.arange(longest, device=q.device)
    inside = column < packing.lengths[:, None]  # [B, L]
    mask = inside[:, None, None]  # [B, 1, 1, L]: keys beyond the end are not attended to
    if causal:
        mask = mask & (column <= column[:, None])
    attended = _scaled_dot_product(q, k, v, mask)  # [B, H, L, d/H]
    return attended.transpose(1, 2)[packing.sequence, packing.position]


def _scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
    """[B, H, n, d/H]; keys and values [B, G, L, d/H] may have fewer heads, each shared by H / G of the queries."""
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)
