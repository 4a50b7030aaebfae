"""One L-BLM for gaps of known, approximate and unknown length, at character level.

The actions are those of ``lblm.py``, with two differences in how they are scored:

- A blank of known length is one symbol per position on the canvas. Under uniform orders the optimal p(b, l | c) is the
  same for every open position, so it is not learned: p(b, w, l | c) = p(w | c, position) / (number of open positions).
- A blank of unknown length is one symbol, optionally with a range. Its action first chooses the length k: p(k | c), the
  *length posterior*, restricted to the range. From then on it is a blank of length k.

Trained on gaps with the shapes of those in inscriptions (``gaps.draw_gaps``), some of whose characters are already
written, with lengths known, blurred to a range, or unknown. The loss is the bound of Eq. 8 on the characters of the
gaps given the text around them, plus - log p(k) for each gap of unknown length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.conceal import conceal
from blanklm.core.orders import shift_right, show_first, signed, uniform_ranks
from blanklm.core.packing import Packing, pack
from blanklm.core.special import BLANK, PAD, SPECIAL_TOKENS
from blanklm.core.texts import Batch
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig, initialise
from blanklm.models.frozen import FrozenCache, Stretch
from blanklm.models.gaps import ORDER_SEED, draw_gaps, draw_unknown_lengths
from blanklm.models.lblm import FEATURES, NEVER_RESTORED, CharacterModel, LBLMScores
from blanklm.models.registry import register
from blanklm.models.settings import Settings

PLACE, RANGE, UNKNOWN = range(3)  # kinds of blank symbol: a position of a known length, a range, an unknown length
LARGEST_WEIGHT = 4.0  # of a text's characters in training, so that a few open positions do not dominate a batch
LENGTH_WEIGHT = 3.0  # of - log p(k) in training, as lengths are few compared with characters


@dataclass(frozen=True)
class MixedConfig(Settings):
    vocabulary: int
    encoder: EncoderConfig
    max_length: int = 1000  # longest text, in characters
    longest_blank: int = 1000
    words: int = 0  # hash buckets for embeddings of whole words on the canvas; 0: characters only
    word_width: int = 48

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1 or self.longest_blank < 1:
            raise BlankLMError("`max_length` and `longest_blank` must be at least 1")


@dataclass(frozen=True)
class Layout:
    """Packed canvases of T symbols, K of them blank symbols, each a position or a gap of unknown length."""

    canvas: Tensor  # [T] ids
    word: Tensor  # [T] hash of the complete word that a symbol belongs to; 0 where it is not complete
    packing: Packing
    blanks: Tensor  # [K] places of the blank symbols on the canvas
    kind: Tensor  # [K] PLACE, RANGE or UNKNOWN
    first: Tensor  # [K] PLACE: open positions to its left; RANGE: least length; UNKNOWN: 0
    second: Tensor  # [K] PLACE: open positions to its right; RANGE: greatest length; UNKNOWN: 0
    hides: Tensor  # [K] true length of its blank, whether known or not
    text: Tensor  # [K]
    position: Tensor  # [K] in the text; of a gap of unknown length, its first position


@dataclass(frozen=True)
class MixedTargets:
    """What the loss of a batch needs: the canvases sampled for it, and the answers."""

    layout: Layout
    places: Tensor  # [P] the blank symbols that are positions
    words: Tensor  # [P] the characters there
    gaps: Tensor  # [G] the blank symbols that are gaps of unknown length
    ks: Tensor  # [G] their lengths
    in_gaps: Tensor  # [B] n: characters of the text in gaps of known length before any were written


@register("mixed-lblm", MixedConfig)
class MixedLBLM(CharacterModel):
    predicts_lengths = True
    ends_word: Tensor  # [V] which symbols end a word: spaces and marks, but not a lost letter

    def __init__(self, config: MixedConfig) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.width
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.encoder = config.encoder.build()
        self.kinds = nn.Embedding(3, width)
        self.numbers_in = nn.Linear(2 * FEATURES, width, bias=False)
        self.word_bias = nn.Parameter(torch.zeros(config.vocabulary))  # W is the embedding (tied)
        self.length_query = nn.Linear(width, FEATURES)
        self.length_bias = nn.Parameter(torch.zeros(config.longest_blank))
        if config.words:
            self.word_embedding = nn.Embedding(config.words, config.word_width)
            self.word_in = nn.Linear(config.word_width, width, bias=False)
        self._register_buffers(config.vocabulary, config.longest_blank)
        self.register_buffer("ends_word", torch.zeros(config.vocabulary, dtype=torch.bool))
        self.apply(initialise)

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Learn from a character tokenizer which characters are never restored, and which end a word."""
        super().set_vocabulary(tokenizer)
        for i in range(len(SPECIAL_TOKENS), len(tokenizer)):
            self.ends_word[i] = not tokenizer.token(i).isalpha() and tokenizer.token(i) not in NEVER_RESTORED

    # --- The canvas ---------------------------------------------------------------------------------------------

    def lay_out(
        self,
        tokens: Tensor,
        lengths: Tensor,
        hidden: Tensor,
        unknown: Tensor,
        least: Tensor,
        most: Tensor,
        on_gpu: bool,
    ) -> Layout:
        """Hide the positions ``hidden`` [B, L] of ``tokens`` [B, L].

        Runs of ``unknown`` [B, L] hidden positions do not reveal their length; where ``most`` [B, L] is above 0 at
        their first position, they reveal the range from ``least`` [B, L] to ``most``.
        """
        concealed = conceal(tokens, lengths, ~hidden, spread=~unknown)
        packed = pack(tokens, concealed, on_gpu=on_gpu)
        emits = concealed.hidden & concealed.emits  # [B, L]
        is_gap, least, most = unknown[emits], least[emits], most[emits]  # [K] each
        text, position = emits.nonzero(as_tuple=True)  # [K]
        top = self.config.longest_blank
        left, right = concealed.left[emits].clamp_max(top), concealed.right[emits].clamp_max(top)  # [K] each
        word = torch.zeros_like(concealed.canvas)  # [B, C]
        if self.config.words:
            ends = self.ends_word[concealed.canvas] | (concealed.canvas == PAD)  # [B, C]
            word = hashed_words(concealed.canvas, ends, ~self.writable[concealed.canvas], self.config.words)
        return Layout(
            canvas=packed.canvas,
            word=packed.packing.lay(word),
            packing=packed.packing,
            blanks=packed.blanks,
            kind=torch.where(is_gap, torch.where(most > 0, RANGE, UNKNOWN), PLACE),
            first=torch.where(is_gap, least, left),
            second=torch.where(is_gap, most.clamp_max(top), right),
            hides=(concealed.left + concealed.right + 1)[emits],
            text=text,
            position=position,
        )

    def encode(self, layout: Layout) -> Tensor:
        """Return z [K, d] of the blank symbols."""
        return self.encoder(self.embed(layout), layout.packing)[layout.blanks]

    def embed(self, layout: Layout) -> Tensor:
        """Return the encoder's input [T, d]: symbols, known lengths of blank symbols, and complete words."""
        vectors = self.embedding(layout.canvas)  # [T, d]
        numbers = torch.cat((self.numbers[layout.first], self.numbers[layout.second]), dim=1)  # [K, 2 F]
        of_blanks = self.kinds(layout.kind) + self.numbers_in(numbers)  # [K, d]
        vectors = vectors.index_add(0, layout.blanks, of_blanks.to(vectors.dtype))
        if self.config.words:
            vectors = vectors + self.word_in(self.word_embedding(layout.word)).to(vectors.dtype)
        return vectors

    # --- Characters and lengths ---------------------------------------------------------------------------------

    def log_p_lengths(self, z: Tensor, least: Tensor, most: Tensor) -> Tensor:
        """Return log p(k | c) [G, N] of k = 1 ... N for gaps z [G, d]; a range (``most`` [G] above 0) masks it."""
        with torch.autocast(z.device.type, enabled=False):  # bfloat16 cannot tell neighbouring numbers apart
            query = F.linear(z.float(), self.length_query.weight, self.length_query.bias)  # [G, F]
            logits = F.linear(query, self.numbers[1:]) + self.length_bias  # [G, N]
        k = torch.arange(1, logits.shape[1] + 1, device=z.device)  # [N]
        outside = (most[:, None] > 0) & ((k < least[:, None]) | (k > most[:, None]))  # [G, N]
        return logits.masked_fill(outside, -torch.inf).log_softmax(1)

    # --- Training -----------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> MixedTargets:
        """Sample gaps, which of their characters are already written, and which of their lengths are known."""
        tokens, lengths, seeds = batch.tokens, batch.lengths, batch.seeds
        gap = draw_gaps(lengths, tokens.shape[1], seeds, self.writable[tokens])  # [B, L]
        unknown, least, most = draw_unknown_lengths(gap, seeds, self.config.longest_blank)  # [B, L] each
        known = gap & ~unknown  # [B, L]
        ranks = uniform_ranks(seeds + ORDER_SEED, lengths, tokens.shape[1])  # [B, L]
        ranks = ranks.masked_fill(~known, ranks.shape[1]).argsort(1).argsort(1)  # among the gaps of known length
        in_gaps = known.sum(1)  # [B] n
        hidden = unknown | (known & ~show_first(ranks, in_gaps, batch.fractions))  # [B, L]
        layout = self.lay_out(tokens, lengths, hidden, unknown, least, most, batch.for_gpu)
        places = (layout.kind == PLACE).nonzero().squeeze(1)  # [P]
        gaps = (layout.kind != PLACE).nonzero().squeeze(1)  # [G]
        return MixedTargets(
            layout=layout,
            places=places,
            words=tokens[layout.text[places], layout.position[places]],
            gaps=gaps,
            ks=layout.hides[gaps],
            in_gaps=in_gaps,
        )

    def loss(self, targets: MixedTargets) -> Tensor:
        """Return [B] - n / (n - t) * the sum of log p(w) of open positions - the sum of log p(k) of unknown lengths."""
        return self.read_out(self.encode(targets.layout), targets)

    @torch.compiler.disable  # compiled, it gave NaN gradients after some hundred steps on a GPU
    def read_out(self, z: Tensor, targets: MixedTargets) -> Tensor:
        """Return the loss [B] from the encoded blank symbols z [K, d]."""
        texts, layout = len(targets.in_gaps), targets.layout
        log_p = self.log_p_words(z[targets.places]).gather(1, targets.words[:, None]).squeeze(1)  # [P]
        text = layout.text[targets.places]  # [P]
        open_places = log_p.new_zeros(texts).index_add(0, text, torch.ones_like(log_p))  # [B] n - t
        weight = targets.in_gaps / open_places.clamp_min(1)  # [B]
        if self.training:
            weight = weight.clamp_max(LARGEST_WEIGHT)
        z_gaps, least, most = z[targets.gaps], layout.first[targets.gaps], layout.second[targets.gaps]
        log_p_k = self.log_p_lengths(z_gaps, least, most).gather(1, targets.ks[:, None] - 1).squeeze(1)  # [G]
        if self.training:
            log_p_k = log_p_k * LENGTH_WEIGHT
        total = log_p.new_zeros(texts).index_add(0, text, log_p) * weight  # [B]
        return -total.index_add(0, layout.text[targets.gaps], log_p_k)

    # --- Decoding and likelihood --------------------------------------------------------------------------------

    @torch.inference_mode()
    def score_positions(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> LBLMScores:
        """Score every hidden position of ``tokens`` [B, L], all lengths being known."""
        layout = self.lay_out_places(tokens, lengths, hidden)
        log_p_word = self.log_p_words(self.encode(layout))  # [K, V]
        return LBLMScores(layout.text, layout.position, -hidden.sum(1)[layout.text].log(), log_p_word)

    def lay_out_places(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> Layout:
        """Lay out texts whose lengths are all known: one symbol on the canvas for each of the text."""
        zeros = torch.zeros_like(tokens)
        return self.lay_out(tokens, lengths, hidden, zeros.bool(), zeros, zeros, tokens.is_cuda)

    @torch.inference_mode()
    def read_around(self, tokens: Tensor, lengths: Tensor, inside: Tensor) -> MixedWindows:
        """Encode ``tokens`` [B, L] once, to score drafts that differ from them only at the places ``inside`` [B, L].

        For each draft only these are encoded again. The rest attends to the text as it was at first, with all its
        positions open: exact in a model of one layer, a close approximation otherwise.
        """
        layout, cache = self.lay_out_places(tokens, lengths, tokens == BLANK), FrozenCache(self.encoder)
        self.encoder(self.embed(layout), layout.packing, cache, torch.zeros(0, dtype=torch.long))
        cache.leave_out(inside)
        return MixedWindows(self, cache, tuple(self._windows(tokens, lengths, inside)))

    def _windows(self, tokens: Tensor, lengths: Tensor, inside: Tensor) -> Iterator[MixedWindow]:
        """Yield the window of each text, and the least stretch of whole words around it."""
        for ids, length, of_text in zip(tokens, lengths.tolist(), inside, strict=True):
            places = of_text.nonzero().squeeze(1)  # [n]
            ends = self.ends_word[ids].nonzero().squeeze(1)  # [E]
            before, behind = ends[ends < places[0]], ends[ends > places[-1]]
            first = int(before[-1]) + 1 if len(before) else 0
            yield MixedWindow(places, first, int(behind[0]) if len(behind) else length)

    @torch.inference_mode()
    def score_lengths(
        self, tokens: Tensor, lengths: Tensor, hidden: Tensor, unknown: Tensor, least: Tensor, most: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log p(k | c) [G, N] of each gap of unknown length, its text [G] and its first position [G]."""
        layout = self.lay_out(tokens, lengths, hidden, unknown, least, most, tokens.is_cuda)
        gaps = (layout.kind != PLACE).nonzero().squeeze(1)  # [G]
        log_p = self.log_p_lengths(self.encode(layout)[gaps], layout.first[gaps], layout.second[gaps])  # [G, N]
        return log_p, layout.text[gaps], layout.position[gaps]

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """Return log p(b, w, l | c) [B, L] of the action that writes each (wanted) hidden position; 0 elsewhere."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]  # [B, L]
        scores = self.score_positions(tokens, lengths, inside & ~shown)
        at = scores.text, scores.position
        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        log_probs[at] = scores.log_p_place + scores.log_p_word.gather(1, tokens[at][:, None]).squeeze(1)
        return log_probs if wanted is None else log_probs * wanted


@dataclass(frozen=True)
class MixedWindow:
    """What is encoded again of a text: ``places`` [n] among its symbols ``first`` to ``end``, which are whole words."""

    places: Tensor
    first: int
    end: int


@dataclass(frozen=True)
class MixedWindows:
    """Texts of which only a window is encoded again for each draft (``MixedLBLM.read_around``)."""

    model: MixedLBLM
    cache: FrozenCache
    windows: tuple[MixedWindow, ...]

    @torch.inference_mode()
    def score_drafts(self, tokens: Tensor, of: Tensor) -> LBLMScores:
        """Score every open position of the drafts ``tokens`` [R, L] of the texts ``of`` [R], which are in order."""
        vectors, positions, stretches, blanks, encoded, first = [], [], [], [], 0, 0
        for text, rows in zip(*(part.tolist() for part in of.unique_consecutive(return_counts=True)), strict=True):
            window = self.windows[text]
            words = tokens[first : first + rows, window.first : window.end]  # [R_t, S]
            full = torch.full((rows,), words.shape[1], device=words.device)  # [R_t]
            layout = self.model.lay_out_places(words, full, words == BLANK)
            near = window.places - window.first  # [n] among the S
            of_words = self.model.embed(layout).unflatten(0, (rows, -1))  # [R_t, S, d]
            vectors.append(of_words[:, near].flatten(0, 1))  # [R_t n, d]
            positions.append(window.places.repeat(rows))
            stretches.append(Stretch(text, rows, len(near)))
            column = torch.zeros(words.shape[1], dtype=torch.long, device=words.device)  # [S] place among the n
            column[near] = torch.arange(len(near), device=words.device)
            blanks.append(encoded + layout.text * len(near) + column[layout.position])  # [K_t]
            encoded, first = encoded + rows * len(near), first + rows
        packing = replace(Packing.of(torch.tensor([encoded]), tokens.shape[1]), position=torch.cat(positions))
        asked = torch.cat(blanks)  # [K]
        z = self.model.encoder(torch.cat(vectors), packing, self.cache.around(stretches, asked), asked)  # [K, d]
        hidden = tokens == BLANK  # [R, L]
        text, position = hidden.nonzero(as_tuple=True)  # [K]
        log_p_word = self.model.log_p_words(z)  # [K, V]
        return LBLMScores(text, position, -hidden.sum(1)[text].log(), log_p_word)


def hashed_words(symbols: Tensor, ends: Tensor, lost: Tensor, buckets: int) -> Tensor:
    """Return a hash [B, C] in 1 ... buckets - 1 of the spelling of the word that each of the ``symbols`` [B, C] is in.

    Words are separated by the symbols where ``ends`` [B, C] is true. Ends, and words with a ``lost`` [B, C] symbol,
    have 0.
    """
    number = ends.cumsum(1)  # [B, C] of the word; an end has the number of the word after it
    place = torch.arange(symbols.shape[1], device=symbols.device).expand_as(symbols)  # [B, C]
    begin = torch.where(ends, place, -1).cummax(1).values  # [B, C] the end before the word
    powers = [signed(pow(0x5851F42D4C957F2D, i, 1 << 64)) for i in range(64)]
    power = torch.tensor(powers, device=symbols.device)[(place - begin).clamp_max(63)]  # [B, C]
    zeros = F.pad(torch.zeros_like(symbols), (0, 1))  # [B, C + 1]
    letters = torch.where(ends, 0, (symbols + 1) * power)  # [B, C] overflow wraps around, which a hash may
    total = zeros.scatter_add(1, number, letters).gather(1, number)  # [B, C]
    broken = zeros.scatter_add(1, number, (lost & ~ends).long()).gather(1, number)  # [B, C]
    mixed = (total ^ shift_right(total, 29)) * signed(0xBF58476D1CE4E5B9)  # [B, C]
    bucket = 1 + shift_right(mixed, 20).remainder(buckets - 1)  # [B, C]
    return torch.where(ends | (broken > 0), 0, bucket)
