"""The paper's masking protocols: words for infilling (Section 4.1), slots of characters for restoration (Section 4.2).

Infilling: of n whitespace-separated words, ceil(ratio * n) are hidden, chosen uniformly without replacement, and each
run of hidden words becomes one blank. Words are separated by whitespace whatever the tokenizer of the model under test,
so every system gets the same canvases. The result is scored against the original text; the "no infill" row is the text
with its blanks removed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from random import Random

from blanklm.core.template import Blank, Template
from blanklm.data.masking import MaskedText, mask_words
from blanklm.errors import DataError
from blanklm.files import write_whole


def mask_corpus(texts: Iterable[str], ratio: float, seed: int) -> list[MaskedText]:
    """Mask each text with a random generator seeded by ``seed`` and the text's index.

    So the mask of a text does not depend on the texts around it, nor on how they are split over machines.
    """
    return [mask_words(text, ratio, Random(f"{seed}/{index}")) for index, text in enumerate(texts)]


def write_masks(path: Path, masked: Iterable[MaskedText]) -> None:
    """Write canvases and hidden words, one JSON object per line: the input of every system in a comparison."""
    lines = (json.dumps({"canvas": str(m.template), "hidden": m.spans}, ensure_ascii=False) + "\n" for m in masked)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(lines).encode("utf-8"))


def read_masks(path: Path) -> list[MaskedText]:
    """Read a file of ``write_masks``."""
    with open(path, encoding="utf-8") as lines:
        return [
            MaskedText(Template.parse(record["canvas"]), tuple(record["hidden"])) for record in map(json.loads, lines)
        ]


def no_infill(masked: MaskedText) -> str:
    """Return the visible words joined by single spaces: the output of a system that fills nothing."""
    return " ".join(word for piece in masked.template.pieces for word in piece.split())


LOST = "-#"  # in the corpora of damaged texts: a lost letter, a loss of unknown length; a slot contains neither
LONGEST_SLOT = 10
CONTEXT = 1000  # characters
TRIES = 400  # attempts to place a slot before a shorter one is tried
_EDITED = re.compile(r"(?:\[[^\[\]]*\])+")


def single_slot(text: str, rng: Random, context: int = CONTEXT) -> MaskedText | None:
    """Hide one slot of 1 to 10 characters in at most ``context`` characters of a text; None if no slot fits."""
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
    """Hide non-adjacent slots of 1 to 10 characters until ``ratio`` of the characters are hidden or no slot fits."""
    if not 0 < ratio < 1:
        raise DataError(f"the share of characters to hide must be between 0 and 1, not {ratio}")
    if len(text) > context:
        start = rng.randrange(len(text) - context + 1)
        text = text[start : start + context]
    target = math.ceil(Fraction(str(ratio)) * sum(character not in LOST for character in text))
    free = [True] * len(text) + [True]  # where a slot may lie; the last entry is beyond the end
    slots: list[tuple[int, int]] = []
    hidden, longest = 0, LONGEST_SLOT
    while hidden < target and longest:
        length = rng.randint(1, min(longest, target - hidden))
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
    """Apply ``many_slots``, or ``single_slot`` without a ratio, to each text, seeded by its index."""
    masked = []
    for index, text in enumerate(texts):
        rng = Random(f"{seed}/{index}")
        masked_text = single_slot(text, rng) if ratio is None else many_slots(text, ratio, rng)
        if masked_text is not None:
            masked.append(masked_text)
    return masked


def editors_restorations(marked: str) -> MaskedText | None:
    """Turn an editor's restorations in brackets, as in ``dis man[ibus] sacrum``, into slots; None if there are none.

    Adjacent brackets are one slot; a bracket with a lost letter in it, or only space, is skipped. So is a text whose
    brackets do not match.
    """
    if marked.count("[") != marked.count("]"):  # the text begins or ends inside a bracket
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
    """Replace the ``slots`` (start, end), in order, by blanks of known length."""
    pieces, spans, shown_from = [], [], 0
    for start, end in slots:
        pieces.append(text[shown_from:start])
        spans.append(text[start:end])
        shown_from = end
    pieces.append(text[shown_from:])
    return MaskedText(Template(tuple(pieces), tuple(Blank.exactly(len(span)) for span in spans)), tuple(spans))
