"""What decoding and likelihood ask of a model, as protocols: they know nothing else of it.

``Scorer``: score every action on these canvases (BLM). ``SpanScorer``: the same for spans that are written from left to
right (SpanBLM). ``SpanWriter``: for spans that are written after a canvas that is read once (SpanWriter).
``OrderedModel``: the probability of given actions along an order (BLM, L-BLM, Insertion Transformer).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

SIDES = ((False, False), (False, True), (True, False), (True, True))  # (left, right) of each class


class Scores(Protocol):
    """p(b, w, l, r | c) of a batch of canvases, factored as in the paper. K counts the blanks of all of them."""

    @property
    def log_p_blank(self) -> Tensor:
        """[K] log p(b | c), the blanks of the first canvas first."""
        ...

    @property
    def log_p_word(self) -> Tensor:
        """[K, V] log p(w | c, b)."""
        ...

    def log_p_sides(self, rows: Tensor, words: Tensor) -> Tensor:
        """log p(l, r | c, b, w) [M, 4] for M pairs of blank ``rows`` and ``words``, in the order of SIDES."""
        ...


class Scorer(Protocol):
    """What decoding asks of a model."""

    @property
    def device(self) -> torch.device: ...

    def score(self, canvases: Tensor, lengths: Tensor, longest: int) -> Scores:
        """Score canvases [B, L] of token ids: special.BLANK for each blank, PAD after the ``lengths`` [B].

        ``longest`` is at least the greatest of the lengths, known without asking the device.
        """
        ...


class SpanScores(Protocol):
    """What the blanks of canvases begin with if they are spans, and how long they are. K counts all blanks."""

    @property
    def log_p_first(self) -> Tensor:
        """[K, V] log p(w | c, b) of the first word of each blank."""
        ...

    @property
    def log_p_length(self) -> Tensor:
        """[K, N] log p(n | c, b) of 0, 1, 2, ... words that begin in the blank; the last: as many or more."""
        ...

    def log_p_more(self, rows: Tensor, words: Tensor) -> Tensor:
        """log p(r | c, b, w, l = no) [M, 2] for M pairs of blank ``rows`` and first ``words``: no, yes."""
        ...


@runtime_checkable
class SpanScorer(Protocol):
    """What decoding asks of a model that can be told how many words a blank holds."""

    told: Any  # "spans" if its blanks stand for spans now

    @property
    def device(self) -> torch.device: ...

    def score_spans(self, canvases: Tensor, lengths: Tensor, longest: int, words: Tensor) -> SpanScores:
        """Score canvases as ``Scorer.score``; ``words`` [B, L] are those that a blank holds, below 0 where unknown."""
        ...


class WritingScores(Protocol):
    """What comes next on each of R pages."""

    @property
    def pages(self) -> Sequence[Any]:
        """The pages with the symbols that were written."""
        ...

    @property
    def log_p(self) -> Tensor:
        """[R, V] log p(w | page) of the next token of the span; special.EOS: it ends here."""
        ...

    @property
    def log_p_length(self) -> Tensor:
        """[R, N] as in ``SpanScores``, of a span that begins here."""
        ...


@runtime_checkable
class SpanWriter(Protocol):
    """What decoding asks of a model that writes spans after a canvas. A page is the model's own."""

    told: Any

    @property
    def device(self) -> torch.device: ...

    def open_pages(self, canvases: Tensor, lengths: Tensor, longest: int) -> Sequence[Any]:
        """A page for each of the canvases, which come as in ``Scorer.score``."""
        ...

    def write(self, pages: Sequence[Any], symbols: Sequence[int], told: Sequence[int]) -> WritingScores:
        """Write a symbol on each page: special.BLANK begins its next span, ``told`` to hold so many words or not."""
        ...


class OrderedModel(Protocol):
    """What likelihood asks of a model."""

    @property
    def device(self) -> torch.device: ...

    def orders(
        self, tokens: Tensor, lengths: Tensor, seeds: Tensor, *, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw an order of each text: the rank [B, L] of each position, and -log of the order's probability [B].

        For uniform orders, that is the log of their number. The first ``given`` [B] positions come before all others,
        with ranks below 0.
        """
        ...

    def next_weights(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """[B, L] n - t times the probability that an order which has left ``hidden`` [B, L] continues there."""
        ...

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """log p(a | c) [B, L]: c shows the positions ``shown`` of ``tokens`` [B, L], a writes a hidden position.

        Only ``wanted`` hidden positions (default: all) are scored; the rest of the answer is 0. The first ``given`` [B]
        positions, all of them shown, are context: most models read it as they read anything else that is shown.
        """
        ...
