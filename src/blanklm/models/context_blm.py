"""A BLM of texts that go on with others: p(x | context), the context being read apart from what is written after it.

A canvas reads its context, and the context knows nothing of the canvas. So it is read once for all canvases of a text:
several in training, thousands in an estimate. Contexts are often longer than texts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from blanklm.batching import Batch
from blanklm.conceal import ContextPacking, PackedActions, Packing, conceal, first_of_each, pack, random_keys
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMConfig, Drawn
from blanklm.models.encoder import EncoderConfig, drop_words


@dataclass(frozen=True)
class Contexts:
    """The distinct contexts of some texts. G counts them, M their symbols."""

    symbols: Tensor  # [M] token ids, end to end
    packing: Packing
    of: Tensor  # [B] the context of each text

    @classmethod
    def distinct(cls, tokens: Tensor, given: Tensor) -> Contexts:
        """The first ``given`` [B] of ``tokens`` [B, L], told apart by a sum of their products with random keys."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < given[:, None]  # [B, L]
        keys = random_keys(given.new_zeros(1), tokens.shape[1])  # [1, L]
        one, of = first_of_each(torch.where(inside, (tokens + 1) * keys, 0).sum(1))  # [G], [B]; the sum wraps around
        packing = Packing.of(given[one], int(given.max()))
        return cls(packing.lay(tokens[one]), packing, of)


@dataclass(frozen=True)
class DrawnAfter:
    """What the loss of a batch needs: the canvases drawn for it, with their actions, and the contexts before them."""

    contexts: Contexts
    packing: ContextPacking
    drawn: Drawn


class ContextBLM(BLM):
    """The parameters are those of a BLM, and without a context it is one."""

    def __init__(self, config: BLMConfig) -> None:
        if not isinstance(config.encoder, EncoderConfig):
            raise BlankLMError("contexts are read apart by layers of one's own, not by a pretrained backbone")
        super().__init__(config)

    def encode_after(self, contexts: Contexts, canvas: Tensor, packing: ContextPacking) -> Tensor:
        """Packed canvases [N] -> z [N, d]."""
        symbols = torch.cat((contexts.symbols, canvas))  # [M + N]
        vectors = drop_words(self.embedding, symbols, self.config.encoder.word_dropout)
        return self.encoder(vectors, packing)[len(contexts.symbols) :]

    def prepare(self, batch: Batch) -> Drawn | DrawnAfter:
        if batch.given is None or not batch.given.any():
            return super().prepare(replace(batch, given=None))
        contexts = Contexts.distinct(batch.tokens, batch.given)
        lengths = batch.lengths - batch.given  # [B]
        (tokens,) = _from(batch.given, lengths, batch.tokens)
        drawn = super().prepare(replace(batch, tokens=tokens, lengths=lengths, given=None, for_gpu=False))
        return DrawnAfter(contexts, _both(contexts, drawn.actions), drawn)

    def loss(self, drawn: Drawn | DrawnAfter) -> Tensor:
        """Eq. 8 of each text, given its context [B]."""
        if isinstance(drawn, Drawn):
            return super().loss(drawn)
        actions = drawn.drawn.actions
        z = self.encode_after(drawn.contexts, actions.canvas, drawn.packing)  # [N, d]
        return self.loss_of(self.read_out(z, actions), drawn.drawn)

    forward = loss

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """log p(b, w, l, r | context, c) [B, L]; each context is read once, however many canvases come after it."""
        if given is None or not given.any():
            return super().action_log_probs(tokens, lengths, shown, wanted)
        contexts, own_lengths = Contexts.distinct(tokens, given), lengths - given
        wanted = torch.ones_like(shown) if wanted is None else wanted
        own, own_shown, own_wanted = _from(given, own_lengths, tokens, shown, wanted)  # [B, N]
        actions = pack(own, conceal(own, own_lengths, own_shown), own_wanted)
        z = self.encode_after(contexts, actions.canvas, _both(contexts, actions))  # [N, d]
        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        log_probs[actions.text, given[actions.text] + actions.position] = self.read_out(z, actions)
        return log_probs


def _from(first: Tensor, lengths: Tensor, *parts: Tensor) -> list[Tensor]:
    """Of each of the ``parts`` [B, L] what stands from the column ``first`` [B] on: [B, N], N the greatest length."""
    columns = first[:, None] + torch.arange(int(lengths.max()), device=first.device)  # [B, N]
    return [part.gather(1, columns.clamp_max(part.shape[1] - 1)) for part in parts]


def _both(contexts: Contexts, actions: PackedActions) -> ContextPacking:
    return ContextPacking.of_both(contexts.packing, actions.packing, contexts.of)
