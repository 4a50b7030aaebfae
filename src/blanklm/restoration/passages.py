"""Restore one passage of a document: what a model reads of it, and the answers as its editor would write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blanklm.core.template import Blank
from blanklm.restoration.notation import Lacuna, Letters, Passage, Supplement
from blanklm.restoration.notation.document import refusal
from blanklm.restoration.notation.language import as_written, script
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.records import Parallel
from blanklm.restoration.results import Candidate, GapRestoration, Hypothesis

if TYPE_CHECKING:
    from blanklm.restoration.restorer import Restorer

CERTAINTIES = {"high": 0.9, "medium": 0.5, "low": 0.0}  # from which probability up a restoration is called so
SHOWN_CONTEXT = 40  # characters to show on each side of a lacuna
TOUCHING = "it touches another gap, and it is not known where one ends: join them, or give their lengths"


def certainty(probability: float) -> str:
    """Return the word for a probability, as in EpiDoc's ``cert``."""
    return next(word for word, least in CERTAINTIES.items() if probability >= least)


@dataclass(frozen=True)
class RestoredLacuna:
    """A lacuna and its candidates, best first, written as the text around them is.

    ``confidence`` and ``places`` are those of the best: the probability of each of its characters, and the characters
    that compete for its place. ``lengths`` is the length posterior. ``before`` and ``behind`` are the text around it,
    with ``-`` for another lacuna. ``reason`` says why it is not restored, if it is not.
    """

    lacuna: Lacuna
    candidates: tuple[Candidate, ...] = ()
    places: tuple[dict[str, float], ...] = ()
    confidence: tuple[float, ...] = ()
    lengths: dict[int, float] = field(default_factory=dict)
    before: str = ""
    behind: str = ""
    reason: str | None = None
    parallels: tuple[Parallel, ...] = ()

    def supplement(self, choice: int = 0, min_confidence: float = 0.0) -> Supplement:
        """Return a candidate to be written; in the best, characters below ``min_confidence`` stay lost."""
        candidate = self.candidates[choice]
        confidence = self.confidence if choice == 0 else (1.0,) * len(candidate.text)
        text = "".join(c if p >= min_confidence else "-" for c, p in zip(candidate.text, confidence, strict=True))
        return Supplement(text, certainty(candidate.probability))


@dataclass(frozen=True)
class RestoredPassage:
    """``numbers`` are those of its lacunae in the document; ``hypotheses`` restore them all, best first.

    ``parts`` is the text that was read, with the numbers of the lacunae, counted from 1, in their places.
    """

    language: str
    parts: tuple[str | int, ...]
    numbers: range
    hypotheses: tuple[Hypothesis, ...]


class PassageRestorer:
    """A passage as a model of its language reads it."""

    def __init__(self, source: str, passage: Passage, language: str, restorer: Restorer) -> None:
        self.source, self.language, self.restorer = source, language, restorer
        self.parts = [part for part in passage.parts if isinstance(part, Lacuna) or self._is_read(part)]
        self.letters = "".join(part.text for part in self.parts if isinstance(part, Letters))

    def _is_read(self, part: Letters) -> bool:
        return not part.foreign or all(script(c) in (None, self.language) for c in part.text)

    def restore(
        self, options: RestoreOptions, first: int, progress: Callable[[int], None]
    ) -> tuple[RestoredPassage, list[RestoredLacuna]]:
        """Restore the lacunae, which are numbered in the document from ``first``."""
        groups = list(self._groups())
        answer = self.restorer.restore([self._model_part(group) for group in groups], options, progress)
        lacunae = [group for group in groups if not isinstance(group, Letters)]
        best = {group[0]: gap.best for group, gap in zip(lacunae, answer.gaps, strict=True) if len(group) == 1}
        restored: list[RestoredLacuna] = []
        for group, gap in zip(lacunae, answer.gaps, strict=True):
            if len(group) > 1:
                restored += [RestoredLacuna(lacuna, reason=TOUCHING) for lacuna in group]
            else:
                restored.append(self._restored(group[0], gap, best, options.parallels))
        hypotheses: list[Hypothesis] = []
        if len(best) == len(lacunae):
            hypotheses = [self._as_written(hypothesis, restored) for hypothesis in answer.hypotheses]
        numbers = range(first, first + len(restored))
        number = iter(numbers)
        parts = tuple(part.text if isinstance(part, Letters) else next(number) + 1 for part in self.parts)
        return RestoredPassage(self.language, parts, numbers, tuple(hypotheses)), restored

    def _groups(self) -> Iterator[Letters | list[Lacuna]]:
        """Yield letters and lacunae; lacunae that touch are in one group, unless all their lengths are known."""
        group: list[Lacuna] = []
        for part in self.parts:
            if isinstance(part, Lacuna):
                if group and None not in (group[-1].blank.length, part.blank.length):
                    yield group
                    group = []
                group.append(part)
                continue
            if group:
                yield group
            group = []
            yield part
        if group:
            yield group

    def _model_part(self, group: Letters | list[Lacuna]) -> str | Blank:
        if isinstance(group, Letters):
            for index, letter in self.restorer.unknown(group.text):
                message = f"the model does not know the letter {letter!r}: replace it or take it out"
                raise refusal(self.source, group.places[index], message)
            return group.text
        joined = group[0]
        for lacuna in group[1:]:
            joined = joined.joined(lacuna)
        return joined.blank

    def _around(self, lacuna: Lacuna, best: Mapping[Lacuna, str]) -> tuple[str, str]:
        """Return the text before and behind a lacuna, with the ``best`` of each other lacuna, or ``-``."""
        at = self.parts.index(lacuna)
        shown = [best.get(part, "-") if isinstance(part, Lacuna) else part.text for part in self.parts]
        return "".join(shown[:at]), "".join(shown[at + 1 :])

    def _restored(
        self, lacuna: Lacuna, gap: GapRestoration, best: Mapping[Lacuna, str], parallels: int
    ) -> RestoredLacuna:
        before, behind = self._around(lacuna, {})
        candidates = tuple(
            Candidate(as_written(c.text, before[-1:], behind[:1], self.letters), c.log_prob) for c in gap.candidates
        )
        evidence: list[Parallel] = []
        if parallels and not gap.abstained:
            from blanklm.restoration.parallels import Parallels

            left, right = self._around(lacuna, best)
            evidence = Parallels.of(self.language).find(left, gap.best, right, parallels)
        return RestoredLacuna(
            lacuna=lacuna,
            candidates=candidates,
            places=gap.places,
            confidence=gap.confidence,
            lengths=gap.lengths,
            before=before[-SHOWN_CONTEXT:],
            behind=behind[:SHOWN_CONTEXT],
            reason=gap.reason if gap.abstained else None,
            parallels=tuple(evidence),
        )

    def _as_written(self, hypothesis: Hypothesis, restored: list[RestoredLacuna]) -> Hypothesis:
        spans = [
            as_written(span, lacuna.before[-1:], lacuna.behind[:1], self.letters)
            for span, lacuna in zip(hypothesis.spans, restored, strict=True)
        ]
        return Hypothesis(tuple(spans), hypothesis.log_prob)
