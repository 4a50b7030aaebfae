"""Where and when: p(place | text) and p(date | text) of an inscription, by n-grams of what is preserved.

The vectors of the n-grams of characters and words that a text has are summed; one softmax over places and one over
bins of years read the sum. A date is an editor's range of years: its target is spread uniformly over the range, as in
Ithaca (Assael et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from blanklm.core.special import SPECIAL_TOKENS
from blanklm.errors import BlankLMError
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings

SIZES = (2, 3, 4, 5)  # characters of an n-gram; spaces count
KINDS = (*SIZES, "word", "pair")  # a key holds its kind in its last three bits
KIND_BITS = 3
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class AttributionConfig(Settings):
    vocabulary: int
    space: int  # the token of the space between words
    ngrams: int  # that have a vector
    places: tuple[str, ...]
    bc: int  # the first bin begins so many years before year 0
    years: int  # of each bin
    bins: int
    width: int = 64
    dropout: float = 0.3
    max_length: int = 2**16

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.ngrams and self.places and self.years and self.bins):
            raise BlankLMError("a model of where and when needs n-grams, places and bins of at least one year")

    @property
    def first_year(self) -> int:
        """The first year of the first bin; negative: BC."""
        return -self.bc


@dataclass(frozen=True)
class Bags:
    """The known n-grams of texts, end to end, and where each text's begin."""

    entries: Tensor  # [N] rows of the embedding
    starts: Tensor  # [B]


@dataclass(frozen=True)
class Inscriptions:
    """Texts with what editors say of them."""

    tokens: Tensor  # [B, L] ids, PAD after each text's end; what is lost is a special token
    places: Tensor  # [B]; -1: not known
    years: Tensor  # [B, 2] first and last year; first > last: not known


@dataclass(frozen=True)
class Labelled:
    """What the loss needs of inscriptions."""

    bags: Bags
    places: Tensor  # [B]
    dates: Tensor  # [B, bins] target distributions; all 0: not known


@register("attribution", AttributionConfig)
class AttributionModel(Model):
    product = "restore --attribute"
    keys: Tensor

    def __init__(self, config: AttributionConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("keys", torch.zeros(config.ngrams, dtype=torch.int32))  # [V] of the n-grams, in order
        self.embedding = nn.Embedding(config.ngrams, config.width)
        self.shift = nn.Parameter(torch.zeros(config.width))
        self.place = nn.Linear(config.width, len(config.places))
        self.date = nn.Linear(config.width, config.bins)
        self.dropout = nn.Dropout(config.dropout)

    # --- The distributions --------------------------------------------------------------------------------------

    def logits(self, bags: Bags) -> tuple[Tensor, Tensor]:
        """Return the logits of places [B, P] and of bins of years [B, bins]."""
        starts = torch.cat((bags.starts, bags.starts.new_tensor([len(bags.entries)])))  # [B + 1]
        counts = starts.diff().clamp_min(1)[:, None]  # [B, 1]
        sums = F.embedding_bag(
            bags.entries, self.embedding.weight, bags.starts, mode="sum", sparse=self.training
        )  # [B, d]
        read = self.dropout(sums / counts.sqrt() + self.shift)  # [B, d]
        return self.place(read), self.date(read)

    def prepare(self, batch: Inscriptions) -> Labelled:  # type: ignore[override]  # these texts come with labels
        targets = [self.target(int(first), int(last)) for first, last in batch.years]
        return Labelled(self.bags(batch.tokens), batch.places, torch.stack(targets))

    def loss(self, prepared: Labelled) -> Tensor:
        """Return - log p(place) - sum of target * log p(bin) of each text [B], of what is known of it."""
        places, dates = self.logits(prepared.bags)
        of_places = F.cross_entropy(places, prepared.places, reduction="none", ignore_index=-1)  # [B]
        return of_places - (prepared.dates * dates.log_softmax(1)).sum(1)

    def target(self, first: int, last: int) -> Tensor:
        """Spread 1 uniformly over the years ``first`` to ``last``, as bins hold them [bins].

        Years outside all bins count for the first or the last one; of no years, all are 0.
        """
        edges = self.config.first_year + self.config.years * torch.arange(1, self.config.bins)  # [bins - 1]
        below = (edges - first).clamp(0, max(0, last + 1 - first))  # [bins - 1] years before each edge
        ends = torch.tensor([0]), torch.tensor([max(0, last + 1 - first)])
        years = torch.cat((ends[0], below, ends[1])).diff().float()  # [bins]
        return years / years.sum().clamp_min(1)

    # --- The n-grams --------------------------------------------------------------------------------------------

    def bags(self, tokens: Tensor) -> Bags:
        """Return the known n-grams of texts [B, L], each once per text."""
        owners, found = ngrams(tokens.cpu().numpy(), self.config.space)
        keys = self.keys.cpu().numpy()
        entries = np.searchsorted(keys, found).clip(max=len(keys) - 1)  # [N]
        known = keys[entries] == found  # [N]
        starts = np.searchsorted(owners[known], np.arange(len(tokens)))  # [B]
        return Bags(torch.from_numpy(entries[known]).to(self.device), torch.from_numpy(starts).to(self.device))


def ngrams(tokens: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the n-grams of texts [B, L], each once per text: the text [N] and the key (int32) [N], in order.

    An n-gram is 2 to 5 characters, a whole word or two whole words side by side; none crosses anything that is lost,
    which are the special tokens. A word is whole if there is a space on either side.
    """
    flat = np.pad(tokens, ((0, 0), (1, 1))).ravel()  # [T] PAD between texts
    owners = np.repeat(np.arange(len(tokens)), tokens.shape[1] + 2)  # [T]
    preserved = flat >= len(SPECIAL_TOKENS)  # [T]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    hashes, whole = np.zeros(len(flat), dtype=np.uint64), np.ones(len(flat), dtype=bool)  # [T] of what begins there
    for size in range(1, max(SIZES) + 1):
        kept = max(0, len(flat) - size + 1)
        hashes[:kept] = _mixed(hashes[:kept], flat[size - 1 :])
        whole[:kept] &= preserved[size - 1 :]
        whole[kept:] = False
        if size in SIZES:
            found.append((owners[whole], _keys(hashes[whole], SIZES.index(size))))
    found += _words(flat, owners, preserved, space)
    both = np.concatenate([owner.astype(np.int64) << 32 | key.view(np.uint32) for owner, key in found])  # [N]
    both = np.unique(both)
    owner, key = both >> 32, (both & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    order = np.lexsort((key, owner))  # keys are signed
    return owner[order], key[order]


def _words(
    flat: np.ndarray, owners: np.ndarray, preserved: np.ndarray, space: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the whole words, and the pairs of them that stand side by side."""
    letters = preserved & (flat != space)  # [T]
    edges = np.diff(np.concatenate(([False], letters, [False])).astype(np.int8))  # [T + 1]
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)  # [W]; no text ends without PAD
    hashes = np.zeros(len(starts), dtype=np.uint64)  # [W]
    for place in range(int((ends - starts).max(initial=0))):
        longer = ends - starts > place
        hashes[longer] = _mixed(hashes[longer], flat[starts[longer] + place])
    whole = (flat[starts - 1] == space) & (flat[ends] == space)  # [W]
    adjacent = np.flatnonzero(whole[:-1] & whole[1:] & (ends[:-1] + 1 == starts[1:]))
    pairs = _mixed(hashes[adjacent], hashes[adjacent + 1])
    return [
        (owners[starts[whole]], _keys(hashes[whole], KINDS.index("word"))),
        (owners[starts[adjacent]], _keys(pairs, KINDS.index("pair"))),
    ]


def _mixed(hashes: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Return the hashes of what is hashed, each with one thing more."""
    mixed = hashes * _MULTIPLIER + following.astype(np.uint64) + np.uint64(1)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(29))


def _keys(hashes: np.ndarray, kind: int) -> np.ndarray:
    """Return 32 bits of hashes, the last three of which are the kind."""
    top = (hashes >> np.uint64(32)) & np.uint64(2**32 - 2**KIND_BITS)
    return (top | np.uint64(kind)).astype(np.uint32).view(np.int32)


def kinds_of(keys: np.ndarray) -> np.ndarray:
    """Return the kinds of keys, as places in ``KINDS``."""
    return keys & (2**KIND_BITS - 1)
