"""A CNN over word n-grams with max-over-time pooling (Kim 2014): it judges transfers and takes no part in writing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.special import PAD
from blanklm.models.classifier import Classifier
from blanklm.models.registry import register
from blanklm.models.settings import Settings


@dataclass(frozen=True)
class ConvolutionClassifierConfig(Settings):
    vocabulary: int
    styles: int = 2
    width: int = 128  # of the word vectors
    filters: int = 128  # of each size
    dropout: float = 0.5
    max_length: int = 512


@register("convolution-classifier", ConvolutionClassifierConfig)
class ConvolutionClassifier(Classifier):
    SIZES = (2, 3, 4, 5)  # words that a filter sees

    def __init__(self, config: ConvolutionClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=PAD)
        self.filters = nn.ModuleList(nn.Linear(size * config.width, config.filters) for size in self.SIZES)
        self.out = nn.Linear(len(self.SIZES) * config.filters, config.styles)
        self.dropout = nn.Dropout(config.dropout)

    def read(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        place = torch.arange(vectors.shape[1], device=vectors.device)  # [L]
        vectors = self.dropout(vectors) * (place < lengths[:, None])[:, :, None]  # [B, L, e]
        found = []
        for size, filters in zip(self.SIZES, self.filters, strict=True):
            padded = F.pad(vectors, (0, 0, size - 1, size - 1))  # [B, L + 2 size - 2, e]
            windows = padded.unfold(1, size, 1).flatten(2)  # [B, L + size - 1, e size]
            sees_text = torch.arange(windows.shape[1], device=vectors.device) < lengths[:, None] + size - 1
            activity = F.relu(filters(windows)).masked_fill(~sees_text[:, :, None], 0.0)  # [B, ., F]
            found.append(activity.amax(1))  # [B, F]
        return self.out(self.dropout(torch.cat(found, dim=1)))
