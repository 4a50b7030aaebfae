"""A style classifier with its tokenizer: texts in, probabilities and attention out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from blanklm import pretrained
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.classifier import AttentionClassifier, Classifier
from blanklm.training import checkpoint
from blanklm.training.epochs import split_by_budget

TOKENS_PER_BATCH = 16_384


class StyleClassifier:
    def __init__(self, model: Classifier, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str | None = None) -> Self:
        loaded = checkpoint.load(pretrained.locate(folder))
        if not isinstance(loaded.model, Classifier):
            raise BlankLMError(f"the model in {folder} is not a style classifier: pass the folder of one")
        return cls(loaded.model.to(checkpoint.device_for(device)), loaded.tokenizer)

    def log_probs(self, texts: Sequence[str]) -> np.ndarray:
        """Return log p(style | text) [texts, styles]."""
        rows = self._read(texts, lambda tokens, lengths: self.model.logits(tokens, lengths).log_softmax(1))
        return np.array(rows).reshape(len(texts), -1)

    def attention(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the attention to each word of each text."""
        if not isinstance(self.model, AttentionClassifier):
            raise BlankLMError("this classifier has no attention: mark words with an attention classifier")
        weights = self._read(texts, self.model.attention)
        return [row[: len(self.tokenizer.places(text))] for row, text in zip(weights, texts, strict=True)]

    @torch.inference_mode()
    def _read(self, texts: Sequence[str], function: Callable[[Tensor, Tensor], Tensor]) -> list[list[float]]:
        """Apply ``function(tokens, lengths)`` to batches; return its row for each text. An empty text is padding."""
        ids = self.tokenizer.encode_many(texts)
        lengths = np.array([max(1, len(text)) for text in ids])
        by_length = np.argsort(lengths, kind="stable")
        rows: list[list[float]] = [[] for _ in texts]
        for group in split_by_budget(lengths[by_length], TOKENS_PER_BATCH):
            members = by_length[group]
            tokens, sizes = (part.to(self.model.device) for part in pad([ids[i] for i in members]))  # [B, L], [B]
            for i, row in zip(members, function(tokens, sizes.clamp_min(1)).tolist(), strict=True):
                rows[i] = row
        return rows
