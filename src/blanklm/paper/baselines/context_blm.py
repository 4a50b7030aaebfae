"""A BLM of texts in context: p(x | context), the context being read apart from what is written after it.

A canvas reads its context, and the context knows nothing of the canvas. So it is read once for all canvases of a text:
several in training, thousands in an estimate. Contexts are often longer than texts.

A blank's word is one of the model's own or a copy of one in the context: p(w) = a_0 p_own(w) + sum_j a_j [w = w_j], a
being a softmax over the words w_j of the context and the case of no copy (a pointer mixture, Merity et al. 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from blanklm.core.conceal import conceal
from blanklm.core.orders import random_keys
from blanklm.core.packing import Attention, PackedActions, Packing, pack, representatives
from blanklm.core.special import PAD
from blanklm.core.texts import Batch
from blanklm.errors import BlankLMError
from blanklm.models.attention import attend_packed, has_packed_kernel
from blanklm.models.blm import BLM, BLMConfig, BLMTargets
from blanklm.models.encoder import EncoderConfig, drop_words, initialise
from blanklm.models.registry import register
from blanklm.paper.streams import TextsInContext, sentences_in_context

OWN_WORD_LOGIT = 7.0  # the initial logit of a word of its own, beside some hundreds of the context's around 0
COPYING = ("find.", "found.", "writes.")  # the parameters that a BLM does not have


@dataclass(frozen=True)
class ContextBLMConfig(BLMConfig):
    """``max_length`` is that of a text with its context."""

    context: int = field(kw_only=True)  # tokens before a sentence that it is given
    ends: tuple[int, ...] = ()  # the tokens that end a sentence of a stream, beside <eos>
    finding: int = 64  # width of what finds a word of the context to copy

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ends", tuple(self.ends))  # JSON has lists
        if not 0 < self.context < self.max_length:
            raise BlankLMError(
                f"context ({self.context}) must be at least 1 and smaller than max_length ({self.max_length})"
            )
        if self.whole_words:
            raise BlankLMError("`whole_words` cannot be combined with a context")


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
        one, of = representatives(torch.where(inside, (tokens + 1) * keys, 0).sum(1))  # [G], [B]; the sum wraps around
        packing = Packing.of(given[one], int(given.max()))
        return cls(packing.lay(tokens[one]), packing, of)


@dataclass(frozen=True, kw_only=True)
class ContextPacking(Packing):
    """Contexts, then sequences that each come after one of them, all end to end.

    A sequence reads its context and itself. A context reads itself alone: it may have many sequences after it.
    """

    contexts: Packing
    after: Packing  # the sequences, counted from 0
    read: Packing  # what each of them reads, end to end
    source: Tensor  # [S] where that stands among all symbols

    @classmethod
    def of_both(cls, contexts: Packing, after: Packing, of: Tensor) -> ContextPacking:
        """``after``: sequences end to end, ``of`` [B] the contexts of these numbers."""
        before, first = contexts.lengths[of], len(contexts.sequence)  # [B] symbols before each; where the first begins
        read = Packing.of(before + after.lengths, contexts.longest + after.longest)
        own = read.position - before[read.sequence]  # [S] below 0 in the context
        in_context = contexts.starts[of[read.sequence]] + read.position  # [S]
        source = torch.where(own < 0, in_context, first + after.starts[read.sequence] + own)
        return cls(
            starts=torch.cat((contexts.starts, first + after.starts[1:])),
            lengths=torch.cat((contexts.lengths, after.lengths)),
            sequence=torch.cat((contexts.sequence, len(contexts) + after.sequence)),
            position=torch.cat((contexts.position, before[after.sequence] + after.position)),
            longest=read.longest,
            contexts=contexts,
            after=after,
            read=read,
            source=source,
        )

    def attend(self, within: Attention, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        contexts = len(self.contexts.sequence)  # symbols
        among = within(q[:contexts], k[:contexts], v[:contexts], self.contexts, causal)
        keys, values = (part.index_select(0, self.source) for part in (k, v))  # [S, H, d/H]
        return torch.cat((among, _attend_to(q[contexts:], self.after, keys, values, self.read)))


@dataclass(frozen=True)
class DrawnAfter:
    """What the loss of a batch needs: the canvases drawn for it, with their actions, and the contexts before them."""

    contexts: Contexts
    packing: ContextPacking
    drawn: BLMTargets


@dataclass(frozen=True)
class Copyable:
    """The contexts as the blanks see them that words are asked for."""

    words: Tensor  # [G, C] token ids, PAD after each context's end
    keys: Tensor  # [G, C, p]
    of: Tensor  # [Q] the context of each blank


@register("context-blm", ContextBLMConfig)
class ContextBLM(BLM):
    """Without a context it is a BLM, though not one that was trained without."""

    config: ContextBLMConfig

    def __init__(self, config: ContextBLMConfig) -> None:
        if not isinstance(config.encoder, EncoderConfig):
            raise BlankLMError("a ContextBLM needs blanklm's own encoder: it cannot be built on a pretrained backbone")
        super().__init__(config)
        width = config.encoder.width
        self.find = nn.Linear(width, config.finding, bias=False)  # from a blank
        self.found = nn.Linear(width, config.finding, bias=False)  # from a word of the context
        self.writes = nn.Linear(width, 1)  # the logit of a_0
        for part in (self.find, self.found, self.writes):
            initialise(part)
        nn.init.constant_(self.writes.bias, OWN_WORD_LOGIT)

    @property
    def context(self) -> int:
        return self.config.context

    def sentences(self, stream: Sequence[int]) -> TextsInContext:
        """Cut a stream as this model scores it: sentence by sentence, each with its context."""
        longest = self.config.max_length - self.config.context
        return sentences_in_context(stream, self.config.ends, longest, self.config.context)

    def pieces(self, stream: Sequence[int]) -> tuple[Sequence[Sequence[int]], Sequence[int] | None]:
        """The sentences of a stream, each after its context."""
        sentences = self.sentences(stream)
        return sentences.after_context(np.arange(len(sentences)))

    def log_probs_after(self, contexts: Contexts, actions: PackedActions, packing: ContextPacking) -> Tensor:
        """log p(b, w, l, r | context, c) [A] of packed actions."""
        symbols = torch.cat((contexts.symbols, actions.canvas))  # [M + N]
        first = packing.position == 0  # [M + N] a context has no blank that is never lost, so its first word never is
        vectors = drop_words(self.embedding, symbols, self.config.encoder.word_dropout, kept=first)
        before, z = self.encoder(vectors, packing).split((len(contexts.symbols), len(actions.canvas)))  # [M, d], [N, d]
        words, keys = (contexts.packing.padded(part) for part in (contexts.symbols, self.found(before)))
        canvas = actions.packing.sequence[actions.blanks[actions.queried]]  # [Q]
        return self.read_out(z, actions, Copyable(words, keys, contexts.of[canvas]))

    def log_p_words(self, z: Tensor, row: Tensor, word: Tensor, source: Copyable | None = None) -> Tensor:
        own = super().log_p_words(z, row, word)  # [A]
        if source is None:
            return own
        words = source.words[source.of]  # [Q, C]
        logits = torch.einsum("qp,qcp->qc", self.find(z), source.keys[source.of]).float()  # [Q, C]
        logits = logits.masked_fill(words == PAD, -torch.inf)
        log_a = torch.cat((self.writes(z).float(), logits), 1).log_softmax(1)[row]  # [A, 1 + C]
        log_copies = log_a[:, 1:].masked_fill(words[row] != word[:, None], -torch.inf)  # [A, C]
        return torch.cat(((log_a[:, 0] + own)[:, None], log_copies), 1).logsumexp(1)

    def prepare(self, batch: Batch) -> BLMTargets | DrawnAfter:
        if batch.given is None or not batch.given.any():
            return super().prepare(replace(batch, given=None))
        contexts = Contexts.distinct(batch.tokens, batch.given)
        lengths = batch.lengths - batch.given  # [B]
        (tokens,) = _from(batch.given, lengths, batch.tokens)
        drawn = super().prepare(replace(batch, tokens=tokens, lengths=lengths, given=None, for_gpu=False))
        return DrawnAfter(contexts, _both(contexts, drawn.actions), drawn)

    def loss(self, drawn: BLMTargets | DrawnAfter) -> Tensor:
        """Eq. 8 of each text, given its context [B]."""
        if isinstance(drawn, BLMTargets):  # processes wait for one another's gradients of all parameters
            unused = sum(parameter.sum() for name, parameter in self.named_parameters() if name.startswith(COPYING))
            return super().loss(drawn) + 0.0 * unused
        return self.loss_of(self.log_probs_after(drawn.contexts, drawn.drawn.actions, drawn.packing), drawn.drawn)

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
        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        place = actions.text, given[actions.text] + actions.position
        log_probs[place] = self.log_probs_after(contexts, actions, _both(contexts, actions))
        return log_probs


def _attend_to(q: Tensor, queries_in: Packing, k: Tensor, v: Tensor, keys_in: Packing) -> Tensor:
    """Attention of each packed sequence of q [T, H, d/H] to the sequence of k and v [S, H, d/H] of the same number."""
    if has_packed_kernel(q):
        return attend_packed(q, queries_in, k, v, keys_in, causal=False)
    queries, keys, values = (
        packing.padded(part).transpose(1, 2) for part, packing in ((q, queries_in), (k, keys_in), (v, keys_in))
    )
    inside = torch.arange(keys_in.longest, device=q.device) < keys_in.lengths[:, None]  # [B, S]
    attended = scaled_dot_product_attention(queries, keys, values, attn_mask=inside[:, None, None])  # [B, H, n, d/H]
    return attended.transpose(1, 2)[queries_in.sequence, queries_in.position]


def _from(first: Tensor, lengths: Tensor, *parts: Tensor) -> list[Tensor]:
    """Of each of the ``parts`` [B, L] what stands from the column ``first`` [B] on: [B, N], N the greatest length."""
    columns = first[:, None] + torch.arange(max(1, int(lengths.max())), device=first.device)  # [B, N]
    return [part.gather(1, columns.clamp_max(part.shape[1] - 1)) for part in parts]


def _both(contexts: Contexts, actions: PackedActions) -> ContextPacking:
    return ContextPacking.of_both(contexts.packing, actions.packing, contexts.of)
