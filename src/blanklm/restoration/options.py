"""How to restore: the options that ``blanklm.restore``, the command line and the server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from blanklm.options import check_options, option

Notation = Literal["leiden", "epidoc"]
Language = Literal["greek", "latin"]
Count = Literal["characters", "letters"]


@dataclass(frozen=True)
class RestoreOptions:
    notation: Notation | None = option(None, "Detected by default.")
    language: Language | None = option(None, "Detected from the letters by default.")
    top: int = option(20, "How many restorations per gap, best first.", "--top", "-n", ge=1, le=1000)
    abstain_below: float = option(0.05, "Leave a gap as it is if nothing is as probable as this.", ge=0, le=1)
    min_confidence: float = option(
        0.0, "Leave characters lost that are less probable than this.", "--min-confidence", "--sure", ge=0, le=1
    )
    parallels: int = option(3, "How many parallels per gap.", ge=0, le=20)
    count: Count = option("letters", "What lengths count: letters alone, or all characters (spaces too).")
    attribute: bool = option(False, "Say where and when the text was written.", "--attribute")

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def of(cls, **settings: Any) -> RestoreOptions:
        """Make options of keywords; the old name ``sure`` is accepted too."""
        if "sure" in settings:
            settings["min_confidence"] = settings.pop("sure")
        return cls(**settings)


DEFAULTS = RestoreOptions()
