"""How probable whole texts are: what ``BlankLM.score`` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blanklm.core import likelihood
from blanklm.models.blm import BLM
from blanklm.options import ScoreMethod, check_number


@dataclass(frozen=True)
class Score:
    """log p(text) and how it was computed; ``perplexity`` is per token."""

    text: str
    log_prob: float
    tokens: int
    method: str
    standard_error: float | None = None

    def __str__(self) -> str:
        return f"log p {self.log_prob:.2f}, perplexity {self.perplexity:.1f}: {self.text}"

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.log_prob / max(1, self.tokens)))

    def to_json(self) -> dict[str, Any]:
        record = {"input": self.text, "log_prob": self.log_prob, "tokens": self.tokens, "perplexity": self.perplexity}
        record["method"] = self.method
        if self.standard_error is not None:
            record["standard_error"] = self.standard_error
        return record


def scores_of(
    model: BLM,
    texts: Sequence[str],
    ids: Sequence[Sequence[int]],
    method: ScoreMethod,
    orders: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    tokens_per_batch: int | None = None,
) -> list[Score]:
    """Score texts, given with their tokens, all by one method."""
    errors: Iterable[float | None] = [None] * len(texts)
    log_probs: Iterable[float]
    if method == "exact":
        log_probs = [likelihood.exact(model, tokens, tokens_per_batch, progress) for tokens in ids]
    elif method == "bound":
        log_probs = likelihood.bound(model, ids, orders, seed, tokens_per_batch, progress)
    else:
        estimate = likelihood.monte_carlo(model, ids, orders, seed, tokens_per_batch, progress)
        log_probs, errors = estimate.log_likelihoods, estimate.standard_errors
    return [
        Score(text, float(log_prob), len(tokens), method, None if error is None else float(error))
        for text, tokens, log_prob, error in zip(texts, ids, log_probs, errors, strict=True)
    ]


def check_draws(orders: int, seed: int) -> None:
    """Refuse numbers of orders and seeds out of range."""
    check_number("orders", orders, ge=1, le=1_000_000)
    check_number("seed", seed, ge=0, lt=2**62)
