"""A SpanBLM that also writes spans from left to right, each word in sight of all that was written before it.

    p(span | c) = p(n | c, b) * prod_j p(w_j | c, n, w_1 ... w_j-1), the last of them END

A canvas is read once, and every word of its spans is learnt, and written, after it (``core/writing.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from blanklm.core.conceal import conceal
from blanklm.core.orders import uniform
from blanklm.core.packing import Packing
from blanklm.core.regions import draw_regions
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch
from blanklm.core.writing import Writings, gaps_before, write_out
from blanklm.errors import BlankLMError
from blanklm.models.backbone import BackboneConfig
from blanklm.models.encoder import Encoder
from blanklm.models.llama import LlamaEncoder
from blanklm.models.pages import Continuing, Page, Reading
from blanklm.models.registry import register
from blanklm.models.span_blm import (
    LENGTH_WEIGHT,
    LENGTHS,
    SPAN,
    SPAN_OF,
    STREAM,
    TOLD,
    UNTOLD,
    WORDS,
    SpanBLM,
    SpanBLMConfig,
    SpanTargets,
    words_in_blanks,
)

WORD_WEIGHT = 3.0  # of a token that is written: about a third of a text is, and all texts weigh by their tokens


@dataclass(frozen=True)
class SpanWriterConfig(SpanBLMConfig):
    written: float = 0.5  # the share of texts whose spans are written from left to right

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.written <= 1:
            raise BlankLMError(f"`written` must be above 0 and at most 1, not {self.written}")
        if isinstance(self.encoder, BackboneConfig):
            raise BlankLMError("a backbone of the BERT type cannot write from left to right: take a Llama-type one")


@dataclass(frozen=True)
class WritingTargets:
    writings: Writings
    kinds: Tensor  # [T]
    tokens: Tensor  # [B] of each text, hidden or given
    words: Tensor  # [K] that a blank hides
    asked: Tensor  # [K] 1 / the blanks of its text, where the length is not told, else 0
    of: Tensor  # [K] its text


@dataclass(frozen=True)
class SpanWriterTargets:
    drawn: SpanTargets | None
    written: WritingTargets | None
    is_written: Tensor  # [B] bool


@dataclass(frozen=True)
class WritingScores:
    """What may come next on each of R pages: its next token, or END; and where a span begins, how long it is."""

    pages: list[Page]
    log_p: Tensor  # [R, V]
    log_p_length: Tensor  # [R, LENGTHS]


@register("span-writer", SpanWriterConfig)
class SpanWriter(SpanBLM):
    config: SpanWriterConfig
    config_class = SpanWriterConfig

    def prepare(self, batch: Batch) -> SpanWriterTargets:
        is_written = uniform(batch.seeds ^ (STREAM + 1), 1)[:, 0] < self.config.written  # [B]
        return SpanWriterTargets(
            super().prepare(_part(batch, ~is_written)) if not is_written.all() else None,
            self.prepare_written(_part(batch, is_written)) if is_written.any() else None,
            is_written,
        )

    def prepare_written(self, batch: Batch) -> WritingTargets:
        """Hide a region of each text, to be written as it stands; tell some lengths, with how much of them is left."""
        tokens, lengths, seeds = batch.tokens, batch.lengths, batch.seeds
        region = draw_regions(tokens, lengths, seeds, self.starts_word, self.marks)  # [B, L]
        drawn = uniform(seeds ^ STREAM, 1 + tokens.shape[1])  # [B, 1 + L]
        concealed = conceal(tokens, lengths, ~region)
        starts = self.starts_word[tokens]  # [B, L]
        words = words_in_blanks(concealed, starts)  # [B, L] from each token to the end of its span
        starts[:, 0] = True
        begins = concealed.hidden & (concealed.left == 0)  # [B, L]
        tells = (drawn[:, :1] >= UNTOLD) & ((drawn[:, :1] < TOLD) | (drawn[:, 1:] < 0.5))  # [B, L] where spans begin
        position = torch.arange(tokens.shape[1], device=tokens.device)
        is_told = tells.gather(1, (position - concealed.left).clamp_min(0))  # [B, L] of each hidden token
        told_after = torch.where(is_told, SPAN_OF + (words - starts.long()).clamp(0, LENGTHS - 1), WORDS)
        words = words.clamp_max(LENGTHS - 1)
        writings = write_out(tokens, concealed, torch.where(tells, SPAN_OF + words, SPAN), told_after)
        of, at = begins.nonzero(as_tuple=True)  # [K] each
        share = 1 / begins.sum(1).clamp_min(1)  # [B]
        asked = share[of] * ~tells[of, at]
        kinds = writings.told.index_fill(0, writings.canvas_blanks, SPAN)
        return WritingTargets(writings, kinds, lengths, words[of, at], asked, of)

    def loss(self, targets: Any) -> Tensor:
        losses = torch.zeros(len(targets.is_written), device=self.device)
        if targets.drawn is not None:
            losses = losses.masked_scatter(~targets.is_written, super().loss(targets.drawn))
        if targets.written is not None:
            losses = losses.masked_scatter(targets.is_written, self.writing_loss(targets.written))
        return losses

    def writing_loss(self, targets: WritingTargets) -> Tensor:
        """- log p of the spans of each text [B], and of the lengths of those it is not told."""
        z = self.read(targets)
        lost = WORD_WEIGHT * self.lost(z, targets)
        log_p_length = self.length_of_blank(z[targets.writings.begins]).float().log_softmax(1)  # [K, LENGTHS]
        log_p_length = log_p_length.gather(1, targets.words[:, None]).squeeze(1) * targets.asked  # [K]
        return lost - LENGTH_WEIGHT * targets.tokens * torch.zeros_like(lost).index_add(0, targets.of, log_p_length)

    def read(self, targets: WritingTargets) -> Tensor:
        """Canvases and what is written into them -> z [T, d]."""
        return self.encode_kinds(targets.writings.symbols, targets.writings.packing, targets.kinds)

    def lost(self, z: Tensor, targets: WritingTargets) -> Tensor:
        """- log p(w_1, w_2, ..., END | c, n) [B], summed over the spans of each text."""
        writings = targets.writings
        row = torch.arange(len(writings.target), device=z.device)
        log_p = self.log_p_words(z[writings.predicts], row, writings.target)  # [S]
        return log_p.new_zeros(len(targets.tokens)).index_add(0, writings.text, -log_p)  # [B]

    # --- Decoding ---------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def open_pages(self, canvases: Tensor, lengths: Tensor, longest: int) -> list[Page]:
        """Read canvases [B, L]: a page of each, on which nothing is written yet."""
        assert isinstance(self.encoder, Encoder | LlamaEncoder)
        packing = Packing.of(lengths, longest)
        is_blank = canvases == BLANK  # [B, L]
        gaps = gaps_before(canvases)  # [B, L]
        shift = packing.lay(gaps)  # [T]
        reading = Reading(len(self.encoder.layers), self.encoder.rotary(shift, int(shift.max()) + 1))
        kinds = torch.where(is_blank, SPAN, WORDS)  # [B, L]
        self.encode_kinds(packing.lay(canvases), packing, packing.lay(kinds), reading)
        position = gaps + torch.arange(canvases.shape[1], device=gaps.device)  # [B, L]
        blanks = [tuple(position[b, is_blank[b]].tolist()) for b in range(len(canvases))]
        return reading.pages(packing, blanks)

    @torch.inference_mode()
    def write(self, pages: Sequence[Page], symbols: Sequence[int], told: Sequence[int]) -> WritingScores:
        """Write a symbol on each page: BLANK begins its next span, all others go on with the one that was begun.

        ``told`` are the words that are still to begin in the span, below 0 where nothing is told.
        """
        begins = [symbol == BLANK for symbol in symbols]
        positions = [page.position_of_next(begin) for page, begin in zip(pages, begins, strict=True)]
        untold = [SPAN if begin else WORDS for begin in begins]
        kinds = [SPAN_OF + min(n, LENGTHS - 1) if n >= 0 else kind for n, kind in zip(told, untold, strict=True)]
        rows = torch.arange(len(pages) + 1, device=self.device)
        packing = Packing(
            starts=rows.to(torch.int32),
            lengths=torch.ones_like(rows[1:]),
            sequence=rows[:-1],
            position=torch.tensor(positions, device=self.device),
            longest=max(positions) + 1,
        )
        continuing = Continuing(pages)
        written = torch.tensor(symbols, device=self.device)  # [R]
        z = self.encode_kinds(written, packing, torch.tensor(kinds, device=self.device), continuing)  # [R, d]
        return WritingScores(
            pages=continuing.pages(pages, begins),
            log_p=self.word_logits(z).log_softmax(1),
            log_p_length=self.length_of_blank(z).float().log_softmax(1),
        )


def _part(batch: Batch, rows: Tensor) -> Batch:
    tokens = batch.tokens[rows]
    return Batch(tokens, batch.lengths[rows], batch.fractions[rows], batch.seeds[rows], batch.for_gpu)
