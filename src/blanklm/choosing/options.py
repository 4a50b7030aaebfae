"""How ``choose`` ranks, and the options of blanks as the command line writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from blanklm.errors import BlankLMError
from blanklm.options import check_options, option

# Fitted on held-out questions by blanklm.paper.tables.choosing: results/choosing has the fits.
CALIBRATIONS = {"english": (3.3, 5.8), "english-small": (4.4, 6.4)}  # temperature, nats per word
_NUMBERED = re.compile(r"\s*(\d{1,9})\s*=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ChooseOptions:
    """How the options of a text's blanks are ranked."""

    orders: int = option(64, "Orders drawn per combination if there are too many to sum exactly.", ge=1, le=10_000)
    beam: int = option(64, "How many combinations to keep if there are too many to rank them all.", ge=1, le=2000)
    seed: int = option(0, "The same seed draws the same orders.", ge=0, lt=2**63)
    temperature: float | None = option(
        None, "Divide log p by this before it becomes a probability; by default as fitted for the model.", gt=0, le=100
    )
    per_word: float | None = option(
        None,
        "Nats added to log p for each word, to compare options of any length; by default as fitted for the model.",
        ge=-100,
        le=100,
    )

    def calibrated_for(self, model: str) -> ChooseOptions:
        """Return these options with the temperature and the nats per word that were fitted for a model."""
        temperature, per_word = CALIBRATIONS.get(model, (1.0, 0.0))
        return replace(
            self,
            temperature=temperature if self.temperature is None else self.temperature,
            per_word=per_word if self.per_word is None else self.per_word,
        )

    def __post_init__(self) -> None:
        check_options(self)


def split_options(written: str) -> list[str]:
    """Cut "cat|dog|old man" into options; ``\\|`` is a stroke within one."""
    return [part.replace("\\|", "|").strip() for part in re.split(r"(?<!\\)\|", written)]


def parse_options(written: Sequence[str], blanks: int) -> list[list[str]]:
    """Return the options of each blank from "2=mat|moon" (blank 2) and "mat|moon" (every blank)."""
    found: list[list[str]] = [[] for _ in range(blanks)]
    for entry in written:
        numbered = _NUMBERED.fullmatch(entry)
        if not numbered:
            for of_blank in found:
                of_blank += split_options(entry)
        elif 1 <= int(numbered[1]) <= blanks:
            found[int(numbered[1]) - 1] += split_options(numbered[2])
        else:
            raise BlankLMError(f"--options {entry}: blanks are numbered from 1 to {blanks}")
    return found
