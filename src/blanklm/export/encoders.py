"""The encoders as ONNX operations: the layers of ``models/encoder.py`` and ``models/llama.py`` on padded canvases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from onnx import TensorProto

from blanklm.errors import BlankLMError
from blanklm.export.graph import Graph
from blanklm.models.encoder import Encoder, EncoderLayer
from blanklm.models.llama import LlamaEncoder, LlamaLayer


@dataclass(frozen=True)
class Canvases:
    """What every layer must know of the canvases of a pass: B of L symbols."""

    shape: str  # [2] B, L
    hides: str  # [B, 1, 1, L] 0 for what is attended to, -inf after the end of a canvas
    cos: str  # [L, 1, d/H / 2]
    sin: str


def encode(graph: Graph, encoder: torch.nn.Module, vectors: str, canvas: str, lengths: str) -> str:
    """Vectors [B * L, d] of the symbols of ``canvas`` [B, L] -> z [B * L, d]."""
    if not isinstance(encoder, Encoder | LlamaEncoder):
        raise BlankLMError(
            "a model on a backbone such as BERT cannot be exported: export one that was trained from scratch or on a "
            "Llama-type language model"
        )
    z, canvases = vectors, _canvases(graph, encoder, canvas, lengths)
    for number, layer in enumerate(encoder.layers):
        name = f"encoder.layers.{number}"
        if isinstance(layer, LlamaLayer):
            z = _llama_layer(graph, name, layer, z, canvases)
        else:
            assert isinstance(layer, EncoderLayer)
            z = _layer(graph, name, layer, z, canvases)
    return _norm(graph, "encoder.norm", encoder.norm, z)


def _canvases(graph: Graph, encoder: Encoder | LlamaEncoder, canvas: str, lengths: str) -> Canvases:
    shape = graph.op("Shape", canvas)
    longest = graph.op("Squeeze", graph.op("Slice", shape, graph.constant(1), graph.constant(2)))
    zero, one = (graph.op("Squeeze", graph.constant(i)) for i in (0, 1))
    position = graph.op("Range", zero, longest, one)  # [L]
    lengths = graph.op("Unsqueeze", lengths, graph.constant(1, 2, 3))  # [B, 1, 1, 1]
    inside = graph.op("Less", position, lengths)  # [B, 1, 1, L]
    hides = graph.op("Where", inside, graph.constant(0.0), graph.constant(-math.inf))
    position = graph.op("Unsqueeze", graph.op("Cast", position, to=TensorProto.FLOAT), graph.constant(1, 2))
    angle = graph.op("Mul", position, graph.tensor("rotary.frequencies", encoder.rotary.frequencies))
    return Canvases(shape, hides, graph.op("Cos", angle), graph.op("Sin", angle))


def _layer(graph: Graph, name: str, layer: EncoderLayer, z: str, canvases: Canvases) -> str:
    linear, heads = partial(_linear, graph, name, layer), layer.heads
    x = linear("queries_keys_values", _norm(graph, f"{name}.attention_norm", layer.attention_norm, z))  # [T, 3 d]
    q, k, v = graph.ops("Split", 3, x, axis=1, num_outputs=3)  # [T, d] each
    q, k, v = (_heads(graph, part, heads, canvases) for part in (q, k, v))  # [B, L, H, d/H] each
    q, k = (_rotate(graph, part, canvases) for part in (q, k))
    read = _attend(graph, q, k, v, heads, layer.attention_out.in_features, canvases)  # [T, d]
    z = graph.op("Add", z, linear("attention_out", read))
    x = linear("feedforward_in", _norm(graph, f"{name}.feedforward_norm", layer.feedforward_norm, z))
    return graph.op("Add", z, linear("feedforward_out", graph.op("Gelu", x)))


def _llama_layer(graph: Graph, name: str, layer: LlamaLayer, z: str, canvases: Canvases) -> str:
    linear = partial(_linear, graph, name, layer)
    x = _norm(graph, f"{name}.attention_norm", layer.attention_norm, z)
    q = _heads(graph, linear("queries", x), layer.heads, canvases)  # [B, L, H, d/H]
    k, v = (_heads(graph, linear(part, x), layer.key_value_heads, canvases) for part in ("keys", "values"))
    q = _rotate(graph, _norm(graph, f"{name}.query_norm", layer.query_norm, q), canvases)
    k = _rotate(graph, _norm(graph, f"{name}.key_norm", layer.key_norm, k), canvases)
    k, v = (_shared(graph, part, layer.heads // layer.key_value_heads, layer.heads, canvases) for part in (k, v))
    read = _attend(graph, q, k, v, layer.heads, layer.attention_out.in_features, canvases)  # [T, d]
    z = graph.op("Add", z, linear("attention_out", read))
    x = _norm(graph, f"{name}.feedforward_norm", layer.feedforward_norm, z)
    inner = graph.op("Mul", graph.silu(linear("gate", x)), linear("feedforward_in", x))
    return graph.op("Add", z, linear("feedforward_out", inner))


def _linear(graph: Graph, name: str, layer: torch.nn.Module, part: str, x: str) -> str:
    return graph.linear(x, f"{name}.{part}", getattr(layer, part))


def _norm(graph: Graph, name: str, norm: torch.nn.Module, x: str) -> str:
    """LayerNorm or RMSNorm over the last dimension, or nothing."""
    if isinstance(norm, torch.nn.Identity):
        return x
    assert isinstance(norm, torch.nn.LayerNorm | torch.nn.RMSNorm) and norm.eps is not None
    weight = graph.tensor(f"{name}.weight", norm.weight)
    if isinstance(norm, torch.nn.LayerNorm):
        bias = graph.tensor(f"{name}.bias", norm.bias)
        return graph.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)
    mean = graph.op("ReduceMean", graph.op("Mul", x, x), graph.constant(-1))
    size = graph.op("Sqrt", graph.op("Add", mean, graph.constant(norm.eps)))
    return graph.op("Mul", graph.op("Div", x, size), weight)


def _heads(graph: Graph, x: str, heads: int, canvases: Canvases) -> str:
    """[B * L, d] -> [B, L, H, d/H]."""
    return graph.op("Reshape", x, graph.op("Concat", canvases.shape, graph.constant(heads, -1), axis=0))


def _shared(graph: Graph, x: str, times: int, heads: int, canvases: Canvases) -> str:
    """[B, L, G, d/H] -> [B, L, H, d/H]: each key-value head as often as queries share it."""
    x = graph.op("Unsqueeze", x, graph.constant(3))  # [B, L, G, 1, d/H]
    x = graph.op("Concat", *(x for _ in range(times)), axis=3)  # [B, L, G, H/G, d/H]
    return graph.op("Reshape", x, graph.op("Concat", canvases.shape, graph.constant(heads, -1), axis=0))


def _rotate(graph: Graph, x: str, canvases: Canvases) -> str:
    first, second = graph.ops("Split", 2, x, axis=3, num_outputs=2)  # [B, L, H, d/H / 2] each

    def mixed(combine: str, a: str, b: str) -> str:
        return graph.op(combine, graph.op("Mul", a, canvases.cos), graph.op("Mul", b, canvases.sin))

    return graph.op("Concat", mixed("Sub", first, second), mixed("Add", second, first), axis=3)


def _attend(graph: Graph, q: str, k: str, v: str, heads: int, width: int, canvases: Canvases) -> str:
    """[B, L, H, d/H] each, their ``heads`` together ``width`` wide -> [B * L, d]."""
    q, v = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))  # [B, H, L, d/H]
    k = graph.op("Transpose", k, perm=[0, 2, 3, 1])  # [B, H, d/H, L]
    scores = graph.op("Mul", graph.op("MatMul", q, k), graph.constant((width / heads) ** -0.5))
    weights = graph.op("Softmax", graph.op("Add", scores, canvases.hides), axis=-1)  # [B, H, L, L]
    read = graph.op("Transpose", graph.op("MatMul", weights, v), perm=[0, 2, 1, 3])  # [B, L, H, d/H]
    return graph.op("Reshape", read, graph.constant(-1, width))
