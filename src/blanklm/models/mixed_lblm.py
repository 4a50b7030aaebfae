"""One L-BLM for gaps of known, approximate and unknown length, at character level.

The actions are those of ``lblm.py``, with two differences in how they are scored:

- A blank of known length stands on the canvas as one symbol a place. Under uniform orders the best p(b, l | c) is the
  same for every open place, so it is not learnt: p(b, w, l | c) = p(w | c, place) / (number of open places).
- A blank of unknown length is one symbol, perhaps with a range. Its action says the length k first: p(k | c), the
  *length posterior*, cut to the range. From then on it is a blank of length k.

Trained on gaps drawn as inscriptions have them (``draw_gaps``), some of whose characters are written already, with
lengths shown, blurred to a range, and hidden. The loss is the bound of Eq. 8 on the characters of the gaps given the
text around them, and - log p(k) for each gap whose length is not told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.conceal import conceal
from blanklm.core.orders import UniformOrders, show_first, uniform, uniform_ranks
from blanklm.core.packing import Packing, pack
from blanklm.core.special import BLANK, PAD, SPECIAL_TOKENS
from blanklm.core.texts import Batch
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.attention import FrozenCache
from blanklm.models.encoder import EncoderConfig, initialise
from blanklm.models.lblm import (
    FEATURES,
    NEVER_RESTORED,
    PositionScores,
    default_writable,
    number_features,
    writable_characters,
)
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.words import hashed_words

PLACE, RANGE, UNKNOWN = range(3)  # what a blank symbol says: one place of a known length, a range, nothing


@dataclass(frozen=True)
class MixedConfig:
    vocabulary: int
    encoder: EncoderConfig
    max_length: int = 1000  # longest text, in characters
    longest_blank: int = 1000
    words: int = 0  # vectors for whole words that stand on the canvas, by hash; 0: characters alone
    word_width: int = 48

    def __post_init__(self) -> None:
        if self.max_length < 1 or self.longest_blank < 1:
            raise BlankLMError("the longest text and the longest blank have at least 1 character")


@dataclass(frozen=True)
class Layout:
    """Packed canvases: T symbols, of them K blank symbols, each a place or a gap of untold length."""

    canvas: Tensor  # [T] ids
    word: Tensor  # [T] hash of the whole word a symbol stands in; 0 where it is not whole
    packing: Packing
    blanks: Tensor  # [K] where the blank symbols stand
    kind: Tensor  # [K] PLACE, RANGE or UNKNOWN
    first: Tensor  # [K] a place: how many places to its left; a range: its least length; else 0
    second: Tensor  # [K] a place: how many to its right; a range: its greatest length; else 0
    hides: Tensor  # [K] how long its blank is, told or not
    text: Tensor  # [K]
    position: Tensor  # [K] of the text; of a gap of untold length, its first


@register("mixed-lblm", MixedConfig)
class MixedLBLM(UniformOrders, Model):
    product = "restore"

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
        self.register_buffer("numbers", number_features(config.longest_blank), persistent=False)  # [N + 1, F]
        self.register_buffer("writable", default_writable(config.vocabulary))  # [V]: "-" and "#" restore nothing
        # Which symbols end a word: spaces and marks. A word with a lost letter or an open place is not whole.
        self.register_buffer("ends_word", torch.zeros(config.vocabulary, dtype=torch.bool))
        self.apply(initialise)

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Learn from a character tokenizer what is never restored, and what ends a word."""
        self.writable.copy_(writable_characters(tokenizer))
        for i in range(len(SPECIAL_TOKENS), len(tokenizer)):
            self.ends_word[i] = not tokenizer.token(i).isalpha() and tokenizer.token(i) not in NEVER_RESTORED

    # --- The canvas ---------------------------------------------------------------------------------------------

    def lay_out(
        self, tokens: Tensor, lengths: Tensor, hidden: Tensor, untold: Tensor, least: Tensor, most: Tensor, on_gpu: bool
    ) -> Layout:
        """Hide ``hidden`` [B, L] of ``tokens`` [B, L]; runs of ``untold`` [B, L] hidden positions do not tell their
        length, but a range where ``most`` [B, L] is above 0 at their first position."""
        concealed = conceal(tokens, lengths, ~hidden, spread=~untold)
        packed = pack(tokens, concealed, on_gpu=on_gpu)
        emits = concealed.hidden & concealed.emits  # [B, L]
        vague, least, most = untold[emits], least[emits], most[emits]  # [K] each
        text, position = emits.nonzero(as_tuple=True)  # [K]
        top = self.config.longest_blank
        first, second = concealed.left[emits].clamp_max(top), concealed.right[emits].clamp_max(top)  # [K]
        word = torch.zeros_like(concealed.canvas)
        if self.config.words:
            word = self.whole_words(concealed.canvas)
        return Layout(
            canvas=packed.canvas,
            word=packed.packing.lay(word),
            packing=packed.packing,
            blanks=packed.blanks,
            kind=torch.where(vague, torch.where(most > 0, RANGE, UNKNOWN), PLACE),
            first=torch.where(vague, least, first),
            second=torch.where(vague, most.clamp_max(top), second),
            hides=(concealed.left + concealed.right + 1)[emits],
            text=text,
            position=position,
        )

    def whole_words(self, canvas: Tensor) -> Tensor:
        """[B, C] for each symbol of ``canvas`` [B, C] the hash of its word; 0 where it has no whole word."""
        ends = self.ends_word[canvas] | (canvas == PAD)  # [B, C]
        return hashed_words(canvas, ends, ~self.writable[canvas], self.config.words)

    def encode(self, layout: Layout) -> Tensor:
        """z [K, d] of the blank symbols."""
        return self.encoder(self.embed(layout), layout.packing)[layout.blanks]

    def embed(self, layout: Layout) -> Tensor:
        """What the encoder reads [T, d]: the symbols, what the blank ones say of their lengths, and whole words."""
        vectors = self.embedding(layout.canvas)  # [T, d]
        numbers = torch.cat((self.numbers[layout.first], self.numbers[layout.second]), dim=1)  # [K, 2 F]
        told = self.kinds(layout.kind) + self.numbers_in(numbers)  # [K, d]
        vectors = vectors.index_add(0, layout.blanks, told.to(vectors.dtype))
        if self.config.words:
            vectors = vectors + self.word_in(self.word_embedding(layout.word)).to(vectors.dtype)
        return vectors

    # --- What stands there, and how long it is ------------------------------------------------------------------

    def log_p_words(self, z: Tensor) -> Tensor:
        """log p(w | c, place) [P, V] for places z [P, d]."""
        logits = F.linear(z, self.embedding.weight, self.word_bias).float()
        return logits.masked_fill(~self.writable, -torch.inf).log_softmax(1)

    def log_p_lengths(self, z: Tensor, least: Tensor, most: Tensor) -> Tensor:
        """log p(k | c) [G, N] of k = 1 ... N for gaps z [G, d]; a range (``most`` [G] above 0) masks it."""
        with torch.autocast(z.device.type, enabled=False):  # numbers near each other must stay apart
            query = F.linear(z.float(), self.length_query.weight, self.length_query.bias)  # [G, F]
            logits = F.linear(query, self.numbers[1:]) + self.length_bias  # [G, N]
        k = torch.arange(1, logits.shape[1] + 1, device=z.device)  # [N]
        outside = (most[:, None] > 0) & ((k < least[:, None]) | (k > most[:, None]))
        return logits.masked_fill(outside, -torch.inf).log_softmax(1)

    # --- Training -----------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Drawn:
        """Draw gaps, what is written of them already, and what is told of their lengths."""
        tokens, lengths, seeds = batch.tokens, batch.lengths, batch.seeds
        gap = draw_gaps(lengths, tokens.shape[1], seeds, self.writable[tokens])  # [B, L]
        untold, least, most = draw_untold(gap, seeds, self.config.longest_blank)  # [B, L] each
        told = gap & ~untold
        ranks = uniform_ranks(seeds + _ORDER, lengths, tokens.shape[1])  # [B, L]
        ranks = ranks.masked_fill(~told, ranks.shape[1]).argsort(1).argsort(1)  # among the told gaps' positions
        in_gaps = told.sum(1)  # [B] n
        hidden = untold | (told & ~show_first(ranks, in_gaps, batch.fractions))  # [B, L]
        layout = self.lay_out(tokens, lengths, hidden, untold, least, most, batch.for_gpu)
        places = (layout.kind == PLACE).nonzero().squeeze(1)  # [P]
        gaps = (layout.kind != PLACE).nonzero().squeeze(1)  # [G]
        return Drawn(
            layout=layout,
            places=places,
            words=tokens[layout.text[places], layout.position[places]],
            gaps=gaps,
            ks=layout.hides[gaps],
            in_gaps=in_gaps,
        )

    def loss(self, drawn: Drawn) -> Tensor:
        """[B] n / (n - t) times the sum of - log p(w) over the open places; and - log p(k) of gaps of untold length."""
        return self.read_out(self.encode(drawn.layout), drawn)

    @torch.compiler.disable  # compiled, its gradients were not numbers after some hundred steps on a GPU
    def read_out(self, z: Tensor, drawn: Drawn) -> Tensor:
        """The same from the encoded blank symbols z [K, d]."""
        texts, layout = len(drawn.in_gaps), drawn.layout
        log_p = self.log_p_words(z[drawn.places]).gather(1, drawn.words[:, None]).squeeze(1)  # [P]
        whose = layout.text[drawn.places]  # [P]
        open_places = log_p.new_zeros(texts).index_add(0, whose, torch.ones_like(log_p))  # [B]
        weight = drawn.in_gaps / open_places.clamp_min(1)  # [B]
        if self.training:  # a few characters must not outweigh a batch, nor the characters the lengths, which are few
            weight = weight.clamp_max(LARGEST_WEIGHT)
        z_gaps, least, most = z[drawn.gaps], layout.first[drawn.gaps], layout.second[drawn.gaps]
        log_p_k = self.log_p_lengths(z_gaps, least, most).gather(1, drawn.ks[:, None] - 1).squeeze(1)  # [G]
        if self.training:
            log_p_k = log_p_k * LENGTH_WEIGHT
        total = log_p.new_zeros(texts).index_add(0, whose, log_p) * weight  # [B]
        return -total.index_add(0, layout.text[drawn.gaps], log_p_k)

    # --- Decoding and likelihood --------------------------------------------------------------------------------

    @torch.inference_mode()
    def score_positions(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> PositionScores:
        """Every hidden place of ``tokens`` [B, L], all lengths being known."""
        layout = self.lay_out_places(tokens, lengths, hidden)
        log_p_word = self.log_p_words(self.encode(layout))  # [K, V]
        return PositionScores(layout.text, layout.position, -hidden.sum(1)[layout.text].log(), log_p_word)

    def lay_out_places(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> Layout:
        """``lay_out``, all lengths being known: symbol for symbol what stands in the text."""
        none = torch.zeros_like(tokens)
        return self.lay_out(tokens, lengths, hidden, none.bool(), none, none, tokens.is_cuda)

    @torch.inference_mode()
    def read_around(self, tokens: Tensor, lengths: Tensor, start: Tensor, end: Tensor) -> Near:
        """Read ``tokens`` [B, L] once, to score drafts that differ from them between ``start`` and ``end`` [B] alone.

        For each draft that stretch is read again. What is farther off attends to the text as it was at first, with all
        its places open: in a model of one layer that is no difference at all, and else a small one.
        """
        layout, reading = self.lay_out_places(tokens, lengths, tokens == BLANK), FrozenCache(self.encoder)
        self.encoder(self.embed(layout), layout.packing, reading)
        return Near(self, reading, lengths, start, end)

    @torch.inference_mode()
    def score_lengths(
        self, tokens: Tensor, lengths: Tensor, hidden: Tensor, untold: Tensor, least: Tensor, most: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """log p(k | c) [G, N] of each gap of untold length, with the text [G] and the first position [G] of each."""
        layout = self.lay_out(tokens, lengths, hidden, untold, least, most, tokens.is_cuda)
        gaps = (layout.kind != PLACE).nonzero().squeeze(1)  # [G]
        log_p = self.log_p_lengths(self.encode(layout)[gaps], layout.first[gaps], layout.second[gaps])
        return log_p, layout.text[gaps], layout.position[gaps]

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """log p(b, w, l | c) [B, L] of the action that writes each (wanted) hidden position; 0 elsewhere."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]  # [B, L]
        scores = self.score_positions(tokens, lengths, inside & ~shown)
        at = scores.text, scores.position
        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        log_probs[at] = scores.log_p_place + scores.log_p_word.gather(1, tokens[at][:, None]).squeeze(1)
        return log_probs if wanted is None else log_probs * wanted


@dataclass(frozen=True)
class Near:
    """Texts of which only a stretch is read anew for each draft (``MixedLBLM.read_around``)."""

    model: MixedLBLM
    reading: FrozenCache
    lengths: Tensor  # [B]
    start: Tensor  # [B]
    end: Tensor  # [B]

    @torch.inference_mode()
    def score_drafts(self, tokens: Tensor, of: Tensor) -> PositionScores:
        """Every open place of the drafts ``tokens`` [R, L] of the texts ``of`` [R]."""
        hidden, start, end = tokens == BLANK, self.start[of], self.end[of]
        layout = self.model.lay_out_places(tokens, self.lengths[of], hidden)
        whole = layout.packing
        near = (whole.position >= start[whole.sequence]) & (whole.position < end[whole.sequence])  # [T]
        stretch = Packing.of(end - start, int((end - start).max()))
        stretch = replace(stretch, position=whole.position[near])
        z = self.model.encoder(self.model.embed(layout)[near], stretch, self.reading.around(of))  # [N, d]
        at = (near.cumsum(0) - 1)[layout.blanks]  # [K] where the open places stand among what was read
        log_p_word = self.model.log_p_words(z[at])  # [K, V]
        return PositionScores(layout.text, layout.position, -hidden.sum(1)[layout.text].log(), log_p_word)


LARGEST_WEIGHT, LENGTH_WEIGHT = 4.0, 3.0
# Added to a text's seed, so that its several draws have nothing to do with each other.
_ORDER, _SHAPE, _LENGTHS, _SPACES, _TELL = (number << 40 for number in range(1, 6))


@dataclass(frozen=True)
class Drawn:
    """What the loss of a batch needs: the canvases drawn for it, and the answers."""

    layout: Layout
    places: Tensor  # [P] the blank symbols that are places
    words: Tensor  # [P] what stands there
    gaps: Tensor  # [G] the blank symbols that are gaps of untold length
    ks: Tensor  # [G] how long they are
    in_gaps: Tensor  # [B] n: characters of the text that were in gaps of told length at first


# --- Gaps to train on ---------------------------------------------------------------------------------------------


def draw_gaps(lengths: Tensor, width: int, seeds: Tensor, hideable: Tensor) -> Tensor:
    """[B, L] which positions of each text are lost, as a function of its seed [B] alone.

    Most texts have gaps of 1 to 10 characters, or longer ones (log-uniform to 100), over 3 to 65 % of them; some are
    hidden whole, as in the paper; every text has a gap. Gaps do not touch; what is not ``hideable`` [B, L] stays.
    """
    hideable = hideable & (torch.arange(width, device=seeds.device) < lengths[:, None])
    shape = uniform(seeds + _SHAPE, 3)  # [B, 3]
    share = 0.03 + 0.62 * shape[:, :1]  # [B, 1]
    segments = width // 2 + 1
    u = uniform(seeds + _LENGTHS, segments)  # [B, S]
    short, long = (1 + 10 * u).floor(), (100**u).floor()
    gap = torch.where(shape[:, 1:2] < 0.8, short, long)  # [B, S] lengths of the gaps
    average = torch.where(shape[:, 1:2] < 0.8, 5.5, 21.0)  # [B, 1]
    between = average * (1 - share) / share  # [B, 1] mean number of characters between two gaps
    space = 1 + (-(between - 1).clamp_min(0.01) * (1 - uniform(seeds + _SPACES, segments)).log()).floor()  # [B, S]
    space[:, 0] = (space[:, 0] * shape[:, 2]).floor()  # a text may begin in a gap
    ends = (space + gap).cumsum(1)  # [B, S]
    edges = torch.zeros(len(seeds), width + 1, dtype=torch.long, device=seeds.device)
    edges.scatter_add_(1, (ends - gap).long().clamp_max(width), torch.ones_like(ends, dtype=torch.long))
    edges.scatter_add_(1, ends.long().clamp_max(width), -torch.ones_like(ends, dtype=torch.long))
    lost = edges[:, :width].cumsum(1) > 0  # [B, L]
    lost |= shape[:, 1:2] > 0.97
    lost &= hideable
    # A text in which nothing was lost loses one stretch of the length that its first gap was to have: were it always a
    # character, gaps of one would be too many in short texts. The stretch ends at a mark that cannot be lost.
    first = uniform_ranks(seeds, lengths, width).masked_fill(~hideable, width).argsort(1)[:, :1]  # [B, 1]
    place = torch.arange(width, device=seeds.device)
    kept = ((place > first) & ~hideable).cumsum(1) > 0  # [B, L] at or behind the first mark after it
    one = (place >= first) & (place < first + gap[:, :1]) & hideable & ~kept  # [B, L]
    return torch.where(lost.any(1, keepdim=True), lost, one)


def draw_untold(gap: Tensor, seeds: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Which of the gaps do not tell their length [B, L], and the range that some give instead [B, L] twice (0: none).

    In half of the texts all lengths are told. In the others a share of the gaps that varies from text to text does not
    tell its length, half of them at all and half within a range. They are drawn before anything is written: among gaps
    in which nothing is written *yet* short ones would be too many, and so they would be in the length posterior.
    """
    width = gap.shape[1]
    u = uniform(seeds + _TELL, 4 * width + 1)  # [B, 4 L + 1]
    chosen, ranged, below, above = u[:, :-1].unflatten(1, (4, width)).unbind(1)  # [B, L] each
    run = conceal(torch.zeros_like(gap, dtype=torch.long), gap.new_full((len(gap),), width, dtype=torch.long), ~gap)
    start = gap & (run.left == 0)  # [B, L]
    k = run.right + 1  # [B, L] at the start, how long the gap is
    tell_none = (2 * u[:, -1:] - 1).clamp_min(0)  # [B, 1] 0 in half of the texts
    first = start & (chosen < tell_none) & (k <= longest)  # [B, L]
    number = start.cumsum(1)  # [B, L] of the gap
    by_gap = torch.zeros(len(gap), width + 1, dtype=torch.long, device=gap.device)
    by_gap.scatter_add_(1, number, first.long())
    untold = gap & (by_gap.gather(1, number) > 0)
    blur = 1 + k // 2
    least = (k - (below * (blur + 1)).long()).clamp_min(1)
    most = (k + (above * (blur + 1)).long()).clamp_max(longest)
    has_range = first & (ranged < 0.5)
    return untold, torch.where(has_range, least, 0), torch.where(has_range, most, 0)
