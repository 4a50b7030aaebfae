"""Infilling by left-to-right language modelling: read the canvas, then write what its blanks hide, one after another.

    They also have <blank> which <blank> . <eos> a great selection <eos> is great <eos>
    -------------- read ------------------------ --------- written and learnt ---------

What one would reach for instead of a BLM. It knows both sides of a blank, but writes in one order, and each <eos>
is final.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from blanklm.core.conceal import Concealed, Packing, conceal
from blanklm.core.special import EOS
from blanklm.core.texts import Batch
from blanklm.models.encoder import Memory, one_more
from blanklm.paper.baselines.hiding import draw_hidden
from blanklm.paper.baselines.predictor import (
    FIRST,
    FIRST_WITH_SPACE,
    LATER,
    Asked,
    Predictor,
    PredictorConfig,
    Unfilled,
    Written,
    continuation,
)

__all__ = ["FillInMiddle", "PredictorConfig"]


class FillInMiddle(Predictor):
    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config, causal=True)
        self.register_buffer("starts_word", torch.ones(config.vocabulary, dtype=torch.bool))  # Tokenizer.starts_word

    def prepare(self, batch: Batch) -> Asked:
        hidden = draw_hidden(batch, self.starts_word)  # [B, L]
        return canvas_then_spans(batch.tokens, conceal(batch.tokens, batch.lengths, ~hidden), batch.for_gpu)

    @torch.inference_mode()
    def write(self, canvases: Sequence[Unfilled], bans: Tensor) -> list[Written]:
        """The most probable token at each step, until every blank has its span; a canvas has at least one.

        A span has at least one token. A text that has reached the longest length closes its spans after one token
        each. ``bans`` [3, V] says what is not written.
        """
        blanks = torch.tensor([len(canvas.spaces) for canvas in canvases])  # [B]
        lengths = torch.tensor([len(canvas.ids) + 1 for canvas in canvases])  # [B]
        room = self.config.max_length - (lengths - 1)  # [B] tokens left, after one for each blank
        sequence = torch.full((len(canvases), int((lengths + room + 2 * blanks).max())), EOS)  # [B, S]
        carries_space = torch.zeros(len(canvases), max(1, int(blanks.max())), dtype=torch.bool)  # [B, K]
        for row, canvas in enumerate(canvases):
            sequence[row, : len(canvas.ids)] = torch.tensor(canvas.ids)
            carries_space[row, : len(canvas.spaces)] = torch.tensor(canvas.spaces)
        blanks, lengths, room, sequence, carries_space = (
            part.to(self.device) for part in (blanks, lengths, room, sequence, carries_space)
        )
        span, written = torch.zeros_like(blanks), torch.zeros_like(blanks)  # [B] the span being written, its tokens
        log_prob = torch.zeros(len(canvases), device=self.device)  # [B]
        memory = Memory(self.encoder, *sequence.shape)
        read = Packing.of(lengths, int(lengths.max()))
        rows = torch.arange(len(canvases), device=self.device)  # [R] the texts that are not finished
        while len(rows):
            z = self.encoder(self.embedding(sequence[read.sequence, read.position]), read, memory)  # [T, d]
            log_p = self.word_logits(z[read.starts[1:] - 1]).log_softmax(1)  # [R, V] after the last symbol of each
            first = written[rows] == 0  # [R]
            at_first = torch.where(carries_space[rows, span[rows]], FIRST_WITH_SPACE, FIRST)  # [R]
            allowed = log_p + bans[torch.where(first, at_first, LATER)]  # [R, V]
            allowed[:, EOS] = log_p[:, EOS].masked_fill(first, -torch.inf)
            choice = allowed.argmax(1)  # [R]
            choice = torch.where(~first & (room[rows] <= 0), EOS, choice)
            log_prob[rows] += log_p.gather(1, choice[:, None]).squeeze(1)
            sequence[rows, lengths[rows]] = choice
            lengths[rows] += 1
            closes = choice == EOS  # [R]
            room[rows] -= (~closes & ~first).long()
            span[rows] += closes
            written[rows] = torch.where(closes, 0, written[rows] + 1)
            rows = (span < blanks).nonzero().squeeze(1)
            read = one_more(rows, lengths[rows] - 1, read.longest + 1)
        starts = [len(canvas.ids) + 1 for canvas in canvases]
        tails = [tokens[start:] for tokens, start in zip(sequence.tolist(), starts, strict=True)]
        return [
            Written(_split(tail, len(canvas.spaces)), total)
            for canvas, tail, total in zip(canvases, tails, log_prob.tolist(), strict=True)
        ]


def _split(tokens: list[int], spans: int) -> list[list[int]]:
    """The first ``spans`` runs of tokens, each ended by <eos>."""
    found, start = [], 0
    for _ in range(spans):
        end = tokens.index(EOS, start)
        found.append(tokens[start:end])
        start = end + 1
    return found


def canvas_then_spans(tokens: Tensor, concealed: Concealed, on_gpu: bool = False) -> Asked:
    """The canvas, <eos>, and each hidden run of ``tokens`` [B, L] with an <eos> after it; all after the first asked."""
    batch, width = tokens.shape
    hidden, symbols = concealed.hidden, concealed.lengths  # [B, L], [B]
    run = (hidden & (concealed.left == 0)).cumsum(1) - 1  # [B, L] the number of a hidden position's run
    place = symbols[:, None] + hidden.cumsum(1) + run  # [B, L] where a hidden token stands in the sequence
    column = torch.arange(width, device=tokens.device)
    # Whatever is neither canvas nor hidden token is an <eos>; the last column takes what has no place.
    sequence = tokens.new_full((batch, 2 * width + 3), EOS)
    sequence[:, :width] = torch.where(column < symbols[:, None], concealed.canvas, EOS)
    sequence.scatter_(1, torch.where(hidden, place, 2 * width + 2), tokens)
    lengths = symbols + 1 + hidden.sum(1) + run[:, -1] + 1  # [B] with an <eos> for the canvas and one for each run
    return continuation(sequence[:, :-1], lengths, symbols + 1, on_gpu)
