"""Seq2seq-full and Seq2seq-fill (Donahue et al. 2020): an encoder-decoder reads the canvas and writes

    full   the whole text                      They also have ice cream which is really good . <eos>
    fill   what the blanks hide, with a mark   ice cream <blank> is really good <eos>

Nothing makes the answer fit the canvas: the first may lose words, the second may count its blanks wrong. The network is
the transformer_iwslt_de_en of fairseq, as Hugging Face's MarianMTModel; each text is seen under ten masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from blanklm.core.conceal import conceal
from blanklm.core.orders import random_keys
from blanklm.core.special import BLANK, EOS, PAD, UNK
from blanklm.core.texts import Batch, pad
from blanklm.errors import BlankLMError
from blanklm.models.backbone import hugging_face
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings
from blanklm.paper.baselines.predictor import CanvasIds, WrittenSpans
from blanklm.paper.baselines.training_masks import draw_hidden

TARGETS = ("full", "fill")
COPIES = 10  # masks of a text
BEAM = 5


@dataclass(frozen=True)
class Seq2SeqConfig(Settings):
    vocabulary: int
    target: str  # of TARGETS
    layers: int = 6  # of the encoder and of the decoder
    heads: int = 4
    width: int = 512
    feedforward: int = 1024
    dropout: float = 0.3
    max_length: int = 512  # longest text, in tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target not in TARGETS:
            raise BlankLMError(f"a seq2seq model writes {' or '.join(TARGETS)}, not {self.target!r}")


@dataclass(frozen=True)
class Pairs:
    """Canvases [B, S] and what is to be written [B, T], padded; ``before`` is the target moved one to the right."""

    source: Tensor
    before: Tensor
    target: Tensor


@register("seq2seq", Seq2SeqConfig)
class Seq2Seq(Model):
    config: Seq2SeqConfig
    starts_word: Tensor  # [V] Tokenizer.starts_word

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        library = hugging_face()
        settings = library.MarianConfig(
            vocab_size=config.vocabulary,
            d_model=config.width,
            encoder_layers=config.layers,
            decoder_layers=config.layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.feedforward,
            decoder_ffn_dim=config.feedforward,
            activation_function="relu",
            dropout=config.dropout,
            max_position_embeddings=2 * config.max_length + 2,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=EOS,
            forced_eos_token_id=None,
        )
        self.network = library.MarianMTModel(settings)
        self.register_buffer("starts_word", torch.ones(config.vocabulary, dtype=torch.bool))

    @property
    def word_bias(self) -> Tensor:
        """[V] What is added to the logits, a constant."""
        return self.network.final_logits_bias[0]

    def prepare(self, batch: Batch) -> Pairs:
        """One of the ten masks of each text; which words they hide depends on the text alone."""
        weights = random_keys(torch.zeros_like(batch.lengths[:1]), batch.tokens.shape[1])  # [1, L]
        own = (batch.tokens * weights).sum(1)  # [B] a number of each text's own
        copy = own * COPIES + batch.seeds % COPIES  # [B]
        share = (random_keys(copy, 1).squeeze(1) >> 11 & (1 << 52) - 1).double() / (1 << 52)  # [B] uniform in [0, 1)
        hidden = draw_hidden(Batch(batch.tokens, batch.lengths, share, copy, batch.for_gpu), self.starts_word)
        concealed = conceal(batch.tokens, batch.lengths, ~hidden)
        if self.config.target == "full":
            target = F.pad(batch.tokens, (0, 1), value=PAD)  # [B, L + 1]
            target.scatter_(1, batch.lengths[:, None], EOS)
        else:
            target = spans_with_marks(batch.tokens, hidden, concealed.left)
        source = concealed.canvas[:, : int(concealed.lengths.max())]
        return Pairs(source, _moved_right(target), target)

    def log_probs(self, pairs: Pairs) -> Tensor:
        """log p [B, T] of each token to be written; 0 on padding."""
        logits = self.network(
            input_ids=pairs.source,
            attention_mask=(pairs.source != PAD).long(),
            decoder_input_ids=pairs.before,
            use_cache=False,
        ).logits  # [B, T, V]
        return -F.cross_entropy(
            logits.flatten(0, 1).float(), pairs.target.flatten(), reduction="none", ignore_index=PAD
        ).view(pairs.target.shape)

    def loss(self, pairs: Pairs) -> Tensor:
        """- log p(target | canvas) of each text [B]."""
        return -self.log_probs(pairs).sum(1)

    @torch.inference_mode()
    def write(self, canvases: Sequence[CanvasIds], bans: Tensor, beam: int = BEAM) -> list[WrittenSpans]:
        """What beam search finds most probable, fitting or not. ``bans`` are those of a word model: a row for all."""
        source = pad([canvas.ids for canvas in canvases])[0].to(self.device)  # [B, S]
        full = self.config.target == "full"
        allowed = bans[0].clone()  # [V]
        allowed[[EOS, UNK if full else BLANK]] = 0.0
        longest = min(2 * source.shape[1] + 8, self.config.max_length + source.shape[1])
        return [
            WrittenSpans([], log_prob, answer) if full else WrittenSpans(_split(answer), log_prob)
            for answer, log_prob in self._search(source, allowed, beam, longest)
        ]

    def _search(self, source: Tensor, allowed: Tensor, beam: int, longest: int) -> list[tuple[list[int], float]]:
        """The answer to each source [B, S] with the highest log p / length found, and its log p.

        A text is done when ``beam`` answers have ended; ``allowed`` [V] is -inf for what is not written. The library's
        own search goes through the texts one by one in some of its versions.
        """
        states = self.network.get_encoder()(input_ids=source, attention_mask=(source != PAD).long()).last_hidden_state
        rows = torch.arange(len(source), device=source.device).repeat_interleave(beam)  # [B * N]
        states, mask = states[rows], (source != PAD).long()[rows]  # [B * N, S, d], [B * N, S]
        texts = torch.arange(len(source), device=source.device)  # [R] those not done
        score = states.new_full((len(source), beam), -torch.inf, dtype=torch.float)  # [R, N] log p of each beginning
        score[:, 0] = 0.0
        begun = torch.full((len(source), beam, 1), EOS, device=source.device)  # [R, N, step + 1]
        answers: list[tuple[list[int], float]] = [([], -torch.inf)] * len(source)
        best = score.new_full((len(source),), -torch.inf)  # [B] log p / length of the answers
        ended = torch.zeros(len(source), dtype=torch.long, device=source.device)  # [R]
        past = None
        for step in range(1, longest + 1):
            out = self.network(
                encoder_outputs=(states,),
                attention_mask=mask,
                decoder_input_ids=begun[:, :, -1].reshape(-1, 1),
                past_key_values=past,
                use_cache=True,
            )
            past = out.past_key_values
            log_p = out.logits[:, -1].float().log_softmax(1) + allowed  # [R * N, V]
            total = (score.flatten()[:, None] + log_p).view(len(texts), -1)  # [R, N * V]
            top, place = total.topk(2 * beam)  # [R, 2 N] each: N go on even if N of them end
            parent, word = place // log_p.shape[1], place % log_p.shape[1]  # [R, 2 N] each
            ends = (word == EOS) & (torch.arange(2 * beam, device=word.device) < beam) & top.isfinite()  # [R, 2 N]
            if step == longest:
                ends = top.isfinite()  # whatever stands there
            value, which = torch.where(ends, top / step, -torch.inf).max(1)  # [R] each
            better = (value > best[texts]).nonzero().squeeze(1)  # [A] of R
            last = which[better]  # [A] the word that each of these answers ends with
            said = begun[better, parent[better, last], 1:].tolist()
            found = zip(
                texts[better].tolist(), said, word[better, last].tolist(), top[better, last].tolist(), strict=True
            )
            for text, words, end, log_prob in found:
                answers[text] = [i for i in (*words, end) if i != EOS], log_prob
            best[texts] = torch.maximum(best[texts], value)
            ended += ends.sum(1)
            score, kept = top.masked_fill(word == EOS, -torch.inf).topk(beam)  # [R, N] each
            parent, word = parent.gather(1, kept), word.gather(1, kept)  # [R, N] each
            begun = torch.cat((begun.gather(1, parent[:, :, None].expand(-1, -1, step)), word[:, :, None]), 2)
            going_on = (ended < beam).nonzero().squeeze(1)  # [R'] of R
            if not len(going_on):
                break
            rows = (going_on[:, None] * beam + parent[going_on]).flatten()  # [R' * N] the rows that go on
            past = _rows_of(past, rows, same_texts=len(going_on) == len(texts))
            if len(going_on) < len(texts):
                texts, score, begun, ended = texts[going_on], score[going_on], begun[going_on], ended[going_on]
                states, mask = states[rows], mask[rows]
        return answers


def spans_with_marks(tokens: Tensor, hidden: Tensor, left: Tensor) -> Tensor:
    """The hidden runs of ``tokens`` [B, L], a mark between two, <eos> after the last; ``left`` is conceal's."""
    run = (hidden & (left == 0)).cumsum(1) - 1  # [B, L] the number of a hidden position's run
    place = hidden.cumsum(1) - 1 + run  # [B, L]
    last = hidden.sum(1) + run[:, -1]  # [B] where <eos> stands
    width = int(last.max()) + 1
    column = torch.arange(width + 1, device=tokens.device)
    target = torch.where(column < last[:, None], BLANK, torch.where(column == last[:, None], EOS, PAD))  # [B, T + 1]
    target[:, width] = PAD
    return target.scatter(1, torch.where(hidden, place, width), tokens)[:, :width]


def _moved_right(target: Tensor) -> Tensor:
    return F.pad(target, (1, 0), value=EOS)[:, :-1]


def _rows_of(past: Any, rows: Tensor, same_texts: bool) -> Any:
    """What the decoder remembers of these rows; older versions of the library have tuples of tensors for it.

    The beams of a text read the same source: while no text is done, what is remembered of sources stays in its place.
    """
    if same_texts and hasattr(past, "self_attention_cache"):
        past.self_attention_cache.reorder_cache(rows)
        return past
    if hasattr(past, "reorder_cache"):
        past.reorder_cache(rows)
        return past
    return tuple(tuple(part.index_select(0, rows) for part in layer) for layer in past)


def _split(answer: list[int]) -> list[list[int]]:
    """The spans between the marks."""
    spans: list[list[int]] = [[]]
    for i in answer:
        if i == BLANK:
            spans.append([])
        else:
            spans[-1].append(i)
    return spans
