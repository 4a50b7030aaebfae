"""The paper's masking protocols: words for infilling (Section 4.1), slots of characters for restoration (Section 4.2).

Infilling: hide a share of a text's words and collapse each run into one blank. Of n
whitespace-separated words, ceil(ratio * n) are hidden, chosen uniformly without replacement. Words are what whitespace
separates, whatever the tokenizer of the model under test, so every system gets the same canvases.
The result is scored against the original text; the "no infill" row is the text with its blanks removed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

from blanklm.core.template import Blank, Template
from blanklm.errors import DataError

_WORD = re.compile(r"\S+")  # the words of str.split(), with their places


@dataclass(frozen=True)
class MaskedText:
    """A text with blanks, and what each blank hides, inner whitespace included."""

    template: Template
    spans: tuple[str, ...]

    @property
    def text(self) -> str:
        """The original text, character for character."""
        return self.template.render(self.spans)


def mask_words(text: str, ratio: float, rng: Random) -> MaskedText:
    """Hide ceil(``ratio`` * n) of the n words of ``text``; neighbouring hidden words share one blank.

    Everything outside the blanks stays exactly as it was. A text without words gets no blank.
    """
    if not 0 <= ratio <= 1:
        raise DataError(f"the share of words to hide lies between 0 and 1, not at {ratio}")
    words = [word.span() for word in _WORD.finditer(text)]
    # The ratio as written: in binary floating point 0.55 * 100 is a little over 55, and its ceiling 56.
    hidden_count = math.ceil(Fraction(str(ratio)) * len(words))
    return blank_out(text, words, set(rng.sample(range(len(words)), hidden_count)))


def blank_out(text: str, words: Sequence[tuple[int, int]], hidden: Set[int]) -> MaskedText:
    """Hide the words of these numbers; ``words`` are the places of all. Neighbours share one blank."""
    pieces, spans, shown_from = [], [], 0
    for i, (start, end) in enumerate(words):
        if i not in hidden:
            continue
        if i - 1 not in hidden:
            pieces.append(text[shown_from:start])
            run_from = start
        if i + 1 not in hidden:
            spans.append(text[run_from:end])
            shown_from = end
    pieces.append(text[shown_from:])
    return MaskedText(Template(tuple(pieces), (Blank(),) * len(spans)), tuple(spans))


def mask_corpus(texts: Iterable[str], ratio: float, seed: int) -> list[MaskedText]:
    """Mask each text with its own random numbers, drawn from ``seed`` and the text's index.

    So the mask of a text does not change when the texts around it do, or when they are split over machines.
    """
    return [mask_words(text, ratio, Random(f"{seed}/{index}")) for index, text in enumerate(texts)]


def write_masks(path: Path, masked: Iterable[MaskedText]) -> None:
    """Canvases and what they hide, a JSON object a line: what every system of a comparison is given."""
    lines = (json.dumps({"canvas": str(m.template), "hidden": m.spans}, ensure_ascii=False) + "\n" for m in masked)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def read_masks(path: Path) -> list[MaskedText]:
    """What ``write_masks`` wrote."""
    with open(path, encoding="utf-8") as lines:
        return [
            MaskedText(Template.parse(record["canvas"]), tuple(record["hidden"])) for record in map(json.loads, lines)
        ]


def no_infill(masked: MaskedText) -> str:
    """The shown words alone, joined by single spaces: what a system that fills nothing would answer."""
    return " ".join(word for piece in masked.template.pieces for word in piece.split())


# --- Restoration: slots of characters -----------------------------------------------------------------------------

LOST = "-#"  # in the corpora of damaged texts: a lost letter, a loss of unknown extent; a slot holds neither
LONGEST_SLOT = 10
CONTEXT = 1000  # characters
TRIES = 400  # to place a slot of some length before a shorter one is tried
_EDITED = re.compile(r"(?:\[[^\[\]]*\])+")


def single_slot(text: str, rng: Random, context: int = CONTEXT) -> MaskedText | None:
    """One slot of 1 to 10 characters in at most ``context`` characters of a text; None where nothing can be hidden."""
    if len(text) > context:
        start = rng.randrange(len(text) - context + 1)
        text = text[start : start + context]
    for longest in range(LONGEST_SLOT, 0, -1):
        length = rng.randint(1, longest)
        starts = [
            start
            for start in range(len(text) - length + 1)
            if not any(character in LOST for character in text[start : start + length])
        ]
        if starts:
            start = rng.choice(starts)
            return cut(text, [(start, start + length)])
    return None


def many_slots(text: str, ratio: float, rng: Random, context: int = CONTEXT) -> MaskedText | None:
    """Slots of 1 to 10 characters that do not touch, until ``ratio`` of the characters are hidden, or no slot fits."""
    if not 0 < ratio < 1:
        raise DataError(f"the share of characters to hide lies between 0 and 1, not at {ratio}")
    if len(text) > context:
        start = rng.randrange(len(text) - context + 1)
        text = text[start : start + context]
    wanted = math.ceil(Fraction(str(ratio)) * sum(character not in LOST for character in text))
    free = [True] * len(text) + [True]  # whether a slot may stand or begin there; the last entry is beyond the end
    slots: list[tuple[int, int]] = []
    hidden, longest = 0, LONGEST_SLOT
    while hidden < wanted and longest:
        length = rng.randint(1, min(longest, wanted - hidden))
        for _ in range(TRIES):
            start = rng.randrange(max(1, len(text) - length + 1))
            end = start + length
            if end > len(text) or not all(free[start:end]) or any(character in LOST for character in text[start:end]):
                continue
            slots.append((start, end))
            free[max(0, start - 1) : end + 1] = [False] * (end + 1 - max(0, start - 1))
            hidden += length
            break
        else:
            longest = length - 1
    return cut(text, sorted(slots)) if slots else None


def slots_of_corpus(texts: Iterable[str], ratio: float | None, seed: int) -> list[MaskedText]:
    """``many_slots`` of each text, or ``single_slot`` without a ratio; each text with random numbers of its own."""
    masked = []
    for index, text in enumerate(texts):
        rng = Random(f"{seed}/{index}")
        found = single_slot(text, rng) if ratio is None else many_slots(text, ratio, rng)
        if found is not None:
            masked.append(found)
    return masked


def editors_restorations(marked: str) -> MaskedText | None:
    """What an editor restored, in brackets, as the slots: ``dis man[ibus] sacrum``; None where nothing was.

    Brackets that touch are one slot; a bracket that holds a lost letter still, or nothing but space, is none. A text
    whose brackets do not match is left out.
    """
    if marked.count("[") != marked.count("]"):  # it begins or ends within a bracket
        return None
    text, slots, end = "", [], 0
    for match in _EDITED.finditer(marked):
        text += marked[end : match.start()].replace("[", "").replace("]", "")
        restored = match[0].replace("][", "")[1:-1]
        if restored.strip() and not any(character in LOST for character in restored):
            slots.append((len(text), len(text) + len(restored)))
        text, end = text + restored, match.end()
    text += marked[end:].replace("[", "").replace("]", "")
    return cut(text, slots) if slots else None


def cut(text: str, slots: Iterable[tuple[int, int]]) -> MaskedText:
    """The text with blanks of known length at the ``slots`` (from, to), which are in order."""
    pieces, spans, shown_from = [], [], 0
    for start, end in slots:
        pieces.append(text[shown_from:start])
        spans.append(text[start:end])
        shown_from = end
    pieces.append(text[shown_from:])
    return MaskedText(Template(tuple(pieces), tuple(Blank.exactly(len(span)) for span in spans)), tuple(spans))
