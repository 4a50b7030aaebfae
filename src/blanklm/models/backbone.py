"""A pretrained encoder of the Hugging Face Hub in place of our own: BERT, RoBERTa, ModernBERT, MPNet and similar.

    backbone = Pretrained.load("answerdotai/ModernBERT-base")
    model = BLM.on(backbone, backbone.tokenizer())  # or with a new tokenizer

A saved model needs neither the Hub nor the folder it came from: the encoder's settings are in its config.json and all
weights in its model.safetensors.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from torch import Tensor, nn

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS, PAD, SPECIAL_TOKENS, UNK
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.extras import how_to_install
from blanklm.models.settings import Settings

# Settings that describe a file, not the encoder.
IGNORED = {"_name_or_path", "architectures", "dtype", "id2label", "label2id", "torch_dtype", "transformers_version"}
UNUSED = re.compile(r"\[unused\d+\]")  # places in BERT's vocabulary that no text reaches


@dataclass(frozen=True)
class BackboneConfig(Settings):
    settings: dict[str, Any]  # of the encoder, as Hugging Face writes them
    longest: int  # tokens of text that it takes

    word_dropout = 0.0  # its own dropouts are in its settings

    @classmethod
    def of(cls, settings: Any, longest: int) -> BackboneConfig:
        """From a configuration of the transformers library."""
        kept = {key: value for key, value in settings.to_dict().items() if key not in IGNORED}
        return cls(json.loads(json.dumps(kept)), longest)

    @property
    def width(self) -> int:
        return self.settings["hidden_size"]

    def build(self, causal: bool = False) -> Backbone:
        if causal:
            raise BlankLMError("a backbone is bidirectional: a left-to-right model needs blanklm's own encoder")
        return Backbone(self)


class Backbone(nn.Module):
    """Vectors to vectors, like our ``Encoder``; the sequence stands between the symbols it was pretrained with."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        transformers = hugging_face()
        settings = config.settings | {"vocab_size": 1 + (config.settings.get("pad_token_id") or 0)}
        known = transformers.AutoConfig.for_model(**settings)
        # Padding is skipped by a mask; the library's own kernels and compilation are not needed.
        plain = {"attn_implementation": "sdpa"} if known.model_type == "modernbert" else {}
        known.reference_compile = False
        self.layers = _bare(transformers.AutoModel.from_config(known, **plain))
        self.begin, self.end = (nn.Parameter(torch.zeros(config.width)) for _ in range(2))  # [CLS] and [SEP]

    def forward(self, vectors: Tensor, packing: Packing) -> Tensor:
        """Packed ``vectors`` [T, d] -> z [T, d]."""
        sequences, longest = len(packing), packing.longest + 2
        first = torch.arange(sequences, device=vectors.device) * longest  # [B] of the padded, flattened batch
        place = first[packing.sequence] + packing.position + 1  # [T]
        place = torch.where(packing.sequence < 0, sequences * longest, place)  # what belongs to no sequence comes last
        padded = vectors.new_zeros(sequences * longest + 1, vectors.shape[1])
        padded[place] = vectors
        padded[first] = self.begin.to(vectors.dtype)
        padded[first + packing.lengths + 1] = self.end.to(vectors.dtype)
        inside = torch.arange(longest, device=vectors.device) < packing.lengths[:, None] + 2  # [B, L + 2]
        z = self.layers(inputs_embeds=padded[:-1].view(sequences, longest, -1), attention_mask=inside.long())
        return z.last_hidden_state.flatten(0, 1)[place.clamp_max(sequences * longest - 1)]


@dataclass(frozen=True)
class Pretrained:
    """An encoder as it was published, with its words."""

    config: BackboneConfig
    layers: Any  # a transformers model
    vectors: Tensor  # [old V, d] its embedding
    words: Any  # its tokenizer (transformers), or None where none was published with it

    @classmethod
    def load(cls, name: str | Path) -> Pretrained:
        """From a folder or the Hub."""
        transformers = hugging_face()
        try:
            layers = transformers.AutoModel.from_pretrained(str(name)).float()
        except Exception as error:  # no network, no such model, another kind of file: many classes, one message
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise BlankLMError(f"cannot load the backbone {str(name)!r}: {reason}") from None
        try:
            words = transformers.AutoTokenizer.from_pretrained(str(name))
        except Exception:  # as many; a new tokenizer can still be trained
            words = None
        if words is not None and len(words.get_vocab()) <= len(words.all_special_tokens):
            words = None  # what the library makes up where there is none
        config = BackboneConfig.of(layers.config, _longest(layers))
        embedding = layers.get_input_embeddings()
        if layers.config.is_encoder_decoder or getattr(layers.config, "is_decoder", False):
            raise BlankLMError(f"{str(name)!r} is not an encoder: a backbone reads the whole canvas at once")
        if embedding.embedding_dim != config.settings.get("hidden_size"):
            raise BlankLMError(
                f"{str(name)!r} has word vectors of another width than its layers: choose another backbone"
            )
        return cls(config, layers, embedding.weight.detach().clone(), words)

    def tokenizer(self) -> Tokenizer:
        """Its own tokenizer with our special tokens, [MASK] being the blank."""
        if self.words is None or not self.words.is_fast:
            raise BlankLMError("the backbone brings no tokenizer that blanklm can use: train one with --tokenizer bpe")
        parts = json.loads(self.words.backend_tokenizer.to_str())
        special = {*self.words.all_special_tokens, *self.words.get_added_vocab(), *SPECIAL_TOKENS}
        kept = [token for token in self._ids if token not in special and not UNUSED.fullmatch(token)]
        parts["model"] |= {"vocab": {token: i for i, token in enumerate((*SPECIAL_TOKENS, *kept))}}
        parts["model"]["unk_token"] = SPECIAL_TOKENS[UNK] if parts["model"]["type"] == "WordPiece" else None
        parts |= {"added_tokens": [], "post_processor": None, "padding": None, "truncation": None}
        pre_tokenizer = parts["pre_tokenizer"] or {}
        if pre_tokenizer.get("type") == "ByteLevel":
            pre_tokenizer["add_prefix_space"] = False
        try:
            backend = Backend.from_str(json.dumps(parts))
            backend.add_special_tokens(list(SPECIAL_TOKENS))
            return Tokenizer(backend)
        except Exception:  # the library raises plain Exception
            raise BlankLMError(
                "the backbone's tokenizer is neither WordPiece nor byte-level BPE: train one with --tokenizer bpe"
            ) from None

    def initialise(self, model: Any, tokenizer: Tokenizer) -> None:
        """Give a new model the pretrained layers, and each of its words the vector of that word."""
        with torch.no_grad():
            model.encoder.layers.load_state_dict(_bare(self.layers).state_dict())
            if self.words is None:
                return
            begin, end = self.words.cls_token_id, self.words.sep_token_id
            for symbol, old in ((model.encoder.begin, begin), (model.encoder.end, end)):
                if old is not None:
                    symbol.copy_(self.vectors[old])
            model.embedding.weight.copy_(self._vectors_of(tokenizer))

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Its vocabulary in the order of ids."""
        return dict(sorted(self.words.get_vocab().items(), key=lambda entry: entry[1]))

    def _vectors_of(self, tokenizer: Tokenizer) -> Tensor:
        """[V, d]: a token's own vector, or the mean of those of the tokens that spell it."""
        vectors = self.vectors.mean(0).repeat(len(tokenizer), 1)
        words = self.words
        vectors[PAD] = 0.0
        for ours, theirs in ((BLANK, words.mask_token_id), (UNK, words.unk_token_id), (EOS, words.sep_token_id)):
            if theirs is not None:
                vectors[ours] = self.vectors[theirs]
        try:
            same_kind = self.tokenizer().kind == tokenizer.kind
        except BlankLMError:
            same_kind = False
        for i in range(len(SPECIAL_TOKENS), len(tokenizer)):
            token, text = tokenizer.token(i), tokenizer.token_text(i)
            if same_kind and token in self._ids:
                vectors[i] = self.vectors[self._ids[token]]
            elif "�" not in text and (ids := words.encode(text, add_special_tokens=False)):
                vectors[i] = self.vectors[ids].mean(0)
        return vectors


def _bare(layers: Any) -> Any:
    """Remove the word vectors, which the BLM keeps itself, and the pooler, which it does not use."""
    layers.set_input_embeddings(nn.Identity())
    if hasattr(layers, "pooler"):
        layers.pooler = None
    return layers


def _longest(layers: Any) -> int:
    """Count the tokens that have a position, without the two symbols around them."""
    positions = getattr(getattr(layers, "embeddings", None), "position_embeddings", None)
    if positions is None:
        return layers.config.max_position_embeddings - 2
    unused = 0 if positions.padding_idx is None else positions.padding_idx + 1  # RoBERTa counts from here
    return positions.num_embeddings - unused - 2


def hugging_face() -> Any:
    """Import the transformers library, or say how to install it."""
    try:
        import transformers
    except ImportError:
        raise BlankLMError(f"pretrained backbones need transformers: {how_to_install('eval')}") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers
