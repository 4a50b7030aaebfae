"""The paper's infilling protocol (Section 4.1): hide a share of a text's words and collapse each run into one blank.

Of n whitespace-separated words, ceil(ratio * n) are hidden, chosen uniformly without replacement. Words are what
whitespace separates, whatever the tokenizer of the model under test, so every system gets the same canvases.
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

from blanklm.canvas import Blank, Template
from blanklm.errors import DataError

_WORD = re.compile(r"\S+")  # the words of str.split(), with their places


@dataclass(frozen=True)
class Masked:
    """A text with blanks, and what each blank hides, inner whitespace included."""

    template: Template
    spans: tuple[str, ...]

    @property
    def text(self) -> str:
        """The original text, character for character."""
        return self.template.render(self.spans)


def mask_words(text: str, ratio: float, rng: Random) -> Masked:
    """Hide ceil(``ratio`` * n) of the n words of ``text``; neighbouring hidden words share one blank.

    Everything outside the blanks stays exactly as it was. A text without words gets no blank.
    """
    if not 0 <= ratio <= 1:
        raise DataError(f"the share of words to hide lies between 0 and 1, not at {ratio}")
    words = [word.span() for word in _WORD.finditer(text)]
    # The ratio as written: in binary floating point 0.55 * 100 is a little over 55, and its ceiling 56.
    hidden_count = math.ceil(Fraction(str(ratio)) * len(words))
    return blank_out(text, words, set(rng.sample(range(len(words)), hidden_count)))


def blank_out(text: str, words: Sequence[tuple[int, int]], hidden: Set[int]) -> Masked:
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
    return Masked(Template(tuple(pieces), (Blank(),) * len(spans)), tuple(spans))


def mask_corpus(texts: Iterable[str], ratio: float, seed: int) -> list[Masked]:
    """Mask each text with its own random numbers, drawn from ``seed`` and the text's index.

    So the mask of a text does not change when the texts around it do, or when they are split over machines.
    """
    return [mask_words(text, ratio, Random(f"{seed}/{index}")) for index, text in enumerate(texts)]


def write_masks(path: Path, masked: Iterable[Masked]) -> None:
    """Canvases and what they hide, a JSON object a line: what every system of a comparison is given."""
    lines = (json.dumps({"canvas": str(m.template), "hidden": m.spans}, ensure_ascii=False) + "\n" for m in masked)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def read_masks(path: Path) -> list[Masked]:
    """What ``write_masks`` wrote."""
    with open(path, encoding="utf-8") as lines:
        return [Masked(Template.parse(record["canvas"]), tuple(record["hidden"])) for record in map(json.loads, lines)]


def no_infill(masked: Masked) -> str:
    """The shown words alone, joined by single spaces: what a system that fills nothing would answer."""
    return " ".join(word for piece in masked.template.pieces for word in piece.split())
