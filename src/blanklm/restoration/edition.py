"""Restore a damaged text as its editor wrote it: Leiden notation or EpiDoc in, the same out, with what speaks for it.

``restore("ἔδοξεν τῆι βουλῆι κα[. . 5 . .] δήμωι").text`` is the text with ``[ι τωι]`` in the place of the gap, if all
goes well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blanklm.errors import BlankLMError
from blanklm.restoration.notation import Document, Lacuna, Letters, Passage, Supplement, parse, position
from blanklm.restoration.notation.document import refusal
from blanklm.restoration.notation.language import as_written, language_of, script

if TYPE_CHECKING:
    from blanklm.restoration.letter_counts import LetterLengthRestorer
    from blanklm.restoration.parallels import Parallel
    from blanklm.restoration.restorer import Candidate, Gap, GapRestoration, Hypothesis, Restorer

CERTAIN = {"high": 0.9, "medium": 0.5, "low": 0.0}  # what the probability of a restoration is called, from its bound up
COUNTS = ("characters", "letters")  # what a length counts: a space between words is a character and no letter
CONTEXT = 40  # characters to show on each side of a lacuna

FindParallels = Callable[[str, str, str, str], "list[Parallel]"]  # language, before, restored, behind


@dataclass(frozen=True)
class RestoredLacuna:
    """A lacuna and what may have stood in it, best first. ``candidates`` are written as the text around them is.

    ``confidence`` and ``places`` are those of the best: for each of its characters its probability, and the characters
    that compete for its place. ``lengths`` is the posterior over the length. ``before`` and ``behind`` are what stands
    around it, ``-`` for another lacuna. ``reason`` says why it is not restored, if it is not.
    """

    lacuna: Lacuna
    candidates: tuple[Candidate, ...]
    places: tuple[dict[str, float], ...]
    confidence: tuple[float, ...]
    lengths: dict[int, float]
    before: str
    behind: str
    reason: str | None = None
    parallels: tuple[Parallel, ...] = ()

    def supplement(self, choice: int = 0, sure: float = 0.0) -> Supplement:
        """A candidate as it is to be written; of the best, characters less probable than ``sure`` stay lost."""
        candidate = self.candidates[choice]
        kept = self.confidence if choice == 0 else (1.0,) * len(candidate.text)
        text = "".join(c if p >= sure else "-" for c, p in zip(candidate.text, kept, strict=True))
        return Supplement(text, certainty(candidate.probability))


@dataclass(frozen=True)
class RestoredPassage:
    """``numbers`` are those of its lacunae in the edition; ``hypotheses`` restore them all, best first.

    ``parts`` is what was read, and the numbers of the lacunae (from 1, as people count) where they stand.
    """

    language: str
    parts: tuple[str | int, ...]
    numbers: range
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True)
class Edition:
    """A document and its lacunae restored, numbered from 0 in the order of the source."""

    document: Document
    passages: tuple[RestoredPassage, ...]
    lacunae: tuple[RestoredLacuna, ...]
    sure: float = 0.0

    @property
    def text(self) -> str:
        """The document with the best restoration of each lacuna; where the model abstains it stays as it was."""
        return self.written({})

    def written(self, choices: Mapping[int, int]) -> str:
        """The same with other candidates, ``{lacuna: candidate}``, from 0; choosing one overrides abstaining."""
        return self.document.restored(
            {
                number: restored.supplement(choices.get(number, 0), self.sure)
                for number, restored in enumerate(self.lacunae)
                if restored.candidates and (number in choices or restored.reason is None)
            }
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "notation": self.document.notation,
            "text": self.text,
            "passages": [
                {
                    "language": passage.language,
                    "parts": list(passage.parts),
                    "gaps": [number + 1 for number in passage.numbers],
                    "hypotheses": [
                        {"restorations": list(h.spans), "probability": round(h.probability, 6)}
                        for h in passage.hypotheses
                    ],
                }
                for passage in self.passages
            ],
            "gaps": [self._gap_json(number, restored) for number, restored in enumerate(self.lacunae)],
        }

    def _gap_json(self, number: int, restored: RestoredLacuna) -> dict[str, Any]:
        source, lacuna = self.document.source, restored.lacuna
        line, column = position(source, lacuna.start)
        return {
            "gap": number + 1,
            "line": line,
            "column": column,
            "start": lacuna.start,
            "end": lacuna.end,
            "written": source[lacuna.start : lacuna.end],
            "min": lacuna.least,
            "max": lacuna.most,
            "before": restored.before,
            "behind": restored.behind,
            "abstained": restored.reason is not None,
            "reason": restored.reason,
            "restorations": [
                {
                    "text": candidate.text,
                    "probability": round(candidate.probability, 6),
                    "certainty": certainty(candidate.probability),
                    "written": lacuna.written(restored.supplement(rank, self.sure)),
                }
                for rank, candidate in enumerate(restored.candidates)
            ],
            "confidence": [round(p, 6) for p in restored.confidence],
            "places": [{c: round(p, 6) for c, p in place.items()} for place in restored.places],
            "lengths": {str(length): round(p, 6) for length, p in restored.lengths.items()},
            "parallels": [parallel.to_json() for parallel in restored.parallels],
        }


def certainty(probability: float) -> str:
    """The word for it, as EpiDoc has it in ``cert``."""
    return next(word for word, least in CERTAIN.items() if probability >= least)


def restore(
    source: str | bytes,
    notation: str | None = None,
    language: str | None = None,
    model: str | Path | Restorer | None = None,
    top: int = 20,
    abstain_below: float = 0.05,
    sure: float = 0.0,
    parallels: int = 3,
    count: str = "characters",
    device: str | None = None,
) -> Edition:
    """Restore the lacunae of a text.

    ``notation`` (leiden, epidoc) and ``language`` (greek, latin) are detected where they are not named; ``model`` is
    the bundled one of the language by default. A lacuna stays as it is where no restoration is as probable as
    ``abstain_below``, and so do characters less probable than ``sure``. ``count`` says what lengths count: characters,
    spaces among them, or ``letters``.
    """
    from blanklm.restoration.restorer import Restorer

    document = parse(source, notation)

    def restorer_for(found: str) -> Restorer:
        return model if isinstance(model, Restorer) else load_restorer(str(model or model_for(found)), device)

    find = parallels_of(parallels) if parallels else None
    return restore_document(document, restorer_for, language, top, abstain_below, sure, find, count)


@cache
def load_restorer(name: str, device: str | None = None) -> Restorer:
    from blanklm.restoration.restorer import Restorer

    return Restorer.from_pretrained(name, device)


def model_for(language: str) -> str:
    """The bundled model of a language, which bears its name."""
    from blanklm.pretrained import bundled

    if language not in bundled():
        raise BlankLMError(f"no model for {language.capitalize()} is bundled: name one, a folder or a Hub id")
    return language


def parallels_of(most: int) -> FindParallels:
    from blanklm.restoration.parallels import Parallels

    def find(language: str, before: str, restored: str, behind: str) -> list[Parallel]:
        return Parallels.of(language).find(before, restored, behind, most)

    return find


def restore_document(
    document: Document,
    restorer_for: Callable[[str], Restorer],
    language: str | None = None,
    top: int = 20,
    abstain_below: float = 0.05,
    sure: float = 0.0,
    find_parallels: FindParallels | None = None,
    count: str = "characters",
    progress: Callable[[int], None] = lambda done: None,
) -> Edition:
    """Restore a document that has been read; ``progress`` is told of each lacuna that is done."""
    if not 0 <= sure <= 1 or not 0 <= abstain_below <= 1:
        raise BlankLMError("probabilities lie between 0 and 1")
    if count not in COUNTS:
        raise BlankLMError(f"lengths count {' or '.join(COUNTS)}, not {count!r}")
    passages, lacunae = [], []
    for passage, found in damaged_passages(document, language):
        restorer = restorer_for(found)
        if count == "letters":
            from blanklm.restoration.letter_counts import LetterLengthRestorer

            restorer = LetterLengthRestorer(restorer)
        reading = _Reading(document.source, passage, found, restorer)
        restored = reading.restored(top, abstain_below, find_parallels, progress)
        numbers = range(len(lacunae), len(lacunae) + len(restored))
        number = iter(numbers)
        parts = tuple(part.text if isinstance(part, Letters) else next(number) + 1 for part in reading.parts)
        passages.append(RestoredPassage(found, parts, numbers, tuple(reading.hypotheses)))
        lacunae += restored
    return Edition(document, tuple(passages), tuple(lacunae), sure)


def damaged_passages(document: Document, language: str | None = None) -> list[tuple[Passage, str]]:
    """The passages with lacunae and the language of each; refuses a document that has none, or unreadable letters."""
    damaged = [passage for passage in document.passages if passage.lacunae]
    if not damaged:
        raise BlankLMError(f"there is no gap to restore in this text: {_HINTS[document.notation]}")
    return [(passage, language_of(document.source, passage, language)) for passage in damaged]


_HINTS = {
    "leiden": "write [...] for three lost letters, [c. 5] for about five, [---] for an unknown number",
    "epidoc": 'mark it as <gap reason="lost" quantity="3" unit="character"/>, or extent="unknown"',
}


class _Reading:
    """A passage as a model reads it, and its lacunae as the model restores them."""

    def __init__(self, source: str, passage: Passage, language: str, restorer: Restorer | LetterLengthRestorer) -> None:
        self.source, self.language, self.restorer = source, language, restorer
        self.parts = [part for part in passage.parts if isinstance(part, Lacuna) or self._is_read(part)]
        self.letters = "".join(part.text for part in self.parts if isinstance(part, Letters))
        self.hypotheses: list[Hypothesis] = []

    def _is_read(self, part: Letters) -> bool:
        return not part.foreign or all(script(c) in (None, self.language) for c in part.text)

    def restored(
        self, top: int, abstain_below: float, find: FindParallels | None, progress: Callable[[int], None]
    ) -> list[RestoredLacuna]:
        groups = list(self._groups())
        answer = self.restorer.restore(self._for_model(groups), top, abstain_below, progress=progress)
        found = []
        lacunae = [group for group in groups if not isinstance(group, Letters)]
        bests = {group[0]: gap.best for group, gap in zip(lacunae, answer.gaps, strict=True) if len(group) == 1}
        for group, gap in zip(lacunae, answer.gaps, strict=True):
            if len(group) > 1:
                reason = "it touches another gap, and where one ends is not known: join them, or give their lengths"
                found += [RestoredLacuna(lacuna, (), (), (), {}, "", "", reason) for lacuna in group]
            else:
                found.append(self._restored(group[0], gap, find, bests))
        if len(bests) == len(lacunae):
            self.hypotheses = [self._as_written(h, found) for h in answer.hypotheses]
        return found

    def _groups(self) -> Iterator[Letters | list[Lacuna]]:
        """The letters, and the lacunae; those that touch are together, unless all their lengths are known."""
        group: list[Lacuna] = []
        for part in self.parts:
            if isinstance(part, Lacuna):
                if group and group[-1].is_exact and part.is_exact:
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

    def _for_model(self, groups: list[Letters | list[Lacuna]]) -> list[str | Gap]:
        from blanklm.restoration.restorer import Gap

        parts: list[str | Gap] = []
        for group in groups:
            if isinstance(group, Letters):
                for index, letter in self.restorer.unknown(group.text):
                    message = f"the model does not know the letter {letter!r}: write it otherwise, or take it out"
                    raise refusal(self.source, group.places[index], message)
                parts.append(group.text)
                continue
            joined = group[0]
            for lacuna in group[1:]:
                joined = joined.joined(lacuna)
            parts.append(Gap(joined.least, joined.most))
        return parts

    def _around(self, lacuna: Lacuna, bests: Mapping[Lacuna, str]) -> tuple[str, str]:
        """The characters before and behind it; of other lacunae what is their best, else ``-``."""
        at = self.parts.index(lacuna)
        shown = [bests.get(part, "-") if isinstance(part, Lacuna) else part.text for part in self.parts]
        return "".join(shown[:at]), "".join(shown[at + 1 :])

    def _restored(
        self, lacuna: Lacuna, gap: GapRestoration, find: FindParallels | None, bests: Mapping[Lacuna, str]
    ) -> RestoredLacuna:
        from blanklm.restoration.restorer import Candidate

        before, behind = self._around(lacuna, {})
        candidates = tuple(
            Candidate(as_written(c.text, before[-1:], behind[:1], self.letters), c.log_prob) for c in gap.candidates
        )
        parallels = ()
        if find and not gap.abstained:
            left, right = self._around(lacuna, bests)
            parallels = tuple(find(self.language, left, gap.best, right))
        return RestoredLacuna(
            lacuna,
            candidates,
            gap.places,
            gap.confidence,
            gap.lengths,
            before[-CONTEXT:],
            behind[:CONTEXT],
            gap.reason if gap.abstained else None,
            parallels,
        )

    def _as_written(self, hypothesis: Hypothesis, found: list[RestoredLacuna]) -> Hypothesis:
        from blanklm.restoration.restorer import Hypothesis

        around = [(restored.before, restored.behind) for restored in found]
        spans = [
            as_written(span, before[-1:], behind[:1], self.letters)
            for span, (before, behind) in zip(hypothesis.spans, around, strict=True)
        ]
        return Hypothesis(tuple(spans), hypothesis.log_prob)
