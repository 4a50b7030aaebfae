"""The length-aware Blank Language Model (Section 4.2): a blank carries its length, and an action is (b, w, l).

An action on ``___[k]`` writes a token w with l open positions to its left and r = k - 1 - l to its right, so a blank is
always filled with exactly k tokens. p(b, w, l | c) = p(b | c) p(w | c, b) p(l | c, b, w), trained on the bound of Eq. 8
like the BLM. The likelihood is conditional on the length of the text.

Lengths up to 1,000 are encoded by sinusoidal features (``number_features``) instead of a learned embedding, so that
lengths not seen in training are still distinct and meaningful.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.conceal import Concealed, conceal
from blanklm.core.orders import UniformOrders, bound, show_first
from blanklm.core.packing import PackedActions, grouped_log_softmax, pack
from blanklm.core.special import SPECIAL_TOKENS
from blanklm.core.texts import Batch
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig, initialise
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings

FEATURES = 64  # dimensions of the encoding of a number
NEVER_RESTORED = ("-", "#")  # in the corpora: one lost letter, a loss of unknown extent
LENGTH_BUCKETS = ((0, 16), (16, 128), (128, 1000))  # (above, up to): blanks whose positions are scored together


@dataclass(frozen=True)
class LBLMConfig(Settings):
    vocabulary: int
    encoder: EncoderConfig
    left_hidden: int = 256  # hidden layer of the MLP that predicts l
    max_length: int = 1000  # longest text, in tokens
    longest_blank: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1:
            raise BlankLMError(f"`max_length` must be at least 1, not {self.max_length}")
        if not 1 <= self.longest_blank <= LENGTH_BUCKETS[-1][1]:
            raise BlankLMError(f"`longest_blank` must be 1 to {LENGTH_BUCKETS[-1][1]:,}, not {self.longest_blank}")


class CharacterModel(UniformOrders, Model):
    """What restoration needs of a model of characters, whatever its blanks look like."""

    product = "restore"
    predicts_lengths: ClassVar[bool] = False  # whether a gap may have an unknown length
    embedding: nn.Embedding
    word_bias: nn.Parameter  # [V]
    numbers: Tensor  # [N + 1, F] features of the lengths 0 ... N
    writable: Tensor  # [V] which tokens are ever written: marks such as "-" stand in texts but restore nothing

    def _register_buffers(self, vocabulary: int, longest_blank: int) -> None:
        self.register_buffer("numbers", number_features(longest_blank), persistent=False)
        self.register_buffer("writable", default_writable(vocabulary))

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Learn from a character tokenizer which characters are never restored."""
        self.writable.copy_(writable_characters(tokenizer))

    def log_p_words(self, z: Tensor) -> Tensor:
        """Return log p(w | c, b) [K, V] for blanks, or for positions, z [K, d]; W is the embedding."""
        logits = F.linear(z, self.embedding.weight, self.word_bias).float()
        return logits.masked_fill(~self.writable, -torch.inf).log_softmax(1)

    def score_positions(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> LBLMScores:
        """Score every ``hidden`` [B, L] position of ``tokens`` [B, L], all lengths being known."""
        raise NotImplementedError


@register("lblm", LBLMConfig)
class LBLM(CharacterModel):
    def __init__(self, config: LBLMConfig) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.width
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.encoder = config.encoder.build()
        self.length_in = nn.Linear(FEATURES, width, bias=False)
        self.choose = nn.Linear(width, 1, bias=False)  # u
        self.word_bias = nn.Parameter(torch.zeros(config.vocabulary))  # W is the embedding (tied)
        self.left_from_blank = nn.Linear(width, config.left_hidden)
        self.left_from_word = nn.Linear(width, config.left_hidden, bias=False)
        self.left_out = nn.Linear(config.left_hidden, 2 * FEATURES)  # distance from the left end, from the right end
        self._register_buffers(config.vocabulary, config.longest_blank)
        self.apply(initialise)

    # --- The three parts of p(b, w, l | c) ----------------------------------------------------------------------

    def encode(self, actions: PackedActions, hides: Tensor) -> Tensor:
        """Return z [K, d] of the blanks, which hide ``hides`` [K] tokens each."""
        of_length = self.length_in(self.numbers[hides])  # [K, d]
        vectors = self.embedding(actions.canvas)  # [T, d]
        vectors = vectors.index_add(0, actions.blanks, of_length.to(vectors.dtype))
        return self.encoder(vectors, actions.packing)[actions.blanks]

    def left_queries(self, z: Tensor, words: Tensor) -> Tensor:
        """Return MLP(z, v_w) [M, 2 F] for M pairs of a blank z [M, d] and one of the ``words`` [M]."""
        inner = self.left_from_blank(z) + self.left_from_word(self.embedding(words))  # [M, h]
        return self.left_out(F.relu(inner)).float()

    def left_logits(self, queries: Tensor, hides: Tensor, longest: int) -> Tensor:
        """Return logits [M, longest] of l = 0, 1, ...; -inf for positions outside a blank of ``hides`` [M] tokens.

        logit(l) = q . [f(l); f(k - 1 - l)], where f are the features of a number.
        """
        left = torch.arange(longest, device=hides.device)  # [longest]
        right = hides[:, None] - 1 - left  # [M, longest]
        from_left, from_right = queries.chunk(2, dim=1)  # [M, F] each
        with torch.autocast(queries.device.type, enabled=False):  # bfloat16 cannot tell neighbouring numbers apart
            features = self.numbers[:longest].T  # [F, longest]
            logits = from_left @ features + (from_right @ features).gather(1, right.clamp_min(0))  # [M, longest]
        return logits.masked_fill(right < 0, -torch.inf)

    # --- Training and likelihood: given actions -----------------------------------------------------------------

    @torch.compiler.disable  # its shapes depend on the lengths of the blanks
    def read_out(self, z: Tensor, actions: PackedActions, hides: Tensor) -> Tensor:
        """Return log p(b, w, l | c) [A] of packed actions on blanks z [K, d] that hide ``hides`` [K] tokens each."""
        canvas = actions.packing.sequence[actions.blanks]  # [K]
        log_p_blank = grouped_log_softmax(self.choose(z).squeeze(-1).float(), canvas, len(actions.packing))  # [K]
        blank = actions.queried[actions.row]  # [A]
        log_p_word = self.log_p_words(z[actions.queried])[actions.row, actions.word]  # [A]
        queries = self.left_queries(z[blank], actions.word)  # [A, 2 F]
        log_p_left = torch.empty_like(log_p_word)  # [A]
        # Few blanks are long: score the positions of short and long ones separately, so that no row is mostly padding.
        length = hides[blank]  # [A]
        for above, longest in LENGTH_BUCKETS:
            bucket = ((length > above) & (length <= longest)).nonzero().squeeze(1)  # [M]
            if len(bucket):
                logits = self.left_logits(queries[bucket], length[bucket], min(longest, self.config.longest_blank))
                log_p = logits.log_softmax(1).gather(1, actions.left[bucket][:, None]).squeeze(1)  # [M]
                log_p_left = log_p_left.index_copy(0, bucket, log_p)
        return log_p_blank[blank] + log_p_word + log_p_left

    def action_log_probs(
        self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """Return log p(b, w, l | c) [B, L] of the action that writes each (wanted) hidden position; 0 elsewhere."""
        concealed = conceal(tokens, lengths, shown)
        actions = pack(tokens, concealed, wanted, on_gpu=tokens.is_cuda)
        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        hides = lengths_of_blanks(concealed)  # [K]
        log_probs[actions.text, actions.position] = self.read_out(self.encode(actions, hides), actions, hides)
        return log_probs

    def prepare(self, batch: Batch) -> LBLMTargets:
        """Sample t and the shown positions of each text (Algorithm 1); marks that are never written are shown."""
        ranks, _ = self.orders(batch.tokens, batch.lengths, batch.seeds)  # [B, L]
        hideable = self.writable[batch.tokens]  # [B, L]
        ranks = ranks.masked_fill(~hideable, ranks.shape[1]).argsort(1).argsort(1)  # among the hideable positions
        hideable_count = hideable.sum(1)  # [B] n
        shown = show_first(ranks, hideable_count, batch.fractions) | ~hideable  # [B, L]
        concealed = conceal(batch.tokens, batch.lengths, shown)
        actions = pack(batch.tokens, concealed, on_gpu=batch.for_gpu)
        return LBLMTargets(actions, lengths_of_blanks(concealed), hideable_count, concealed.hidden.sum(1))

    def loss(self, targets: LBLMTargets) -> Tensor:
        """Return Eq. 8 of each text [B]: - log n! - n / (n - t) * the sum of log p of its n - t possible actions."""
        z = self.encode(targets.actions, targets.hides)  # [K, d]
        log_probs = self.read_out(z, targets.actions, targets.hides)  # [A]
        total = log_probs.new_zeros(len(targets.lengths)).index_add(0, targets.actions.text, log_probs)  # [B]
        return bound(total, targets.lengths, targets.hidden, torch.lgamma(targets.lengths + 1.0))

    # --- Decoding: all positions at once ------------------------------------------------------------------------

    @torch.inference_mode()
    def score_positions(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> LBLMScores:
        """Score every hidden position: p(b, l | c) and p(w | c, b, l), both from the joint p(b, w, l | c)."""
        concealed = conceal(tokens, lengths, ~hidden)
        actions = pack(tokens, concealed, on_gpu=tokens.is_cuda)
        hides = lengths_of_blanks(concealed)  # [K]
        z = self.encode(actions, hides)  # [K, d]
        canvas = actions.packing.sequence[actions.blanks]  # [K]
        log_p_blank = grouped_log_softmax(self.choose(z).squeeze(-1).float(), canvas, len(lengths))  # [K]
        log_p_word = self.log_p_words(z)  # [K, V]
        words = self.writable.nonzero().squeeze(1)  # [W]
        joint = log_p_word.new_full((len(actions.row), len(self.writable)), -torch.inf)  # [A, V]
        blank = actions.queried[actions.row]  # [A]
        for word in words.tolist():
            words_of_blanks = torch.full_like(hides, word)  # [K]
            logits = self.left_logits(self.left_queries(z, words_of_blanks), hides, int(hides.max()))  # [K, longest]
            joint[:, word] = log_p_word[blank, word] + logits.log_softmax(1)[blank, actions.left]
        log_p_left = joint.logsumexp(1)  # [A] p(l | c, b)
        log_p_place = log_p_blank[blank] + log_p_left  # [A]
        return LBLMScores(actions.text, actions.position, log_p_place, joint - log_p_left[:, None])


@dataclass(frozen=True)
class LBLMScores:
    """Scores of the P hidden positions of a batch."""

    text: Tensor  # [P]
    position: Tensor  # [P]
    log_p_place: Tensor  # [P] log p(b, l | c): this position is written next
    log_p_word: Tensor  # [P, V] log p(w | c, b, l)


@dataclass(frozen=True)
class LBLMTargets:
    """What the loss of a batch needs: the actions on the canvases sampled for it."""

    actions: PackedActions
    hides: Tensor  # [K] how many tokens each blank hides
    lengths: Tensor  # [B] n, the tokens that may be hidden
    hidden: Tensor  # [B] n - t


def lengths_of_blanks(concealed: Concealed) -> Tensor:
    """Return the number of hidden positions of each blank [K], canvas by canvas, where blanks are not spread."""
    return concealed.right[concealed.hidden & concealed.emits] + 1


def number_features(greatest: int) -> Tensor:
    """Return sines and cosines [greatest + 1, F] of 0 ... greatest, from wavelength 4 up: no two rows are equal."""
    wavelength = 4 * (2.0 * greatest) ** (torch.arange(FEATURES // 2) / (FEATURES // 2 - 1))  # [F / 2]
    angle = 2 * torch.pi * torch.arange(greatest + 1)[:, None] / wavelength  # [greatest + 1, F / 2]
    return torch.cat((angle.sin(), angle.cos()), dim=1)


def default_writable(vocabulary: int) -> Tensor:
    """Return a mask [V] of every token but the special ones."""
    writable = torch.ones(vocabulary, dtype=torch.bool)
    writable[: len(SPECIAL_TOKENS)] = False
    return writable


def writable_characters(tokenizer: Tokenizer) -> Tensor:
    """Return a mask [V] of every character but the special tokens and the marks of a loss."""
    is_mark = torch.tensor([tokenizer.token(i) in NEVER_RESTORED for i in range(len(tokenizer))])  # [V]
    return default_writable(len(tokenizer)) & ~is_mark
