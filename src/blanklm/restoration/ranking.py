"""Rank the candidates of a gap: likely lengths, reranking, character probabilities, combinations of gaps."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from blanklm.restoration.results import Candidate, Hypothesis

MIN_LENGTH_SHARE = 0.02  # lengths with less posterior mass than this are not searched
MOST_LENGTHS = 8  # lengths of a gap of unknown length that are searched
MIN_REPORTED_SHARE = 0.001  # lengths with less posterior mass than this are not reported


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
        share: dict[str, float] = {}
        for candidate in same_length:
            character = candidate.text[place]
            # If all probabilities underflow to 0, the best candidate has the whole share.
            part = candidate.probability / total if total else float(candidate is candidates[0])
            share[character] = share.get(character, 0.0) + part
        places.append(dict(sorted(share.items(), key=lambda item: -item[1])))
    return tuple(places)


def best_combinations(choices: Sequence[Sequence[Candidate]], top: int) -> list[Hypothesis]:
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
