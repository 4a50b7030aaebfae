"""Corpora larger than memory: every text once an epoch, each process its own, the same again from any place."""

import gzip
import json
import resource
from collections import Counter
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest

from blanklm.errors import TrainingError
from blanklm.training.progress import Place
from blanklm.training.streamed import StreamedTexts, sample_texts


def numbers(texts):
    """A tokenizer for texts that are numbers: the text "37 2" is the tokens 37, 37."""
    return [[int(text.split()[0])] * int(text.split()[1]) for text in texts]


@pytest.fixture
def corpus(tmp_path):
    """400 texts of 1 to 9 tokens, each with a token of its own, in 7 shards of unequal length, some compressed."""
    rng, files, first = np.random.default_rng(0), [], 10
    for shard, size in enumerate((10, 100, 3, 150, 57, 0, 80)):
        lines = [f"{i} {rng.integers(1, 10)}" for i in range(first, first + size)]
        if shard % 3 == 0:
            path, raw = (
                tmp_path / f"{shard}.jsonl",
                "".join(json.dumps({"text": line}) + "\n" for line in lines).encode(),
            )
        else:
            path, raw = tmp_path / f"{shard}.txt.gz", gzip.compress("".join(f"{line}\n" for line in lines).encode())
        path.write_bytes(raw)
        files.append(path)
        first += size
    return StreamedTexts(files, numbers)


def record(batch):
    return [list(map(int, text)) for text in batch.texts], batch.draw.fractions.tolist(), batch.draw.seeds.tolist()


def first_epoch(texts, rank=0, processes=1):
    return takewhile(lambda batch: batch.epoch == 0, texts.batches(30, 1, None, rank, processes))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_an_epoch_has_every_text_once_over_all_processes(corpus, processes):
    seen = Counter()
    for rank in range(processes):
        for batch in first_epoch(corpus, rank, processes):
            longest = max(batch.texts.lengths)
            assert len(batch.texts) == 1 or longest * len(batch.texts) <= 30 // processes
            seen.update(int(text[0]) for text in batch.texts)
    assert sorted(seen) == list(range(10, 410)) and set(seen.values()) == {1}


def test_texts_are_shuffled_anew_each_epoch_and_by_the_seed(corpus):
    def order(seed, epoch):
        batches = islice(corpus.batches(30, seed, Place(epoch)), 60)
        return [int(text[0]) for batch in batches for text in batch.texts]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1) != order(2, 1)
    assert np.corrcoef(order(1, 0), range(len(order(1, 0))))[0, 1] < 0.9


@pytest.mark.parametrize("rank", [0, 1])
def test_from_any_place_the_same_batches_come_again(corpus, rank, monkeypatch):
    monkeypatch.setattr("blanklm.training.streamed.POOL", 3)  # many blocks, across the ends of shards
    monkeypatch.setattr("blanklm.training.streamed.TEXTS_AT_ONCE", 7)
    whole = list(islice(corpus.batches(60, 5, None, rank, 2), 150))
    assert len({batch.place.epoch for batch in whole}) > 2 and len({batch.place.shard for batch in whole}) > 2
    for step in (0, 1, 17, 40, 41, 80, 120):
        again = islice(corpus.batches(60, 5, whole[step].place, rank, 2), 20)
        assert [record(batch) for batch in again] == [record(batch) for batch in whole[step + 1 : step + 21]]


def test_processes_with_the_same_texts_draw_other_canvases_of_them(tmp_path):
    files = [tmp_path / f"{shard}.txt" for shard in range(2)]
    for path in files:
        path.write_text("".join(f"{i} 4\n" for i in range(10, 40)))
    one, other = (next(first_epoch(StreamedTexts(files, numbers), rank, 2)).draw for rank in range(2))
    assert not np.array_equal(one.seeds, other.seeds) and not np.array_equal(one.fractions, other.fractions)


def test_what_was_used_is_not_tokenised_again(corpus):
    encoded = Counter()

    def counting(texts):
        encoded.update(texts)
        return numbers(texts)

    begin, block, _ = next(StreamedTexts(corpus.files, counting)._blocks(10**6, 1, Place(0, 5, 2), 0, 1))
    last_two = np.random.default_rng([1, 0]).permutation(7)[5:]
    sizes = [(10, 100, 3, 150, 57, 0, 80)[shard] for shard in last_two]
    assert begin == Place(0, 5, 2) and len(encoded) == len(block) == max(0, sizes[0] - 2) + sizes[1] < 400


def test_what_cannot_be_streamed_is_named(corpus, tmp_path):
    with pytest.raises(TrainingError, match="8 processes need at least as many files"):
        next(corpus.batches(30, 1, None, 0, 8))
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(TrainingError, match="no text to train on"):
        next(StreamedTexts([tmp_path / "empty.txt"], numbers).batches(30, 1))


def test_a_vocabulary_is_learnt_from_the_beginning_of_every_file(corpus):
    texts = list(sample_texts(corpus.files, 7 * 20))
    assert len(texts) < 60 and {int(t.split()[0]) for t in texts} >= {10, 20, 120, 123, 273, 330}


def test_memory_stays_flat_over_a_gigabyte(tmp_path):
    """Simulated: a reader makes the texts up. ``benchmarks/streaming.py`` does the same over 20 GB."""
    line = "x" * 10_000

    def read(path):
        return (line for _ in range(1000))

    files = [Path(f"{i}.txt") for i in range(100)]
    texts = StreamedTexts(files, lambda group: [np.arange(4, 504)] * len(group), 256, read)
    batches, peaks = texts.batches(8192, 0), []
    for batch in batches:
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        if batch.place.epoch:
            break
    assert len(peaks) > 3000 and peaks[-1] - peaks[len(peaks) // 10] < 20_000  # kB
