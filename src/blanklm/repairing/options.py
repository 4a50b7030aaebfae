"""How ``repair`` decides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from blanklm.options import check_options, option

MARGINS = {"english": 5.0}  # nats, chosen on validation texts
OTHERS = 6.5  # the margin of other models


@dataclass(frozen=True)
class RepairOptions:
    """What ``repair`` may change."""

    keep: tuple[str, ...] = option((), "A word or phrase to leave unchanged; may be repeated.", "--keep")
    most: float = option(0.4, "The largest share of words that may change.", gt=0, le=1)
    margin: float | None = option(
        None,
        "How much log p must rise by a change, in nats; higher is more cautious. By default as chosen for the model.",
        ge=0,
    )
    rounds: int = option(4, "How many times the text is read, each time with the changes so far.", ge=1, le=20)

    def chosen_for(self, model: str) -> RepairOptions:
        """Return these options with the margin that was chosen for a model."""
        return self if self.margin is not None else replace(self, margin=MARGINS.get(model, OTHERS))

    def __post_init__(self) -> None:
        check_options(self)
