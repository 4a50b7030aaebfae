"""A masked language model: every hidden token has a place of its own, and is predicted from all that is shown.

It must be told how many tokens each blank hides (the oracle length), which no user could tell it: an upper mark to
compare with, not a rival. ``<blank>`` serves as the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch
from blanklm.errors import BlankLMError
from blanklm.models.registry import register
from blanklm.paper.baselines.predictor import (
    FIRST,
    FIRST_WITH_SPACE,
    LATER,
    CanvasIds,
    Predictor,
    PredictorConfig,
    Queries,
    WrittenSpans,
    best_of_each,
    query,
)
from blanklm.paper.baselines.training_masks import draw_hidden

ORDERS = ("confident", "left-to-right", "one-shot")


@register("masked", PredictorConfig)
class Masked(Predictor):
    oracle = True  # is told the lengths
    starts_word: Tensor  # [V] Tokenizer.starts_word

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config, causal=False)
        self.register_buffer("starts_word", torch.ones(config.vocabulary, dtype=torch.bool))

    def prepare(self, batch: Batch) -> Queries:
        hidden = draw_hidden(batch, self.starts_word)  # [B, L]
        return query(torch.where(hidden, BLANK, batch.tokens), batch.lengths, hidden, batch.tokens, batch.for_gpu)

    @torch.inference_mode()
    def write(self, canvases: Sequence[CanvasIds], bans: Tensor, order: str = "confident") -> list[WrittenSpans]:
        """Exactly as many tokens in each blank as its length says.

        ``order``: "one-shot" (all at once), "left-to-right", or "confident" (the most probable token of a text first),
        the others of the text being predicted again with it in place. ``bans`` [3, V] says what is not written.
        """
        if order not in ORDERS:
            raise BlankLMError(f"there is no order {order!r}: choose {', '.join(ORDERS)}")
        ids, kinds = zip(*map(_spread, canvases), strict=True)
        packing = Packing.of(torch.tensor([len(text) for text in ids], device=self.device), max(map(len, ids)))
        tokens = torch.tensor(list(chain(*ids)), device=self.device)  # [T]
        kind = torch.tensor(list(chain(*kinds)), device=self.device)  # [T]
        log_prob = torch.zeros(len(canvases), device=self.device)  # [B]
        while len(open_at := (tokens == BLANK).nonzero().squeeze(1)):  # [K]
            text = packing.sequence[open_at]  # [K]
            z = self.encoder(self.embedding(tokens), packing)  # [T, d]
            if order == "left-to-right":
                first = torch.ones_like(text, dtype=torch.bool)
                first[1:] = text[1:] != text[:-1]
                open_at, text = open_at[first], text[first]
            log_p = self.word_logits(z[open_at]).log_softmax(1)  # [K, V]
            best, word = (log_p + bans[kind[open_at]]).max(1)  # [K] each
            if order == "confident":
                chosen = best_of_each(best, text, len(canvases))
                open_at, text, best, word = open_at[chosen], text[chosen], best[chosen], word[chosen]
            tokens[open_at] = word
            log_prob.index_add_(0, text, best)
        filled = tokens.split(packing.lengths.tolist())
        return [
            WrittenSpans(_spans(canvas, text.tolist()), total)
            for canvas, text, total in zip(canvases, filled, log_prob.tolist(), strict=True)
        ]


def _spread(canvas: CanvasIds) -> tuple[list[int], list[int]]:
    """The canvas with one BLANK for each missing token, and for each symbol which bans it is under."""
    ids, kinds = [], []
    blanks = zip(canvas.spaces, canvas.lengths or (), strict=True)
    for i in canvas.ids:
        if i != BLANK:
            ids.append(i)
            kinds.append(LATER)
            continue
        space, length = next(blanks)
        ids += [BLANK] * length
        kinds += [FIRST_WITH_SPACE if space else FIRST] + [LATER] * (length - 1)
    return ids, kinds


def _spans(canvas: CanvasIds, filled: list[int]) -> list[list[int]]:
    spans, position, lengths = [], 0, iter(canvas.lengths or ())
    for i in canvas.ids:
        if i == BLANK:
            length = next(lengths)
            spans.append(filled[position : position + length])
        position += length if i == BLANK else 1
    return spans
