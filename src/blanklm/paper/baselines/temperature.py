"""A temperature of words, folded into the weights: a model that has overfitted is overconfident in its words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM
from blanklm.models.encoder import Encoder
from blanklm.paper.baselines.context_blm import ContextBLM


def apply_temperature(model: Any, temperature: float) -> None:
    """Divide the logits of words by a ``temperature``; all else stays as probable as before.

    Words, blanks and sides of a BLM are read off z. So z is divided, and the weights that read blanks and sides (and
    what to copy) multiplied. Baselines know themselves which weights those are.
    """
    if not isinstance(model, BLM):
        model.apply_temperature(temperature)
        return
    if not isinstance(model.encoder, Encoder):
        raise BlankLMError("a temperature needs blanklm's own encoder, not a pretrained backbone")
    scale_down_(temperature, model.encoder.norm.weight, model.encoder.norm.bias, model.word_bias)
    scale_down_(1 / temperature, model.choose.weight, model.sides_from_blank.weight)
    if isinstance(model, ContextBLM):
        scale_down_(1 / temperature, model.find.weight, model.found.weight, model.writes.weight)


@torch.no_grad()
def scale_down_(temperature: float, *parts: Tensor) -> None:
    """Divide ``parts`` of a model by a ``temperature``, in place."""
    if not 0 < temperature < float("inf"):
        raise BlankLMError(f"the temperature must be above 0, not {temperature}")
    for part in parts:
        part /= temperature
