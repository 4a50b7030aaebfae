"""A corpus as one stream of tokens: chunks that begin elsewhere in every epoch, and texts in context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from blanklm.core.special import EOS
from blanklm.core.texts import TokenisedTexts, one_stream


class TextsInContext(TokenisedTexts):
    """Texts of one stream: ``context`` tokens before each (fewer where it begins) are shown with it and not written."""

    def __init__(self, flat: np.ndarray, lengths: Sequence[int] | np.ndarray, context: int) -> None:
        super().__init__(flat, lengths)
        self.context = context
        self.sizes = self.lengths + self.given(np.arange(len(self)))

    def after_context(self, indices: np.ndarray) -> tuple[list[list[int]], list[int]]:
        """Return these texts, each after its context, and the number of context tokens of each."""
        tokens, lengths = self.padded(indices)
        texts = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        return texts, self.given(indices).tolist()

    def given(self, indices: np.ndarray) -> np.ndarray:
        """Return the number of context tokens of each of these texts [B]."""
        return np.minimum(self.starts[indices], self.context)


class TokenStream(TokenisedTexts):
    """All texts in one stream, whose chunks begin elsewhere in every epoch: no token is always the first of a chunk.

    Text number i is the chunk that begins at token i.
    """

    def __init__(self, texts: Iterable[Sequence[int]], length: int) -> None:
        flat = np.asarray(one_stream(texts), dtype=np.int32)  # [T]
        self.chunk, starts = length, np.arange(len(flat) + 1)
        super().__init__(flat, np.minimum(length, len(flat) - starts[:-1]))
        self.starts = starts

    def of_epoch(self, seed: int, epoch: int) -> np.ndarray:
        """Return the chunks from a random offset on; the tokens before it have their turn in other epochs."""
        offset = np.random.default_rng([seed, epoch, self.chunk]).integers(min(self.chunk, len(self.flat)))
        return np.arange(offset, len(self.flat), self.chunk)

    @property
    def tokens(self) -> int:
        return len(self.flat)


def sentence_lengths(stream: Sequence[int], ends: Iterable[int], longest: int) -> list[int]:
    """Return the lengths of a stream's sentences, each up to one of the ``ends`` or <eos> and any <eos> after that.

    A sentence of more than ``longest`` tokens is cut there. Where a sentence ends depends on the tokens alone, the one
    after it included.
    """
    tokens = np.asarray(stream)  # [T]
    is_end = np.isin(tokens, [*ends, EOS])  # [T]
    is_end[:-1] &= tokens[1:] != EOS
    lengths: list[int] = []
    start = 0
    for end in [*(np.flatnonzero(is_end) + 1).tolist(), len(tokens)]:
        whole, rest = divmod(end - start, longest)
        lengths += [longest] * whole + [rest] * (rest > 0)
        start = end
    return lengths


def sentences_in_context(stream: Sequence[int], ends: Iterable[int], longest: int, context: int) -> TextsInContext:
    """Cut a stream into sentences, each with so many tokens of ``context`` before it."""
    return TextsInContext(np.asarray(stream), sentence_lengths(stream, ends, longest), context)
