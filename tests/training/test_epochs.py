"""Batches: every text once, within the budget, the same for any number of processes."""

from collections import Counter

import numpy as np
import pytest

from blanklm.core.texts import TokenisedTexts
from blanklm.errors import TrainingError
from blanklm.training.config import TrainingConfig
from blanklm.training.epochs import GOLDEN, POOL, Draw, split_by_budget, training_epoch, validation_epoch


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


def test_processes_share_a_batch_without_overlap_or_loss(texts):
    draw = training_epoch(texts, 512, 0, 0)[0]
    parts = [draw.part(rank, 3) for rank in range(3)]
    together = {(i, f, s) for p in parts for i, f, s in zip(p.indices, p.fractions, p.seeds, strict=True)}
    assert together == set(zip(draw.indices, draw.fractions, draw.seeds, strict=True))
    assert sum(len(p.indices) for p in parts) == len(draw.indices)


def epoch_as_it_was(texts, tokens_per_batch, seed, epoch, skew):
    """Every text with one canvas, by its number."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(texts))
    fractions = np.empty(len(texts))
    fractions[order] = ((rng.random() + GOLDEN * np.arange(len(texts))) % 1.0) ** skew
    seeds = rng.integers(np.iinfo(np.int64).max) // 2 + np.arange(len(texts))
    pool = max(1, round(POOL * tokens_per_batch / (texts.tokens / len(texts))))
    draws = []
    for start in range(0, len(order), pool):
        members = order[start : start + pool]
        members = members[np.argsort(texts.lengths[members], kind="stable")]
        for batch in split_by_budget(texts.lengths[members], tokens_per_batch):
            draws.append(Draw(members[batch], fractions[members[batch]], seeds[members[batch]]))
    return [draws[i] for i in rng.permutation(len(draws))]


def test_one_canvas_a_text_draws_what_was_always_drawn():
    rng = np.random.default_rng(0)
    texts = TokenisedTexts.from_ids([rng.integers(4, 100, size=rng.integers(1, 60)).tolist() for _ in range(800)])
    for before, now in zip(epoch_as_it_was(texts, 64, 3, 1, 0.7), training_epoch(texts, 64, 3, 1, 0.7), strict=True):
        for part in ("indices", "fractions", "seeds"):
            np.testing.assert_array_equal(getattr(before, part), getattr(now, part))


def test_several_canvases_of_a_text_stand_in_its_batch_and_differ():
    texts = TokenisedTexts.from_ids([[5] * 8 for _ in range(50)])
    draws = training_epoch(texts, 64, 0, 0, canvases=4)
    assert Counter(i for draw in draws for i in draw.indices) == dict.fromkeys(range(50), 4)
    assert all(len(set(draw.indices)) == 2 for draw in draws)
    seeds = [seed for draw in draws for seed in draw.seeds]
    assert len(set(seeds)) == 200
    of_a_text = [f for draw in draws for i, f in zip(draw.indices, draw.fractions, strict=True) if i == draw.indices[0]]
    assert max(of_a_text[:4]) - min(of_a_text[:4]) > 0.5  # spread over t
    with pytest.raises(TrainingError, match="canvases must be at least 1"):
        TrainingConfig(canvases=0)
