"""A draft: a canvas of ids on its way to being filled, with its probability and the actions that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from blanklm.core.canvas import Action
from blanklm.core.special import BLANK

Missing = tuple[tuple[int, ...], ...]  # by blank of the first canvas: which of its required phrases are missing
Pending = tuple[int, tuple[int, ...]]  # where a phrase continues, and the tokens that remain
History = tuple["History | None", int, int, bool, bool, float]  # before, blank, token, left, right, log-probability


@dataclass(frozen=True, slots=True)
class Draft:
    """``items`` are ids, BLANK for blanks; ``origins`` number the blank of the first canvas an item belongs to."""

    items: tuple[int, ...]
    origins: tuple[int, ...]  # -1 for given tokens
    missing: Missing
    pending: Pending | None = None
    log_prob: float = 0.0  # of all the trajectories merged into this draft
    path_log_prob: float = 0.0  # of the one in ``history``, the most probable of them
    history: History | None = None
    steps: int = 0

    @classmethod
    def begin(cls, ids: Sequence[int], missing: Missing) -> Draft:
        number, origins = 0, []
        for i in ids:
            origins.append(number if i == BLANK else -1)
            number += i == BLANK
        return cls(tuple(ids), tuple(origins), missing)

    @property
    def blanks(self) -> list[int]:
        return [i for i, item in enumerate(self.items) if item == BLANK]

    @property
    def leftmost(self) -> int:
        """Where the leftmost blank stands."""
        return self.items.index(BLANK)

    @property
    def finished(self) -> bool:
        return BLANK not in self.items

    @property
    def key(self) -> tuple:
        """Drafts with equal keys have the same future: their probabilities may be added."""
        return self.items, self.origins, self.missing, self.pending

    def write(self, blank: int, token: int, left: bool, right: bool, log_prob: float) -> Draft:
        at = self.blanks[blank]
        filling = (BLANK,) * left + (token,) + (BLANK,) * right
        return replace(
            self,
            items=self.items[:at] + filling + self.items[at + 1 :],
            origins=self.origins[:at] + (self.origins[at],) * len(filling) + self.origins[at + 1 :],
            log_prob=self.log_prob + log_prob,
            path_log_prob=self.path_log_prob + log_prob,
            history=(self.history, blank, token, left, right, log_prob),
            steps=self.steps + 1,
        )

    def close(self, log_prob: float) -> Draft:
        """Take away the leftmost blank, which the last action left after its word."""
        assert self.history is not None
        before, blank, token, left, _, log_p = self.history
        at = self.leftmost
        return replace(
            self,
            items=self.items[:at] + self.items[at + 1 :],
            origins=self.origins[:at] + self.origins[at + 1 :],
            log_prob=self.log_prob + log_prob,
            path_log_prob=self.path_log_prob + log_prob,
            history=(before, blank, token, left, False, log_p + log_prob),
        )

    def requiring(self, missing: Missing, pending: Pending | None) -> Draft:
        return replace(self, missing=missing, pending=pending)

    def merged(self, other: Draft) -> Draft:
        """One draft for two that came to the same, with the probability of both and the more probable history."""
        better = self if self.path_log_prob >= other.path_log_prob else other
        return replace(better, log_prob=float(np.logaddexp(self.log_prob, other.log_prob)))

    def spans(self, count: int) -> list[list[int]]:
        spans: list[list[int]] = [[] for _ in range(count)]
        for item, origin in zip(self.items, self.origins, strict=True):
            if origin >= 0:
                spans[origin].append(item)
        return spans

    def actions(self) -> tuple[list[Action], list[float]]:
        """The actions of the most probable trajectory, first to last, and their log-probabilities."""
        actions: list[Action] = []
        log_probs: list[float] = []
        history = self.history
        while history is not None:
            history, blank, token, left, right, log_prob = history
            actions.append(Action(blank, token, left, right))
            log_probs.append(log_prob)
        return actions[::-1], log_probs[::-1]
