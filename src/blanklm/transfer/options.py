"""How to rewrite: the options that ``Transfer.rewrite``, ``blanklm transfer`` and the server share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from blanklm.decoding.options import SampleOptions
from blanklm.errors import OptionError
from blanklm.options import check_number, check_options, option

SAMPLES = 10
AS_SUITS = "Default: what suits the model."
TEMPERATURE = 0.7  # chosen with the contrast for the bundled model on validation sentences (docs/results.md)
CONTRAST = 1.0
MAX_CONTRAST = 10


@dataclass(frozen=True)
class Weights:
    """The weights of a linear score.

    log p(style) + content * words kept + fluency * log p per word written - repetition * words repeated. With all
    weights 0 the classifier alone decides, as in the paper.
    """

    content: float = 0.5
    fluency: float = 0.0
    repetition: float = 1.0

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not 0 <= weight < math.inf:
                raise OptionError(name, f"the weight of {name} must be 0 or more, not {weight:g}")

    def score(self, log_p_style: float, content: float, fluency: float, repetitions: int) -> float:
        return log_p_style + self.content * content + self.fluency * fluency - self.repetition * repetitions


@dataclass(frozen=True)
class TransferOptions:
    """How ``rewrite`` masks, samples and ranks; None: what suits the model (``completed``), as it was loaded."""

    n: int = option(1, "How many rewrites per text, best first.", "--n", "-n", ge=1)
    samples: int | None = option(None, f"How many times to fill each mask, to choose from. {AS_SUITS}", ge=1, le=10_000)
    content: float | None = option(None, f"Weight of keeping words, in ranking. {AS_SUITS}", ge=0, le=1000)
    fluency: float | None = option(
        None, f"Weight of how probable what was written is, in ranking. {AS_SUITS}", ge=0, le=1000
    )
    repetition: float = option(Weights.repetition, "Penalty for each repeated word, in ranking.", ge=0, le=1000)
    try_smaller_masks: bool = option(
        False, "Also try to replace fewer of the marked words.", "--try-smaller-masks", "--fewer"
    )
    abstain: bool = option(False, "Leave a text unchanged if its style is not clear or no rewrite is convincing.")
    temperature: float = option(TEMPERATURE, "Below 1: more predictable; above 1: more varied.", gt=0, le=100)
    contrast: float | None = option(
        None,
        f"Contrast with the other styles, 0 (off) to {MAX_CONTRAST:g}. Default: {CONTRAST:g}.",
        ge=0,
        le=MAX_CONTRAST,
    )
    seed: int = option(0, "The same seed gives the same texts.", ge=0, lt=2**63)

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def of(cls, options: TransferOptions | None, settings: dict[str, Any]) -> TransferOptions:
        """Apply keyword ``settings`` to ``options``; ``weights`` and the old name ``fewer`` are accepted too."""
        settings = dict(settings)
        if "fewer" in settings:
            settings["try_smaller_masks"] = settings.pop("fewer")
        if (weights := settings.pop("weights", None)) is not None:
            settings |= vars(weights)
        return replace(options or cls(), **settings)

    def completed(self, samples: int, weights: Weights) -> TransferOptions:
        """Fill in what suits a model where nothing was chosen."""
        return replace(
            self,
            samples=samples if self.samples is None else self.samples,
            content=weights.content if self.content is None else self.content,
            fluency=weights.fluency if self.fluency is None else self.fluency,
        )

    @property
    def weights(self) -> Weights:
        assert self.content is not None and self.fluency is not None, "not completed"
        return Weights(self.content, self.fluency, self.repetition)

    @property
    def sampling(self) -> SampleOptions:
        assert self.samples is not None, "not completed"
        return SampleOptions(n=self.samples, temperature=self.temperature, seed=self.seed)


def check_contrast(contrast: float) -> None:
    check_number("contrast", contrast, whole=False, ge=0, le=MAX_CONTRAST)
