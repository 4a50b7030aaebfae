"""The Blank Language Model: p(b, w, l, r | c) in three parts (Section 3), trained on the bound of eq:loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.batching import Batch, pad
from blanklm.conceal import bound, conceal, draw_shown
from blanklm.models.encoder import Encoder, EncoderConfig
from blanklm.special import BLANK, PAD


@dataclass(frozen=True)
class BLMConfig:
    vocabulary: int
    encoder: EncoderConfig
    sides_hidden: int = 1024  # hidden layer of the MLP that predicts (l, r)
    max_length: int = 512  # longest text, in tokens


class BLM(nn.Module):
    def __init__(self, config: BLMConfig) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.width
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.encoder = Encoder(config.encoder)
        self.choose = nn.Linear(width, 1, bias=False)  # u
        self.word_bias = nn.Parameter(torch.zeros(config.vocabulary))  # W is the embedding (tied)
        # The MLP's first layer on [z; v_w], split: W [z; v] = W_z z + W_v v, so that each part is computed
        # once per blank and once per word instead of once per pair.
        self.sides_from_blank = nn.Linear(width, config.sides_hidden)
        self.sides_from_word = nn.Linear(width, config.sides_hidden, bias=False)
        self.sides_out = nn.Linear(config.sides_hidden, 4)
        self.apply(_initialise)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def encode(self, canvas: Tensor, lengths: Tensor) -> Tensor:
        """Canvas [B, C] -> z [B, C, d]."""
        return self.encoder(self.embedding(canvas), lengths)

    def word_logits(self, z: Tensor) -> Tensor:
        """W z [K, V] for blanks z [K, d]; padding and blanks are not words."""
        logits = F.linear(z, self.embedding.weight, self.word_bias).float()
        logits[:, [PAD, BLANK]] = float("-inf")
        return logits

    def sides_logits(self, from_blank: Tensor, words: Tensor) -> Tensor:
        """MLP(z, v_w) [M, 4], with W_z z [M, h] given; classes in the order of policy.SIDES."""
        from_word = self.sides_from_word(self.embedding(words))  # [M, h]
        return self.sides_out(F.relu(from_blank + from_word)).float()

    def action_log_probs(self, tokens: Tensor, lengths: Tensor, shown: Tensor, wanted: Tensor | None = None) -> Tensor:
        """log p(b, w, l, r | c) [B, L] of the action that writes each (wanted) hidden position; 0 elsewhere."""
        concealed = conceal(tokens, lengths, shown)
        longest = int(concealed.lengths.max())
        canvas = concealed.canvas[:, :longest]  # [B, C]
        z = self.encode(canvas, concealed.lengths)  # [B, C, d]
        is_blank = canvas == BLANK  # [B, C]
        wanted = concealed.hidden if wanted is None else concealed.hidden & wanted
        text, position = wanted.nonzero(as_tuple=True)  # [A] each: the actions to score
        place = concealed.place[text, position]  # [A] the blank each one fills

        # Choose a blank: softmax of u^T z over the blanks of each canvas.
        blank_logits = self.choose(z).squeeze(-1).float().masked_fill(~is_blank, float("-inf"))  # [B, C]
        log_p_blank = blank_logits[text, place] - blank_logits.logsumexp(1)[text]  # [A]

        # Predict a word: one vocabulary row per blank that is asked for, shared by all its words.
        asked = torch.zeros_like(is_blank)
        asked[text, place] = True
        row = (asked.flatten().cumsum(0) - 1).view_as(asked)[text, place]  # [A]
        z_blank = z[asked]  # [K, d]
        logits = self.word_logits(z_blank)  # [K, V]
        word = tokens[text, position]  # [A]
        log_p_word = logits[row, word] - logits.logsumexp(1)[row]  # [A]

        # Decide on the blanks to its left and right.
        sides = 2 * (concealed.left[text, position] > 0) + (concealed.right[text, position] > 0)  # [A]
        sides_logits = self.sides_logits(self.sides_from_blank(z_blank)[row], word)  # [A, 4]
        log_p_sides = sides_logits.log_softmax(1).gather(1, sides[:, None]).squeeze(1)  # [A]

        log_probs = torch.zeros(tokens.shape, device=tokens.device)  # [B, L]
        log_probs[text, position] = log_p_blank + log_p_word + log_p_sides
        return log_probs

    def loss(self, batch: Batch) -> Tensor:
        """eq:loss of each text [B]: - log n! - n / (n - t) * the sum of log p over the n - t possible next actions."""
        shown = draw_shown(batch.lengths, batch.fractions, batch.seeds, batch.tokens.shape[1])
        return bound(self.action_log_probs(batch.tokens, batch.lengths, shown), batch.lengths, shown)

    forward = loss  # what a distributed wrapper calls

    @torch.inference_mode()
    def score(self, canvases: Sequence[Sequence[int]]) -> BLMScores:
        """All blanks of all canvases in one pass."""
        canvas, lengths = (part.to(self.device) for part in pad(canvases))  # [B, C], [B]
        z = self.encode(canvas, lengths)  # [B, C, d]
        is_blank = canvas == BLANK  # [B, C]
        blank_logits = self.choose(z).squeeze(-1).float().masked_fill(~is_blank, float("-inf"))
        z_blank = z[is_blank]  # [K, d]
        return BLMScores(
            model=self,
            log_p_blank=blank_logits.log_softmax(1)[is_blank],
            log_p_word=self.word_logits(z_blank).log_softmax(1),
            from_blank=self.sides_from_blank(z_blank),
        )


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


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
