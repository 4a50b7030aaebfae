"""The encoder that every model shares: a pre-norm Transformer with rotary positions.

It maps a sequence of vectors to a sequence of vectors (z_1, ..., z_n); what is asked of them is each model's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.errors import BlankLMError


@dataclass(frozen=True)
class EncoderConfig:
    layers: int
    heads: int
    width: int
    feedforward: int
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise BlankLMError(f"dropout must be 0 or more and below 1, not {self.dropout}")

    @classmethod
    def of_size(cls, size: str, dropout: float = 0.1) -> EncoderConfig:
        """``base`` is the paper's transformer_base; ``small`` and ``tiny`` are for a laptop."""
        if size not in SIZES:
            raise BlankLMError(f"there is no size {size!r}: choose {', '.join(SIZES)}")
        return cls(*SIZES[size], dropout=dropout)


SIZES = {  # layers, heads, width, feed-forward width
    "tiny": (2, 2, 64, 256),
    "small": (4, 4, 256, 1024),
    "base": (6, 8, 512, 2048),
}


class Encoder(nn.Module):
    """Bidirectional, or causal for left-to-right models."""

    def __init__(self, config: EncoderConfig, causal: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, causal) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.head_width = config.width // config.heads

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """``vectors`` [B, C, d], of which the first ``lengths`` [B] count -> z [B, C, d]."""
        width = vectors.shape[1]
        rotary = rotary_angles(width, self.head_width, vectors.device)
        inside = None
        if len(lengths) > 1:  # a single text has no padding
            inside = (torch.arange(width, device=vectors.device) < lengths[:, None])[:, None, None]  # [B, 1, 1, C]
        z = self.dropout(vectors)
        for layer in self.layers:
            z = layer(z, rotary, inside)
        return self.norm(z)


class EncoderLayer(nn.Module):
    def __init__(self, config: EncoderConfig, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout_rate = config.heads, causal, config.dropout
        self.attention_norm = nn.LayerNorm(config.width)
        self.queries_keys_values = nn.Linear(config.width, 3 * config.width)
        self.attention_out = nn.Linear(config.width, config.width)
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.feedforward_in = nn.Linear(config.width, config.feedforward)
        self.feedforward_out = nn.Linear(config.feedforward, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, z: Tensor, rotary: tuple[Tensor, Tensor], inside: Tensor | None) -> Tensor:
        batch, length, width = z.shape
        qkv = self.queries_keys_values(self.attention_norm(z))  # [B, C, 3d]
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # each [B, H, C, d/H]
        mask = inside
        if self.causal and inside is not None:
            mask = inside & torch.ones(length, length, dtype=torch.bool, device=z.device).tril()
        attended = F.scaled_dot_product_attention(
            rotate(q, rotary),
            rotate(k, rotary),
            v,
            attn_mask=mask,
            is_causal=self.causal and mask is None,
            dropout_p=self.dropout_rate if self.training else 0.0,
        )  # [B, H, C, d/H]
        attended = attended.transpose(1, 2).reshape(batch, length, width)
        z = z + self.dropout(self.attention_out(attended))
        inner = F.gelu(self.feedforward_in(self.feedforward_norm(z)))  # [B, C, ff]
        return z + self.dropout(self.feedforward_out(inner))


def rotary_angles(length: int, head_width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin [C, d/H / 2] of position times frequency."""
    frequency = 10000.0 ** (-torch.arange(0, head_width, 2, device=device) / head_width)  # [d/H / 2]
    angle = torch.arange(length, device=device)[:, None] * frequency  # [C, d/H / 2]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (x_i, x_{i + d/2H}) by its position's angle, so that q.k depends on distance alone."""
    cos, sin = (part.to(x.dtype) for part in rotary)
    first, second = x.chunk(2, dim=-1)  # each [B, H, C, d/H / 2]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
