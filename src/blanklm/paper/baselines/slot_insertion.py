"""The Insertion Transformer whose slots end one by one (Stern et al. 2019, "slot finalisation"): the one that infills.

On every canvas, a slot in which nothing is missing learns to say STOP, and one in which words are missing learns each
of them and p(slot). A slot that says STOP takes no word, and a text is done when all its slots say so. With t of n
words shown,

    loss = n / (n - t) * (sum over missing words of - log p(slot, w)
                          + sum over slots that miss none of - log p(STOP | slot))

Where a stop ends the whole text, as in insertion.py, it is right once in n + 1 canvases: a model that may write into a
few slots only, and is done when those are full, has hardly learnt to stop there. But that one is a policy, with a
likelihood; here p(STOP | slot) is not the probability of an end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.core.orders import show_first
from blanklm.core.packing import Packing, grouped_log_softmax
from blanklm.core.texts import Batch
from blanklm.models.registry import register
from blanklm.paper.baselines.insertion import STOP, SlotModel, between_ends, inside
from blanklm.paper.baselines.predictor import PredictorConfig


@dataclass(frozen=True)
class DrawnSlots:
    """Canvases between two <eos>, packed, their slots, and the words missing in them. S counts slots, A words."""

    canvas: Tensor  # [T] token ids
    packing: Packing
    slots: Tensor  # [S] the place of the symbol before each slot, canvas by canvas
    row: Tensor  # [A] the slot of each missing word
    word: Tensor  # [A]
    weight: Tensor  # [B] n / (n - t)


@register("slot-insertion", PredictorConfig)
class SlotInsertion(SlotModel):
    each_slot_ends = True

    def prepare(self, batch: Batch) -> DrawnSlots:
        tokens, within = batch.tokens, inside(batch.tokens, batch.lengths)  # [B, L] each
        ranks, _ = self.orders(tokens, batch.lengths, batch.seeds)  # [B, L]
        shown = show_first(ranks, batch.lengths, batch.fractions) & within  # [B, L]
        hidden = within & ~shown  # [B, L]
        sequence, words, slot = between_ends(tokens, shown)  # [B, L + 2], [B], [B, L]
        packing = Packing.best_for(words + 2, int(words.max()) + 2, batch.for_gpu)
        column = torch.arange(sequence.shape[1], device=tokens.device)
        first = (words + 1).cumsum(0) - (words + 1)  # [B] the number of a canvas's first slot
        return DrawnSlots(
            canvas=packing.lay(sequence),
            packing=packing,
            slots=packing.places(column <= words[:, None]),
            row=(first[:, None] + slot)[hidden],
            word=tokens[hidden],
            weight=batch.lengths / hidden.sum(1).clamp_min(1),
        )

    def loss(self, drawn: DrawnSlots) -> Tensor:
        """[B]"""
        packing = drawn.packing
        vectors = self.slot_vectors(self.encoder(self.embedding(drawn.canvas), packing), drawn.slots)  # [S, d]
        canvas = packing.sequence[drawn.slots]  # [S]
        log_p_slot = grouped_log_softmax(self.slot_logits(vectors), canvas, len(packing))  # [S]
        logits = self.content_logits(vectors, packing.lengths[canvas] == 2)  # [S, V]
        log_sum = logits.logsumexp(1)  # [S]
        row = drawn.row
        written = log_p_slot[row] + logits[row, drawn.word] - log_sum[row]  # [A]
        misses = torch.zeros_like(canvas, dtype=torch.bool).index_fill(0, row, True)  # [S]
        stops = torch.where(misses, 0.0, logits[:, STOP] - log_sum)  # [S]
        total = stops.new_zeros(len(packing)).index_add(0, canvas, stops).index_add(0, canvas[row], written)  # [B]
        return -drawn.weight * total
