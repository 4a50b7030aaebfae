"""Training masks of the infilling protocol (paper/tasks/masking.py), drawn for a batch at once on its device."""

from __future__ import annotations

import torch
from torch import Tensor

from blanklm.core.orders import uniform_ranks
from blanklm.core.texts import Batch

LEAST, MOST = 0.05, 0.60  # the share of a text's words that is hidden, uniform between these


def words_between_spaces(tokens: Tensor, starts_word: Tensor) -> Tensor:
    """The number [B, L] of the word each position belongs to; ``starts_word`` [V] is ``Tokenizer.starts_word``."""
    starts = starts_word[tokens]  # [B, L]
    starts[:, 0] = True
    return starts.cumsum(1) - 1


def hide_words(word: Tensor, lengths: Tensor, ratios: Tensor, seeds: Tensor) -> Tensor:
    """[B, L] whether a position is hidden: ceil(ratio * n) of a text's n words are, chosen by its seed alone."""
    width = word.shape[1]
    words = word.gather(1, (lengths - 1).clamp_min(0)[:, None]).squeeze(1) + 1  # [B] n
    hidden_words = uniform_ranks(seeds, words, width) < (ratios * words).ceil()[:, None]  # [B, L] by word number
    return hidden_words.gather(1, word) & (torch.arange(width, device=word.device) < lengths[:, None])


def draw_hidden(batch: Batch, starts_word: Tensor) -> Tensor:
    """[B, L] the positions hidden in each text of a batch; its fraction decides the share, its seed the words."""
    word = words_between_spaces(batch.tokens, starts_word)
    return hide_words(word, batch.lengths, LEAST + (MOST - LEAST) * batch.fractions, batch.seeds)
