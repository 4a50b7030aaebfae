"""Texts as token ids: one batch of them, a whole corpus in one array, and one stream cut into chunks."""

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


def pad(texts: Sequence[Sequence[int] | np.ndarray]) -> tuple[Tensor, Tensor]:
    """Pad ids of unequal lengths: tokens [B, L] and lengths [B]."""
    lengths = np.array([len(text) for text in texts])
    tokens = np.full((len(texts), max(1, lengths.max(initial=1))), PAD, dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    return torch.from_numpy(tokens), torch.from_numpy(lengths)


class TokenisedTexts:
    """Many texts in one flat array. Empty texts are left out: they have no action to learn from."""

    context = 0  # tokens of the array before each text that are shown with it and not written

    def __init__(
        self,
        flat: np.ndarray,
        lengths: Sequence[int] | np.ndarray,
        styles: np.ndarray | None = None,
        cut: int = 0,
        empty: int = 0,
    ) -> None:
        """Take the texts that lie end to end in ``flat``; ``styles``: the number of each text's style.

        ``cut`` and ``empty`` count texts already shortened and left out.
        """
        lengths = np.asarray(lengths, dtype=np.int64)
        self.flat = np.asarray(flat, dtype=np.int32)  # [T]
        self.lengths = lengths[lengths > 0]  # [N]
        self.sizes = self.lengths  # [N] tokens that are read for each text, those of its context included
        self.starts = np.concatenate(([0], self.lengths.cumsum()))  # [N + 1]
        self.styles = None if styles is None else styles[lengths > 0]  # [N]
        self.cut, self.empty = cut, empty + int((lengths == 0).sum())

    @classmethod
    def from_ids(
        cls, texts: Iterable[Sequence[int] | np.ndarray], max_length: int | None = None, style: int | None = None
    ) -> TokenisedTexts:
        """Copy texts into one array, each shortened to ``max_length`` tokens; all of them are in one ``style``."""
        kept, cut = [], 0
        for text in texts:
            cut += max_length is not None and len(text) > max_length
            kept.append(np.asarray(text[:max_length], dtype=np.int32))
        flat = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int32)  # [T]
        styles = None if style is None else np.full(len(kept), style)
        return cls(flat, [len(text) for text in kept], styles, cut)

    @classmethod
    def joined(cls, parts: Sequence[TokenisedTexts]) -> TokenisedTexts:
        """Return the texts of all the parts; they have styles if those of every part do."""
        if any(part.context for part in parts):
            raise BlankLMError("texts in context are parts of one stream and cannot be joined with others")
        styles = [part.styles for part in parts if part.styles is not None]
        return cls(
            np.concatenate([part.flat for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate(styles) if len(styles) == len(parts) else None,
            cut=sum(part.cut for part in parts),
            empty=sum(part.empty for part in parts),
        )

    def of_epoch(self, seed: int, epoch: int) -> np.ndarray:
        """Return the numbers of the texts that an epoch goes through, each once: all of them."""
        return np.arange(len(self))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.flat[self.starts[index] : self.starts[index] + self.lengths[index]]

    def padded(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Pad these texts, each after its context, without a loop: tokens [B, L] and lengths [B]."""
        lengths = self.sizes[indices]
        first = self.starts[indices] + self.lengths[indices] - lengths  # [B]
        column = np.arange(lengths.max(initial=1))
        place = np.minimum(first[:, None] + column, len(self.flat) - 1)  # [B, L]
        tokens = np.where(column < lengths[:, None], self.flat[place], PAD)
        return torch.from_numpy(tokens.astype(np.int64)), torch.from_numpy(lengths)

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def fingerprint(self) -> str:
        styles = b"" if self.styles is None else self.styles.tobytes()
        context = f"{self.context} tokens before".encode() if self.context else b""
        return hashlib.sha256(self.flat.tobytes() + self.lengths.tobytes() + styles + context).hexdigest()


def one_stream(texts: Iterable[Sequence[int]]) -> list[int]:
    """Join all texts into one stream, each ended by <eos>: the language-modelling convention."""
    return [token for text in texts for token in (*text, EOS)]


def cut(stream: Sequence[int], length: int) -> list[Sequence[int]]:
    """Cut a stream into chunks of ``length`` tokens; the last may be shorter."""
    if length < 1:
        raise BlankLMError(f"a chunk has at least 1 token, not {length}")
    return [stream[start : start + length] for start in range(0, len(stream), length)]
