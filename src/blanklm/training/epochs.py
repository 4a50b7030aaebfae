"""The batches of an epoch: by token budget, of similar lengths, the same for any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from blanklm.core.texts import Batch, TokenisedTexts
from blanklm.training.config import TrainingConfig
from blanklm.training.progress import Place

GOLDEN = (5**0.5 - 1) / 2  # multiples of it, modulo 1, are spread evenly over [0, 1)
POOL = 64  # batches whose texts are sorted together: similar lengths within a batch, still shuffled over the epoch


@dataclass(frozen=True)
class Draw:
    """The texts of a batch by index, with their fractions and seeds; decided for a whole epoch in advance."""

    indices: np.ndarray  # [B]
    fractions: np.ndarray  # [B]
    seeds: np.ndarray  # [B]

    def part(self, rank: int, processes: int) -> Draw:
        """Return the texts of one process out of several; the canvases of a text, side by side, stay together."""
        text = np.cumsum(np.diff(self.indices, prepend=self.indices[:1]) != 0)  # [B]
        mine = text % processes == rank
        return Draw(self.indices[mine], self.fractions[mine], self.seeds[mine])

    def part_or_first(self, rank: int, processes: int) -> tuple[Draw, float]:
        """Return the texts of one process and their weight in the batch's loss.

        Where there are fewer texts than processes, the others take the first with weight 0: every process must take
        part in the exchange of gradients.
        """
        part = self.part(rank, processes)
        return (part, 1.0) if len(part.indices) else (self.part(0, len(self.indices)), 0.0)

    def collate(self, texts: TokenisedTexts, for_gpu: bool = False) -> Batch:
        """Look up the texts and pad them."""
        tokens, lengths = texts.padded(self.indices)
        styles = None if texts.styles is None else torch.from_numpy(texts.styles[self.indices])
        fractions, seeds = torch.from_numpy(self.fractions), torch.from_numpy(self.seeds)
        given = torch.from_numpy(texts.sizes[self.indices] - texts.lengths[self.indices]) if texts.context else None
        return Batch(tokens, lengths, fractions, seeds, for_gpu, styles, given)


@dataclass(frozen=True)
class PlannedBatch:
    """A batch to come, its tokens over all processes, and where the run stands when it is done."""

    draw: Draw
    tokens: int
    epoch: int
    batch: int
    texts: TokenisedTexts | None = None  # where they are streamed: this process's own, and its tokens and place
    place: Place | None = None


def plan_epochs(
    texts: TokenisedTexts, config: TrainingConfig, step: int, epoch: int, batch: int
) -> Iterator[PlannedBatch]:
    """Plan the batches from a ``step`` to the last one; ``batch`` batches of this ``epoch`` are already used."""
    while step < config.steps:
        draws = training_epoch(texts, config.tokens_per_batch, config.seed, epoch, config.skew, config.canvases)
        for draw in draws[batch : batch + config.steps - step]:
            batch, step = batch + 1, step + 1
            tokens = int(texts.lengths[draw.indices].sum())
            yield PlannedBatch(draw, tokens, *((epoch + 1, 0) if batch == len(draws) else (epoch, batch)))
        epoch, batch = epoch + 1, 0


def training_epoch(
    texts: TokenisedTexts, tokens_per_batch: int, seed: int, epoch: int, skew: float = 1.0, canvases: int = 1
) -> list[Draw]:
    """Draw all batches of an epoch: every text once, shuffled, at most ``tokens_per_batch`` padded tokens in each.

    t is stratified over the shuffled texts: their fractions are successive multiples of the golden ratio plus an
    offset of the epoch. Each text's t stays uniform (the loss is unbiased) and depends on nothing else in its batch.
    Raised to the power ``skew``, they favour canvases that show more (below 1) or less (above 1). Each text may have
    several ``canvases``, side by side.
    """
    members = texts.of_epoch(seed, epoch)  # [N]
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(members)).repeat(canvases)
    count = np.arange(len(order))
    fractions = ((rng.random() + GOLDEN * count) % 1.0) ** skew  # in this order
    seeds = rng.integers(np.iinfo(np.int64).max) // 2 + (order * canvases + count % canvases)

    lengths = texts.sizes[members]
    if texts.context:  # not sorted: a batch of short texts, few words after much context, would weigh too much
        lengths = np.full_like(lengths, lengths.max(initial=0))
    average = max(1.0, lengths.sum() / max(1, len(lengths)))
    pool = max(1, round(POOL * tokens_per_batch / average))
    draws = []
    for start in range(0, len(order), pool):
        pooled = count[start : start + pool]
        pooled = pooled[np.argsort(lengths[order[pooled]], kind="stable")]
        for batch in split_by_budget(lengths[order[pooled]], tokens_per_batch):
            places = pooled[batch]
            draws.append(Draw(members[order[places]], fractions[places], seeds[places]))
    return [draws[i] for i in rng.permutation(len(draws))]


def validation_epoch(texts: TokenisedTexts, tokens_per_batch: int) -> list[Draw]:
    """Draw every text once, with a uniform t and an order that are the same at every evaluation of every run."""
    rng = np.random.default_rng(0)
    fractions, seeds = rng.random(len(texts)), rng.integers(np.iinfo(np.int64).max, size=len(texts))
    sizes = texts.sizes
    by_length = np.argsort(sizes, kind="stable")
    return [
        Draw(indices := by_length[batch], fractions[indices], seeds[indices])
        for batch in split_by_budget(sizes[by_length], tokens_per_batch)
    ]


def split_by_budget(lengths: np.ndarray, tokens_per_batch: int) -> list[slice]:
    """Cut sorted lengths into runs whose padded size is within the budget; a longer text is a run by itself."""
    runs, start = [], 0
    while start < len(lengths):
        most = max(1, tokens_per_batch // int(lengths[start]))
        longest = lengths[start : start + most]  # of the first 1, 2, ...
        padded = np.arange(1, len(longest) + 1) * longest
        end = start + max(1, int(np.searchsorted(padded, tokens_per_batch, side="right")))
        runs.append(slice(start, end))
        start = end
    return runs
