"""The Blank Language Model: p(b, w, l, r | c) in three parts (Eq. 1-4), trained on the bound of Eq. 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from blanklm.core.conceal import Concealed, conceal
from blanklm.core.orders import (
    after,
    bound,
    next_in_words,
    restrict,
    show_first,
    uniform_ranks,
    whole_word_ranks,
    words_of,
)
from blanklm.core.packing import PackedActions, Packing, grouped_log_softmax, pack
from blanklm.core.special import BLANK, PAD
from blanklm.core.texts import Batch, cut
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.backbone import BackboneConfig, Pretrained
from blanklm.models.causal_backbone import CausalPretrained
from blanklm.models.encoder import WORDS_AT_ONCE, EncoderConfig, WordVectors, drop_words, initialise
from blanklm.models.llama import LlamaConfig
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings
from blanklm.options import Blanks


@dataclass(frozen=True)
class BLMConfig(Settings):
    vocabulary: int
    encoder: EncoderConfig | BackboneConfig | LlamaConfig
    sides_hidden: int = 1024  # hidden layer of the MLP that predicts (l, r)
    max_length: int = 512  # longest text, in tokens
    whole_words: bool = False  # BPE: train on orders in which each word grows from left to right

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1:
            raise BlankLMError(f"`max_length` must be at least 1, not {self.max_length}")
        if not isinstance(self.encoder, EncoderConfig) and self.max_length > self.encoder.longest:
            raise BlankLMError(f"the backbone takes at most {self.encoder.longest} tokens, not {self.max_length}")


@register("blm", BLMConfig)
class BLM(Model):
    config: BLMConfig
    not_words: Tensor  # [V] -inf for what is never a word
    edges: Tensor  # [V, 2]
    config_class: ClassVar[type[BLMConfig]] = BLMConfig
    product = "fill"
    reads_context = True

    def __init__(self, config: BLMConfig) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.width
        self.embedding = WordVectors(config.vocabulary, width)
        self.encoder = config.encoder.build()
        self.choose = nn.Linear(width, 1, bias=False)  # u
        self.word_bias = nn.Parameter(torch.zeros(config.vocabulary))  # W is the embedding (tied)
        # The MLP's first layer on [z; v_w], split: W [z; v] = W_z z + W_v v, so that each part is computed
        # once per blank and once per word instead of once per pair.
        self.sides_from_blank = nn.Linear(width, config.sides_hidden)
        self.sides_from_word = nn.Linear(width, config.sides_hidden, bias=False)
        self.sides_out = nn.Linear(config.sides_hidden, 4)
        not_words = torch.zeros(config.vocabulary)
        not_words[[PAD, BLANK]] = float("-inf")
        self.register_buffer("not_words", not_words, persistent=False)
        # What each token begins and ends with (Tokenizer.edges), by which whole words are known.
        edges = torch.zeros(config.vocabulary, 2, dtype=torch.int8)
        self.register_buffer("edges", edges, persistent=config.whole_words)
        self.apply(initialise)

    @classmethod
    def on(cls, backbone: Pretrained | CausalPretrained, tokenizer: Tokenizer, **settings: Any) -> Self:
        """Build a BLM on pretrained layers, with the backbone's own ``tokenizer()`` or with another one."""
        settings = {"max_length": min(512, backbone.config.longest)} | settings
        model = cls(cls.config_class(len(tokenizer), backbone.config, **settings))
        backbone.initialise(model, tokenizer)
        model.set_vocabulary(tokenizer)
        return model

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Learn what training must know of each token."""
        self.edges.copy_(torch.from_numpy(tokenizer.edges))

    def for_blanks(self, blanks: Blanks | None) -> BLM:
        """Return a policy whose blanks stand for ``blanks``; by default what the model has learnt, spans if both."""
        if blanks == "spans":
            raise BlankLMError("this model has learnt blanks that stand for words: leave out blanks")
        return self

    # --- Eq. 1, p(b, w, l, r | c), in three parts -------------------------------------------------------------------

    def encode(self, canvas: Tensor, packing: Packing) -> Tensor:
        """Packed canvases [T] -> z [T, d]."""
        return self.encoder(drop_words(self.embedding, canvas, self.config.encoder.word_dropout), packing)

    def log_p_blank(self, z: Tensor, canvas: Tensor, canvases: int) -> Tensor:
        """Eq. 2, choose a blank: softmax of u^T z [K] over the blanks of each canvas; ``canvas`` [K] says which."""
        return grouped_log_softmax(self.choose(z).squeeze(-1).float(), canvas, canvases)

    def word_logits(self, z: Tensor) -> Tensor:
        """Eq. 3, predict a word: the logits W z [K, V] for blanks z [K, d]; padding and blanks are not words."""
        return self.embedding.logits(z, self.word_bias + self.not_words).float()

    def sides_logits(self, from_blank: Tensor, words: Tensor) -> Tensor:
        """Eq. 4, new blanks: MLP(z, v_w) [M, 4], with W_z z [M, h] given; classes in the order of policy.SIDES."""
        from_word = self.sides_from_word(self.embedding(words))  # [M, h]
        return self.sides_out(F.relu(from_blank + from_word)).float()

    def pieces(self, stream: Sequence[int]) -> tuple[Sequence[Sequence[int]], Sequence[int] | None]:
        """Cut a stream of tokens as this model scores it: chunks, and how many leading tokens of each are given."""
        return cut(stream, self.config.max_length), None

    # --- Training and likelihood: given actions -------------------------------------------------------------------

    def log_probs(self, actions: PackedActions) -> Tensor:
        """log p(b, w, l, r | c) [A] of packed actions."""
        return self.read_out(self.encode(actions.canvas, actions.packing), actions)

    def read_out(self, z: Tensor, actions: PackedActions, *copied_from: Any) -> Tensor:
        """log p(b, w, l, r | c) [A] from encoded canvases z [T, d]; ``copied_from``: where else words may come from."""
        z_blank = z[actions.blanks]  # [K, d]
        canvas = actions.packing.sequence[actions.blanks]  # [K]
        log_p_blank = self.log_p_blank(z_blank, canvas, len(actions.packing))[actions.queried]  # [Q]
        z_queried = z_blank[actions.queried]  # [Q, d]
        log_p_word = self.log_p_words(z_queried, actions.row, actions.word, *copied_from)  # [A]
        sides = 2 * (actions.left > 0) + (actions.right > 0)  # [A]
        sides_logits = self.sides_logits(self.sides_from_blank(z_queried)[actions.row], actions.word)  # [A, 4]
        log_p_sides = sides_logits.log_softmax(1).gather(1, sides[:, None]).squeeze(1)  # [A]
        return log_p_blank[actions.row] + log_p_word + log_p_sides

    def log_p_words(self, z: Tensor, row: Tensor, word: Tensor) -> Tensor:
        """log p(w) [A] of each ``word`` [A] at the blank z[row]: one row of the vocabulary per blank z [Q, d].

        A large vocabulary is read in chunks, which the backward pass recomputes instead of storing.
        """
        if self.config.vocabulary <= WORDS_AT_ONCE:
            logits = self.word_logits(z)  # [Q, V]
            return logits[row, word] - logits.logsumexp(1)[row]
        parts = (part.split(WORDS_AT_ONCE) for part in (self.embedding.weight, self.word_bias + self.not_words))
        totals = [checkpoint(_log_sum, z, *part, use_reentrant=False) for part in zip(*parts, strict=True)]  # [Q] each
        chosen = (z[row] * self.embedding(word)).float().sum(1) + self.word_bias[word]  # [A]
        return chosen - torch.stack(totals).logsumexp(0)[row]

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """log p(b, w, l, r | c) [B, L] of the action that writes each (wanted) hidden position; 0 elsewhere."""
        actions = pack(tokens, conceal(tokens, lengths, shown), wanted, on_gpu=tokens.is_cuda)
        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        log_probs[actions.text, actions.position] = self.log_probs(actions)
        return log_probs

    def prepare(self, batch: Batch) -> Any:
        """Algorithm 1, lines 4-7: draw t and the shown positions of each text; make its canvas and target actions."""
        ranks, log_orders = self.orders(batch.tokens, batch.lengths, batch.seeds, given=batch.given)
        written = batch.lengths if batch.given is None else batch.lengths - batch.given  # [B]
        return self.conceal_and_pack(batch, batch.fractions, ranks, log_orders, written)[1]

    def conceal_and_pack(
        self, batch: Batch, fractions: Tensor, ranks: Tensor, log_orders: Tensor, written: Tensor
    ) -> tuple[Concealed, BLMTargets]:
        """Show the first t of the ``written`` [B] tokens by their ``ranks`` [B, L]; those below 0 are given."""
        shown = show_first(ranks, written, fractions)  # [B, L]
        concealed = conceal(batch.tokens, batch.lengths, shown)
        weights = self.next_weights(batch.tokens, concealed.hidden)  # [B, L]
        actions = pack(batch.tokens, concealed, weights > 0, batch.for_gpu)
        weight = weights[actions.text, actions.position]  # [A]
        return concealed, BLMTargets(actions, weight, written, concealed.hidden.sum(1), log_orders)

    def next_weights(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """[B, L] n - t times the probability that an order which has left ``hidden`` continues at each position."""
        return next_in_words(hidden, words_of(tokens, self.edges)) if self.config.whole_words else hidden.long()

    def orders(
        self, tokens: Tensor, lengths: Tensor, seeds: Tensor, *, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw an order of each text: the rank [B, L] of each position, and - log of the order's probability [B]."""
        return self.orders_in(None if given is None else after(given, tokens.shape[1]), tokens, lengths, seeds)

    def orders_in(self, region: Tensor | None, tokens: Tensor, lengths: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Draw an order of the positions of a ``region`` [B, L] of each text, or of all (None), as ``orders`` does."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]  # [B, L]
        written = inside if region is None else inside & region  # [B, L]
        log_orders = torch.lgamma(written.sum(1) + 1.0)  # [B]
        if self.config.whole_words:
            word = words_of(tokens, self.edges)  # [B, L]
            ranks = whole_word_ranks(seeds, lengths, word)
            in_word = torch.zeros_like(word).scatter_add_(1, word, written.long())  # [B, L] tokens of each word
            log_orders = log_orders - torch.lgamma(in_word + 1.0).sum(1)  # n! / (n_1! n_2! ...)
        else:
            ranks = uniform_ranks(seeds, lengths, tokens.shape[1])
        return ranks if region is None else restrict(ranks, written | ~inside), log_orders

    def loss(self, prepared: Any) -> Tensor:
        """Eq. 8 of each text [B]: - log n! - n / (n - t) * the sum of log p over its n - t possible next actions."""
        return self.loss_of(self.log_probs(prepared.actions), prepared)

    def loss_of(self, log_probs: Tensor, targets: BLMTargets) -> Tensor:
        """Eq. 8 of each text [B] from the log p [A] of the actions."""
        log_probs = log_probs * targets.weight  # [A]
        total = log_probs.new_zeros(len(targets.lengths)).index_add(0, targets.actions.text, log_probs)  # [B]
        return bound(total, targets.lengths, targets.hidden, targets.log_orders)

    # --- Decoding: all actions ------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score(self, canvases: Tensor, lengths: Tensor, longest: int) -> BLMScores:
        """Score all blanks of all canvases [B, L] in one pass."""
        packing = Packing.best_for(lengths, longest, on_gpu=lengths.is_cuda)
        blanks = packing.places(canvases == BLANK)  # [K]
        z_blank = self.encode(packing.lay(canvases), packing)[blanks]  # [K, d]
        return BLMScores(
            model=self,
            log_p_blank=self.log_p_blank(z_blank, packing.sequence[blanks], len(lengths)),
            log_p_word=self.word_logits(z_blank).log_softmax(1),
            from_blank=self.sides_from_blank(z_blank),
        )


@dataclass(frozen=True)
class BLMTargets:
    """What the loss of a batch needs: the actions on the canvases drawn for it."""

    actions: PackedActions
    weight: Tensor  # [A] how many of the n - t hidden tokens an action stands for: 1 for uniform orders
    lengths: Tensor  # [B] n, without context
    hidden: Tensor  # [B] n - t
    log_orders: Tensor  # [B] - log of the order's probability: log n! for uniform orders


@dataclass(frozen=True)
class BLMScores:
    """A ``policy.Scores``: the sides are computed only for the (blank, word) pairs that are asked for."""

    model: BLM
    log_p_blank: Tensor  # [K]
    log_p_word: Tensor  # [K, V]
    from_blank: Tensor  # [K, h] W_z z

    @torch.inference_mode()
    def log_p_sides(self, rows: Tensor, words: Tensor) -> Tensor:
        return self.model.sides_logits(self.from_blank[rows], words).log_softmax(1)  # [M, 4]


def _log_sum(z: Tensor, vectors: Tensor, bias: Tensor) -> Tensor:
    return (F.linear(z, vectors).float() + bias).logsumexp(1)  # [Q]
