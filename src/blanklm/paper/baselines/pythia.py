"""Pythia (Assael, Sommerschield and Prag 2019): a character sequence-to-sequence model that restores one slot.

Recurrent, with attention. The encoder reads the text with the slot's places marked, and in Pythia-Word for each
character also the word it stands in; the decoder writes the slot from left to right. Texts with several slots are
restored one slot at a time (``blanklm.paper.baselines.systems.SlotBySlot``).
Aids that the original has not: the decoder is told how many characters are still to come, up to ten or more, and begins
from the encoder's vectors at the slot; so a text can teach several slots of 1 to 10 characters in one reading, one in
fifty characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from blanklm.core.orders import uniform
from blanklm.core.special import BLANK, PAD
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import initialise
from blanklm.models.lblm import default_writable, writable_characters
from blanklm.models.mixed_lblm import hashed_words
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings
from blanklm.paper.tasks.masking import LONGEST_SLOT

SEGMENT = 50  # characters of a text of which one slot is learnt


@dataclass(frozen=True)
class PythiaConfig(Settings):
    vocabulary: int
    embedding: int = 128
    width: int = 512
    layers: int = 2
    words: int = 0  # Pythia-Word: vectors for whole words, by hash
    dropout: float = 0.1
    max_length: int = 1000
    training_context: int = 400  # characters of a text that are read in training


@dataclass(frozen=True)
class Slots:
    """Texts with some slots each, and what stands in them."""

    tokens: Tensor  # [B, T] BLANK at the slots
    lengths: Tensor  # [B]
    start: Tensor  # [B, S] where each slot begins
    room: Tensor  # [B, S] its length; 0: there is none
    answer: Tensor  # [B, S, 10] ids, PAD after its end


@register("pythia", PythiaConfig)
class Pythia(Model):
    config: PythiaConfig
    writable: Tensor  # [V] what may be restored
    ends_word: Tensor  # [V]

    def __init__(self, config: PythiaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        if config.words:
            self.word_embedding = nn.Embedding(config.words, config.embedding)
        read = config.embedding * (2 if config.words else 1)
        self.encoder = nn.LSTM(
            read, config.width, config.layers, batch_first=True, bidirectional=True, dropout=config.dropout
        )
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

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Learn from a character tokenizer what is never restored, and what ends a word."""
        self.writable.copy_(writable_characters(tokenizer))
        self.ends_word[self.writable] = torch.tensor(
            [not tokenizer.token(i).isalpha() for i in self.writable.nonzero().squeeze(1).tolist()]
        )

    # --- Reading and writing ------------------------------------------------------------------------------------

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """[B, T, 2 d] vectors of the texts."""
        vectors = self.embedding(tokens)  # [B, T, e]
        if self.config.words:
            ends = self.ends_word[tokens] | (tokens == PAD)
            word = hashed_words(tokens, ends, ~self.writable[tokens], self.config.words)  # [B, T]
            vectors = torch.cat((vectors, self.word_embedding(word)), dim=2)  # [B, T, 2 e]
        packed = pack_padded_sequence(self.dropout(vectors), lengths.cpu(), batch_first=True, enforce_sorted=False)
        read, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=tokens.shape[1])
        return self.dropout(read)

    def begin(self, read: Tensor, start: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's first state, each [layers, B S, d], from the vectors at the two ends of each slot [B, S]."""
        row = torch.arange(len(read), device=read.device)[:, None]
        end = (start + room - 1).clamp_min(0)
        ends = torch.cat((read[row, start], read[row, end]), dim=2).flatten(0, 1)  # [B S, 4 d]
        state = self.first_state(ends).unflatten(1, (2, self.config.layers, self.config.width))  # [B S, 2, layers, d]
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
        """A part of each text, and in every fifty characters of it one slot of 1 to 10, by the text's seed."""
        tokens, lengths, (texts, width) = batch.tokens, batch.lengths, batch.tokens.shape
        arange = partial(torch.arange, device=tokens.device)
        segments = -(-min(width, self.config.training_context) // SEGMENT)
        context = segments * SEGMENT
        spare = (lengths - context).clamp_min(0)  # [B]
        first = (uniform(batch.seeds, 1)[:, 0] * (spare + 1)).long()  # [B]
        window = first[:, None] + arange(context)  # [B, T]
        inside = window < lengths[:, None]
        seen = tokens.gather(1, window.clamp_max(width - 1)).masked_fill(~inside, PAD)  # [B, T]

        # Each segment by itself. A slot leaves its last character alone, so that no two slots touch.
        part = seen.view(-1, SEGMENT)  # [B S, 50]
        room = (1 + LONGEST_SLOT * uniform(batch.seeds + (1 << 40), segments)).long().view(-1, 1)  # [B S, 1]
        lost = F.pad((~self.writable[part]).long().cumsum(1), (1, 0))  # [B S, 51] lost characters before
        end = arange(SEGMENT) + room  # [B S, 50] of a slot that begins there
        fits = (end < SEGMENT) & (lost.gather(1, end.clamp_max(SEGMENT)) == lost[:, :-1])
        chance = uniform(batch.seeds + (2 << 40), context).view(-1, SEGMENT)  # [B S, 50]
        start = chance.masked_fill(~fits, -1.0).argmax(1, keepdim=True)  # [B S, 1]
        room = torch.where(fits.any(1, keepdim=True), room, 0)
        reach = arange(LONGEST_SLOT)
        answer = part.gather(1, (start + reach).clamp_max(SEGMENT - 1)).masked_fill(reach >= room, PAD)  # [B S, 10]
        place = arange(SEGMENT)
        hidden = ((place >= start) & (place < start + room)).view(texts, context)
        shift = arange(segments) * SEGMENT
        return Slots(
            tokens=seen.masked_fill(hidden, BLANK),
            lengths=inside.sum(1),
            start=start.view(texts, segments) + shift,
            room=room.view(texts, segments),
            answer=answer.view(texts, segments, LONGEST_SLOT),
        )

    def loss(self, slots: Slots) -> Tensor:
        """- log p of each text's slots [B]."""
        with torch.autocast(self.device.type, enabled=False):  # recurrent kernels in half precision lose gradients
            return self._loss(slots)

    def _loss(self, slots: Slots) -> Tensor:
        texts, segments, _ = slots.answer.shape
        read = self.encode(slots.tokens, slots.lengths)  # [B, T, 2 d]
        state = self.begin(read, slots.start, slots.room)
        answer = slots.answer.flatten(0, 1)  # [B S, 10]
        before = F.pad(answer[:, :-1], (1, 0), value=BLANK)  # [B S, 10]
        to_come = (slots.room.view(-1, 1) - torch.arange(LONGEST_SLOT, device=before.device)).clamp_min(0)  # [B S, 10]
        written, _ = self.write(before, to_come, state)  # [B S, 10, d]
        written = written.reshape(texts, segments * LONGEST_SLOT, -1)
        log_p = self.log_p_next(written, read, self.key(read), slots.lengths)  # [B, S 10, V]
        answer = answer.view(texts, -1)  # [B, S 10]
        chosen = log_p.gather(2, answer[:, :, None]).squeeze(2)
        return -chosen.masked_fill(answer == PAD, 0.0).sum(1)

    # --- Restoring ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def restore_slots(
        self, texts: Sequence[Sequence[int]], starts: Sequence[int], rooms: Sequence[int], beam: int = 20
    ) -> list[list[tuple[list[int], float]]]:
        """For one slot of each text, where it begins and its length given: the ``beam`` best answers and their log p.

        BLANK stands at the slot, and at others that are not restored yet.
        """
        device = self.device
        tokens, lengths = (part.to(device) for part in pad(texts))  # [B, T], [B]
        start, room = torch.tensor(starts, device=device), torch.tensor(rooms, device=device)  # [B] each
        read = self.encode(tokens, lengths)  # [B, T, 2 d]
        keys = self.key(read)
        first = self.begin(read, start[:, None], room[:, None])
        hidden, cell = (part.repeat_interleave(beam, dim=1) for part in first)  # each [layers, B beam, d]
        rows = torch.arange(len(texts), device=device)  # [B]
        answer = torch.full((len(texts), beam, 0), PAD, device=device)
        log_prob = torch.full((len(texts), beam), -torch.inf, device=device)
        log_prob[:, 0] = 0.0
        before = torch.full((len(texts), beam), BLANK, device=device)
        for step in range(int(room.max())):
            to_come = (room - step).clamp(0, LONGEST_SLOT)[:, None].expand_as(before)
            written, state = self.write(before.view(-1, 1), to_come.reshape(-1, 1), (hidden, cell))  # [B beam, 1, d]
            log_p = self.log_p_next(written.view(len(texts), beam, -1), read, keys, lengths)  # [B, beam, V]
            done = (step >= room)[:, None, None]  # a finished answer continues with PAD alone
            only_pad = torch.full_like(log_p, -torch.inf)
            only_pad[:, :, PAD] = 0.0
            total = log_prob[:, :, None] + torch.where(done, only_pad, log_p)
            log_prob, index = total.flatten(1).topk(beam, dim=1)  # [B, beam]
            parent, before = index // log_p.shape[2], index % log_p.shape[2]
            answer = torch.cat((answer.gather(1, parent[:, :, None].expand_as(answer)), before[:, :, None]), dim=2)
            chosen = (rows[:, None] * beam + parent).flatten()
            hidden, cell = (part[:, chosen] for part in state)
        found = []
        for ids, scores, k in zip(answer.tolist(), log_prob.tolist(), room.tolist(), strict=True):
            found.append([(one[:k], score) for one, score in zip(ids, scores, strict=True) if score > -torch.inf])
        return found
