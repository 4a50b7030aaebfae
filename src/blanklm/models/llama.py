"""The encoder of a Llama-type language model, read in both directions: RMSNorm, grouped key-value heads, SwiGLU.

It takes the weights of Llama, SmolLM2, Qwen2, Qwen2.5 and Qwen3 (``models/causal_backbone.py``). As a blank filler a
position attends to all others; in causal mode the layers compute what the language model computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.core.rotation import Turns, rotate
from blanklm.errors import BlankLMError
from blanklm.models.attention import LayerCache, attend
from blanklm.models.encoder import Rotary, frequencies
from blanklm.models.settings import Settings


@dataclass(frozen=True)
class RotaryScaling(Settings):
    """Llama 3's stretching of slow rotations, for contexts longer than ``original_length``."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_length: int


@dataclass(frozen=True)
class LlamaConfig(Settings):
    layers: int
    heads: int
    key_value_heads: int
    width: int
    head_width: int
    feedforward: int
    longest: int  # tokens of text that it takes
    rotary_base: float = 10_000.0
    rotary_scaling: RotaryScaling | None = None
    norm_epsilon: float = 1e-5
    query_bias: bool = False  # Qwen2: queries, keys and values have a bias
    query_norm: bool = False  # Qwen3: the heads of queries and keys are normalised

    word_dropout = 0.0  # its weights are pretrained

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("layers", "heads", "key_value_heads", "width", "head_width", "feedforward", "longest"):
            if getattr(self, name) < 1:
                raise BlankLMError(f"`{name}` must be at least 1, not {getattr(self, name)}")
        if self.heads % self.key_value_heads:
            raise BlankLMError(f"{self.heads} heads cannot share {self.key_value_heads} key-value heads evenly")
        if self.head_width % 2:
            raise BlankLMError(f"`head_width` must be even to be rotated, not {self.head_width}")

    def build(self, causal: bool = False) -> LlamaEncoder:
        return LlamaEncoder(self, causal)


class LlamaEncoder(nn.Module):
    """Vectors to vectors, like ``Encoder``, over packed sequences."""

    def __init__(self, config: LlamaConfig, causal: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LlamaLayer(config, causal) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=config.norm_epsilon)
        self.rotary = Rotary(scaled_frequencies(config))

    def forward(
        self,
        vectors: Tensor,
        packing: Packing,
        cache: Sequence[LayerCache] | None = None,
        steering: Tensor | None = None,
    ) -> Tensor:
        """Packed ``vectors`` [T, d] -> z [T, d]; with a ``cache``, they may continue sequences read before.

        ``steering`` [layers, 1 or T, d] is added to what each layer reads.
        """
        return self.norm(self.below(len(self.layers), vectors, packing, cache, steering))

    def below(
        self,
        layers: int,
        vectors: Tensor,
        packing: Packing,
        cache: Sequence[LayerCache] | None = None,
        steering: Tensor | None = None,
    ) -> Tensor:
        """What the first ``layers`` make of ``vectors`` [T, d]: what the next one would read [T, d]."""
        rotary, packing = packing.turned(self.rotary)
        if torch.is_autocast_enabled(vectors.device.type):  # in half precision from the first layer to the last
            vectors = vectors.to(torch.get_autocast_dtype(vectors.device.type))
        z = vectors
        for number, layer in enumerate(self.layers[:layers]):
            if steering is not None:
                z = z + steering[number].to(z.dtype)
            z = layer(z, rotary, packing, cache and cache[number])
        return z


class LlamaLayer(nn.Module):
    def __init__(self, config: LlamaConfig, causal: bool) -> None:
        super().__init__()
        self.heads, self.key_value_heads, self.causal = config.heads, config.key_value_heads, causal
        size, bias = config.head_width, config.query_bias
        self.attention_norm = nn.RMSNorm(config.width, eps=config.norm_epsilon)
        self.queries = nn.Linear(config.width, config.heads * size, bias=bias)
        self.keys = nn.Linear(config.width, config.key_value_heads * size, bias=bias)
        self.values = nn.Linear(config.width, config.key_value_heads * size, bias=bias)
        self.attention_out = nn.Linear(config.heads * size, config.width, bias=False)
        normalised = (nn.RMSNorm(size, eps=config.norm_epsilon) if config.query_norm else nn.Identity() for _ in "qk")
        self.query_norm, self.key_norm = normalised
        self.feedforward_norm = nn.RMSNorm(config.width, eps=config.norm_epsilon)
        self.gate = nn.Linear(config.width, config.feedforward, bias=False)
        self.feedforward_in = nn.Linear(config.width, config.feedforward, bias=False)
        self.feedforward_out = nn.Linear(config.feedforward, config.width, bias=False)

    def forward(self, z: Tensor, rotary: Turns, packing: Packing, cache: LayerCache | None = None) -> Tensor:
        x = self.attention_norm(z)  # [T, d]
        q = rotate(self.query_norm(self.queries(x).unflatten(1, (self.heads, -1))), rotary)  # [T, H, d/H]
        k = rotate(self.key_norm(self.keys(x).unflatten(1, (self.key_value_heads, -1))), rotary)  # [T, G, d/H]
        v = self.values(x).unflatten(1, (self.key_value_heads, -1))  # [T, G, d/H]
        k, v = (part.repeat_interleave(self.heads // self.key_value_heads, 1) for part in (k, v))  # [T, H, d/H]
        read = cache.attend(q, k, v, packing) if cache else attend(q, k, v, packing, self.causal)  # [T, H, d/H]
        z = z + self.attention_out(read.flatten(1))
        x = self.feedforward_norm(z)
        return z + self.feedforward_out(F.silu(self.gate(x)) * self.feedforward_in(x))


def scaled_frequencies(config: LlamaConfig) -> Tensor:
    """[d/H / 2] radians per position; slow ones are stretched where the config says so."""
    turns, scaling = frequencies(config.head_width, config.rotary_base), config.rotary_scaling
    if scaling is None or turns.is_meta:
        return turns
    # How often a pair turns within the original length: seldom, and it is stretched whole; often, and it is left alone.
    often = scaling.original_length * turns / (2 * math.pi)
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    kept = ((often - low) / (high - low)).clamp(0, 1)
    return turns * (kept + (1 - kept) / scaling.factor)
