"""The Insertion Transformer (Stern et al. 2019), as the paper compares with it: p(slot, w | c) or stop.

Its canvas is the words written so far and nothing else; a word may go into any slot between two of them or at an end.
A slot's vector joins those of its neighbours; p(slot) is a softmax over the slots, p(w | slot) one over the words and
STOP, and the model stops with probability sum over slots of p(slot) p(STOP | slot). So n words take n + 1 steps:

    p(x) = sum over orders of prod over t < n of p(slot_t, w_t | c_t), times p(stop | x)

The canvas depends only on which words are shown, and the last word leads to the finished text for certain: so the stop
is counted with the word before it, and likelihood.py and the bound of Eq. 8 apply as they are. No text is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.orders import UniformOrders, bound, show_first
from blanklm.core.packing import Packing, grouped_log_softmax
from blanklm.core.special import BLANK, EOS, PAD
from blanklm.core.texts import Batch, pad
from blanklm.decoding.budget import LONGEST_SPAN
from blanklm.errors import BlankLMError
from blanklm.models.encoder import initialise
from blanklm.models.registry import register
from blanklm.paper.baselines.predictor import (
    CanvasIds,
    PredictorConfig,
    WordModel,
    WrittenSpans,
    ban_rows,
    best_of_each,
)
from blanklm.paper.baselines.temperature import scale_down_

SLOTS_AT_ONCE = 8192  # whose words are scored together, in filling
STOP = BLANK  # there are no blanks on these canvases, so their id is free


@dataclass(frozen=True)
class Insertions:
    """Canvases between two <eos>, packed, their slots, and the actions asked for.

    The first B canvases are those of the texts; finished texts follow, for the stop. S counts slots, P pairs of a
    slot and a word.
    """

    canvas: Tensor  # [T] token ids
    packing: Packing
    slots: Tensor  # [S] the place of the symbol before each slot, canvas by canvas
    asked: Tensor  # [Q] which slots need a row of the vocabulary
    row: Tensor  # [P] which of the asked slots a pair is on
    word: Tensor  # [P] the token written there, or STOP
    text: Tensor  # [P] the text it belongs to
    position: Tensor  # [P] the position of the text that the action writes (before the stop, the last one)


@dataclass(frozen=True)
class DrawnInsertions:
    insertions: Insertions
    width: int  # L
    lengths: Tensor  # [B] n
    hidden: Tensor  # [B] n - t
    log_orders: Tensor  # [B] log n!


class SlotModel(UniformOrders, WordModel):
    """The parts of p(slot, w | c), and filling with them; how they are trained is up to its subclasses."""

    each_slot_ends: bool  # whether STOP ends a slot, instead of the text

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config, causal=False)
        width = config.encoder.width
        self.join = nn.Linear(2 * width, width)  # the symbols on both sides -> slot
        self.choose = nn.Linear(width, 1, bias=False)
        self.not_words[STOP] = 0.0
        self.join.apply(initialise)
        self.choose.apply(initialise)

    def slot_vectors(self, z: Tensor, slots: Tensor) -> Tensor:
        """[S, d] from encoded canvases z [T, d]: a slot lies between the symbol at its place and the next."""
        return self.join(torch.cat((z[slots], z[slots + 1]), 1))

    def slot_logits(self, vectors: Tensor) -> Tensor:
        return self.choose(vectors).squeeze(-1).float()  # [S]

    def content_logits(self, vectors: Tensor, of_empty_canvas: Tensor) -> Tensor:
        """[S, V] words and STOP; no text ends before its first word."""
        logits = self.word_logits(vectors)
        stop = logits[:, STOP].masked_fill(of_empty_canvas, -torch.inf)
        return torch.cat((logits[:, :STOP], stop[:, None], logits[:, STOP + 1 :]), 1)

    def apply_temperature(self, temperature: float) -> None:
        """Divide the logits of words and STOP by a ``temperature``; slots are chosen as before."""
        scale_down_(temperature, self.join.weight, self.join.bias, self.word_bias)
        scale_down_(1 / temperature, self.choose.weight)

    @torch.inference_mode()
    def write(self, canvases: Sequence[CanvasIds], bans: Tensor, free: bool = False) -> list[WrittenSpans]:
        """The most probable (slot, word) at each step, until it is STOP, or until all slots say STOP if each ends.

        Made valid as in the paper: predictions are normalised over the slots inside blanks, blanks that have no word
        yet come first, and STOP waits until every blank has one. ``free`` leaves all that out: words go anywhere.
        """
        drafts = _Drafts(canvases, self.device, free)
        while len(drafts.active):
            drafts.advance(self, bans, self.config.max_length)
        return drafts.written()


@register("insertion", PredictorConfig)
class InsertionTransformer(SlotModel):
    each_slot_ends = False

    def log_probs(self, insertions: Insertions, texts: int, width: int, everywhere: bool = False) -> Tensor:
        """log p [texts, width] of the action that writes each position asked for, with the stop after the last.

        ``everywhere``: instead of log p(stop) its lower bound, tight where all slots stop with the same probability.
        """
        z = self.encode(insertions.canvas, insertions.packing)  # [T, d]
        return self.read_out(z, insertions, texts, width, everywhere)

    def read_out(self, z: Tensor, insertions: Insertions, texts: int, width: int, everywhere: bool = False) -> Tensor:
        """``log_probs`` from the encoded canvases z [T, d]."""
        packing = insertions.packing
        canvas = packing.sequence[insertions.slots]  # [S]
        vectors = self.slot_vectors(z, insertions.slots)  # [S, d]
        log_p_slot = grouped_log_softmax(self.slot_logits(vectors), canvas, len(packing))  # [S]
        empty = packing.lengths[canvas[insertions.asked]] == 2  # [Q] nothing between the ends
        logits = self.content_logits(vectors[insertions.asked], empty)  # [Q, V]
        row, word = insertions.row, insertions.word
        pairs = log_p_slot[insertions.asked][row] + logits[row, word] - logits.logsumexp(1)[row]  # [P]
        stops = word == STOP  # [P]
        place = insertions.text * width + insertions.position  # [P]
        written = pairs.new_zeros(texts * width).index_add(0, place, torch.where(stops, 0.0, pairs))
        none = pairs.new_zeros(texts * width)
        slots = none.index_add(0, place, stops.to(pairs.dtype))  # how many slots a text that ends has
        if everywhere:  # log sum_s p_s >= log S + mean_s log p_s
            total = none.index_add(0, place, torch.where(stops, pairs, 0.0))
            log_p_stop = total / slots.clamp_min(1) + slots.clamp_min(1).log()
        else:
            p_stop = none.index_add(0, place, torch.where(stops, pairs.exp(), 0.0))
            log_p_stop = torch.where(slots > 0, p_stop.clamp_min(1e-30), 1.0).log()
        return (written + log_p_stop).view(texts, width)

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """log p [B, L] of the action that writes each (wanted) hidden position; 0 elsewhere."""
        insertions = lay_out(tokens, lengths, shown, wanted, on_gpu=tokens.is_cuda)
        return self.log_probs(insertions, *tokens.shape)

    def prepare(self, batch: Batch) -> DrawnInsertions:
        """A canvas of each text: t of its words, t uniform in 0..n-1; all n - t insertions into it are learnt."""
        ranks, log_orders = self.orders(batch.tokens, batch.lengths, batch.seeds)  # [B, L], [B]
        shown = show_first(ranks, batch.lengths, batch.fractions)  # [B, L]
        insertions = lay_out(batch.tokens, batch.lengths, shown, None, batch.for_gpu)
        hidden = batch.lengths - (shown & inside(batch.tokens, batch.lengths)).sum(1)  # [B]
        return DrawnInsertions(insertions, batch.tokens.shape[1], batch.lengths, hidden, log_orders)

    def loss(self, drawn: DrawnInsertions) -> Tensor:
        """Eq. 8 of each text [B], over insertions; the stop is learnt at every slot, as Stern et al. have it.

        Were only p(stop) learnt, the stop could gather in one slot, and filling is allowed to look at a few.
        """
        total = self.log_probs(drawn.insertions, len(drawn.lengths), drawn.width, everywhere=True).sum(1)  # [B]
        return bound(total, drawn.lengths, drawn.hidden, drawn.log_orders)


def inside(tokens: Tensor, lengths: Tensor) -> Tensor:
    """[B, L] which positions belong to a text."""
    return torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]


def between_ends(tokens: Tensor, shown: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The shown tokens of each text between two <eos> [B, L + 2], their number [B], and each position's slot [B, L]."""
    batch, width = tokens.shape
    slot = shown.cumsum(1)  # [B, L] how many shown tokens there are up to a position: before it, if it is hidden
    sequence = tokens.new_full((batch, width + 3), EOS)
    sequence.scatter_(1, torch.where(shown, slot, width + 2), tokens)  # the last column takes what is hidden
    return sequence[:, : width + 2], shown.sum(1), slot


def lay_out(tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None, on_gpu: bool = False) -> Insertions:
    """The canvases that show ``shown`` [B, L] of ``tokens`` [B, L], and the actions that write ``wanted`` positions."""
    within = inside(tokens, lengths)
    shown = shown & within
    hidden = within & ~shown  # [B, L]
    asked_for = hidden if wanted is None else hidden & wanted  # [B, L]
    sequence, words, slot = between_ends(tokens, shown)  # [B, L + 2], [B], [B, L]
    last = ((hidden.sum(1) == 1) & asked_for.any(1)).nonzero().squeeze(1)  # [F] texts whose last word is written
    finished, all_words, _ = between_ends(tokens[last], within[last])
    sequence, words = torch.cat((sequence, finished)), torch.cat((words, all_words))  # [B + F, L + 2], [B + F]

    packing = Packing.best_for(words + 2, int(words.max()) + 2, on_gpu)
    column = torch.arange(sequence.shape[1], device=tokens.device)
    slots = packing.places(column < words[:, None] + 1)  # [S]
    first = (words + 1).cumsum(0) - (words + 1)  # [B + F] the number of a canvas's first slot
    text, position = asked_for.nonzero(as_tuple=True)  # [A]
    stop_slots = (column < words[len(tokens) :, None] + 1).nonzero(as_tuple=True)  # of the finished texts
    ended = last[stop_slots[0]]  # [E] a text for each of its slots
    slot_of_pair = torch.cat((first[text] + slot[text, position], first[len(tokens) + stop_slots[0]] + stop_slots[1]))
    is_asked = torch.zeros(len(slots), dtype=torch.bool, device=tokens.device)
    is_asked[slot_of_pair] = True
    last_position = hidden.long().argmax(1)  # [B] of the one that is hidden
    return Insertions(
        canvas=packing.lay(sequence),
        packing=packing,
        slots=slots,
        asked=is_asked.nonzero().squeeze(1),
        row=(is_asked.cumsum(0) - 1)[slot_of_pair],
        word=torch.cat((tokens[text, position], torch.full_like(ended, STOP))),
        text=torch.cat((text, ended)),
        position=torch.cat((position, last_position[ended])),
    )


class _Drafts:
    """The texts being filled: items [B, W], the blank that each came from, and the blank that owns each slot."""

    def __init__(self, canvases: Sequence[CanvasIds], device: torch.device, free: bool) -> None:
        self.canvases, self.free = canvases, free
        items, owners = zip(*(_without_blanks(canvas.ids) for canvas in canvases), strict=True)
        self.items, self.lengths = (part.to(device) for part in pad(items))  # [B, W], [B]
        numbered = [[owner + 1 for owner in slots] for slots in owners]
        self.owner = (pad(numbered)[0] - 1).to(device)  # [B, W + 1] -1: no blank
        self.owner = F.pad(self.owner, (0, self.items.shape[1] + 1 - self.owner.shape[1]), value=-1)
        self.origin = torch.full_like(self.items, -1)  # [B, W] the blank a word was written for
        blanks = torch.tensor([len(canvas.spaces) for canvas in canvases], device=device)  # [B]
        self.blank = torch.arange(int(blanks.max()), device=device) < blanks[:, None]  # [B, O] those there are
        self.words = torch.zeros_like(self.blank, dtype=torch.long)  # [B, O] in each so far
        spaces = pad([[int(space) for space in canvas.spaces] for canvas in canvases])[0]
        self.spaces = F.pad(spaces, (0, self.blank.shape[1] - spaces.shape[1])).bool().to(device)  # [B, O]
        self.log_prob = torch.zeros(len(canvases), device=device)  # [B]
        self.active = torch.arange(len(canvases), device=device)  # [N] texts that have not stopped

    def advance(self, model: SlotModel, bans: Tensor, max_length: int) -> None:
        """One action on each active text."""
        texts = self.active
        lengths = self.lengths[texts]  # [N]
        column = torch.arange(int(lengths.max()) + 2, device=texts.device)
        items = F.pad(self.items[texts], (1, 2), value=EOS)[:, : len(column)]  # [N, W + 2]
        sequence = torch.where((column > 0) & (column <= lengths[:, None]), items, EOS)
        packing = Packing.of(lengths + 2, len(column))
        z = model.encoder(model.embedding(packing.lay(sequence)), packing)  # [T, d]

        owner = self.owner[texts][:, : len(column) - 1]  # [N, W + 1]
        may = column[:-1] <= lengths[:, None]  # [N, W + 1] the slots there are
        words = self.words[texts]  # [N, O]
        unfilled = (self.blank[texts] & (words == 0)).any(1)  # [N]
        if not self.free:
            words = words.gather(1, owner.clamp_min(0))  # [N, W + 1]
            has_room = torch.where(unfilled[:, None], words == 0, words < LONGEST_SPAN)
            may = may & (owner >= 0) & has_room
            if not bool((going_on := may.any(1)).all()):  # every blank of a text is as long as it may become
                self.active = texts[going_on]
                return
        number, place = may.nonzero(as_tuple=True)  # [S] each: the text among the active, the slot
        vectors = model.slot_vectors(z, packing.starts[number].long() + place)  # [S, d]
        log_p_slot = grouped_log_softmax(model.slot_logits(vectors), number, len(texts))  # [S]
        kinds = self._ban_rows(texts, number, place)  # [S]
        scored = []
        for part in torch.arange(len(place), device=place.device).split(SLOTS_AT_ONCE):
            log_p = model.content_logits(vectors[part], lengths[number[part]] == 0).log_softmax(1)  # [part, V]
            scored.append((*(log_p + bans[kinds[part]]).max(1), log_p[:, STOP].clone()))
        best, word, stop = map(torch.cat, zip(*scored, strict=True))  # [S] each
        may_stop = ~unfilled if not self.free else lengths > 0  # [N]
        value = log_p_slot + best  # [S]
        if model.each_slot_ends:
            value = value.masked_fill(may_stop[number] & (stop > best), -torch.inf)
        chosen = best_of_each(value, number, len(texts))  # [N] of S
        score = value[chosen]  # [N]
        if model.each_slot_ends:
            all_stop = score == -torch.inf  # [N]
            total_stop = best.new_zeros(len(texts)).index_add(0, number, stop)  # [N]
        else:
            log_p_stop = log_p_slot + stop  # [S]
            highest = best.new_full((len(texts),), -torch.inf).scatter_reduce(0, number, log_p_stop, "amax")  # [N]
            all_stop = highest > score  # [N]
            total_stop = best.new_zeros(len(texts)).index_add(0, number, log_p_stop.exp()).clamp_min(1e-30).log()  # [N]
        stops = may_stop & (all_stop | (lengths >= max_length))  # [N]
        self.log_prob[texts] += torch.where(stops, total_stop, score)
        goes_on = ~stops
        self._insert(texts[goes_on], place[chosen][goes_on], word[chosen][goes_on])
        self.active = texts[goes_on]

    def _ban_rows(self, texts: Tensor, number: Tensor, place: Tensor) -> Tensor:
        """[S] which row of bans a slot is under: a blank's first word may have to carry the space before it."""
        owner = self.owner[texts[number], place]  # [S]
        before = self.origin[texts[number], (place - 1).clamp_min(0)]  # [S]
        first = (owner >= 0) & ((place == 0) | (before != owner))
        space = self.spaces[texts[number], owner.clamp_min(0)]
        return ban_rows(first, space)

    def _insert(self, texts: Tensor, slot: Tensor, word: Tensor) -> None:
        """Write each word [N] into its slot [N]; what follows moves to the right, and both sides of it stay open."""
        if int(self.lengths.max()) == self.items.shape[1]:
            more = max(8, self.items.shape[1] // 4)
            self.items = F.pad(self.items, (0, more), value=PAD)
            self.origin, self.owner = (F.pad(part, (0, more), value=-1) for part in (self.origin, self.owner))
        owner = self.owner[texts, slot]  # [N]
        column = torch.arange(self.owner.shape[1], device=slot.device)
        source = column - (column > slot[:, None]).long()  # [N, W + 1] where each symbol or slot comes from
        for name in ("items", "origin", "owner"):
            part = getattr(self, name)
            part[texts] = part[texts].gather(1, source[:, : part.shape[1]])
        self.items[texts, slot], self.origin[texts, slot] = word, owner
        self.lengths[texts] += 1
        mine = owner >= 0
        self.words[texts[mine], owner[mine]] += 1

    def written(self) -> list[WrittenSpans]:
        found = []
        rows = zip(
            self.canvases,
            self.items.tolist(),
            self.origin.tolist(),
            self.lengths.tolist(),
            self.log_prob.tolist(),
            strict=True,
        )
        for canvas, items, origins, length, log_prob in rows:
            spans: list[list[int]] = [[] for _ in canvas.spaces]
            for item, origin in zip(items[:length], origins[:length], strict=True):
                if origin >= 0:
                    spans[origin].append(item)
            found.append(WrittenSpans(spans, log_prob, items[:length] if self.free else None))
        return found


def _without_blanks(ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """The given tokens, and for each slot between them the number of the blank that stood there, or -1."""
    items: list[int] = []
    owners = [-1]
    blanks = 0
    for i in ids:
        if i == BLANK:
            if owners[-1] >= 0:
                raise BlankLMError("two blanks side by side are one slot to this model: join them")
            owners[-1] = blanks
            blanks += 1
        else:
            items.append(i)
            owners.append(-1)
    return items, owners
