"""Write a model that fills blanks as ONNX graphs, with all that a decoder elsewhere must know of it.

``model.onnx`` scores the blanks of canvases; ``sides.onnx`` tells whether blanks stay beside a word that is written
into one; both read ``weights.bin``. ``tokenizer.json`` is the model's own. ``config.json`` holds what decoding asks of
each token, so that no other language needs Python's idea of a letter.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto

from blanklm.api import BlankLM
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.span_view import Vocabulary
from blanklm.errors import BlankLMError
from blanklm.export.encoders import encode
from blanklm.export.graph import Graph, Weights
from blanklm.models.blm import BLM
from blanklm.models.int8 import computes_in_8_bits
from blanklm.models.span_blm import LENGTHS, WORDS, SpanBLM
from blanklm.options import Blanks

FORMAT = 1
FILES = ("model.onnx", "sides.onnx", "weights.bin", "tokenizer.json", "config.json")
FLAGS = ("starts_word", "letters", "long_words", "opening", "space_after")  # bits of a token from the third on


def export(model: BlankLM, out: Path, blanks: Blanks | None = None) -> list[Path]:
    """Write a model, loaded in float32, into the folder ``out``, and return the files.

    ``blanks``: what its blanks stand for, by default spans if it knows both.
    """
    policy = model.model.for_blanks(blanks)
    if type(policy) not in (BLM, SpanBLM):
        raise BlankLMError("only models of the kinds blm and span-blm can be exported: choose another one")
    if computes_in_8_bits(policy):
        raise BlankLMError("this model was loaded to compute in 8 bits: load it with dtype=torch.float32")
    out.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode(), Weights(out / "weights.bin") as weights:
        graphs = [_scores(policy, weights), _sides(policy, weights)]
    for graph in graphs:
        path = out / f"{graph.name}.onnx"
        path.write_bytes(graph.model().SerializeToString())
        onnx.checker.check_model(path, full_check=True)
    model.tokenizer.save(out / "tokenizer.json")
    (out / "config.json").write_text(json.dumps(_config(model, policy), ensure_ascii=False), encoding="utf-8")
    return [out / name for name in FILES]


def _scores(policy: BLM, weights: Weights) -> Graph:
    """``BLM.score`` or ``SpanBLM.score_spans``; ``blanks`` [K] are places of blanks on flat canvases [B * L]."""
    graph = Graph("model", weights)
    canvas = graph.input("canvas", TensorProto.INT64, "B", "L")
    lengths = graph.input("lengths", TensorProto.INT64, "B")
    blanks = graph.input("blanks", TensorProto.INT64, "K")
    spans = policy if isinstance(policy, SpanBLM) and policy.told == "spans" else None
    words = graph.matrix("embedding.weight", policy.embedding.weight)
    vectors = graph.op("Gather", words, graph.op("Reshape", canvas, graph.constant(-1)))  # [B * L, d]
    if spans:
        kinds = graph.op("Reshape", graph.input("kinds", TensorProto.INT64, "B", "L"), graph.constant(-1))
        vectors = graph.op("Add", vectors, graph.op("Gather", _kind_vectors(graph, spans), kinds))
    z = graph.op("Gather", encode(graph, policy.encoder, vectors, canvas, lengths), blanks)  # [K, d]
    if spans:
        inner = graph.silu(graph.linear(z, "first_in", spans.first_in))
        first = graph.op("Add", z, graph.linear(inner, "first_out", spans.first_out))
        log_p_length = graph.op("LogSoftmax", graph.linear(z, "length_of_blank", spans.length_of_blank), axis=1)
        graph.output("log_p_length", log_p_length, "K", LENGTHS)
    bias = graph.tensor("word_bias", policy.word_bias + policy.not_words)
    logits = graph.op("Gemm", first if spans else z, words, bias, transB=1)  # [K, V]
    graph.output("log_p_word", graph.op("LogSoftmax", logits, axis=1), "K", policy.config.vocabulary)
    graph.output("blank", graph.op("Squeeze", graph.linear(z, "choose", policy.choose), graph.constant(1)), "K")
    graph.output("from_blank", graph.linear(z, "sides_from_blank", policy.sides_from_blank), "K", _hidden(policy))
    return graph


def _kind_vectors(graph: Graph, model: SpanBLM) -> str:
    vectors = model.kind_vectors.weight.clone()
    vectors[WORDS] = 0.0  # nothing is added there
    return graph.tensor("kind_vectors", vectors)


def _sides(policy: BLM, weights: Weights) -> Graph:
    """``BLM.sides_logits`` of pairs of a blank, by its ``from_blank`` [M, h], and a word."""
    graph = Graph("sides", weights)
    from_blank = graph.input("from_blank", TensorProto.FLOAT, "M", _hidden(policy))
    words = graph.input("words", TensorProto.INT64, "M")
    vectors = graph.rows("embedding.weight", policy.embedding.weight, words)  # [M, d]
    from_word = graph.linear(vectors, "sides_from_word", policy.sides_from_word)
    inner = graph.op("Relu", graph.op("Add", from_blank, from_word))
    graph.output("sides", graph.linear(inner, "sides_out", policy.sides_out), "M", 4)
    return graph


def _hidden(policy: BLM) -> int:
    return policy.sides_from_blank.out_features


def _config(model: BlankLM, policy: BLM) -> dict[str, Any]:
    flags = base64.b64encode(_flags(model.tokenizer).tobytes()).decode()
    return {
        "format": FORMAT,
        "blanks": policy.told if isinstance(policy, SpanBLM) else "words",
        "tokenizer": model.tokenizer.kind,
        "max_length": policy.config.max_length,
        "vocabulary": policy.config.vocabulary,
        "space": model.tokenizer.space,
        "flags": flags,
        "about": model.about,
    }


def _flags(tokenizer: Tokenizer) -> np.ndarray:
    """[V] uint8: the kind of each token (``Vocabulary.kinds``) in two bits, then a bit for each of FLAGS."""
    vocabulary = Vocabulary.of(tokenizer, torch.device("cpu"))
    flags = vocabulary.kinds.numpy().astype(np.uint8)
    numbers = np.arange(len(tokenizer))
    each = (
        tokenizer.starts_word,
        vocabulary.letters.numpy(),
        tokenizer.long_words,
        np.isin(numbers, list(vocabulary.opening)),
        np.isin(numbers, list(vocabulary.space_after)),
    )
    for bit, (_, true) in enumerate(zip(FLAGS, each, strict=True), 2):
        flags |= true.astype(np.uint8) << bit
    return flags
