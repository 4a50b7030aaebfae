"""A BLM that knows two ways of hiding: single words all over a text, and spans as people leave them blank.

Uniform orders of a whole text teach blanks of one word: of all its canvases with one blank, nearly all hide a single
word. So some canvases hide a region instead (``core/regions.py``). The model is told which way a canvas was made by a
vector added to its blanks; untold, it would hedge between the two.

As the paper's BLM, told "words", it is p(x); told "spans", it is p(region | rest), what ``fill`` means.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from blanklm.core.orders import uniform
from blanklm.core.packing import Packing
from blanklm.core.regions import draw_regions
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMConfig, BLMTargets
from blanklm.models.encoder import drop_words
from blanklm.models.registry import register
from blanklm.options import Blanks

STREAM = 0x2545F491  # tells the random number that chooses the way of hiding from those of orders and regions


@dataclass(frozen=True)
class SpanBLMConfig(BLMConfig):
    spans: float = 0.5  # the share of canvases that hide spans; 1: all of them

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.spans <= 1:
            raise BlankLMError(f"`spans` must be above 0 and at most 1, not {self.spans}")


@dataclass(frozen=True)
class SpanTargets(BLMTargets):
    """The targets of a BLM with the way each text was hidden."""

    spans: Tensor  # [B] bool
    tokens: Tensor  # [B] of each text, hidden or given


@register("span-blm", SpanBLMConfig)
class SpanBLM(BLM):
    config: SpanBLMConfig
    config_class = SpanBLMConfig
    starts_word: Tensor  # [V] bool
    marks: Tensor  # [V] int8, Tokenizer.marks
    reads_context = False

    def __init__(self, config: SpanBLMConfig) -> None:
        super().__init__(config)
        self.span_blank = nn.Parameter(torch.zeros(config.encoder.width))  # added to blanks that stand for spans
        self.register_buffer("starts_word", torch.ones(config.vocabulary, dtype=torch.bool))
        self.register_buffer("marks", torch.zeros(config.vocabulary, dtype=torch.int8))
        self.told: Blanks = "spans" if config.spans == 1 else "words"  # of the canvases that are scored

    @classmethod
    def from_words(cls, model: BLM, tokenizer: Tokenizer, spans: float = 0.5) -> SpanBLM:
        """Continue from a BLM that has learnt blanks of words: to begin with, spans mean the same to it."""
        settings = {field.name: getattr(model.config, field.name) for field in fields(model.config)}
        spanned = cls(SpanBLMConfig(**settings | {"spans": spans}))
        spanned.load_state_dict(model.state_dict(), strict=False)
        spanned.set_vocabulary(tokenizer)
        return spanned

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        super().set_vocabulary(tokenizer)
        self.starts_word.copy_(torch.from_numpy(tokenizer.starts_word))
        self.marks.copy_(torch.from_numpy(tokenizer.marks))

    def for_blanks(self, blanks: Blanks | None) -> SpanBLM:
        """Return a policy whose blanks stand for ``blanks``, spans by default; it shares the weights of this model."""
        if blanks == "words" and self.config.spans == 1:
            raise BlankLMError("this model has learnt blanks that stand for spans: leave out blanks")
        policy = copy(self)
        policy.told = blanks or "spans"
        return policy

    def encode(self, canvas: Tensor, packing: Packing) -> Tensor:
        return self._encode(canvas, packing, torch.full_like(canvas, self.told == "spans", dtype=torch.bool))

    def _encode(self, canvas: Tensor, packing: Packing, spans: Tensor) -> Tensor:
        """Packed canvases [T] -> z [T, d]; ``spans`` [T]: whether blanks here stand for spans."""
        vectors = drop_words(self.embedding, canvas, self.config.encoder.word_dropout)  # [T, d]
        is_span = (spans & (canvas == BLANK))[:, None]  # [T, 1]
        return self.encoder(vectors + is_span * self.span_blank, packing)

    def prepare(self, batch: Batch) -> Any:
        """Hide a region of some texts, all of the others; then as Algorithm 1, within what is hidden."""
        tokens, lengths, seeds = batch.tokens, batch.lengths, batch.seeds
        spans = uniform(seeds ^ STREAM, 1).squeeze(1) < self.config.spans  # [B]
        region = draw_regions(tokens, lengths, seeds, self.starts_word, self.marks)  # [B, L]
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]  # [B, L]
        region = torch.where(spans[:, None], region, inside)
        ranks, log_orders = self.orders_in(region, tokens, lengths, seeds)
        targets = self.targets(batch, ranks, log_orders, region.sum(1))
        return SpanTargets(**vars(targets), spans=spans, tokens=lengths)

    def loss(self, targets: SpanTargets) -> Tensor:
        """Eq. 8 of the hidden tokens of each text [B], per hidden token, times the tokens of the text.

        So every text weighs by its tokens, however few were hidden, and the mean over a corpus is nats per token.
        """
        return self.bound(targets) * targets.tokens / targets.lengths.clamp_min(1)

    def bound(self, targets: SpanTargets) -> Tensor:
        """Eq. 8 [B], an upper bound on - log p(region | rest): - log k! - k / (k - t) * the sum of log p."""
        actions = targets.actions
        spans = targets.spans[actions.packing.sequence.clamp_min(0)]  # [T]
        return self.loss_of(self.read_out(self._encode(actions.canvas, actions.packing, spans), actions), targets)
