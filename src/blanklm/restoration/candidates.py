"""The candidates for a gap, how they are ranked, and the hypotheses for a whole text that they combine to."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blanklm.restoration.proposals import ELSE, Proposal

if TYPE_CHECKING:
    from torch import Tensor


MIN_LENGTH_SHARE = 0.02  # lengths with less posterior mass than this are not searched
MOST_LENGTHS = 8  # lengths of a gap of unknown length that are searched
MOST_MIXED = 0.9  # of the probability that formulae have: so often is the likeliest right where many words agree
TRUST = 0.25  # the power of a model's probability by which it chooses among formulae; tuned on validation texts
MIN_REPORTED_SHARE = 0.001  # lengths with less posterior mass than this are not reported


@dataclass(frozen=True)
class Candidate:
    """One restoration of one gap.

    ``log_prob`` is the model's after reranking with the lexicon. For a gap of unknown length it also includes the
    probability of the length, and how well the text on either side fits.
    """

    text: str
    log_prob: float
    formula: str | None = None  # that has it in this place, if one has

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
        """For each character of the best candidate, the probability of the candidates that agree with it."""
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


def raised(candidates: Sequence[Candidate], proposals: Sequence[Proposal]) -> list[Candidate]:
    """Mix the probabilities of candidates with those that formulae give to what they have here; best first.

    p = (1 - m) p(model) + m q with q in proportion to weight * p(model)^TRUST, and m the share of the weight that
    formulae have.
    """
    by_text = {proposal.text: proposal for proposal in proposals}
    # A model may lack a letter of what a formula has.
    proposed = {c.text: by_text[c.text] for c in candidates if c.text in by_text and c.probability}
    weight = sum(proposal.weight for proposal in proposed.values())
    votes = {c.text: proposed[c.text].weight * c.probability**TRUST for c in candidates if c.text in proposed}
    mixed = MOST_MIXED * weight / (weight + ELSE)
    after = []
    for c in candidates:
        p = (1 - mixed) * c.probability + mixed * votes.get(c.text, 0.0) / (sum(votes.values()) or 1.0)
        formula = proposed[c.text].formula if c.text in proposed else None
        after.append(Candidate(c.text, math.log(p) if p else c.log_prob, formula))
    return sorted(after, key=lambda candidate: -candidate.log_prob)


def places_of(candidates: Sequence[Candidate]) -> tuple[dict[str, float], ...]:
    """Return for each place of the best candidate the characters there, with the probability of the candidates as long.

    What was not found counts for no character, so none is shown as more probable than it is.
    """
    length = len(candidates[0].text)
    places = []
    for place in range(length):
        share: defaultdict[str, float] = defaultdict(float)
        for candidate in candidates:
            if len(candidate.text) == length:
                share[candidate.text[place]] += candidate.probability
        places.append({c: min(1.0, p) for c, p in sorted(share.items(), key=lambda item: -item[1])})
    return tuple(places)


def letters_in(text: str) -> int:
    return sum(character.isalpha() for character in text)


def letter_distribution(candidates: Sequence[Candidate]) -> dict[int, float]:
    """Return how many letters the candidates have, by their share of the probability, most probable first."""
    total = sum(c.probability for c in candidates)
    share: defaultdict[int, float] = defaultdict(float)
    for candidate in candidates:
        share[letters_in(candidate.text)] += candidate.probability / total if total else 1 / len(candidates)
    return dict(sorted(share.items(), key=lambda item: -item[1]))


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
