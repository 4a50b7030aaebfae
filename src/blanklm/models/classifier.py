"""Classify the style of a text.

``AttentionClassifier`` is a Bi-LSTM with attention (Section 4.3): words with high attention carry the style and are
masked, and its probabilities rank rewritten texts. The CNN that judges the result (``paper/baselines/judge.py``) shares
the base class and nothing else, so that no system is ranked by its judge.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.special import PAD
from blanklm.core.texts import Batch
from blanklm.errors import BlankLMError
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings


class Classifier(Model):
    """p(style | text): a softmax over the logits that ``read`` computes from word vectors."""

    embedding: nn.Embedding

    def read(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits [B, S] of texts given as word vectors [B, L, e]; ignore what follows ``lengths`` [B]."""
        raise NotImplementedError

    def logits(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits [B, S] of texts [B, L]."""
        return self.read(self.embedding(tokens), lengths)

    def prepare(self, batch: Batch) -> Batch:
        return batch

    def loss(self, batch: Batch) -> Tensor:
        """Return - log p(style) of each text [B]."""
        if batch.styles is None:
            raise BlankLMError("a classifier is trained on texts with a style: use train --task transfer")
        with torch.autocast(self.device.type, enabled=False):  # too small to gain from half precision
            return F.cross_entropy(self.logits(batch.tokens, batch.lengths), batch.styles, reduction="none")


@dataclass(frozen=True)
class AttentionClassifierConfig(Settings):
    vocabulary: int
    styles: int = 2
    width: int = 96  # of the word vectors and of the state of each direction
    dropout: float = 0.5
    max_length: int = 512


@register("attention-classifier", AttentionClassifierConfig)
class AttentionClassifier(Classifier):
    def __init__(self, config: AttentionClassifierConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.embedding = nn.Embedding(config.vocabulary, width, padding_idx=PAD)
        self.forwards = nn.LSTM(width, width, batch_first=True)
        self.backwards = nn.LSTM(width, width, batch_first=True)
        self.attend_hidden = nn.Linear(2 * width, width)
        self.attend_out = nn.Linear(width, 1, bias=False)
        self.out = nn.Linear(2 * width, config.styles)
        self.dropout = nn.Dropout(config.dropout)

    def read(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        return self.read_and_attend(vectors, lengths)[0]

    def read_and_attend(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits [B, S] and the attention [B, L]: it sums to 1 for each text and is 0 after its end."""
        states = self.states(self.dropout(vectors), lengths)  # [B, L, 2e]
        scores = self.attend_out(torch.tanh(self.attend_hidden(states))).squeeze(2)  # [B, L]
        inside = torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]  # [B, L]
        weights = scores.masked_fill(~inside, -torch.inf).softmax(1)  # [B, L]
        summary = torch.einsum("bl,bld->bd", weights, states)  # [B, 2e]
        return self.out(self.dropout(summary)), weights

    def states(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the states of both directions at each word [B, L, 2e]; the second starts at the end of each text."""
        back, _ = self.backwards(reverse(vectors, lengths))
        return torch.cat((self.forwards(vectors)[0], reverse(back, lengths)), dim=2)

    def attention(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the attention [B, L] to each word of the texts [B, L]."""
        return self.read_and_attend(self.embedding(tokens), lengths)[1]


def reverse(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first ``lengths`` [B] vectors of each text [B, L, e]; the rest stays in place."""
    position = torch.arange(vectors.shape[1], device=vectors.device).expand(vectors.shape[:2])  # [B, L]
    mirrored = torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)  # [B, L]
    return vectors.gather(1, mirrored[:, :, None].expand_as(vectors))
