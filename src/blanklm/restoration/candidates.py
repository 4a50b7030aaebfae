"""The candidates for a gap, how they are ranked, and the hypotheses for a whole text that they combine to."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from blanklm.core.template import Blank
from blanklm.restoration.notation.document import LONGEST_GAP

if TYPE_CHECKING:
    from torch import Tensor

    from blanklm.restoration.draft import Part
    from blanklm.restoration.options import RestoreOptions

MIN_LENGTH_SHARE = 0.02  # lengths with less posterior mass than this are not searched
MOST_LENGTHS = 8  # lengths of a gap of unknown length that are searched
MIN_REPORTED_SHARE = 0.001  # lengths with less posterior mass than this are not reported
LETTERS_PER_SPACE = 3  # there is at most one space for so many letters, and one more


@dataclass(frozen=True)
class Candidate:
    """One restoration of one gap.

    ``log_prob`` is the model's after reranking with the lexicon. For a gap of unknown length it also includes the
    probability of the length, and how well the text on either side fits.
    """

    text: str
    log_prob: float

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class GapRestoration:
    """The candidates for one gap, best first; the model abstains if there is a ``reason`` to."""

    candidates: tuple[Candidate, ...]
    places: tuple[dict[str, float], ...]  # for each place of the best: characters and their probabilities, best first
    lengths: dict[int, float]  # the length posterior; {k: 1.0} where the length is known
    reason: str | None = None

    @property
    def best(self) -> str:
        return self.candidates[0].text if self.candidates else ""

    @property
    def confidence(self) -> list[float]:
        """For each character of the best candidate, its probability among the candidates of that length."""
        return [place[character] for place, character in zip(self.places, self.best, strict=True)]


@dataclass(frozen=True)
class Hypothesis:
    """A restoration of every gap of a text."""

    spans: tuple[str, ...]
    log_prob: float

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class Restoration:
    """The restoration of each gap of a text, and ``hypotheses`` for all together, best first.

    Gaps are searched one by one, with the best guess in the others; the probability of a hypothesis is the product of
    the probabilities of its candidates. With one gap it is exact.
    """

    gaps: tuple[GapRestoration, ...]
    hypotheses: tuple[Hypothesis, ...]

    @classmethod
    def of(cls, gaps: Sequence[GapRestoration], top: int) -> Restoration:
        """Combine the candidates of the gaps to the ``top`` most probable hypotheses."""
        return cls(tuple(gaps), tuple(_best_combinations([gap.candidates for gap in gaps], top)))


def likely_lengths(posterior: Tensor) -> list[int]:
    """Return the lengths worth a search, most probable first, from a log posterior [N] over 1 ... N."""
    best = posterior.argsort(descending=True)[:MOST_LENGTHS].tolist()
    return [k + 1 for k in best if k == best[0] or posterior[k].exp() >= MIN_LENGTH_SHARE]


def length_distribution(posterior: Tensor) -> dict[int, float]:
    """Return the lengths of a log posterior [N] over 1 ... N and their probabilities, most probable first."""
    order = posterior.argsort(descending=True)  # [N]
    return {int(k) + 1: float(posterior[k].exp()) for k in order if posterior[k].exp() >= MIN_REPORTED_SHARE}


def without_redundant_spaces(candidates: Sequence[Candidate], before: str, behind: str, least: int) -> list[Candidate]:
    """Strip candidates of spaces next to a space or at the end of the text, and merge those that become equal.

    None becomes shorter than ``least`` characters, or empty.
    """
    merged: dict[str, float] = {}
    for candidate in candidates:
        text = candidate.text
        if before.endswith(" ") or not before:
            text = text.lstrip(" ")
        if behind.startswith(" ") or not behind:
            text = text.rstrip(" ")
        text = text if len(text) >= max(1, least) else candidate.text
        merged[text] = float(np.logaddexp(merged.get(text, -math.inf), candidate.log_prob))
    return [Candidate(text, log_prob) for text, log_prob in merged.items()]


def reranked(
    candidates: Sequence[Candidate], scores: Sequence[float], lengths: dict[int, float]
) -> tuple[list[Candidate], dict[int, float]]:
    """Add ``scores`` (nats) to the candidates, keeping their total probability; reweight the ``lengths`` to match."""
    before = np.array([c.log_prob for c in candidates])  # [C]
    after = before + np.array(scores)  # [C]
    after += np.logaddexp.reduce(before) - np.logaddexp.reduce(after)
    order = sorted(range(len(candidates)), key=lambda i: -after[i])
    share = dict(lengths)
    for k in lengths:
        same_length = [i for i, c in enumerate(candidates) if len(c.text) == k]
        if same_length:
            share[k] *= math.exp(np.logaddexp.reduce(after[same_length]) - np.logaddexp.reduce(before[same_length]))
    scale = sum(lengths.values()) / sum(share.values())
    posterior = dict(sorted(((k, p * scale) for k, p in share.items()), key=lambda item: -item[1]))
    return [Candidate(candidates[i].text, min(0.0, float(after[i]))) for i in order], posterior


def places_of(candidates: Sequence[Candidate]) -> tuple[dict[str, float], ...]:
    """Return for each place of the best candidate the characters there, by their share of the candidates as long."""
    length = len(candidates[0].text)
    same_length = [c for c in candidates if len(c.text) == length]
    total = sum(c.probability for c in same_length)
    places = []
    for place in range(length):
        share: defaultdict[str, float] = defaultdict(float)
        for candidate in same_length:
            # If all probabilities underflow to 0, the best candidate has the whole share.
            part = candidate.probability / total if total else float(candidate is candidates[0])
            share[candidate.text[place]] += part
        places.append(dict(sorted(share.items(), key=lambda item: -item[1])))
    return tuple(places)


def _best_combinations(choices: Sequence[Sequence[Candidate]], top: int) -> list[Hypothesis]:
    """Return the ``top`` most probable ways to choose one candidate per gap, best first."""

    def hypothesis(chosen: tuple[int, ...]) -> Hypothesis:
        taken = [candidates[i] for candidates, i in zip(choices, chosen, strict=True)]
        return Hypothesis(tuple(c.text for c in taken), sum(c.log_prob for c in taken))

    first = (0,) * len(choices)
    queue, seen = [(-hypothesis(first).log_prob, first)], {first}
    best: list[Hypothesis] = []
    while queue and len(best) < top:
        _, chosen = heapq.heappop(queue)
        best.append(hypothesis(chosen))
        for gap, i in enumerate(chosen):
            following = (*chosen[:gap], i + 1, *chosen[gap + 1 :])
            if i + 1 < len(choices[gap]) and following not in seen:
                seen.add(following)
                heapq.heappush(queue, (-hypothesis(following).log_prob, following))
    return best


# --- Lengths in letters -------------------------------------------------------------------------------------------
# Editors of stones count letters: the spaces between words, which no stone has, do not count. To a model a space is a
# character like any other. So it restores a gap of n letters and room for some spaces, and the restorations with n
# letters are kept: with A the event that a restoration has so many, p(r | A) = p(r) / p(A), where p(A) is the share of
# A among all candidates.


def with_room_for_spaces(parts: Sequence[Part]) -> list[Part]:
    """Widen the gaps whose lengths count letters; gaps that touch must keep their exact lengths."""
    widened = list(parts)
    for at, part in enumerate(parts):
        neighbours = [*parts[max(0, at - 1) : at], *parts[at + 1 : at + 2]]
        touches = any(isinstance(neighbour, Blank) for neighbour in neighbours)
        if isinstance(part, Blank) and part.max is not None and not touches:
            widened[at] = replace(part, max=min(LONGEST_GAP, part.max + part.max // LETTERS_PER_SPACE + 1))
    return widened


def with_letter_counts(restoration: Restoration, parts: Sequence[Part], options: RestoreOptions) -> Restoration:
    """Keep the candidates that have as many letters as the gaps of ``parts``."""
    blanks = [part for part in parts if isinstance(part, Blank)]
    gaps = [_counted(blank, gap, options) for blank, gap in zip(blanks, restoration.gaps, strict=True)]
    return Restoration.of(gaps, options.top)


def _counted(blank: Blank, gap: GapRestoration, options: RestoreOptions) -> GapRestoration:
    """Keep the candidates with as many letters as the blank has; if there is none, keep all and abstain."""
    if blank == Blank():
        return replace(gap, candidates=gap.candidates[: options.top])
    counted = [(c, len(c.text.replace(" ", ""))) for c in gap.candidates]
    fitting = [(c, letters) for c, letters in counted if blank.min <= letters <= (blank.max or LONGEST_GAP)]
    if not fitting:
        return replace(gap, reason="no restoration with so many letters was found")
    total = sum(c.probability for c, _ in fitting)
    share = total / sum(c.probability for c in gap.candidates)
    kept = [Candidate(c.text, min(0.0, c.log_prob - math.log(share))) for c, _ in fitting[: options.top]]
    lengths: defaultdict[int, float] = defaultdict(float)
    for candidate, letters in fitting:
        lengths[letters] += candidate.probability / total
    too_improbable = gap.candidates[0].probability < options.abstain_below  # else it abstained for another reason
    reason = None if too_improbable and kept[0].probability >= options.abstain_below else gap.reason
    ordered = dict(sorted(lengths.items(), key=lambda item: -item[1]))
    return GapRestoration(tuple(kept), places_of(kept), ordered, reason)
