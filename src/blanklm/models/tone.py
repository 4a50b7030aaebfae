"""A model of styles that stands on another model: vectors that steer it, and votes of tokens for a style.

The votes read what a lower layer of the base makes of each token, where a vote is still about the token itself and the
words that belong to it. Their sum over a text are the logits of p(style | text), so each word's share in it is known:
the words that vote for a style are those that carry it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.errors import BlankLMError
from blanklm.models.llama import LlamaEncoder
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings
from blanklm.models.span_blm import SpanBLM


@dataclass(frozen=True)
class ToneConfig(Settings):
    vocabulary: int  # of the base, as are the next three
    max_length: int
    layers: int
    width: int
    styles: list[str]
    base: str  # the bundled model that is steered
    base_sum: str  # the checksum of its weights
    votes_above: int = 12  # layers of the base
    votes_hidden: int = 64
    temperature: float = 1.0  # of p(style | text)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.styles)) != len(self.styles) or len(self.styles) < 2:
            raise BlankLMError(f"a model of styles needs two different styles at least, not {self.styles}")
        if not 0 < self.votes_above <= self.layers:
            raise BlankLMError(f"`votes_above` must be between 1 and the {self.layers} layers of the base")
        if not 0 < self.temperature <= 100:
            raise BlankLMError(f"`temperature` must be above 0 and at most 100, not {self.temperature:g}")


@register("tone", ToneConfig)
class Tone(Model):
    product = "transfer"

    def __init__(self, config: ToneConfig) -> None:
        super().__init__()
        self.config = config
        styles = len(config.styles)
        self.vectors = nn.Parameter(torch.zeros(config.layers, styles, config.width))
        self.votes_norm = nn.LayerNorm(config.width)
        self.votes_in = nn.Linear(config.width, config.votes_hidden)
        self.votes_out = nn.Linear(config.votes_hidden, styles)

    def votes(self, states: Tensor) -> Tensor:
        """The votes [T, S] of tokens for each style, from the states [T, d] of the base."""
        hidden = F.gelu(self.votes_in(self.votes_norm(states.float())))  # [T, h]
        return self.votes_out(hidden) / self.config.temperature

    @torch.inference_mode()
    def votes_on(self, base: SpanBLM, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """The votes [L, S] of the tokens of each text [B, L]."""
        return self.votes(self.states(base, tokens, lengths)).split(lengths.tolist())

    @torch.inference_mode()
    def states(self, base: SpanBLM, tokens: Tensor, lengths: Tensor) -> Tensor:
        """What the base makes of whole texts [B, L] below the votes [T, d], end to end."""
        assert isinstance(base.encoder, LlamaEncoder)
        packing = Packing.of(lengths, tokens.shape[1])
        return base.encoder.below(self.config.votes_above, base.embedding(packing.lay(tokens)), packing)
