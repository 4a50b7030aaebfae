"""A corpus larger than memory: shards are read, tokenised and shuffled while the model trains.

The order of the shards is drawn anew each epoch, and every process reads its own share of them. Texts are shuffled
within blocks of some dozen batches, which is all that is ever in memory. Where a process stands is four numbers (a
``Place``), from which the same batches come again: nothing read before that place is tokenised again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from blanklm.core.texts import TokenisedTexts
from blanklm.data.readers import read_texts
from blanklm.errors import TrainingError
from blanklm.training.epochs import POOL, Draw, PlannedBatch, training_epoch
from blanklm.training.progress import Place

TEXTS_AT_ONCE = 1000  # read and tokenised together
Item = TypeVar("Item")


class StreamedTexts:
    """Texts in ``files``; ``encode`` makes ids of a list of them, ``read`` gives the texts of a file one by one."""

    context = 0  # streamed texts have none

    def __init__(
        self,
        files: Sequence[Path],
        encode: Callable[[list[str]], Iterable[Sequence[int]]],
        max_length: int | None = None,
        read: Callable[[Path], Iterable[str]] = read_texts,
    ) -> None:
        self.files, self.encode, self.max_length, self.read = list(files), encode, max_length, read

    def __len__(self) -> int:
        """The number of files; how many texts there are is not known."""
        return len(self.files)

    @property
    def fingerprint(self) -> str:
        """A hash of the names and sizes of the files: reading them all would take too long."""
        about = [(path.name, path.stat().st_size if path.exists() else None) for path in self.files]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def batches(
        self,
        tokens_per_batch: int,
        seed: int,
        place: Place | None = None,
        rank: int = 0,
        processes: int = 1,
        skew: float = 1.0,
    ) -> Iterator[PlannedBatch]:
        """Draw the batches of one process from ``place`` on, endlessly; all processes share ``tokens_per_batch``."""
        if len(self.files) < processes:
            raise TrainingError(
                f"{processes} processes need at least as many files of texts, not {len(self.files)}: split them"
            )
        place, budget = place or Place(), max(1, tokens_per_batch // processes)
        done = place.batch
        for begin, block, end in _one_ahead(self._blocks(POOL * budget, seed, place, rank, processes)):
            block_seed = np.random.SeedSequence([seed, rank, begin.shard, begin.text]).generate_state(1)[0]
            draws = training_epoch(block, budget, int(block_seed), begin.epoch, skew)
            for number, draw in enumerate(draws[done:], done + 1):
                after = end if number == len(draws) else Place(begin.epoch, begin.shard, begin.text, number)
                texts = TokenisedTexts.from_ids([block[i] for i in draw.indices])
                renumbered = Draw(np.arange(len(texts)), draw.fractions, draw.seeds)
                yield PlannedBatch(renumbered, texts.tokens, begin.epoch, after.batch, texts, after)
            done = 0

    def _blocks(
        self, budget: int, seed: int, place: Place, rank: int, processes: int
    ) -> Iterator[tuple[Place, TokenisedTexts, Place]]:
        """Read at least ``budget`` tokens, or the rest of an epoch, with the places where they start and end."""
        begin, shard, text = Place(place.epoch, place.shard, place.text), place.shard, place.text
        while True:
            epoch, found_any = begin.epoch, False
            order = np.random.default_rng([seed, epoch]).permutation(len(self.files))[rank::processes]
            ids: list[Sequence[int]] = []
            tokens = 0
            while shard < len(order):
                texts = islice(self.read(self.files[order[shard]]), text, None)
                while group := list(islice(texts, TEXTS_AT_ONCE)):
                    encoded = list(self.encode(group))
                    ids += encoded
                    tokens, text = tokens + sum(map(len, encoded)), text + len(group)
                    if tokens >= budget:
                        yield begin, TokenisedTexts.from_ids(ids, self.max_length), (begin := Place(epoch, shard, text))
                        ids, tokens, found_any = [], 0, True
                shard, text = shard + 1, 0
            after = Place(epoch + 1)
            if tokens:
                yield begin, TokenisedTexts.from_ids(ids, self.max_length), after
            elif not found_any and begin.shard == begin.text == 0:
                raise TrainingError("there is no text to train on in the files of this process")
            begin, shard, text = after, 0, 0


def sample_texts(
    files: Sequence[Path], characters: int = 50_000_000, read: Callable[[Path], Iterable[str]] = read_texts
) -> Iterator[str]:
    """Read the first texts of each file, about so many ``characters`` in all: enough to learn a vocabulary from."""
    for path in files:
        left = characters // len(files)
        for text in read(path):
            yield text
            left -= len(text)
            if left <= 0:
                break


def _one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the same items; a thread makes the next one while the current one is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
