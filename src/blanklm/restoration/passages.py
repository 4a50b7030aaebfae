"""Restore one passage of a document: what a model reads of it, and the answers as its editor would write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from blanklm.core.template import Blank
from blanklm.restoration.candidates import GapRestoration
from blanklm.restoration.notation import Lacuna, Letters, Passage, Supplement, position
from blanklm.restoration.notation.document import refusal
from blanklm.restoration.notation.language import script
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.records import GapRecord, HypothesisRecord, Parallel, PassageRecord, RestorationRecord
from blanklm.restoration.spelling import Spelling
from blanklm.restoration.touching import can_be_cut, cut, cut_gap

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
        letters = "".join(part.text if isinstance(part, Letters) else " " for part in self.parts)
        self.spelling = Spelling.of(letters, language)

    def restore(
        self,
        options: RestoreOptions,
        first: int,
        progress: Callable[[int], None],
        ready: Callable[[GapRecord], None],
    ) -> tuple[PassageRecord, list[GapRecord]]:
        """Restore the lacunae, numbered in the document from ``first``; ``ready``: see ``restore_document``."""
        groups = self._groups()
        touching = [group for group in groups if not isinstance(group, Letters)]
        numbers = {lacuna: number for number, lacuna in enumerate((one for group in touching for one in group), first)}

        def tell(number: int, found: GapRestoration) -> None:
            group, early = touching[number], replace(options, parallels=0)
            for lacuna, gap in zip(group, self._apart(group, found, options.count == "letters"), strict=True):
                ready(self._record(numbers[lacuna], lacuna, gap, {}, early))

        answer = self.restorer.restore([self._model_part(group) for group in groups], options, progress, tell)
        restored: list[tuple[Lacuna, GapRestoration]] = []
        for group, gap in zip(touching, answer.gaps, strict=True):
            restored += zip(group, self._apart(group, gap, options.count == "letters"), strict=True)
        best = {lacuna: gap.best for lacuna, gap in restored if gap.candidates}
        records = [
            self._record(number, lacuna, gap, best, options) for number, (lacuna, gap) in enumerate(restored, first)
        ]
        hypotheses = []
        if len(best) == len(records):
            for hypothesis in answer.hypotheses:
                spans = [
                    piece
                    for group, span in zip(touching, hypothesis.spans, strict=True)
                    for piece in cut(span, [lacuna.blank for lacuna in group], options.count == "letters")
                ]
                written = [
                    self.spelling.write(span, record.before, record.behind)
                    for span, record in zip(spans, records, strict=True)
                ]
                hypotheses.append(HypothesisRecord(written, hypothesis.probability))
        number = count(first)
        parts = [part.text if isinstance(part, Letters) else next(number) for part in self.parts]
        return PassageRecord(self.language, parts, [record.gap for record in records], hypotheses), records

    def _groups(self) -> list[Letters | list[Lacuna]]:
        """Return letters and lacunae; lacunae that touch are in one group."""
        groups: list[Letters | list[Lacuna]] = []
        for part in self.parts:
            if isinstance(part, Letters):
                groups.append(part)
            elif groups and isinstance(groups[-1], list):
                groups[-1].append(part)
            else:
                groups.append([part])
        return groups

    def _apart(self, group: list[Lacuna], gap: GapRestoration, letters_only: bool) -> list[GapRestoration]:
        """Return the restoration of each lacuna of a group that was restored as one."""
        blanks = [lacuna.blank for lacuna in group]
        if len(group) == 1:
            return [gap]
        if not can_be_cut(blanks):
            return [GapRestoration((), (), {}, TOUCHING)] * len(group)
        return cut_gap(gap, blanks, letters_only)

    def _model_part(self, group: Letters | list[Lacuna]) -> str | Blank:
        if isinstance(group, Letters):
            for index, letter in self.restorer.unknown(group.text):
                message = f"the model does not know the letter {letter!r}: replace it or take it out"
                raise refusal(self.source, group.places[index], message)
            return self._read(group.text)
        return reduce(Lacuna.joined, group).blank

    def _read(self, text: str) -> str:
        """Return a text in the spelling of the models."""
        lexicon = self.restorer.lexicon
        return self.spelling.read(text, lambda word: lexicon is not None and word in lexicon.words)

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

            left, right = map(self._read, self._around(lacuna, best))
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
            unit="letters" if options.count == "letters" and lacuna.blank != Blank() else "characters",
            before=before[-SHOWN_CONTEXT:],
            behind=behind[:SHOWN_CONTEXT],
            abstained=gap.reason is not None,
            reason=gap.reason,
            restorations=self._restorations(lacuna, gap, before, behind, options.min_confidence),
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
            text = self.spelling.write(candidate.text, before, behind)
            certain = certainty(candidate.probability)
            kept = text
            if not records:
                kept = "".join(c if p >= min_confidence else "-" for c, p in zip(text, gap.confidence, strict=True))
            written = lacuna.written(Supplement(kept, certain))
            records.append(RestorationRecord(text, candidate.probability, certain, written, candidate.formula))
        return records
