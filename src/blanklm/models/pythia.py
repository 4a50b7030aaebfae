"""Pythia (Assael, Sommerschield and Prag 2019): a character sequence-to-sequence model that restores one slot.

Recurrent, with attention. The encoder reads the text with the slot's places marked, and in Pythia-Word for each
character also the word it stands in; the decoder writes the slot from left to right. Trained on one random slot of 1 to
10 characters a text; texts with several slots are restored one slot at a time (``blanklm.baselines.SlotBySlot``).
Two aids that the original has not: the decoder is told how many characters are still to come, and begins from the
encoder's vectors at the slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.batching import Batch, pad
from blanklm.conceal import hashed_words, random_ranks, uniform
from blanklm.data.masking import LONGEST_SLOT
from blanklm.models.encoder import initialise
from blanklm.models.lblm import default_writable, writable_characters
from blanklm.special import BLANK, PAD
from blanklm.tokenizer import Tokenizer


@dataclass(frozen=True)
class PythiaConfig:
    vocabulary: int
    embedding: int = 128
    width: int = 512
    layers: int = 2
    words: int = 0  # Pythia-Word: vectors for whole words, by hash
    dropout: float = 0.1
    max_length: int = 1000
    training_context: int = 400  # characters around the slot that are read in training


@dataclass(frozen=True)
class Slots:
    """Texts with one slot each, and what stands in it."""

    tokens: Tensor  # [B, T] BLANK at the slot
    lengths: Tensor  # [B]
    start: Tensor  # [B] where the slot begins
    room: Tensor  # [B] its length
    answer: Tensor  # [B, 10] ids, PAD after its end


class Pythia(nn.Module):
    def __init__(self, config: PythiaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        if config.words:
            self.word_embedding = nn.Embedding(config.words, config.embedding)
        read = config.embedding * (2 if config.words else 1)
        inputs = [read] + [2 * config.width] * (config.layers - 1)
        self.forwards = nn.ModuleList(nn.LSTM(size, config.width, batch_first=True) for size in inputs)
        self.backwards = nn.ModuleList(nn.LSTM(size, config.width, batch_first=True) for size in inputs)
        self.to_come = nn.Embedding(LONGEST_SLOT + 1, config.embedding)
        self.decoder = nn.LSTM(2 * config.embedding, config.width, config.layers, batch_first=True)
        self.first_state = nn.Linear(4 * config.width, 2 * config.layers * config.width)
        self.key = nn.Linear(2 * config.width, config.width, bias=False)
        self.combine = nn.Linear(3 * config.width, config.width)
        self.out = nn.Linear(config.width, config.vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("writable", default_writable(config.vocabulary))
        self.register_buffer("ends_word", torch.zeros(config.vocabulary, dtype=torch.bool))
        self.apply(initialise)

    def know(self, tokenizer: Tokenizer) -> None:
        """Learn from a character tokenizer what is never restored, and what ends a word."""
        self.writable.copy_(writable_characters(tokenizer))
        self.ends_word[self.writable] = torch.tensor(
            [not tokenizer.token(i).isalpha() for i in self.writable.nonzero().squeeze(1).tolist()]
        )

    @property
    def device(self) -> torch.device:
        return self.out.weight.device

    # --- Reading and writing ------------------------------------------------------------------------------------

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """[B, T, 2 d] vectors of the texts."""
        vectors = self.embedding(tokens)  # [B, T, e]
        if self.config.words:
            ends = self.ends_word[tokens] | (tokens == PAD)
            word = hashed_words(tokens, ends, ~self.writable[tokens], self.config.words)  # [B, T]
            vectors = torch.cat((vectors, self.word_embedding(word)), dim=2)  # [B, T, 2 e]
        place = torch.arange(tokens.shape[1], device=tokens.device)  # [T]
        mirrored = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)[:, :, None]  # [B, T, 1]
        for forward, backward in zip(self.forwards, self.backwards, strict=True):
            vectors = self.dropout(vectors)
            onwards, _ = forward(vectors)  # [B, T, d]
            back, _ = backward(vectors.gather(1, mirrored.expand_as(vectors)))  # [B, T, d] from the end
            vectors = torch.cat((onwards, back.gather(1, mirrored.expand_as(back))), dim=2)  # [B, T, 2 d]
        return self.dropout(vectors)

    def begin(self, read: Tensor, start: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's first state, each [layers, B, d], from the vectors at the slot's two ends."""
        row = torch.arange(len(read), device=read.device)
        ends = torch.cat((read[row, start], read[row, start + room - 1]), dim=1)  # [B, 4 d]
        state = self.first_state(ends).unflatten(1, (2, self.config.layers, self.config.width))  # [B, 2, layers, d]
        hidden, cell = state.permute(1, 2, 0, 3)
        return hidden.tanh().contiguous(), cell.contiguous()

    def write(self, before: Tensor, to_come: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple]:
        """The decoder's vectors [B, S, d] after each of the characters ``before`` [B, S], and its last state."""
        return self.decoder(torch.cat((self.embedding(before), self.to_come(to_come)), dim=2), state)

    def log_p_next(self, written: Tensor, read: Tensor, keys: Tensor, lengths: Tensor) -> Tensor:
        """log p of the next character [B, S, V] for the decoder's vectors ``written`` [B, S, d] of each text."""
        logits = torch.einsum("bsd,btd->bst", written, keys) / keys.shape[2] ** 0.5
        inside = torch.arange(keys.shape[1], device=keys.device) < lengths[:, None]  # [B, T]
        weights = logits.masked_fill(~inside[:, None], -torch.inf).softmax(2)  # [B, S, T]
        seen = torch.einsum("bst,btd->bsd", weights.to(read.dtype), read)  # [B, S, 2 d]
        combined = self.combine(torch.cat((written, seen), dim=2)).tanh()  # [B, S, d]
        logits = self.out(self.dropout(combined)).float()  # [B, S, V]
        return logits.masked_fill(~self.writable, -torch.inf).log_softmax(2)

    # --- Training -----------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Slots:
        """One slot of 1 to 10 characters in each text, by its seed, and the text around it."""
        tokens, lengths, (texts, width) = batch.tokens, batch.lengths, batch.tokens.shape
        room = (1 + LONGEST_SLOT * uniform(batch.seeds, 1)[:, 0]).long()  # [B]
        lost = F.pad((~self.writable[tokens]).long().cumsum(1), (1, 0))  # [B, L + 1] lost characters before
        ranks = random_ranks(batch.seeds + (1 << 40), torch.full_like(lengths, width), width)  # [B, L]
        place = torch.arange(width).expand(texts, width)

        def starts(room: Tensor) -> Tensor:  # [B, L] where a slot of that length may begin
            end = place + room[:, None]
            return (end <= lengths[:, None]) & (lost.gather(1, end.clamp_max(width)) == lost[:, :-1])

        fits = starts(room)
        room = torch.where(fits.any(1), room, 1)
        start = ranks.masked_fill(~starts(room), width).argmin(1)  # [B]
        reach = torch.arange(LONGEST_SLOT)
        at = start[:, None] + reach  # [B, 10]
        answer = tokens.gather(1, at.clamp_max(width - 1)).masked_fill(reach >= room[:, None], PAD)
        # The text around the slot alone is read: what a recurrent network reads costs time.
        context = min(width, self.config.training_context)
        first = (start + room // 2 - context // 2).clamp_min(0)
        first = torch.minimum(first, (lengths - context).clamp_min(0))  # [B]
        window = (first[:, None] + torch.arange(context)).clamp_max(width - 1)  # [B, context]
        seen = tokens.gather(1, window)
        left = (lengths - first).clamp_max(context)  # [B]
        slot = (window >= start[:, None]) & (window < (start + room)[:, None])
        seen = seen.masked_fill(slot, BLANK).masked_fill(torch.arange(context) >= left[:, None], PAD)
        return Slots(seen, left, start - first, room, answer)

    def loss(self, slots: Slots) -> Tensor:
        """- log p of each text's slot [B]."""
        with torch.autocast(self.device.type, enabled=False):  # recurrent kernels in half precision lose gradients
            return self._loss(slots)

    def _loss(self, slots: Slots) -> Tensor:
        read = self.encode(slots.tokens, slots.lengths)  # [B, T, 2 d]
        state = self.begin(read, slots.start, slots.room)
        before = F.pad(slots.answer[:, :-1], (1, 0), value=BLANK)  # [B, 10]
        to_come = (slots.room[:, None] - torch.arange(LONGEST_SLOT, device=before.device)).clamp_min(0)  # [B, 10]
        written, _ = self.write(before, to_come, state)  # [B, 10, d]
        log_p = self.log_p_next(written, read, self.key(read), slots.lengths)  # [B, 10, V]
        there = slots.answer != PAD
        chosen = log_p.gather(2, slots.answer[:, :, None]).squeeze(2)  # [B, 10]
        return -chosen.masked_fill(~there, 0.0).sum(1)

    forward = loss  # what a distributed wrapper calls

    # --- Restoring ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def restore_slots(
        self, texts: Sequence[Sequence[int]], starts: Sequence[int], beam: int = 20
    ) -> list[list[tuple[list[int], float]]]:
        """For each text, in which one run of BLANK begins at its start: the ``beam`` best answers and their log p."""
        device = self.device
        tokens, lengths = (part.to(device) for part in pad(texts))  # [B, T], [B]
        start, room = torch.tensor(starts, device=device), (tokens == BLANK).sum(1)  # [B] each
        read = self.encode(tokens, lengths)  # [B, T, 2 d]
        keys = self.key(read)
        state = tuple(part.repeat_interleave(beam, dim=1) for part in self.begin(read, start, room))  # [., B beam, d]
        rows = torch.arange(len(texts), device=device)  # [B]
        answer = torch.full((len(texts), beam, 0), PAD, device=device)
        log_prob = torch.full((len(texts), beam), -torch.inf, device=device)
        log_prob[:, 0] = 0.0
        before = torch.full((len(texts), beam), BLANK, device=device)
        for step in range(int(room.max())):
            to_come = (room - step).clamp(0, LONGEST_SLOT)[:, None].expand_as(before)
            written, state = self.write(before.view(-1, 1), to_come.reshape(-1, 1), state)  # [B beam, 1, d]
            log_p = self.log_p_next(written.view(len(texts), beam, -1), read, keys, lengths)  # [B, beam, V]
            done = (step >= room)[:, None, None]  # a finished answer goes on with PAD alone
            only_pad = torch.full_like(log_p, -torch.inf)
            only_pad[:, :, PAD] = 0.0
            total = log_prob[:, :, None] + torch.where(done, only_pad, log_p)
            log_prob, index = total.flatten(1).topk(beam, dim=1)  # [B, beam]
            parent, before = index // log_p.shape[2], index % log_p.shape[2]
            answer = torch.cat((answer.gather(1, parent[:, :, None].expand_as(answer)), before[:, :, None]), dim=2)
            chosen = (rows[:, None] * beam + parent).flatten()
            state = tuple(part[:, chosen] for part in state)
        found = []
        for ids, scores, k in zip(answer.tolist(), log_prob.tolist(), room.tolist(), strict=True):
            found.append([(one[:k], score) for one, score in zip(ids, scores, strict=True) if score > -torch.inf])
        return found
