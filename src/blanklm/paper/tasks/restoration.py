"""Restoration of damaged texts (Section 4.2): hide slots of characters, restore them, compare character by character.

Three settings: a single slot of 1 to 10 characters; many slots over 25, 40 or 50 % of a text; and the real task, what
editors restored. Any system is evaluated that can ``fill`` texts (a best guess for each gap) and ``rank`` (the n best
candidates for each gap).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from blanklm.core.template import Blank
from blanklm.data.masking import MaskedText
from blanklm.paper.tasks.metrics import cer_interval, character_error_rate, expected_calibration_error
from blanklm.restoration.candidates import Candidate
from blanklm.restoration.draft import Part
from blanklm.restoration.restorer import Restorer

RATIOS = (0.25, 0.4, 0.5)
TOP = 20


class System(Protocol):
    def fill(self, documents: Sequence[Sequence[Part]]) -> list[list[str]]:
        """Return the best guess for each gap of each text."""
        ...

    def rank(self, documents: Sequence[Sequence[Part]], n: int = TOP) -> list[list[list[Candidate]]]:
        """Return the ``n`` best candidates for each gap of each text."""
        ...


def document(masked: MaskedText, least: float = 1.0, most: float = 1.0) -> list[Part]:
    """Return strings and gaps; the range of a gap is ``least`` to ``most`` times its length, or, with 0, unknown."""
    parts: list[Part] = [masked.template.pieces[0]]
    for span, piece in zip(masked.spans, masked.template.pieces[1:], strict=True):
        k = len(span)
        parts.append(Blank(max(1, int(k * least)), max(k, round(k * most))) if least else Blank())
        parts.append(piece)
    return parts


def evaluate_fill(
    system: System, masked: Sequence[MaskedText], lengths: tuple[float, float] = (1.0, 1.0)
) -> dict[str, float]:
    """Measure CER and exact matches of the best guesses; ``lengths`` are ``least`` and ``most`` of ``document``."""
    started = time.perf_counter()
    fills = system.fill([document(m, *lengths) for m in masked])
    seconds = time.perf_counter() - started
    truths = [span for m in masked for span in m.spans]
    answers = [span for spans in fills for span in spans]
    return {
        "cer": character_error_rate(answers, truths),
        **cer_interval(answers, truths),
        "top1": _share(answer == truth for answer, truth in zip(answers, truths, strict=True)),
        "length_right": _share(len(answer) == len(truth) for answer, truth in zip(answers, truths, strict=True)),
        "texts": len(masked),
        "gaps": len(truths),
        "characters": sum(map(len, truths)),
        "seconds": round(seconds, 2),
    }


def evaluate_rank(system: System, masked: Sequence[MaskedText], n: int = TOP) -> dict[str, float]:
    """Measure CER of the best candidate, accuracy of the first and of the first n, and calibration (ECE)."""
    started = time.perf_counter()
    ranked = [candidates for gaps in system.rank([document(m) for m in masked], n) for candidates in gaps]
    seconds = time.perf_counter() - started
    return score_ranked(ranked, [span for m in masked for span in m.spans]) | {
        "texts": len(masked),
        "seconds": round(seconds, 2),
    }


def score_ranked(ranked: Sequence[Sequence[Candidate]], truths: Sequence[str]) -> dict[str, float]:
    """Score candidates, best first, for gaps that hid ``truths``."""
    best = [candidates[0] for candidates in ranked]
    right = [candidate.text == truth for candidate, truth in zip(best, truths, strict=True)]
    return {
        "cer": character_error_rate([candidate.text for candidate in best], truths),
        **cer_interval([candidate.text for candidate in best], truths),
        "top1": _share(right),
        f"top{TOP}": _share(
            truth in [candidate.text for candidate in candidates[:TOP]]
            for candidates, truth in zip(ranked, truths, strict=True)
        ),
        "ece": 100 * expected_calibration_error([candidate.probability for candidate in best], right),
        "gaps": len(truths),
        "characters": sum(map(len, truths)),
    }


TEMPERATURES = (0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5)


def calibrate(restorer: Restorer, masked: Sequence[MaskedText], beam: int = 5) -> dict[float, float]:
    """Return for each temperature the log loss of the first candidate's probability of being right, in nats.

    The temperature to restore with is the one with the lowest loss on texts that were not trained on.
    """
    truths = [span for m in masked for span in m.spans]
    costs = {}
    for temperature in TEMPERATURES:
        about = restorer.about | {"temperature": temperature}
        tempered = Restorer(restorer.model, restorer.tokenizer, about, restorer.lexicon)
        ranked = [gap[0] for gaps in tempered.rank([document(m) for m in masked], beam) for gap in gaps]
        costs[temperature] = sum(
            -math.log(max(best.probability if best.text == truth else 1 - best.probability, 1e-6))
            for best, truth in zip(ranked, truths, strict=True)
        ) / len(truths)
    return costs


def without_repeats(masked: Sequence[MaskedText], known: set[str]) -> list[MaskedText]:
    """Leave out texts that are in ``known``, the training texts: formulaic inscriptions repeat."""
    return [m for m in masked if m.text not in known]


def _share(answers: Iterable[bool]) -> float:
    """Return the percentage of answers that are true."""
    values = list(answers)
    return 100 * sum(values) / max(1, len(values))
