"""Matrix products in whole numbers of 8 bits: how a large model fills on a CPU.

Reading the weights takes most of a pass over a few short canvases; in 8 bits they are a quarter of what they are in
float32, and a processor multiplies four times as many at once. The rows of a matrix are rounded once, to multiples of
a 127th of their largest weight; the rows of what it multiplies at every product, likewise. So no number depends on
what else is in a batch.

A few channels of what a Transformer computes are many times as large as all others and would leave these two or three
of the 8 bits. ``balance`` moves half of that factor, in logarithms, into the matrix that reads the channels; what the
model computes stays the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.core.rotation import Turns, rotate
from blanklm.core.special import BLANK
from blanklm.errors import BlankLMError
from blanklm.models.attention import LayerCache, attend
from blanklm.models.encoder import WORDS_AT_ONCE, Encoder, EncoderLayer, WordVectors
from blanklm.models.llama import LlamaEncoder, LlamaLayer

GREATEST = 127  # of the whole numbers
LEAST_ROW = 1e-20  # the largest number of a row counts as this at least, so that none is divided by 0
READ_TO_BALANCE = 32  # random tokens that show which channels are large


class Int8Matrix(nn.Module):
    """W [N, K] of a linear layer, in 8 bits, with its bias in float32."""

    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.parameter_count = weight.numel() + (0 if bias is None else bias.numel())
        whole, step = in_whole_numbers(weight.detach())
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.product = _PackedProduct(whole, step) if has_kernel() else _PlainProduct(whole, step)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        """x [T, K] -> scale * x W^T + b [T, N]; ``scale`` [T, 1] is 1 unless it is given."""
        greatest = x.abs().amax(1, True).clamp_min_(LEAST_ROW)  # [T, 1]
        product = self.product(x / greatest)  # [T, N]
        product.mul_(greatest if scale is None else greatest.mul_(scale))
        return product if self.bias is None else product.add_(self.bias)


def in_whole_numbers(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return W [N, K] as whole numbers from -127 to 127, and what they are multiples of [N, 1]."""
    step = matrix.abs().amax(1, True).clamp_min(LEAST_ROW) / GREATEST  # [N, 1]
    return (matrix / step).round_().to(torch.int8), step


class _PlainProduct:
    """x [T, K], from -1 to 1, times whole numbers [N, K]: x is rounded to 127ths. In float32, for any CPU."""

    def __init__(self, whole: Tensor, step: Tensor) -> None:
        self.rows, self.step = whole.float(), step.squeeze(1) / GREATEST  # [N, K], [N]

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear((x * GREATEST).round_(), self.rows).mul_(self.step)  # [T, N]


class _PackedProduct:
    """The same by instructions for 8 bits; the numbers that are summed are equal."""

    def __init__(self, whole: Tensor, step: Tensor) -> None:
        zeros = torch.zeros(len(whole), dtype=torch.long)
        with _engine("fbgemm"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such tensors are deprecated; the kernel takes its rows as nothing else
            rows = torch._make_per_channel_quantized_tensor(whole, step.squeeze(1).double(), zeros, 0)
            self.packed: Any = torch.ops.quantized.linear_prepack(rows, None)

    def __call__(self, x: Tensor) -> Tensor:
        # 1 / 127 and 128: x is stored as round(127 x) + 128, in a byte without a sign.
        return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, 1 / GREATEST, 128, self.packed)


@contextmanager
def _engine(name: str):
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


@cache
def has_kernel() -> bool:
    """Whether this CPU multiplies in 8 bits without overflow (VNNI): older ones add pairs of products in 16 bits."""
    x, whole = torch.ones(1, 64), torch.full((16, 64), GREATEST, dtype=torch.int8)
    step = torch.ones(16, 1)
    try:
        return torch.allclose(_PackedProduct(whole, step)(x), _PlainProduct(whole, step)(x))
    except RuntimeError:  # not a kind of CPU that the kernel is written for
        return False


# --- Layers ----------------------------------------------------------------------------------------------------------


class Int8LlamaLayer(nn.Module):
    """What a ``LlamaLayer`` computes, with few and large products: queries, keys and values are one, gate and input."""

    def __init__(self, layer: LlamaLayer) -> None:
        super().__init__()
        self.heads, self.key_value_heads = layer.heads, layer.key_value_heads
        self.attention_norm, self.feedforward_norm = layer.attention_norm, layer.feedforward_norm
        self.query_norm, self.key_norm = layer.query_norm, layer.key_norm
        self.queries_keys_values = _side_by_side(layer.queries, layer.keys, layer.values)
        self.attention_out = Int8Matrix(layer.attention_out.weight)
        self.gate_and_in = _side_by_side(layer.gate, layer.feedforward_in)
        self.feedforward_out = Int8Matrix(layer.feedforward_out.weight)

    def forward(self, z: Tensor, rotary: Turns, packing: Packing, cache: LayerCache | None = None) -> Tensor:
        heads, groups = self.heads, self.key_value_heads
        qkv = _after_norm(self.attention_norm, z, self.queries_keys_values)  # [T, (H + 2 G) d/H]
        qkv = qkv.unflatten(1, (heads + 2 * groups, -1))  # [T, H + 2 G, d/H]
        qk, v = qkv.split((heads + groups, groups), 1)  # [T, H + G, d/H], [T, G, d/H]
        if isinstance(self.query_norm, nn.RMSNorm):
            q, k = qk.split((heads, groups), 1)  # [T, H, d/H], [T, G, d/H]
            qk = torch.cat((self.query_norm(q), self.key_norm(k)), 1)
        q, k = rotate(qk, rotary).split((heads, groups), 1)
        read = cache.attend(q, k, v, packing) if cache else attend(q, k, v, packing, causal=False)  # [T, H, d/H]
        z = z + self.attention_out(read.flatten(1))
        gate, inner = _after_norm(self.feedforward_norm, z, self.gate_and_in).chunk(2, 1)  # [T, ff] each
        return z.add_(self.feedforward_out(F.silu(gate).mul_(inner)))


def _side_by_side(*layers: nn.Linear) -> Int8Matrix:
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    return Int8Matrix(torch.cat([layer.weight for layer in layers]), bias)


def _after_norm(norm: nn.RMSNorm, z: Tensor, matrix: Int8Matrix) -> Tensor:
    """The product of RMSNorm(z) [T, d] and a matrix: a row's own factor waits until after the product."""
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)  # [T, 1]
    factor = length.square().mul_(1 / z.shape[1]).add_(norm.eps).rsqrt_()  # [T, 1]
    return matrix(z * norm.weight, factor)


class Int8WordVectors(nn.Module):
    """Vectors of words in 8 bits: looked up, and as the matrix that predicts words."""

    whole: Tensor  # [V, d] int8
    step: Tensor  # [V, 1]

    def __init__(self, vectors: WordVectors) -> None:
        super().__init__()
        whole, step = in_whole_numbers(vectors.weight.detach())
        self.register_buffer("whole", whole)
        self.register_buffer("step", step)
        self.matrix = Int8Matrix(vectors.weight)

    def forward(self, symbols: Tensor) -> Tensor:
        return self.whole[symbols] * self.step[symbols]

    def logits(self, z: Tensor, bias: Tensor) -> Tensor:
        return self.matrix(z).add_(bias)


# --- Models ----------------------------------------------------------------------------------------------------------


def to_int8(model: Any) -> None:
    """Replace the matrices of a model's encoder and of its words by ones in 8 bits; it then fills, on a CPU only."""
    if not fits(model):
        raise BlankLMError("int8 is for models on a CPU with layers of blanklm's own: leave out the dtype")
    with torch.no_grad():
        balance(model)
    layers = model.encoder.layers
    for i, layer in enumerate(layers):
        if isinstance(layer, LlamaLayer):
            layers[i] = Int8LlamaLayer(layer)
        else:
            for name, linear in _linears(layer).items():
                setattr(layer, name, Int8Matrix(linear.weight, linear.bias))
    words = getattr(model, "embedding", None)
    if isinstance(words, WordVectors) and words.num_embeddings <= WORDS_AT_ONCE:
        model.embedding = Int8WordVectors(words)


def fits(model: Any) -> bool:
    """Whether a model can compute in 8 bits where it is."""
    return model.device.type == "cpu" and isinstance(getattr(model, "encoder", None), Encoder | LlamaEncoder)


def computes_in_8_bits(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Matrix) for module in model.modules())


def balance(model: Any) -> None:
    """Move factors of the largest channels from what writes them to what reads them, in place."""
    greatest = _greatest_inputs(model)
    for layer in model.encoder.layers:
        by = {name: _factors(greatest[linear]) for name, linear in _linears(layer).items()}
        if isinstance(layer, LlamaLayer):
            groups = layer.key_value_heads
            heads = by["attention_out"].view(groups, layer.heads // groups, -1)  # [G, H / G, d/H] that read a value
            value = heads.amax(1)  # [G, d/H]
            qkv, values = (layer.queries, layer.keys, layer.values), (layer.values.weight, layer.values.bias)
            _move(by["queries"], (layer.attention_norm.weight,), *qkv)
            _move(by["gate"], (layer.feedforward_norm.weight,), layer.gate, layer.feedforward_in)
            _move(by["feedforward_out"], (layer.feedforward_in.weight,), layer.feedforward_out)
            _move(value.flatten(), values)
            layer.attention_out.weight.mul_(value[:, None].expand_as(heads).flatten())
        elif isinstance(layer, EncoderLayer):
            norms, width = (layer.attention_norm, layer.feedforward_norm), len(by["attention_out"])
            for norm, reader in zip(norms, ("queries_keys_values", "feedforward_in"), strict=True):
                _move(by[reader], (norm.weight, norm.bias), getattr(layer, reader))
            fused = layer.queries_keys_values
            _move(by["attention_out"], (fused.weight[-width:], fused.bias[-width:]), layer.attention_out)


def _move(by: Tensor, writers: Iterable[Tensor | None], *readers: nn.Linear) -> None:
    """Divide the rows of ``writers`` [C] or [C, K] by factors [C], and multiply the columns of ``readers`` [N, C]."""
    for writer in writers:
        if writer is not None:
            writer.div_(by if writer.dim() == 1 else by[:, None])
    for reader in readers:
        reader.weight.mul_(by)


def _factors(greatest: Tensor) -> Tensor:
    """[C] the square root of how many times larger a channel is than the median, 1 at least."""
    return (greatest / greatest.median().clamp_min(LEAST_ROW)).clamp_min(1).sqrt()


def _greatest_inputs(model: Any) -> dict[nn.Linear, Tensor]:
    """The largest number [K] in each channel that a linear layer reads, of random tokens with two blanks."""
    greatest: dict[nn.Linear, Tensor] = {}

    def note(linear: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(linear, nn.Linear)
        greatest[linear] = inputs[0].abs().amax(0)

    linears = [linear for layer in model.encoder.layers for linear in _linears(layer).values()]
    hooks = [linear.register_forward_pre_hook(note) for linear in linears]
    n = READ_TO_BALANCE
    tokens = torch.randint(model.config.vocabulary, (n,), generator=torch.Generator().manual_seed(0))  # [n]
    tokens[[n // 3, 2 * n // 3]] = BLANK
    model.encoder(model.embedding(tokens), Packing.of(torch.tensor([n]), n))
    for hook in hooks:
        hook.remove()
    return greatest


def _linears(layer: nn.Module) -> dict[str, nn.Linear]:
    return {name: child for name, child in layer.named_children() if isinstance(child, nn.Linear)}
