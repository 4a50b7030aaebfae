"""One BLM for several styles: p(b, w, l, r | c, s).

The style is not a symbol of the canvas: the vector of style s is added to every input vector, and the three parts of
the BLM stay as they are. Since one model knows every style, it also knows which words distinguish them: with a contrast
g > 0 it predicts words by p(w | c, b, s) * (p(w | c, b, s) / p(w | c, b, other styles))^g, normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from blanklm.core.packing import Packing
from blanklm.core.texts import Batch
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMConfig, BLMScores, BLMTargets
from blanklm.models.registry import register


@dataclass(frozen=True)
class StyledBLMConfig(BLMConfig):
    styles: int = 2


@dataclass(frozen=True)
class StyledTargets(BLMTargets):
    """The targets of a BLM with the style of each text."""

    styles: Tensor  # [B]


@register("styled-blm", StyledBLMConfig)
class StyledBLM(BLM):
    config: StyledBLMConfig

    def __init__(self, config: StyledBLMConfig) -> None:
        super().__init__(config)
        self.style = nn.Embedding(config.styles, config.encoder.width)
        nn.init.normal_(self.style.weight, std=0.02)
        self.fixed_style: int | None = None  # the style of all canvases in decoding
        self.contrast = 0.0  # against the other styles; 0: off

    def in_style(self, style: int, contrast: float = 0.0) -> StyledBLM:
        """Return a policy that writes in one style; it shares the weights of this model."""
        policy = copy(self)
        policy.fixed_style, policy.contrast = style, contrast
        return policy

    def encode(self, canvas: Tensor, packing: Packing) -> Tensor:
        if self.fixed_style is None:
            raise BlankLMError("this model writes in several styles: choose one with in_style()")
        return self.encoder(self.embedding(canvas) + self.style.weight[self.fixed_style], packing)

    @torch.inference_mode()
    def score(self, canvases: Tensor, lengths: Tensor, longest: int) -> BLMScores:
        scores = super().score(canvases, lengths, longest)
        if not self.contrast:
            return scores
        others = [style for style in range(self.config.styles) if style != self.fixed_style]
        log_p = [self.in_style(style).score(canvases, lengths, longest).log_p_word for style in others]  # [K, V] each
        return replace(scores, log_p_word=contrasted(scores.log_p_word, log_p, self.contrast))

    def prepare(self, batch: Batch) -> StyledTargets:
        if batch.styles is None:
            raise BlankLMError("a model of several styles is trained on texts with a style: use train --task transfer")
        return StyledTargets(**vars(super().prepare(batch)), styles=batch.styles)

    def loss(self, targets: StyledTargets) -> Tensor:
        """Return Eq. 8 of each text, given its style [B]."""
        actions = targets.actions
        style = targets.styles[actions.packing.sequence]  # [T]; padding at the end of a row takes the last text's style
        z = self.encoder(self.embedding(actions.canvas) + self.style(style), actions.packing)  # [T, d]
        return self.loss_of(self.read_out(z, actions), targets)


def contrasted(log_p: Tensor, others: Sequence[Tensor], contrast: float) -> Tensor:
    """Return the words' log p (p / mean p of the other styles)^g [K, V], normalised; the mean is geometric."""
    # Padding and blanks have probability 0 in every style: -inf - -inf is set to no difference.
    difference = (log_p - sum(others) / len(others)).nan_to_num(0.0)  # [K, V]
    return (log_p + contrast * difference).log_softmax(1)
