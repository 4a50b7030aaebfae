"""The options of a restoration, for ``blanklm.restore``, the command line and the server.

To add one, add a field here and use it where it matters: the command line and the HTTP API are derived from the fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_type_hints

from blanklm.errors import BlankLMError


def option(default: Any, description: str, **metadata: Any) -> Any:
    """Make a field: ``ge`` and ``le`` are its bounds, ``short`` a letter for it, ``old_name`` is still accepted."""
    return field(default=default, metadata={"description": description, **metadata})


@dataclass(frozen=True)
class RestoreOptions:
    notation: Literal["leiden", "epidoc"] | None = option(None, "Detected by default.")
    language: Literal["greek", "latin"] | None = option(None, "Detected from the letters by default.")
    top: int = option(20, "How many restorations of each gap, best first.", ge=1, short="n")
    abstain_below: float = option(0.05, "Leave a gap as it is if nothing is as probable as this.", ge=0, le=1)
    min_confidence: float = option(
        0.0, "Leave characters lost that are less probable than this.", ge=0, le=1, old_name="sure"
    )
    parallels: int = option(3, "How many parallels for each gap.", ge=0)
    count: Literal["characters", "letters"] = option(
        "characters", "What lengths count: all characters, or letters only (no spaces)."
    )

    def __post_init__(self) -> None:
        hints = get_type_hints(RestoreOptions)
        for entry in fields(self):
            value, least, most = getattr(self, entry.name), entry.metadata.get("ge"), entry.metadata.get("le")
            if choices := _choices(hints[entry.name]):
                if value not in choices:
                    known = " or ".join(repr(choice) for choice in choices if choice is not None)
                    raise BlankLMError(f"`{entry.name}` must be {known}, not {value!r}")
            elif most is not None and not least <= value <= most:
                raise BlankLMError(f"`{entry.name}` must be between {least} and {most}, not {value}")
            elif value < least:
                raise BlankLMError(f"`{entry.name}` must be at least {least}, not {value}")

    @classmethod
    def of(cls, **settings: Any) -> RestoreOptions:
        """Make options of keywords, which may use the old name of an option."""
        renamed = {entry.metadata.get("old_name", entry.name): entry.name for entry in fields(cls)}
        return cls(**{renamed.get(name, name): value for name, value in settings.items()})


def _choices(hint: Any) -> list[Any]:
    """Return the values that a Literal allows, with None if it is optional; empty for any other type."""
    choices: list[Any] = []
    for part in get_args(hint):
        choices += [None] if part is type(None) else get_args(part) or [part]
    return choices


DEFAULTS = RestoreOptions()
