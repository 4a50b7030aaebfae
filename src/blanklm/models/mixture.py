"""Several BLMs with the same words as one policy: the mean of their probabilities, p(b), p(w) and p(l, r) each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMScores


class Mixture(nn.Module):
    """Fills, and that is all: it is made of models that have been trained, and not trained itself."""

    def __init__(self, models: Sequence[BLM]) -> None:
        super().__init__()
        if len({(model.config.vocabulary, model.config.max_length) for model in models}) != 1:
            raise BlankLMError("models are averaged where they have the same words and the same longest text")
        self.models, self.config = nn.ModuleList(models), models[0].config

    @property
    def device(self) -> torch.device:
        return self.models[0].device

    @torch.inference_mode()
    def score(self, canvases: Tensor, lengths: Tensor, longest: int) -> MixtureScores:
        scores = [model.score(canvases, lengths, longest) for model in self.models]
        return MixtureScores(
            of_each=scores,
            log_p_blank=_log_mean([each.log_p_blank for each in scores]),
            log_p_word=_log_mean([each.log_p_word for each in scores]),
        )


@dataclass(frozen=True)
class MixtureScores:
    """A ``policy.Scores``."""

    of_each: list[BLMScores]
    log_p_blank: Tensor  # [K]
    log_p_word: Tensor  # [K, V]

    @torch.inference_mode()
    def log_p_sides(self, rows: Tensor, words: Tensor) -> Tensor:
        return _log_mean([each.log_p_sides(rows, words) for each in self.of_each])  # [M, 4]


def _log_mean(log_probs: Sequence[Tensor]) -> Tensor:
    """The log of the mean of some probabilities."""
    return reduce(torch.logaddexp, log_probs) - math.log(len(log_probs))
