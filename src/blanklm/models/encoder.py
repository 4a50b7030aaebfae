"""The encoder that every model shares: a pre-norm Transformer with rotary positions.

It maps a sequence of vectors to a sequence of vectors (z_1, ..., z_n); what is asked of them is each model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.core.rotation import Turns, rotate
from blanklm.core.special import BLANK, EOS
from blanklm.errors import BlankLMError
from blanklm.models.attention import LayerCache, attend
from blanklm.models.settings import Settings


@dataclass(frozen=True)
class EncoderConfig(Settings):
    layers: int
    heads: int
    width: int
    feedforward: int
    dropout: float = 0.1  # of the input and of each sub-layer's output
    hidden_dropout: float = 0.0  # inside the feed-forward sub-layers
    output_dropout: float = 0.0  # of the vectors that the encoder returns
    word_dropout: float = 0.0  # the share of shown words whose vectors are zeroed in training

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dropout", "hidden_dropout", "output_dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise BlankLMError(f"{name.replace('_', ' ')} must be 0 or more and below 1, not {getattr(self, name)}")

    def build(self, causal: bool = False) -> Encoder:
        return Encoder(self, causal)

    @classmethod
    def of_size(cls, size: str, dropout: float = 0.1) -> EncoderConfig:
        """``base`` is the paper's transformer_base; ``small`` and ``tiny`` are for a laptop."""
        if size not in SIZES:
            raise BlankLMError(f"there is no size {size!r}: choose {', '.join(SIZES)}")
        return cls(*SIZES[size], dropout=dropout)


TABULATED = 2048  # positions whose rotary angles are kept
WORDS_AT_ONCE = 40_960  # a larger vocabulary is read in parts in training

SIZES = {  # layers, heads, width, feed-forward width
    "tiny": (2, 2, 64, 256),
    "small": (4, 4, 256, 1024),
    "base": (6, 8, 512, 2048),
}


class Encoder(nn.Module):
    """Bidirectional, or causal for left-to-right models.

    Sequences come packed end to end: no layer computes anything for padding. Dropout is on the input and on each
    sub-layer's output, as in the original Transformer, and elsewhere where the config asks for it; attention weights
    are not dropped, since kernels for packed sequences cannot.
    """

    def __init__(self, config: EncoderConfig, causal: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, causal) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.output_dropout = Dropout(config.output_dropout)
        self.rotary = Rotary(frequencies(config.width // config.heads))

    def forward(
        self,
        vectors: Tensor,
        packing: Packing,
        cache: Sequence[LayerCache] | None = None,
        asked: Tensor | None = None,
    ) -> Tensor:
        """Packed ``vectors`` [T, d] -> z [T, d]; with a ``cache``, they may continue sequences read before.

        ``asked`` [K]: the only symbols whose z [K, d] is returned; its ``cache`` is told, too (``FrozenCache``).
        """
        rotary, packing = packing.turned(self.rotary)
        if torch.is_autocast_enabled(vectors.device.type):  # in half precision from the first layer to the last
            vectors = vectors.to(torch.get_autocast_dtype(vectors.device.type))
        z = self.dropout(vectors)
        for number, layer in enumerate(self.layers):
            last = number == len(self.layers) - 1
            z = layer(z, rotary, packing, cache and cache[number], asked if last else None)
        return self.output_dropout(self.norm(z))


class EncoderLayer(nn.Module):
    def __init__(self, config: EncoderConfig, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = config.heads, causal
        self.attention_norm = nn.LayerNorm(config.width)
        self.queries_keys_values = nn.Linear(config.width, 3 * config.width)
        self.attention_out = nn.Linear(config.width, config.width)
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.feedforward_in = nn.Linear(config.width, config.feedforward)
        self.feedforward_out = nn.Linear(config.feedforward, config.width)
        self.dropout = Dropout(config.dropout)
        self.hidden_dropout = Dropout(config.hidden_dropout)

    def forward(
        self,
        z: Tensor,
        rotary: Turns,
        packing: Packing,
        cache: LayerCache | None = None,
        asked: Tensor | None = None,
    ) -> Tensor:
        total = len(z)
        qkv = self.queries_keys_values(self.attention_norm(z)).view(total, 3, self.heads, -1)  # [T, 3, H, d/H]
        q, k, v = qkv.unbind(1)  # each [T, H, d/H]
        q, k = rotate(q, rotary), rotate(k, rotary)
        read = cache.attend(q, k, v, packing) if cache else attend(q, k, v, packing, self.causal)  # [T, H, d/H]
        z = z if asked is None else z[asked]
        z = z + self.dropout(self.attention_out(read.reshape(z.shape)))
        inner = self.hidden_dropout(F.gelu(self.feedforward_in(self.feedforward_norm(z))))  # [T, ff]
        return z + self.dropout(self.feedforward_out(inner))


class WordVectors(nn.Embedding):
    """The vectors of words, which also predict words (tied)."""

    def logits(self, z: Tensor, bias: Tensor) -> Tensor:
        """W z + b [K, V] for z [K, d]."""
        return F.linear(z, self.weight, bias)


class Dropout(nn.Dropout):
    """Dropout with cheap random numbers: under ``torch.compile`` a hash of the index, because Inductor's RNG makes the
    kernel compute-bound; on a CPU, one 64-bit draw per four elements."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.p:
            if torch.compiler.is_compiling():
                seed = torch.randint(-(2**31), 2**31, (1,), dtype=torch.int32, device=x.device)
                return drop_by_hash(x, self.p, seed)
            if x.device.type == "cpu":
                return drop_by_bits(x, self.p)
        return super().forward(x)


def drop_by_bits(x: Tensor, share: float) -> Tensor:
    """Dropout by sixteen random bits for each place of x: ``share`` is rounded to a 2^16-th, and the rest scaled so."""
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = numbers.view(torch.int16)[: x.numel()].view(x.shape)  # [...] uniform over -2^15 ... 2^15 - 1
    dropped = round(share * 2**16)
    return x * (bits >= dropped - 2**15).to(x.dtype).mul_(2**16 / (2**16 - dropped))


def drop_by_hash(x: Tensor, share: float, seed: Tensor) -> Tensor:
    """Dropout by a hash of each place of x and the ``seed`` [1] int32: three multiplications with shifts between."""
    place = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    mixed = (place ^ seed) * -0x61C88647  # wraps around
    mixed = (mixed ^ (mixed >> 16 & 0xFFFF)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15 & 0x1FFFF)) * -0x7B935975  # uniform over -2^31 ... 2^31 - 1
    return torch.where(mixed >= int(share * 2**32) - 2**31, x / (1 - share), 0.0)


def drop_words(embedding: nn.Module, symbols: Tensor, share: float, kept: Tensor | None = None) -> Tensor:
    """The vectors [T, d] of ``symbols`` [T]; in training a ``share`` of the words has none.

    Blanks, <eos> and what is ``kept`` [T] have theirs: a sequence of nothing but zeros stays zero in every layer, and
    each of its norms would multiply gradients by a few hundred.
    """
    vectors = embedding(symbols)
    if not (embedding.training and share):
        return vectors
    lost = torch.rand(len(symbols), device=vectors.device) < share  # [T]
    lost = lost & (symbols != BLANK) & (symbols != EOS)
    if kept is not None:
        lost = lost & ~kept
    return vectors.masked_fill(lost[:, None], 0.0)


class Rotary(nn.Module):
    """cos and sin of the angles of packed positions: looked up, or a compiler would compute them in every layer."""

    cos: Tensor  # [TABULATED, 1, d/H / 2]
    sin: Tensor

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        self.frequencies = frequencies  # [d/H / 2]; not a buffer, which would lose precision with the weights
        cos, sin = self.angles(torch.arange(TABULATED))
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, position: Tensor, longest: int) -> Turns:
        """Return cos and sin of each ``position`` [T] below ``longest``."""
        if longest <= TABULATED:
            return self.cos[position], self.sin[position]
        return self.angles(position)

    def angles(self, position: Tensor) -> Turns:
        """cos and sin [T, 1, d/H / 2] of position times frequency."""
        if position.is_meta:  # a model that is only counted; arithmetic there would import torch's compiler
            return (torch.empty(len(position), 1, len(self.frequencies)),) * 2
        angle = position[:, None, None] * self.frequencies.to(position.device)
        return angle.cos(), angle.sin()


def frequencies(width: int, base: float = 10_000.0) -> Tensor:
    """[d/2] radians per position, by which the pairs of a vector of this width turn."""
    exponents = torch.tensor(range(0, width, 2))  # ``arange`` on the meta device would import torch's compiler
    return exponents if exponents.is_meta else base ** (-exponents / width)  # see ``Rotary.angles``


def initialise(module: nn.Module) -> None:
    """Initialise matrices with small random numbers, biases with zeros."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
