"""A text with some of its words hidden."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from blanklm.core.template import Blank, Template


@dataclass(frozen=True)
class MaskedText:
    """A text with blanks and the words that each blank hides, inner whitespace included."""

    template: Template
    spans: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the original text, character for character."""
        return self.template.render(self.spans)


def blank_out(text: str, words: Sequence[tuple[int, int]], hidden: Set[int]) -> MaskedText:
    """Hide the words whose numbers are in ``hidden``; ``words`` are the spans of all. Neighbours share one blank."""
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
