"""How to restore: the options that ``blanklm.restore``, the command line and the server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from blanklm.errors import OptionError
from blanklm.options import option

Notation = Literal["leiden", "epidoc"]
Language = Literal["greek", "latin"]
Count = Literal["characters", "letters"]


@dataclass(frozen=True)
class RestoreOptions:
    notation: Notation | None = option(None, "Detected by default.")
    language: Language | None = option(None, "Detected from the letters by default.")
    top: int = option(20, "How many restorations per gap, best first.", "--top", "-n", ge=1)
    abstain_below: float = option(0.05, "Leave a gap as it is if nothing is as probable as this.", ge=0, le=1)
    min_confidence: float = option(
        0.0, "Leave characters lost that are less probable than this.", "--min-confidence", "--sure", ge=0, le=1
    )
    parallels: int = option(3, "How many parallels per gap.", ge=0, le=20)
    count: Count = option("characters", "What lengths count: all characters, or letters only (no spaces).")

    def __post_init__(self) -> None:
        choices: dict[str, tuple[Any, ...]] = {
            "notation": (None, *get_args(Notation)),
            "language": (None, *get_args(Language)),
            "count": get_args(Count),
        }
        for name, values in choices.items():
            if getattr(self, name) not in values:
                known = " or ".join(repr(value) for value in values if value is not None)
                raise OptionError(name, f"`{name}` must be {known}, not {getattr(self, name)!r}")
        for name in ("abstain_below", "min_confidence"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(name, f"`{name}` must be between 0 and 1, not {getattr(self, name)}")
        for name, least in (("top", 1), ("parallels", 0)):
            if getattr(self, name) < least:
                raise OptionError(name, f"`{name}` must be at least {least}, not {getattr(self, name)}")

    @classmethod
    def of(cls, **settings: Any) -> RestoreOptions:
        """Make options of keywords; the old name ``sure`` is accepted too."""
        if "sure" in settings:
            settings["min_confidence"] = settings.pop("sure")
        return cls(**settings)


DEFAULTS = RestoreOptions()
