"""Texts as token ids, and batches of them: by token budget, of like lengths, the same for any number of processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from blanklm.core.special import EOS, PAD
from blanklm.errors import BlankLMError


@dataclass(frozen=True)
class Batch:
    """Texts, and what decides which of their positions are shown (see ``conceal.show_first``)."""

    tokens: Tensor  # [B, L] ids, PAD after each text's end
    lengths: Tensor  # [B]
    fractions: Tensor  # [B] in [0, 1): t / n
    seeds: Tensor  # [B] one seed per text for its order
    for_gpu: bool = False  # where the model will run, though canvases may be made on the CPU
    styles: Tensor | None = None  # [B] the style of each text, where texts have one
    given: Tensor | None = None  # [B] how many leading tokens are context: every canvas shows them, none writes them

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(part.to(device) if isinstance(part, Tensor) else part for part in vars(self).values()))


def pad(texts: Sequence[Sequence[int] | np.ndarray]) -> tuple[Tensor, Tensor]:
    """Ids of unequal lengths -> tokens [B, L] and lengths [B]."""
    lengths = np.array([len(text) for text in texts])
    tokens = np.full((len(texts), max(1, lengths.max(initial=1))), PAD, dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    return torch.from_numpy(tokens), torch.from_numpy(lengths)


class TokenisedTexts:
    """Many texts in one flat array. Empty texts are left out: they have no action to learn from.

    ``style``: the number of the style that all of them are in, where that is known; joined texts have several.
    ``context``: so many tokens of the array before each text (fewer where it begins) are shown with it and not written.
    """

    context = 0

    def __init__(self, texts: Iterable[Sequence[int]], max_length: int | None = None, style: int | None = None) -> None:
        self.cut, self.empty = 0, 0  # texts shortened to max_length, and texts left out
        kept: list[np.ndarray] = []
        for text in texts:
            if max_length is not None and len(text) > max_length:
                text, self.cut = text[:max_length], self.cut + 1
            if len(text):
                kept.append(np.asarray(text, dtype=np.int32))
            else:
                self.empty += 1
        self.styles = None if style is None else np.full(len(kept), style)
        self.lengths = np.array([len(text) for text in kept], dtype=np.int64)
        self.flat = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int32)
        self.starts = np.concatenate(([0], self.lengths.cumsum()))

    @classmethod
    def joined(cls, parts: Sequence[TokenisedTexts]) -> TokenisedTexts:
        """The texts of all the parts."""
        if any(part.context for part in parts):
            raise BlankLMError("texts in context stand in one stream: they cannot be joined with others")
        whole = cls(())
        whole.cut, whole.empty = sum(part.cut for part in parts), sum(part.empty for part in parts)
        whole.lengths, whole.flat = (np.concatenate([getattr(p, name) for p in parts]) for name in ("lengths", "flat"))
        whole.starts = np.concatenate(([0], whole.lengths.cumsum()))
        if all(part.styles is not None for part in parts):
            whole.styles = np.concatenate([part.styles for part in parts])
        return whole

    @classmethod
    def flat_of(cls, flat: np.ndarray, lengths: Sequence[int], context: int = 0) -> TokenisedTexts:
        """The texts that lie end to end in ``flat``."""
        whole = cls(())
        whole.context = context
        kept = np.asarray(lengths, dtype=np.int64)
        whole.empty, whole.lengths, whole.flat = int((kept == 0).sum()), kept[kept > 0], flat.astype(np.int32)
        whole.starts = np.concatenate(([0], whole.lengths.cumsum()))
        return whole

    def some(self, first: int, last: int) -> TokenisedTexts:
        """The texts ``first`` to ``last``, as Python counts; nothing is copied."""
        if self.context:
            raise BlankLMError("texts in context stand in one stream: no part of it can be taken out")
        part = TokenisedTexts(())
        part.lengths, part.starts = self.lengths[first:last], self.starts[first : last + 1] - self.starts[first]
        part.flat = self.flat[self.starts[first] : self.starts[last]]
        return part

    def of_epoch(self, seed: int, epoch: int) -> np.ndarray:
        """The texts that an epoch goes through, each once: all of them."""
        return np.arange(len(self))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.flat[self.starts[index] : self.starts[index + 1]]

    def padded(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """``pad`` of these texts with their context, without a loop: tokens [B, L] and lengths [B]."""
        given = self.given(indices)
        lengths = given + self.lengths[indices]
        column = np.arange(lengths.max(initial=1))
        place = np.minimum((self.starts[indices] - given)[:, None] + column, len(self.flat) - 1)  # [B, L]
        tokens = np.where(column < lengths[:, None], self.flat[place], PAD)
        return torch.from_numpy(tokens.astype(np.int64)), torch.from_numpy(lengths)

    def after_context(self, indices: np.ndarray) -> tuple[list[list[int]], list[int]]:
        """These texts, each after its context, and how many tokens that has."""
        tokens, lengths = self.padded(indices)
        texts = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        return texts, self.given(indices).tolist()

    def given(self, indices: np.ndarray) -> np.ndarray:
        """[B] how many tokens of context these texts have."""
        return np.minimum(self.starts[indices], self.context)

    @property
    def sizes(self) -> np.ndarray:
        """[N] how many tokens are read with each text: its own, and its context."""
        return self.lengths + self.given(np.arange(len(self))) if self.context else self.lengths

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def fingerprint(self) -> str:
        styles = b"" if self.styles is None else self.styles.tobytes()
        context = f"{self.context} tokens before".encode() if self.context else b""
        return hashlib.sha256(self.flat.tobytes() + self.lengths.tobytes() + styles + context).hexdigest()


def one_stream(texts: Iterable[Sequence[int]]) -> list[int]:
    """The language-modelling convention: all texts in one stream, each ended by <eos>."""
    return [token for text in texts for token in (*text, EOS)]


def cut(stream: Sequence[int], length: int) -> list[Sequence[int]]:
    """A stream in chunks of ``length``; the last may be shorter."""
    if length < 1:
        raise BlankLMError(f"a chunk has at least 1 token, not {length}")
    return [stream[start : start + length] for start in range(0, len(stream), length)]


def stream_chunks(texts: Iterable[Sequence[int]], length: int) -> list[Sequence[int]]:
    return cut(one_stream(texts), length)


def sentence_lengths(stream: Sequence[int], ends: Iterable[int], longest: int) -> list[int]:
    """Of the sentences of a stream: each goes to one of the ``ends`` or to <eos>, and any <eos> that comes after that.

    A sentence of more than ``longest`` tokens is cut there. The tokens alone decide where a sentence ends, those after
    it included.
    """
    stream = np.asarray(stream)
    is_end = np.isin(stream, [*ends, EOS])
    is_end[:-1] &= stream[1:] != EOS
    lengths, start = [], 0
    for end in [*(np.flatnonzero(is_end) + 1).tolist(), len(stream)]:
        whole, rest = divmod(end - start, longest)
        lengths += [longest] * whole + [rest] * (rest > 0)
        start = end
    return lengths


def sentences_in_context(stream: Sequence[int], ends: Iterable[int], longest: int, context: int) -> TokenisedTexts:
    """The sentences of a stream, each with so many tokens of ``context`` before it."""
    return TokenisedTexts.flat_of(np.asarray(stream), sentence_lengths(stream, ends, longest), context)


class TokenStream(TokenisedTexts):
    """All texts in one stream, whose chunks begin elsewhere in every epoch: no token is always the first of a chunk.

    Text number i is the chunk that begins at token i.
    """

    def __init__(self, texts: Iterable[Sequence[int]], length: int) -> None:
        super().__init__(())
        self.flat, self.chunk = np.asarray(one_stream(texts), dtype=np.int32), length
        self.starts = np.arange(len(self.flat))
        self.lengths = np.minimum(length, len(self.flat) - self.starts)

    def of_epoch(self, seed: int, epoch: int) -> np.ndarray:
        """The chunks from a random place among the first on; what stands before it has its turn in other epochs."""
        offset = np.random.default_rng([seed, epoch, self.chunk]).integers(min(self.chunk, len(self.flat)))
        return np.arange(offset, len(self.flat), self.chunk)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.flat[index : index + self.chunk]

    @property
    def tokens(self) -> int:
        return len(self.flat)
