"""What the baselines have in common: a Transformer that predicts tokens at the places queried.

Same encoder, same tied embedding; they differ in what they read and where they are queried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, PAD
from blanklm.models.backbone import BackboneConfig
from blanklm.models.encoder import EncoderConfig, drop_words, initialise
from blanklm.models.model import Model
from blanklm.models.settings import Settings


@dataclass(frozen=True)
class PredictorConfig(Settings):
    vocabulary: int
    encoder: EncoderConfig | BackboneConfig
    max_length: int = 512  # longest text, in tokens


@dataclass(frozen=True)
class Queries:
    """Packed sequences, and the tokens to predict. T counts the symbols, A the queries."""

    tokens: Tensor  # [T] token ids
    packing: Packing
    at: Tensor  # [A] the symbol whose vector predicts
    word: Tensor  # [A] the token it should predict
    text: Tensor  # [A] the text that token belongs to


class WordModel(Model):
    """p(w | what is read) = softmax(W z), W being the embedding; padding and blanks are not words."""

    config: PredictorConfig
    not_words: Tensor  # [V] 0, or -inf for what is never predicted

    def __init__(self, config: PredictorConfig, causal: bool) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.encoder.width)
        self.encoder = config.encoder.build(causal)
        self.word_bias = nn.Parameter(torch.zeros(config.vocabulary))
        not_words = torch.zeros(config.vocabulary)
        not_words[[PAD, BLANK]] = float("-inf")
        self.register_buffer("not_words", not_words, persistent=False)
        self.apply(initialise)

    def word_logits(self, z: Tensor) -> Tensor:
        """[A, V] for vectors z [A, d]."""
        return F.linear(z, self.embedding.weight, self.word_bias + self.not_words).float()

    def encode(self, tokens: Tensor, packing: Packing) -> Tensor:
        """Packed sequences [T] -> z [T, d]."""
        return self.encoder(drop_words(self.embedding, tokens, self.config.encoder.word_dropout), packing)


class Predictor(WordModel):
    """A model of tokens that are queried one by one."""

    def log_probs(self, queries: Queries) -> Tensor:
        """log p of each queried token [A]."""
        return self.read_out(self.encode(queries.tokens, queries.packing), queries)

    def read_out(self, z: Tensor, queries: Queries) -> Tensor:
        """log p of each queried token [A], from the encoded sequences z [T, d]."""
        return -F.cross_entropy(self.word_logits(z[queries.at]), queries.word, reduction="none")

    def loss(self, queries: Queries) -> Tensor:
        """- log p of all queried tokens of each text [B]."""
        log_probs = self.log_probs(queries)  # [A]
        return -log_probs.new_zeros(len(queries.packing)).index_add(0, queries.text, log_probs)


@dataclass(frozen=True)
class CanvasIds:
    """A canvas as a model reads it."""

    ids: Sequence[int]  # with BLANK where a span is missing
    spaces: Sequence[bool]  # for each blank, whether the first token of its span carries the space before it
    lengths: Sequence[int] | None = None  # for each blank, its number of tokens, where that is told


@dataclass(frozen=True)
class WrittenSpans:
    spans: list[list[int]]  # the tokens of each blank; a model may write too few or too many spans
    log_prob: float
    whole: list[int] | None = None  # the whole text, from a model that writes all of it: its spans are then unknown


# What may not be written, as rows of a [3, V] tensor of 0 and -inf: as the first token of a span that follows no
# space, as the first token of one that carries the space before it, and as a later token.
FIRST, FIRST_WITH_SPACE, LATER = range(3)


def continuation(sequence: Tensor, lengths: Tensor, known: Tensor, on_gpu: bool = False) -> Queries:
    """Query the symbols of each ``sequence`` [B, S] from place ``known`` [B] on, each from the symbols before it."""
    place = torch.arange(sequence.shape[1] - 1, device=sequence.device)  # [S - 1]
    predicts = (place < lengths[:, None] - 1) & (place >= known[:, None] - 1)  # [B, S - 1] all but the last symbol
    return query(sequence[:, :-1], lengths - 1, predicts, sequence[:, 1:], on_gpu)


def query(sequence: Tensor, lengths: Tensor, where: Tensor, words: Tensor, on_gpu: bool = False) -> Queries:
    """Query the ``words`` [B, S] at the places ``where`` [B, S] of each ``sequence`` [B, S] of ``lengths`` [B]."""
    packing = Packing.best_for(lengths, int(lengths.max()), on_gpu)
    at = packing.places(where)  # [A]
    return Queries(packing.lay(sequence), packing, at, words[where], packing.sequence[at])


def ban_rows(first: Tensor, spaces: Tensor) -> Tensor:
    """[K] the row of bans of a token: is it the ``first`` of its span, and does the span carry a space?"""
    return torch.where(first, torch.where(spaces, FIRST_WITH_SPACE, FIRST), LATER)


def best_of_each(score: Tensor, text: Tensor, texts: int) -> Tensor:
    """The index [texts with any] of the highest ``score`` [K] of each text, the first of equals."""
    highest = score.new_full((texts,), -torch.inf).scatter_reduce(0, text, score, "amax")  # [B]
    index = torch.arange(len(score), device=score.device)
    is_highest = torch.where(score == highest[text], index, len(score))  # [K]
    first = index.new_full((texts,), len(score)).scatter_reduce(0, text, is_highest, "amin")  # [B]
    return first[first < len(score)]
