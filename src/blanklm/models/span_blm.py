"""A BLM that knows two ways of hiding: single words all over a text, and spans as people leave them blank.

Uniform orders of a whole text teach blanks of one word: of all its canvases with one blank, nearly all hide a single
word. So some canvases hide a region instead (``core/regions.py``). The model is told which way a canvas was made by a
vector added to its blanks; untold, it would hedge between the two.

As the paper's BLM, told "words", it is p(x); told "spans", it is p(region | rest), what ``fill`` means. For spans it
learns two things more, which make fills of the right length:

- p(n | c, b), how many words a blank hides; and the model can be told n, by another vector added to the blank;
- p(w | c, b) of the first word of a blank. A span that is written from left to right then has a probability that can
  be computed exactly, p(n) times those of its words, with all that stands around it in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.conceal import Concealed
from blanklm.core.orders import uniform
from blanklm.core.packing import Packing
from blanklm.core.regions import draw_regions
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.attention import LayerCache
from blanklm.models.blm import BLM, BLMConfig, BLMTargets
from blanklm.models.encoder import drop_words
from blanklm.models.registry import register
from blanklm.options import Blanks

LENGTHS = 32  # 0 (the rest of a word), 1, 2, ... words; the last: as many or more
WORDS, SPAN, SPAN_OF = 0, 1, 2  # kinds of blank: hidden words, a span, and from here on a span of 0, 1, 2, ... words
UNTOLD, TOLD = 1 / 3, 2 / 3  # share of canvases that tell no length; all lengths, up to here; the rest tell some
FIRST_WEIGHT, LENGTH_WEIGHT = 1.0, 0.2  # of these losses beside the bound, all per token
STREAM = 0x2545F491  # tells the random numbers of hiding and telling from those of orders and regions


@dataclass(frozen=True)
class SpanBLMConfig(BLMConfig):
    spans: float = 0.5  # the share of canvases that hide spans; 1: all of them
    fresh: float = 0.0  # the share of those on which nothing is written yet, beside the ones drawn so

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.spans <= 1:
            raise BlankLMError(f"`spans` must be above 0 and at most 1, not {self.spans}")
        if not 0 <= self.fresh < 1:
            raise BlankLMError(f"`fresh` must be 0 or more and below 1, not {self.fresh}")


@dataclass(frozen=True)
class SpanTargets(BLMTargets):
    """The targets of a BLM, with the kinds of its blanks and what each blank of a span begins with."""

    kinds: Tensor  # [T] kinds of blank on the packed canvas; WORDS where there is none
    tokens: Tensor  # [B] of each text, hidden or given
    first: Tensor  # [F] the actions that write the first token of a span's blank, one for each such blank
    words: Tensor  # [F] how many words that blank hides, LENGTHS - 1 at most
    share: Tensor  # [F] 1 / the number of such blanks in the text
    asked: Tensor  # [F] the same where the length is not told, else 0


@dataclass(frozen=True)
class SpanScores:
    """What a span's blanks begin with, and how long they are. K counts the blanks of all canvases."""

    model: SpanBLM
    log_p_first: Tensor  # [K, V]
    log_p_length: Tensor  # [K, LENGTHS]
    from_blank: Tensor  # [K, h] W_z z

    @torch.inference_mode()
    def log_p_more(self, rows: Tensor, words: Tensor) -> Tensor:
        """Log p(r | w, c, b, l = no) [M, 2]: whether a blank is left after this first word."""
        return self.model.sides_logits(self.from_blank[rows], words)[:, :2].log_softmax(1)


@register("span-blm", SpanBLMConfig)
class SpanBLM(BLM):
    config: SpanBLMConfig
    config_class = SpanBLMConfig
    starts_word: Tensor  # [V] bool
    marks: Tensor  # [V] int8, Tokenizer.marks
    reads_context = False

    def __init__(self, config: SpanBLMConfig) -> None:
        super().__init__(config)
        width = config.encoder.width
        self.kind_vectors = nn.Embedding(SPAN_OF + LENGTHS, width)  # added to blanks, but for WORDS
        self.length_of_blank = nn.Linear(width, LENGTHS)
        self.first_in = nn.Linear(width, width)  # z of the first word: z + out(silu(in(z)))
        self.first_out = nn.Linear(width, width, bias=False)
        for weight in (self.kind_vectors.weight, self.length_of_blank.weight, self.first_out.weight):
            nn.init.zeros_(weight)
        self.register_buffer("starts_word", torch.ones(config.vocabulary, dtype=torch.bool))
        self.register_buffer("marks", torch.zeros(config.vocabulary, dtype=torch.int8))
        self.told: Blanks = "spans" if config.spans == 1 else "words"  # of the canvases that are scored

    @classmethod
    def from_words(cls, model: BLM, tokenizer: Tokenizer, **settings: float) -> Self:
        """Continue from a BLM that has learnt less; if that was blanks of words, spans mean the same to begin with."""
        known = {field.name: getattr(model.config, field.name) for field in fields(model.config)}
        spanned = cls(cls.config_class(**known | settings))
        spanned.load_state_dict(model.state_dict(), strict=False)
        spanned.set_vocabulary(tokenizer)
        return spanned

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        super().set_vocabulary(tokenizer)
        self.starts_word.copy_(torch.from_numpy(tokenizer.starts_word))
        self.marks.copy_(torch.from_numpy(tokenizer.marks))

    def for_blanks(self, blanks: Blanks | None) -> SpanBLM:
        """Return a policy whose blanks stand for ``blanks``, spans by default; it shares the weights of this model."""
        if blanks == "words" and self.config.spans == 1:
            raise BlankLMError("this model has learnt blanks that stand for spans: leave out blanks")
        policy = copy(self)
        policy.told = blanks or "spans"
        return policy

    def encode(self, canvas: Tensor, packing: Packing) -> Tensor:
        kind = SPAN if self.told == "spans" else WORDS
        return self.encode_kinds(canvas, packing, torch.where(canvas == BLANK, kind, WORDS))

    def encode_kinds(
        self, canvas: Tensor, packing: Packing, kinds: Tensor, cache: Sequence[LayerCache] | None = None
    ) -> Tensor:
        """Packed canvases [T] -> z [T, d]; ``kinds`` [T] are those of the blanks, WORDS for all other symbols."""
        vectors = self.canvas_vectors(canvas, kinds)
        return self.encoder(vectors, packing) if cache is None else self.encoder(vectors, packing, cache)

    def canvas_vectors(self, canvas: Tensor, kinds: Tensor) -> Tensor:
        """The vectors [T, d] of symbols, and of the kinds of blanks, that the encoder reads."""
        vectors = drop_words(self.embedding, canvas, self.config.encoder.word_dropout)  # [T, d]
        return vectors + self.kind_vectors(kinds) * (kinds != WORDS)[:, None]

    def first_logits(self, z: Tensor) -> Tensor:
        """The logits [K, V] of the first word of blanks z [K, d]."""
        return self.word_logits(z + self.first_out(F.silu(self.first_in(z))))

    # --- Training ---------------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Any:
        """Hide a region of some texts, all of the others; then as Algorithm 1, within what is hidden."""
        region = draw_regions(batch.tokens, batch.lengths, batch.seeds, self.starts_word, self.marks)  # [B, L]
        return self.prepare_regions(batch, region, self.config.spans)

    def prepare_regions(self, batch: Batch, region: Tensor, share: float) -> SpanTargets:
        """Hide the ``region`` [B, L] of a ``share`` of the texts, all of the others."""
        tokens, lengths, seeds = batch.tokens, batch.lengths, batch.seeds
        drawn = uniform(seeds ^ STREAM, 3 + tokens.shape[1])  # [B, 3 + L]
        spans = drawn[:, 0] < share  # [B]
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]  # [B, L]
        region = torch.where(spans[:, None], region, inside)
        ranks, log_orders = self.orders_in(region, tokens, lengths, seeds)
        fractions = batch.fractions.masked_fill(spans & (drawn[:, 1] < self.config.fresh), 0.0)  # [B]
        concealed, targets = self.conceal_and_pack(batch, fractions, ranks, log_orders, region.sum(1))
        return self._with_spans(targets, concealed, tokens, lengths, spans, drawn[:, 2:])

    def _with_spans(
        self, targets: BLMTargets, concealed: Concealed, tokens: Tensor, lengths: Tensor, spans: Tensor, drawn: Tensor
    ) -> SpanTargets:
        """Add the kinds of blanks and the first words of spans; ``drawn`` [B, 1 + L] decides which lengths are told."""
        words = words_in_blanks(concealed, self.starts_word[tokens]).clamp_max(LENGTHS - 1)  # [B, L]
        begins = concealed.hidden & (concealed.left == 0)  # [B, L] where blanks begin
        tells = (drawn[:, :1] >= UNTOLD) & ((drawn[:, :1] < TOLD) | (drawn[:, 1:] < 0.5))  # [B, L]
        kind = torch.where(spans[:, None], torch.where(tells, SPAN_OF + words, SPAN), WORDS)  # [B, L]
        width = tokens.shape[1]
        kinds = torch.zeros(len(tokens), width + 1, dtype=torch.long, device=tokens.device)
        kinds.scatter_(1, torch.where(begins, concealed.place, width), kind)  # the last column takes what begins none
        actions = targets.actions
        of_span = (actions.left == 0) & spans[actions.text]  # [A]
        first = of_span.nonzero().squeeze(1)  # [F]
        at = actions.text[first], actions.position[first]
        share = 1 / (begins.sum(1).clamp_min(1)[at[0]])  # [F]
        kinds = actions.packing.lay(kinds[:, :width])  # [T]; PAD, of left-over symbols, is WORDS
        asked = share * ~tells[at]
        return SpanTargets(
            **vars(targets), kinds=kinds, tokens=lengths, first=first, words=words[at], share=share, asked=asked
        )

    def loss(self, targets: SpanTargets) -> Tensor:
        """Eq. 8 of the hidden tokens of each text [B], per hidden token, times the tokens of the text.

        So every text weighs by its tokens, however few were hidden, and the mean over a corpus is nats per token. The
        losses of first words and of lengths, means over the blanks of a text, are added.
        """
        z, per_token = self._bound(targets)
        per_token = per_token / targets.lengths.clamp_min(1)
        actions, first = targets.actions, targets.first
        z_first = z[actions.blanks[actions.queried[actions.row[first]]]]  # [F, d]
        log_p = self.first_logits(z_first).log_softmax(1).gather(1, actions.word[first][:, None]).squeeze(1)  # [F]
        log_p_length = self.length_of_blank(z_first).float().log_softmax(1)  # [F, LENGTHS]
        log_p_length = log_p_length.gather(1, targets.words[:, None]).squeeze(1)  # [F]
        further = FIRST_WEIGHT * targets.share * log_p + LENGTH_WEIGHT * targets.asked * log_p_length  # [F]
        per_token = per_token.index_add(0, actions.text[first], -further.to(per_token.dtype))
        return per_token * targets.tokens

    def bound(self, targets: SpanTargets) -> Tensor:
        """Eq. 8 [B], an upper bound on - log p(region | rest): - log k! - k / (k - t) * the sum of log p."""
        return self._bound(targets)[1]

    def _bound(self, targets: SpanTargets) -> tuple[Tensor, Tensor]:
        actions = targets.actions
        z = self.encode_kinds(actions.canvas, actions.packing, targets.kinds)  # [T, d]
        return z, self.loss_of(self.read_out(z, actions), targets)

    # --- Decoding ---------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score_spans(self, canvases: Tensor, lengths: Tensor, longest: int, words: Tensor) -> SpanScores:
        """Score the blanks of canvases [B, L]; ``words`` [B, L] tells how many each is to hold, less than 0: untold."""
        packing = Packing.best_for(lengths, longest, on_gpu=lengths.is_cuda)
        is_blank = canvases == BLANK  # [B, L]
        kinds = torch.where(words < 0, SPAN, SPAN_OF + words.clamp_max(LENGTHS - 1))  # [B, L]
        kinds = packing.lay(torch.where(is_blank, kinds, WORDS))  # [T]
        z = self.encode_kinds(packing.lay(canvases), packing, kinds)[packing.places(is_blank)]  # [K, d]
        return SpanScores(
            model=self,
            log_p_first=self.first_logits(z).log_softmax(1),
            log_p_length=self.length_of_blank(z).float().log_softmax(1),
            from_blank=self.sides_from_blank(z),
        )


def words_in_blanks(concealed: Concealed, starts_word: Tensor) -> Tensor:
    """[B, L] where a blank begins: how many words of it are hidden; elsewhere, whatever.

    Each token of ``starts_word`` [B, L] counts. The rest of a word that is shown in part is no word.
    """
    starts = (starts_word & concealed.hidden).long()  # [B, L]
    starts[:, 0] |= concealed.hidden[:, 0]  # a text begins with a word
    so_far = starts.cumsum(1)  # [B, L]
    position = torch.arange(starts.shape[1], device=starts.device)
    return so_far.gather(1, position + concealed.right) - so_far + starts
