"""BERT+LM: a pretrained encoder reads the canvas, and a left-to-right model writes each blank from the vector there.

At every step the blank's vector z is joined to the embedding of the word before, p(w_i | z, w_1 ... w_{i-1}), until
<eos>. Blanks are filled one after another, each read with what has been written before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from blanklm.core.conceal import conceal
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.budget import LONGEST_SPAN
from blanklm.models.attention import attend
from blanklm.models.backbone import Pretrained
from blanklm.models.encoder import EncoderConfig, initialise
from blanklm.models.registry import register
from blanklm.paper.baselines.predictor import CanvasIds, PredictorConfig, WordModel, WrittenSpans, ban_rows
from blanklm.paper.baselines.training_masks import draw_hidden


@dataclass(frozen=True)
class BertLMConfig(PredictorConfig):
    decoder: EncoderConfig = field(kw_only=True)  # writes; of the encoder's width


@dataclass(frozen=True)
class SpanTargets:
    """Packed canvases and, packed too, each hidden span after an <eos>. K counts blanks, T and U symbols."""

    canvas: Tensor  # [T]
    packing: Packing
    blanks: Tensor  # [K] where on the packed canvas each blank stands
    span: Tensor  # [U] <eos> and the tokens of the span
    spans: Packing  # K of them
    word: Tensor  # [U] the token that follows: the next one, or <eos>
    text: Tensor  # [U] the text it belongs to


class LayerKVCache:
    """Keys and values of a causal layer, so that one more symbol costs the work of one symbol.

    The first pass, over packed sequences, fills it; each later pass reads one more symbol of some (``one_token_step``).
    """

    def __init__(self, sequences: int, longest: int) -> None:
        self.shape = sequences, longest
        self.keys: Tensor | None = None  # [B, S, H, d/H]
        self.values: Tensor | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        place = packing.sequence, packing.position
        if self.keys is None or self.values is None:
            self.keys, self.values = (part.new_zeros(*self.shape, *part.shape[1:]) for part in (k, v))
            self.keys[place], self.values[place] = k, v
            return attend(q, k, v, packing, causal=True)
        self.keys[place], self.values[place] = k, v
        k, v = (part[packing.sequence, : packing.longest].transpose(1, 2) for part in (self.keys, self.values))
        known = torch.arange(k.shape[2], device=q.device) <= packing.position[:, None]  # [R, S]
        attended = scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=known[:, None, None])  # [R, H, 1, d/H]
        return attended.squeeze(2)


def one_token_step(sequence: Tensor, position: Tensor, longest: int) -> Packing:
    """The packing of one symbol of each ``sequence`` [R] of a cache, at ``position`` [R], at most ``longest`` - 1."""
    starts = torch.arange(len(sequence) + 1, dtype=torch.int32, device=sequence.device)
    return Packing(starts, torch.ones_like(sequence), sequence, position, longest)


@register("bert-lm", BertLMConfig)
class BertLM(WordModel):
    config: BertLMConfig
    starts_word: Tensor  # [V] Tokenizer.starts_word

    def __init__(self, config: BertLMConfig) -> None:
        super().__init__(config, causal=False)
        width = config.encoder.width
        self.join = nn.Linear(2 * width, width)
        self.decoder = config.decoder.build(causal=True)
        self.join.apply(initialise)
        self.decoder.apply(initialise)
        self.register_buffer("starts_word", torch.ones(config.vocabulary, dtype=torch.bool))

    @classmethod
    def on(cls, backbone: Pretrained, tokenizer: Tokenizer, decoder: EncoderConfig, max_length: int) -> BertLM:
        """With pretrained layers and word vectors to read with."""
        decoder = replace(decoder, width=backbone.config.width)
        model = cls(BertLMConfig(len(tokenizer), backbone.config, max_length, decoder=decoder))
        backbone.initialise(model, tokenizer)
        model.starts_word.copy_(torch.from_numpy(tokenizer.starts_word))
        return model

    def prepare(self, batch: Batch) -> SpanTargets:
        hidden = draw_hidden(batch, self.starts_word)  # [B, L]
        concealed = conceal(batch.tokens, batch.lengths, ~hidden)
        packing = Packing.best_for(concealed.lengths, int(concealed.lengths.max()), batch.for_gpu)
        blanks = packing.places(concealed.canvas == BLANK)  # [K]
        starts = hidden & (concealed.left == 0)  # [B, L]
        lengths = (concealed.right + 1)[starts]  # [K] tokens of each span
        spans = Packing.of(lengths + 1, int(lengths.max()) + 1)
        follows = spans.position < lengths[spans.sequence]  # [U] a token of the span comes next, else <eos>
        tokens = batch.tokens[hidden]  # [words hidden], span after span
        word = torch.full_like(spans.sequence, EOS)
        word[follows] = tokens
        span = torch.full_like(word, EOS)
        span[spans.position > 0] = tokens
        return SpanTargets(
            canvas=packing.lay(concealed.canvas),
            packing=packing,
            blanks=blanks,
            span=span,
            spans=spans,
            word=word,
            text=packing.sequence[blanks][spans.sequence],
        )

    def loss(self, targets: SpanTargets) -> Tensor:
        """- log p of the spans of each text [B]."""
        log_probs = self.log_probs(targets)  # [U]
        return -log_probs.new_zeros(len(targets.packing)).index_add(0, targets.text, log_probs)

    def log_probs(self, targets: SpanTargets) -> Tensor:
        """log p [U] of each token of the spans and of their ends."""
        z = self.encoder(self.embedding(targets.canvas), targets.packing)[targets.blanks]  # [K, d]
        return self.read_out(self.write_on(z[targets.spans.sequence], targets.span, targets.spans), targets)

    def read_out(self, z: Tensor, targets: SpanTargets) -> Tensor:
        """log p [U] of each token, from the decoder's vectors z [U, d]."""
        return -nn.functional.cross_entropy(self.word_logits(z), targets.word, reduction="none")

    def write_on(
        self, blank: Tensor, words: Tensor, packing: Packing, cache: Sequence[LayerKVCache] | None = None
    ) -> Tensor:
        """The decoder's vectors [U, d]: the blank's vector [U, d] beside the embedding of each word [U]."""
        return self.decoder(
            self.join(torch.cat((self.embedding(words), blank.to(self.join.weight.dtype)), 1)), packing, cache
        )

    @torch.inference_mode()
    def write(self, canvases: Sequence[CanvasIds], bans: Tensor) -> list[WrittenSpans]:
        """The most probable token at each step, blank after blank; a span has at least one token.

        A text that has reached the longest length closes its spans after one token each.
        """
        ids, written = [list(canvas.ids) for canvas in canvases], [WrittenSpans([], 0.0) for _ in canvases]
        for number in range(max(len(canvas.spaces) for canvas in canvases)):
            rows = [row for row, canvas in enumerate(canvases) if number < len(canvas.spaces)]
            room = [min(LONGEST_SPAN, self.config.max_length - len(ids[row])) for row in rows]
            spaces = torch.tensor([canvases[row].spaces[number] for row in rows], dtype=torch.bool, device=self.device)
            spans, log_probs = self._next_blank([ids[row] for row in rows], spaces, room, bans)
            for row, span, log_prob in zip(rows, spans, log_probs, strict=True):
                place = ids[row].index(BLANK)
                ids[row][place : place + 1] = span
                written[row] = WrittenSpans([*written[row].spans, span], written[row].log_prob + log_prob)
        return written

    def _next_blank(
        self, ids: Sequence[Sequence[int]], spaces: Tensor, room: Sequence[int], bans: Tensor
    ) -> tuple[list[list[int]], list[float]]:
        """The span of the first blank of each canvas, and its log-probability; ``room`` for tokens after its first."""
        tokens, lengths = (part.to(self.device) for part in pad(ids))  # [B, L], [B]
        packing = Packing.of(lengths, tokens.shape[1])
        first_blank = (tokens == BLANK).long().argmax(1)  # [B]
        z = self.encoder(self.embedding(packing.lay(tokens)), packing)[
            packing.starts[:-1].long() + first_blank
        ]  # [B, d]
        left = torch.tensor(room, device=self.device)  # [B]
        longest = int(max(room)) + 3
        cache = [LayerKVCache(len(ids), longest) for _ in self.decoder.layers]
        sequence = torch.full((len(ids), longest), EOS, device=self.device)  # [B, S] <eos> and what is written
        count = torch.ones_like(left)  # [B] symbols there
        log_prob = torch.zeros(len(ids), device=self.device)
        rows = torch.arange(len(ids), device=self.device)  # [R] spans that are not finished
        read = Packing.of(count, 1)
        while len(rows):
            vectors = self.write_on(z[rows], sequence[read.sequence, read.position], read, cache)  # [R, d]
            log_p = self.word_logits(vectors).log_softmax(1)  # [R, V]
            first = count[rows] == 1  # [R]
            allowed = log_p + bans[ban_rows(first, spaces[rows])]
            allowed[:, EOS] = log_p[:, EOS].masked_fill(first, -torch.inf)
            choice = torch.where(~first & (left[rows] <= 0), EOS, allowed.argmax(1))  # [R]
            log_prob[rows] += log_p.gather(1, choice[:, None]).squeeze(1)
            sequence[rows, count[rows]] = choice
            left[rows] -= (~first & (choice != EOS)).long()
            ends = choice == EOS  # [R]
            count[rows] += (~ends).long()
            rows = rows[~ends]
            read = one_token_step(rows, count[rows] - 1, read.longest + 1)
        spans = [row[1:length] for row, length in zip(sequence.tolist(), count.tolist(), strict=True)]
        return spans, log_prob.tolist()
