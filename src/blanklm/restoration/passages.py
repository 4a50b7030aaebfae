"""Restore one passage of a document: what a model reads of it, and the answers as its editor would write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from blanklm.core.template import Blank
from blanklm.restoration.candidates import GapRestoration
from blanklm.restoration.notation import Lacuna, Letters, Passage, Supplement, position
from blanklm.restoration.notation.document import refusal
from blanklm.restoration.notation.language import as_written, script
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.records import GapRecord, HypothesisRecord, Parallel, PassageRecord, RestorationRecord

if TYPE_CHECKING:
    from blanklm.restoration.restorer import Restorer

CERTAINTIES = {"high": 0.9, "medium": 0.5, "low": 0.0}  # from which probability up a restoration is called so
SHOWN_CONTEXT = 40  # characters to show on each side of a lacuna
TOUCHING = "it touches another gap, and it is not known where one ends: join them, or give their lengths"


def certainty(probability: float) -> str:
    """Return the word for a probability, as in EpiDoc's ``cert``."""
    return next(word for word, least in CERTAINTIES.items() if probability >= least)


class PassageRestorer:
    """A passage as a model of its language reads it."""

    def __init__(self, source: str, passage: Passage, language: str, restorer: Restorer) -> None:
        self.source, self.language, self.restorer = source, language, restorer
        self.parts = [
            part
            for part in passage.parts
            if isinstance(part, Lacuna) or not part.foreign or all(script(c) in (None, language) for c in part.text)
        ]
        self.letters = "".join(part.text for part in self.parts if isinstance(part, Letters))

    def restore(
        self, options: RestoreOptions, first: int, progress: Callable[[int], None]
    ) -> tuple[PassageRecord, list[GapRecord]]:
        """Restore the lacunae, which are numbered in the document from ``first``."""
        groups = self._groups()
        answer = self.restorer.restore([self._model_part(group) for group in groups], options, progress)
        lacunae = [group for group in groups if not isinstance(group, Letters)]
        best = {group[0]: gap.best for group, gap in zip(lacunae, answer.gaps, strict=True) if len(group) == 1}
        records: list[GapRecord] = []
        for group, gap in zip(lacunae, answer.gaps, strict=True):
            for lacuna in group:
                restored = gap if len(group) == 1 else GapRestoration((), (), {}, TOUCHING)
                records.append(self._record(first + len(records), lacuna, restored, best, options))
        hypotheses = []
        if len(best) == len(lacunae):
            for hypothesis in answer.hypotheses:
                spans = [
                    as_written(span, gap.before[-1:], gap.behind[:1], self.letters)
                    for span, gap in zip(hypothesis.spans, records, strict=True)
                ]
                hypotheses.append(HypothesisRecord(spans, hypothesis.probability))
        number = count(first)
        parts = [part.text if isinstance(part, Letters) else next(number) for part in self.parts]
        return PassageRecord(self.language, parts, [record.gap for record in records], hypotheses), records

    def _groups(self) -> list[Letters | list[Lacuna]]:
        """Return letters and lacunae; lacunae that touch are in one group, unless all their lengths are known."""
        groups: list[Letters | list[Lacuna]] = []
        for part in self.parts:
            last = groups[-1] if groups else None
            if isinstance(part, Letters):
                groups.append(part)
            elif isinstance(last, list) and None in (last[-1].blank.length, part.blank.length):
                last.append(part)
            else:
                groups.append([part])
        return groups

    def _model_part(self, group: Letters | list[Lacuna]) -> str | Blank:
        if isinstance(group, Letters):
            for index, letter in self.restorer.unknown(group.text):
                message = f"the model does not know the letter {letter!r}: replace it or take it out"
                raise refusal(self.source, group.places[index], message)
            return group.text
        return reduce(Lacuna.joined, group).blank

    def _around(self, lacuna: Lacuna, best: Mapping[Lacuna, str]) -> tuple[str, str]:
        """Return the text before and behind a lacuna, with the ``best`` of each other lacuna, or ``-``."""
        at = self.parts.index(lacuna)
        shown = [best.get(part, "-") if isinstance(part, Lacuna) else part.text for part in self.parts]
        return "".join(shown[:at]), "".join(shown[at + 1 :])

    def _record(
        self, number: int, lacuna: Lacuna, gap: GapRestoration, best: Mapping[Lacuna, str], options: RestoreOptions
    ) -> GapRecord:
        line, column = position(self.source, lacuna.start)
        before, behind = self._around(lacuna, {}) if gap.candidates else ("", "")
        parallels: list[Parallel] = []
        if options.parallels and gap.reason is None:
            from blanklm.restoration.parallels import Parallels

            left, right = self._around(lacuna, best)
            parallels = Parallels.of(self.language).find(left, gap.best, right, options.parallels)
        return GapRecord(
            gap=number,
            line=line,
            column=column,
            start=lacuna.start,
            end=lacuna.end,
            written=self.source[lacuna.start : lacuna.end],
            min=None if lacuna.blank == Blank() else lacuna.blank.min,
            max=lacuna.blank.max,
            before=before[-SHOWN_CONTEXT:],
            behind=behind[:SHOWN_CONTEXT],
            abstained=gap.reason is not None,
            reason=gap.reason,
            restorations=self._restorations(lacuna, gap, before[-1:], behind[:1], options.min_confidence),
            confidence=gap.confidence,
            places=list(gap.places),
            lengths=gap.lengths,
            parallels=parallels,
        )

    def _restorations(
        self, lacuna: Lacuna, gap: GapRestoration, before: str, behind: str, min_confidence: float
    ) -> list[RestorationRecord]:
        """Return the candidates as they are written; in the best, characters below ``min_confidence`` stay lost."""
        records: list[RestorationRecord] = []
        for candidate in gap.candidates:
            text, certain = as_written(candidate.text, before, behind, self.letters), certainty(candidate.probability)
            kept = text
            if not records:
                kept = "".join(c if p >= min_confidence else "-" for c, p in zip(text, gap.confidence, strict=True))
            written = lacuna.written(Supplement(kept, certain))
            records.append(RestorationRecord(text, candidate.probability, certain, written, candidate.formula))
        return records
