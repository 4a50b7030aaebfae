"""One BLM for several styles: p(b, w, l, r | c, s). The style is no symbol of the canvas, it colours every symbol:
the vector of style s is added to each input vector, and the three parts of the BLM stay as they are.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from torch import Tensor, nn

from blanklm.batching import Batch
from blanklm.conceal import Packing
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMConfig, Drawn


@dataclass(frozen=True)
class StyledBLMConfig(BLMConfig):
    styles: int = 2


@dataclass(frozen=True)
class StyledDrawn:
    drawn: Drawn
    styles: Tensor  # [B]


class StyledBLM(BLM):
    def __init__(self, config: StyledBLMConfig) -> None:
        super().__init__(config)
        self.style = nn.Embedding(config.styles, config.encoder.width)
        nn.init.normal_(self.style.weight, std=0.02)
        self.fixed: int | None = None  # the style that all canvases are in

    def in_style(self, style: int) -> StyledBLM:
        """The same model, on the same weights, as a policy that writes in one style."""
        fixed = copy(self)
        fixed.fixed = style
        return fixed

    def encode(self, canvas: Tensor, packing: Packing) -> Tensor:
        if self.fixed is None:
            raise BlankLMError("this model writes in several styles: say in which, with in_style()")
        return self.encoder(self.embedding(canvas) + self.style.weight[self.fixed], packing)

    def prepare(self, batch: Batch) -> StyledDrawn:
        return StyledDrawn(super().prepare(batch), batch.styles)

    def loss(self, styled: StyledDrawn) -> Tensor:
        """Eq. 8 of each text, given its style [B]."""
        actions = styled.drawn.actions
        style = styled.styles[actions.packing.sequence]  # [T]; what is left over in a row takes the last text's
        z = self.encoder(self.embedding(actions.canvas) + self.style(style), actions.packing)  # [T, d]
        return self.loss_of(self.read_out(z, actions), styled.drawn)

    forward = loss
