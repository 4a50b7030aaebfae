"""Strings and numbers in, numbers out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from blanklm.errors import BlankLMError
from blanklm.extras import how_to_install

RESAMPLES = 1000  # of a bootstrap


def corpus_bleu(outputs: Sequence[str], *references: Sequence[str | None]) -> float:
    """Corpus BLEU on whitespace tokens, the paper's scale (sacrebleu, no tokenisation of its own).

    Each of the ``references`` has one for every output, or None for an output that has fewer.
    """
    from sacrebleu.metrics import BLEU  # here, since most commands need none of it

    metric = BLEU(tokenize="none", force=True)
    columns: list[Any] = [list(reference) for reference in references]
    return metric.corpus_score(list(outputs), columns).score


def bleu_interval(
    outputs: Sequence[str], *references: Sequence[str | None], resamples: int = RESAMPLES, seed: int = 0
) -> list[float]:
    """The 95 % interval of ``corpus_bleu``, by bootstrap over texts.

    BLEU is a function of sums over the texts, so it is computed anew from the counts of those drawn.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", force=True, effective_order=True)
    known = zip(*references, strict=True)
    scores = [
        metric.sentence_score(output, [reference for reference in of_text if reference is not None])
        for output, of_text in zip(outputs, known, strict=True)
    ]
    counts = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])  # [N, 10]
    drawn = np.random.default_rng(seed).integers(len(scores), size=(resamples, len(scores)))
    found = [_bleu_of_counts(counts[places].sum(0)) for places in drawn]
    return [float(np.quantile(found, level)) for level in (0.025, 0.975)]


def _bleu_of_counts(counts: np.ndarray) -> float:
    from sacrebleu.metrics import BLEU

    same, possible, (written, wanted) = counts[:4].tolist(), counts[4:8].tolist(), counts[8:].tolist()
    return BLEU.compute_bleu(same, possible, written, wanted).score


def share_interval(share: float, count: int) -> list[float]:
    """The 95 % interval (Wilson) of a share of so many."""
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return [middle - reach, middle + reach]


def words_and_marks(text: str) -> str:
    """A text in lower case, with a space around every mark."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


def rouge_l(output: str, reference: str) -> float:
    """ROUGE-L (Lin 2004) of whitespace tokens: F1 of the longest common subsequence."""
    written, known = output.split(), reference.split()
    if not written or not known:
        return 0.0
    longest = [0] * (len(known) + 1)  # of what is read and of the first words of the reference
    for word in written:
        before = 0
        for place, other in enumerate(known, 1):
            above = longest[place]
            longest[place] = before + 1 if word == other else max(above, longest[place - 1])
            before = above
    return 2 * longest[-1] / (len(written) + len(known))


def edit_distance(first: str, second: str) -> int:
    """The least number of characters to insert, delete or replace that turns one string into the other."""
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError:
        raise BlankLMError(f"restorations are scored with rapidfuzz: {how_to_install('eval')}") from None
    return Levenshtein.distance(first, second)


def character_error_rate(answers: Sequence[str], truths: Sequence[str]) -> float:
    """Edit distances over the characters to restore, all slots together, in percent."""
    errors = sum(edit_distance(answer, truth) for answer, truth in zip(answers, truths, strict=True))
    return 100 * errors / max(1, sum(map(len, truths)))


def cer_interval(answers: Sequence[str], truths: Sequence[str], seed: int = 0) -> dict[str, float]:
    """The 95 % interval of ``character_error_rate``, by bootstrap over slots."""
    if not truths:
        return {"cer_low": 0.0, "cer_high": 0.0}
    errors = np.array([edit_distance(answer, truth) for answer, truth in zip(answers, truths, strict=True)])
    lengths = np.array([len(truth) for truth in truths])
    drawn = np.random.default_rng(seed).integers(len(truths), size=(RESAMPLES, len(truths)))
    rates = 100 * errors[drawn].sum(1) / lengths[drawn].sum(1)
    low, high = np.quantile(rates, (0.025, 0.975))
    return {"cer_low": float(low), "cer_high": float(high)}


def expected_calibration_error(probabilities: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """The mean difference between probability and share of right answers, in ``bins`` of probability, by their size."""
    total = 0.0
    for number in range(bins):
        members = [i for i, p in enumerate(probabilities) if min(int(p * bins), bins - 1) == number]
        total += abs(sum(probabilities[i] - right[i] for i in members))
    return total / max(1, len(probabilities))
