"""An exponential moving average of a model's weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from blanklm.models.model import Model


class Average:
    """A copy of a model with averaged weights; the decay rises from 0, so the initial weights are soon forgotten."""

    def __init__(self, model: Model, decay: float) -> None:
        self.model, self.decay, self.updates = copy.deepcopy(model).requires_grad_(False), decay, 0
        self.model.uncompile_read_out()  # the average is only evaluated: not worth compiling
        self.weights: list[Tensor] = list(self.model.parameters())

    @torch.no_grad()
    def update(self, parameters: Sequence[nn.Parameter]) -> None:
        """Move the average towards the current weights."""
        self.updates += 1
        decay = min(self.decay, self.updates / (10 + self.updates))
        torch._foreach_lerp_(self.weights, list(parameters), 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]
