"""One BLM for several styles: p(b, w, l, r | c, s). The style is no symbol of the canvas, it colours every symbol:
the vector of style s is added to each input vector, and the three parts of the BLM stay as they are.

Since one model knows every style, it can also say which words tell them apart: with a contrast g > 0 it writes words by
p(w | c, b, s) * (p(w | c, b, s) / p(w | c, b, other styles))^g, normalised.
"""

from __future__ import annotations

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
class StyledDrawn:
    drawn: BLMTargets
    styles: Tensor  # [B]


@register("styled-blm", StyledBLMConfig)
class StyledBLM(BLM):
    def __init__(self, config: StyledBLMConfig) -> None:
        super().__init__(config)
        self.style = nn.Embedding(config.styles, config.encoder.width)
        nn.init.normal_(self.style.weight, std=0.02)
        self.fixed: int | None = None  # the style that all canvases are in
        self.contrast = 0.0  # how far it goes out of the way of the other styles

    def in_style(self, style: int, contrast: float = 0.0) -> StyledBLM:
        """The same model, on the same weights, as a policy that writes in one style."""
        fixed = copy(self)
        fixed.fixed, fixed.contrast = style, contrast
        return fixed

    def encode(self, canvas: Tensor, packing: Packing) -> Tensor:
        if self.fixed is None:
            raise BlankLMError("this model writes in several styles: say in which, with in_style()")
        return self.encoder(self.embedding(canvas) + self.style.weight[self.fixed], packing)

    @torch.inference_mode()
    def score(self, canvases: Tensor, lengths: Tensor, longest: int) -> BLMScores:
        own = super().score(canvases, lengths, longest)
        if not self.contrast:
            return own
        others = [style for style in range(self.config.styles) if style != self.fixed]
        rest = sum(self.in_style(style).score(canvases, lengths, longest).log_p_word for style in others)  # [K, V]
        told_apart = (own.log_p_word - rest / len(others)).nan_to_num(0.0)  # what is no word is none in any style
        return replace(own, log_p_word=(own.log_p_word + self.contrast * told_apart).log_softmax(1))

    def prepare(self, batch: Batch) -> StyledDrawn:
        return StyledDrawn(super().prepare(batch), batch.styles)

    def loss(self, styled: StyledDrawn) -> Tensor:
        """Eq. 8 of each text, given its style [B]."""
        actions = styled.drawn.actions
        style = styled.styles[actions.packing.sequence]  # [T]; what is left over in a row takes the last text's
        z = self.encoder(self.embedding(actions.canvas) + self.style(style), actions.packing)  # [T, d]
        return self.loss_of(self.read_out(z, actions), styled.drawn)
