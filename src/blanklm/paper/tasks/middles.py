"""What stands between two texts: one blank, filled, and compared with what people wrote there.

A file of items has a line of JSON for each: ``text`` with one ``___``, and ``references``, a list of one or more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blanklm.core.template import Template
from blanklm.errors import DataError
from blanklm.paper.tasks.infilling import Filler
from blanklm.paper.tasks.metrics import RESAMPLES, bleu_interval, corpus_bleu, rouge_l, words_and_marks


@dataclass(frozen=True)
class Item:
    text: str  # with one blank
    references: tuple[str, ...]
    before: str = ""  # what stands before the blank: the trivial rows need it

    @classmethod
    def between(cls, before: str, after: str, references: Sequence[str]) -> Item:
        return cls(f"{before} ___ {after}", tuple(references), before)


def read_items(lines: Iterable[str]) -> Iterator[Item]:
    for number, line in enumerate(lines, 1):
        try:
            record: dict[str, Any] = json.loads(line)
            template = Template.parse(record["text"])
            references = tuple(map(str, record["references"]))
        except (ValueError, KeyError, TypeError):
            template, references = Template.parse(""), ()
        if len(template.blanks) != 1 or not references:
            raise DataError(f'line {number} is no item: write {{"text": "... ___ ...", "references": ["...", ...]}}')
        yield Item(record["text"], references, template.pieces[0].strip())


def fills_of(
    system: Filler, items: Sequence[Item], progress: Callable[[int], None] | None = None, **options: Any
) -> list[str]:
    """What the system writes in the blank of each item."""
    fills = system.fill([item.text for item in items], progress=progress, **options)
    return [fill.spans[0] for fill in fills]


def score(outputs: Sequence[str], items: Sequence[Item], seed: int = 0) -> dict[str, Any]:
    """Corpus BLEU-4 and mean ROUGE-L (F1, the best of the references), in lower case, marks apart from words.

    With 95 % intervals, by bootstrap over items.
    """
    written = [words_and_marks(output) for output in outputs]
    references = [[words_and_marks(reference) for reference in item.references] for item in items]
    each = zip(written, references, strict=True)
    overlaps = 100 * np.array([max(rouge_l(output, reference) for reference in known) for output, known in each])
    drawn = np.random.default_rng(seed).integers(len(items), size=(RESAMPLES, len(items)))
    low, high = np.quantile(overlaps[drawn].mean(1), (0.025, 0.975))
    columns = _columns(references)
    return {
        "items": len(items),
        "bleu": corpus_bleu(written, *columns),
        "bleu_interval": bleu_interval(written, *columns, seed=seed),
        "rouge_l": float(overlaps.mean()),
        "rouge_l_interval": [float(low), float(high)],
        "words": float(np.mean([len(output.split()) for output in outputs])),
        "reference_words": float(np.mean([len(r.split()) for item in items for r in item.references])),
    }


def _columns(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """The first reference of each item, the second where there is one, and so on."""
    most = max(map(len, references))
    return [[known[k] if k < len(known) else None for known in references] for k in range(most)]


# --- Rows that need no model ------------------------------------------------------------------------------------------


def people(items: Sequence[Item]) -> tuple[list[str], list[Item]]:
    """The first reference against the others, of those items that have several."""
    several = [item for item in items if len(item.references) > 1]
    outputs = [item.references[0] for item in several]
    return outputs, [Item(item.text, item.references[1:], item.before) for item in several]


def of_another_item(items: Sequence[Item]) -> list[str]:
    """What people wrote for the next item: right in style, wrong in what it says."""
    return [items[(number + 1) % len(items)].references[0] for number in range(len(items))]
