"""A masked language model trained on through a classifier, with soft words (Wu et al. 2019).

The words that carry the style are masked, as they will be when texts are rewritten. On texts of its own style the model
learns to put them back; on texts of other styles, what it would write is read by the classifier, which should find its
style. So that gradients pass, a written word is not drawn but soft: the mean of the classifier's word vectors
under softmax(logits / temperature).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch
from blanklm.errors import BlankLMError
from blanklm.models.classifier import AttentionClassifier
from blanklm.paper.baselines.masked import Masked

TEMPERATURE = 0.5
WEIGHT = 1.0  # of the classifier's loss against that of putting words back


class Guided(Masked):
    """``masked``, on the way to write in ``style``; the classifier does not change."""

    def __init__(self, masked: Masked, classifier: AttentionClassifier, style: int) -> None:
        super().__init__(masked.config)
        self.load_state_dict(masked.state_dict())
        self.style = style
        classifier.requires_grad_(False).eval()
        for direction in (classifier.forwards, classifier.backwards):
            direction.train()  # has no dropout, and cuDNN knows gradients in this mode only
        self.guide = (classifier,)  # in a tuple, so that it is neither trained nor saved as a part of the model

    def prepare(self, batch: Batch) -> Batch:  # type: ignore[override]  # another objective, saved as a Masked
        return batch

    def loss(self, batch: Batch) -> Tensor:  # type: ignore[override]  # see prepare
        """[B]"""
        tokens, lengths, styles = batch.tokens, batch.lengths, batch.styles
        if styles is None:
            raise BlankLMError("a guided model is trained on texts with styles: give them theirs")
        (classifier,) = self.guide
        classifier.to(tokens.device)
        with torch.no_grad(), torch.autocast(tokens.device.type, enabled=False):
            hidden = above_average(classifier.attention(tokens, lengths), lengths)  # [B, L]
        packing = Packing.best_for(lengths, tokens.shape[1], tokens.is_cuda)
        canvas = packing.lay(torch.where(hidden, BLANK, tokens))  # [T]
        z = self.encoder(self.embedding(canvas), packing)  # [T, d]
        logits = self.word_logits(z[packing.places(hidden)])  # [M, V]
        text = hidden.nonzero()[:, 0]  # [M]
        own = (styles == self.style).float()  # [B]
        put_back = F.cross_entropy(logits, tokens[hidden], reduction="none")  # [M]
        put_back = put_back.new_zeros(len(lengths)).index_add(0, text, put_back)  # [B]
        return own * put_back + (1 - own) * WEIGHT * self._not_in_style(tokens, lengths, hidden, logits)

    def _not_in_style(self, tokens: Tensor, lengths: Tensor, hidden: Tensor, logits: Tensor) -> Tensor:
        """- log p(style) [B] of the texts with soft words at the ``hidden`` positions [B, L] of ``logits`` [M, V]."""
        (classifier,) = self.guide
        with torch.autocast(tokens.device.type, enabled=False):
            soft = (logits / TEMPERATURE).softmax(1) @ classifier.embedding.weight  # [M, e]
            vectors = classifier.embedding(tokens).index_put(hidden.nonzero(as_tuple=True), soft)  # [B, L, e]
            target = torch.full_like(lengths, self.style)  # [B]
            return F.cross_entropy(classifier.read(vectors, lengths), target, reduction="none")


def above_average(weights: Tensor, lengths: Tensor) -> Tensor:
    """[B, L] whether a word's weight [B, L] is above the average of its text, 1 / length."""
    return weights > 1 / lengths[:, None]
