"""How ``repair`` decides."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from blanklm.errors import OptionError
from blanklm.options import option

MARGINS = {"english": 5.0}  # nats, chosen on validation texts
OTHERS = 6.5  # the margin of other models


@dataclass(frozen=True)
class RepairOptions:
    """What ``repair`` may change."""

    keep: tuple[str, ...] = option((), "A word or phrase that stays as it is.", "--keep")
    most: float = option(0.4, "The share of words that may change, at most.", gt=0, le=1)
    margin: float | None = option(
        None, "Nats that the text must gain by a change: more changes less; by default as chosen for the model.", ge=0
    )
    rounds: int = option(4, "How often the changed text is read again.", ge=1, le=20)

    def chosen_for(self, model: str) -> RepairOptions:
        """Return these options with the margin that was chosen for a model."""
        return self if self.margin is not None else replace(self, margin=MARGINS.get(model, OTHERS))

    def __post_init__(self) -> None:
        if not 0 < self.most <= 1:
            raise OptionError("most", f"the share of words that may change is above 0 and at most 1, not {self.most}")
        if self.margin is not None and not 0 <= self.margin < math.inf:
            raise OptionError("margin", f"the margin must be 0 or more, not {self.margin}")
        if self.rounds < 1:
            raise OptionError("rounds", "the number of rounds must be at least 1")
