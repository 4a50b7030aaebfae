"""A pretrained Llama-type language model as the backbone of a BLM: from a folder, the Hub or a GGUF file.

    backbone = CausalPretrained.load("HuggingFaceTB/SmolLM2-135M")  # or "smollm2.gguf"
    model = BLM.on(backbone, backbone.tokenizer(merges=16_000))

Its tokenizer can be cut to its first merges, which are the most frequent: fewer words to score, and each of those that
stay keeps its vector. A saved model needs neither the Hub nor the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from torch import Tensor

from blanklm.core.special import EOS, PAD, SPECIAL_TOKENS
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.extras import how_to_install
from blanklm.models.backbone import hugging_face
from blanklm.models.llama import LlamaConfig, RotaryScaling

FAMILIES = ("llama", "qwen2", "qwen3")  # model types of Hugging Face, and architectures of GGUF

# A layer's parts: ours, Hugging Face's, GGUF's.
PARTS = (
    ("attention_norm", "input_layernorm", "attn_norm"),
    ("queries", "self_attn.q_proj", "attn_q"),
    ("keys", "self_attn.k_proj", "attn_k"),
    ("values", "self_attn.v_proj", "attn_v"),
    ("attention_out", "self_attn.o_proj", "attn_output"),
    ("query_norm", "self_attn.q_norm", "attn_q_norm"),
    ("key_norm", "self_attn.k_norm", "attn_k_norm"),
    ("feedforward_norm", "post_attention_layernorm", "ffn_norm"),
    ("gate", "mlp.gate_proj", "ffn_gate"),
    ("feedforward_in", "mlp.up_proj", "ffn_up"),
    ("feedforward_out", "mlp.down_proj", "ffn_down"),
)
# How GGUF names the ways in which a text is cut before byte-level BPE, and the cut: digits one by one, or a pattern.
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"llama-bpe": _LETTERS % 3 + _SPACES, "qwen2": _LETTERS.replace("{1,%d}", "") + _SPACES}
CUT_BY_DIGITS = ("smollm",)
NOT_CUT = ("gpt-2",)


@dataclass(frozen=True)
class CausalPretrained:
    """A language model as it was published: its layers' weights by our names, and its words."""

    config: LlamaConfig
    weights: Mapping[str, Tensor]  # of a ``LlamaEncoder``
    vectors: Tensor  # [old V, d] its embedding
    backend: Backend | None  # its tokenizer; None where none was published that can be read
    eos: int | None  # the token that ends a text

    @classmethod
    def load(cls, name: str | Path) -> CausalPretrained:
        """From a folder, the Hub or a .gguf file."""
        if str(name).endswith(".gguf"):
            return _from_gguf(Path(name))
        return _from_hugging_face(str(name))

    def tokenizer(self, merges: int | None = None) -> Tokenizer:
        """Its own tokenizer with our special tokens, cut to its first ``merges`` if a number is given."""
        if self.backend is None:
            raise BlankLMError("the backbone brings no byte-level BPE: train a tokenizer with --tokenizer bpe")
        parts = json.loads(self.backend.to_str())
        pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in parts["model"]["merges"]]
        if merges is not None and not 0 <= merges <= len(pairs):
            raise BlankLMError(
                f"the backbone's tokenizer has {len(pairs):,} merges: choose 0 to {len(pairs):,} of them"
            )
        kept = pairs[:merges]
        merged = ["".join(pair) for pair in kept]
        unknown = next((word for word in merged if word not in parts["model"]["vocab"]), None)
        if unknown is not None:
            raise BlankLMError(f"the backbone's vocabulary does not fit its merges: it has no {unknown!r}")
        words = dict.fromkeys((*sorted(pre_tokenizers.ByteLevel.alphabet()), *merged))  # with bytes it may do without
        vocabulary = {word: i for i, word in enumerate((*SPECIAL_TOKENS, *words))}
        model = {"type": "BPE", "vocab": vocabulary, "merges": kept, "unk_token": None, "ignore_merges": False}
        others: dict[str, Any] = {"added_tokens": [], "post_processor": None, "padding": None, "truncation": None}
        backend = Backend.from_str(json.dumps(parts | others | {"model": parts["model"] | model}))
        backend.add_special_tokens(list(SPECIAL_TOKENS))
        return Tokenizer(backend)

    def initialise(self, model: Any, tokenizer: Tokenizer) -> None:
        """Give a new model the pretrained layers, and each of its words the vector of that word."""
        with torch.no_grad():
            model.encoder.load_state_dict(self.weights)
            model.embedding.weight.copy_(self._vectors_of(tokenizer))

    def _vectors_of(self, tokenizer: Tokenizer) -> Tensor:
        """[V, d]: a token's own vector, or the mean of those of the tokens that spell it."""
        vectors = self.vectors.mean(0).repeat(len(tokenizer), 1)
        vectors[PAD] = 0.0
        if self.eos is not None:
            vectors[EOS] = self.vectors[self.eos]
        if self.backend is None:
            return vectors
        known = self.backend.get_vocab()
        for i in range(len(SPECIAL_TOKENS), len(tokenizer)):
            token, text = tokenizer.token(i), tokenizer.token_text(i)
            if tokenizer.kind == "bpe" and token in known:
                vectors[i] = self.vectors[known[token]]
            elif "�" not in text and (ids := self.backend.encode(text, add_special_tokens=False).ids):
                vectors[i] = self.vectors[ids].mean(0)
        return vectors


def is_causal(name: str) -> bool:
    """Whether a folder, a Hub id or a file is a language model of this kind, by its name or its config."""
    if name.endswith(".gguf"):
        return True
    try:
        return hugging_face().AutoConfig.from_pretrained(name).model_type in FAMILIES
    except (OSError, ValueError):  # the loader of encoders says what is wrong with it
        return False


def _refused(name: str | Path, error: Exception) -> BlankLMError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return BlankLMError(f"cannot load the backbone {str(name)!r}: {reason[:200]}")


# --- Hugging Face ----------------------------------------------------------------------------------------------------


def _from_hugging_face(name: str) -> CausalPretrained:
    transformers = hugging_face()
    try:
        model = transformers.AutoModel.from_pretrained(name, dtype=torch.float32)
        settings = model.config.to_dict()
        config = _config_of(settings)
    except BlankLMError:
        raise
    except Exception as error:  # no network, damaged files, too little memory: many classes, one message
        raise _refused(name, error) from None
    theirs = model.state_dict()
    weights = _renamed(config, theirs, lambda layer, part: f"layers.{layer}.{part}", 1)
    weights["norm.weight"] = theirs["norm.weight"]
    try:
        words = transformers.AutoTokenizer.from_pretrained(name)
        backend = words.backend_tokenizer if words.is_fast else None
    except Exception:  # as many; a new tokenizer can still be trained
        backend = None
    vectors = theirs["embed_tokens.weight"]
    parts = {} if backend is None else json.loads(backend.to_str())["model"]
    if parts.get("type") != "BPE":
        backend = None
    elif max(parts["vocab"].values(), default=0) >= len(vectors):
        raise BlankLMError(f"cannot load the backbone {name!r}: its tokenizer has more tokens than it has vectors")
    end = settings.get("eos_token_id")
    return CausalPretrained(config, weights, vectors, backend, end[0] if isinstance(end, list) else end)


def _config_of(settings: Mapping[str, Any]) -> LlamaConfig:
    """Translate a configuration of the transformers library."""
    family = settings["model_type"]
    if family not in FAMILIES:
        raise BlankLMError(f"a causal backbone is one of {', '.join(FAMILIES)}, not {family}")
    if settings.get("hidden_act", "silu") != "silu" or settings.get("mlp_bias"):
        raise BlankLMError("this backbone has another kind of feed-forward layer than Llama's")
    heads, width = settings["num_attention_heads"], settings["hidden_size"]
    rotary = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    return LlamaConfig(
        layers=settings["num_hidden_layers"],
        heads=heads,
        key_value_heads=settings.get("num_key_value_heads") or heads,
        width=width,
        head_width=settings.get("head_dim") or width // heads,
        feedforward=settings["intermediate_size"],
        longest=settings["max_position_embeddings"],
        rotary_base=float(rotary.get("rope_theta") or settings.get("rope_theta") or 10_000.0),
        rotary_scaling=_scaling_of(rotary),
        norm_epsilon=settings["rms_norm_eps"],
        query_bias=family == "qwen2" or bool(settings.get("attention_bias")),
        query_norm=family == "qwen3",
    )


def _scaling_of(rotary: Mapping[str, Any]) -> RotaryScaling | None:
    kind = rotary.get("rope_type") or rotary.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise BlankLMError(f"rotary positions that are scaled by {kind!r} are not supported: choose another backbone")
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    return RotaryScaling(*(rotary[name] for name in names))


def _renamed(
    config: LlamaConfig, theirs: Mapping[str, Tensor], name_of: Callable[[int, str], str], column: int
) -> dict[str, Tensor]:
    """Return the weights of the layers by our names; ``column`` of PARTS has theirs."""
    weights = {}
    for layer in range(config.layers):
        for part in PARTS:
            for kind in ("weight", "bias"):
                found = theirs.get(f"{name_of(layer, part[column])}.{kind}")
                if found is not None:
                    weights[f"layers.{layer}.{part[0]}.{kind}"] = found
    return weights


# --- GGUF ------------------------------------------------------------------------------------------------------------


def _from_gguf(path: Path) -> CausalPretrained:
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError:
        raise BlankLMError(f"GGUF files need the gguf package: {how_to_install('eval')}") from None
    if not path.is_file():
        raise BlankLMError(f"there is no file {path}")
    try:
        reader = GGUFReader(path)
        values = {name: field.contents() for name, field in reader.fields.items()}
        config = _config_of_gguf(values)
        theirs = {
            tensor.name: torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
            for tensor in reader.tensors
        }
        weights = _renamed(config, theirs, lambda layer, part: f"blk.{layer}.{part}", 2)
        weights["norm.weight"] = theirs["output_norm.weight"]
        vectors = theirs["token_embd.weight"]
        if values["general.architecture"] == "llama":
            _undo_permutation(weights, config)
        backend = _backend_of_gguf(values, len(vectors))
    except BlankLMError:
        raise
    except Exception as error:  # a truncated or hostile file fails in the library in many ways
        raise _refused(path, error if str(error) else ValueError("it is not a whole GGUF file")) from None
    return CausalPretrained(config, weights, vectors, backend, values.get("tokenizer.ggml.eos_token_id"))


def _config_of_gguf(values: Mapping[str, Any]) -> LlamaConfig:
    """Translate the header of a GGUF file."""
    family = values["general.architecture"]
    if family not in FAMILIES:
        raise BlankLMError(f"a causal backbone is one of {', '.join(FAMILIES)}, not {family}")
    if f"{family}.rope.scaling.type" in values or f"{family}.expert_count" in values:
        raise BlankLMError("scaled rotary positions and experts are not supported in GGUF: choose another backbone")

    def value(name: str) -> Any:
        return values[f"{family}.{name}"]

    heads, width = value("attention.head_count"), value("embedding_length")
    return LlamaConfig(
        layers=value("block_count"),
        heads=heads,
        key_value_heads=values.get(f"{family}.attention.head_count_kv", heads),
        width=width,
        head_width=values.get(f"{family}.attention.key_length") or width // heads,
        feedforward=value("feed_forward_length"),
        longest=value("context_length"),
        rotary_base=float(values.get(f"{family}.rope.freq_base", 10_000.0)),
        norm_epsilon=value("attention.layer_norm_rms_epsilon"),
        query_bias=family == "qwen2",
        query_norm=family == "qwen3",
    )


def _undo_permutation(weights: dict[str, Tensor], config: LlamaConfig) -> None:
    """Put the rows of queries and keys back: GGUF lays the two halves of a rotated pair side by side."""
    for layer in range(config.layers):
        for part, heads in (("queries", config.heads), ("keys", config.key_value_heads)):
            name = f"layers.{layer}.{part}.weight"
            weights[name] = weights[name].unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _backend_of_gguf(values: Mapping[str, Any], vectors: int) -> Backend | None:
    """Make the tokenizer of a GGUF file; None if it is not byte-level BPE, or cuts texts in a way not known here."""
    if values.get("tokenizer.ggml.model") != "gpt2":
        return None
    cut = values.get("tokenizer.ggml.pre", "gpt-2")
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut not in PATTERNS)
    before: Sequence[Any]
    if cut in PATTERNS:
        before = [pre_tokenizers.Split(Regex(PATTERNS[cut]), "isolated")]
    elif cut in CUT_BY_DIGITS:
        before = [pre_tokenizers.Digits(individual_digits=True)]
    elif cut in NOT_CUT:
        before = []
    else:
        return None
    tokens = values["tokenizer.ggml.tokens"]
    if len(tokens) != vectors:
        raise BlankLMError(f"the file has {len(tokens):,} tokens and {vectors:,} vectors: it is damaged")
    merges = [tuple(pair.split(" ", 1)) for pair in values["tokenizer.ggml.merges"]]
    backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence([*before, bytes_of]) if before else bytes_of
    backend.decoder = decoders.ByteLevel()
    return backend
