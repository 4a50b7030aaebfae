"""Batches: every text once, within the budget, the same for any number of processes."""

import numpy as np
import pytest
import torch

from blanklm.core.texts import TokenisedTexts, pad
from blanklm.training.epochs import training_epoch, validation_epoch


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    return TokenisedTexts.from_ids([rng.integers(4, 100, size=rng.integers(1, 60)).tolist() for _ in range(3000)])


@pytest.mark.parametrize(
    "plan", [lambda t: training_epoch(t, 512, seed=1, epoch=2), lambda t: validation_epoch(t, 512)]
)
def test_every_text_once_and_every_batch_within_the_budget(texts, plan):
    draws = plan(texts)
    assert sorted(i for draw in draws for i in draw.indices) == list(range(len(texts)))
    for draw in draws:
        assert len(draw.indices) * texts.lengths[draw.indices].max() <= 512


def test_little_of_a_batch_is_padding(texts):
    draws = training_epoch(texts, 512, seed=1, epoch=0)
    padded = sum(len(draw.indices) * texts.lengths[draw.indices].max() for draw in draws)
    assert texts.tokens / padded > 0.95


def test_a_text_longer_than_the_budget_is_a_batch_of_its_own():
    texts = TokenisedTexts.from_ids([[5] * 100, [5] * 3, [5] * 2])
    draws = training_epoch(texts, 10, seed=0, epoch=0)
    assert sorted(sorted(draw.indices.tolist()) for draw in draws) == [[0], [1, 2]]


def test_epochs_differ_and_repeat_exactly(texts):
    first, again, second = (training_epoch(texts, 512, 0, epoch) for epoch in (0, 0, 1))
    assert [d.indices.tolist() for d in first] == [d.indices.tolist() for d in again]
    assert [d.seeds.tolist() for d in first] == [d.seeds.tolist() for d in again]
    assert [d.indices.tolist() for d in first] != [d.indices.tolist() for d in second]


def test_fractions_are_spread_evenly_over_the_epoch_and_uniform_for_each_text(texts):
    draws = training_epoch(texts, 512, seed=0, epoch=0)
    fractions = np.concatenate([draw.fractions for draw in draws])
    counts = np.histogram(fractions, bins=100, range=(0, 1))[0]
    assert abs(counts - 30).max() <= 2  # 3,000 texts: random draws would stray by about 15
    one_text = []
    for epoch in range(400):
        small = TokenisedTexts.from_ids([[5], [6, 7], [8]])
        one_text += [
            d.fractions[list(d.indices).index(1)] for d in training_epoch(small, 3, 0, epoch) if 1 in d.indices
        ]
    assert abs(np.mean(one_text) - 0.5) < 4 * 12**-0.5 / 20 and np.std(one_text) == pytest.approx(12**-0.5, abs=0.03)


def test_padding_many_texts_at_once_equals_padding_them_one_by_one(texts):
    for draw in training_epoch(texts, 512, 0, 0)[:20]:
        fast, slow = texts.padded(draw.indices), pad([texts[i] for i in draw.indices])
        assert all(torch.equal(a, b) for a, b in zip(fast, slow, strict=True))


def test_processes_share_a_batch_without_overlap_or_loss(texts):
    draw = training_epoch(texts, 512, 0, 0)[0]
    parts = [draw.part(rank, 3) for rank in range(3)]
    together = {(i, f, s) for p in parts for i, f, s in zip(p.indices, p.fractions, p.seeds, strict=True)}
    assert together == set(zip(draw.indices, draw.fractions, draw.seeds, strict=True))
    assert sum(len(p.indices) for p in parts) == len(draw.indices)


def test_empty_texts_are_left_out_and_long_ones_cut_and_both_counted():
    texts = TokenisedTexts.from_ids([[], [5, 6, 7, 8], [9]], max_length=3)
    assert (len(texts), texts.empty, texts.cut) == (2, 1, 1)
    assert texts[0].tolist() == [5, 6, 7] and texts[1].tolist() == [9]
