"""The tensor kernel equals the plain-Python version, and draws what Algorithm 1 asks for."""

import random

import numpy as np
import torch

from blanklm.canvas import Blank
from blanklm.canvas import conceal as conceal_slowly
from blanklm.conceal import conceal, draw_shown, random_ranks
from blanklm.special import BLANK, PAD


def random_texts(rng, batch=200, longest=12):
    return [[rng.randrange(4, 30) for _ in range(rng.randrange(1, longest))] for _ in range(batch)]


def test_conceal_equals_the_slow_version_on_random_texts_and_subsets():
    rng = random.Random(0)
    texts = random_texts(rng)
    shown_sets = [{i for i in range(len(text)) if rng.random() < rng.random()} for text in texts]
    width = max(map(len, texts)) + 2
    tokens = torch.tensor([text + [PAD] * (width - len(text)) for text in texts])
    shown = torch.tensor([[i in s for i in range(width)] for s in shown_sets])
    fast = conceal(tokens, torch.tensor([len(text) for text in texts]), shown)

    for row, (text, shown_set) in enumerate(zip(texts, shown_sets, strict=True)):
        canvas, actions = conceal_slowly(text, shown_set)
        _lengths_canvas, length_actions = conceal_slowly(text, shown_set, lengths=True)
        items = [BLANK if isinstance(item, Blank) else item for item in canvas.items]
        assert fast.canvas[row].tolist() == items + [PAD] * (width - len(items))
        assert fast.lengths[row] == len(items)
        assert set(fast.hidden[row].nonzero().flatten().tolist()) == set(actions)
        for position, action in actions.items():
            assert fast.place[row, position] == canvas.blanks[action.blank]
            assert (fast.left[row, position] > 0, fast.right[row, position] > 0) == (action.left, action.right)
            exact = length_actions[position]
            assert (fast.left[row, position], fast.right[row, position]) == (exact.left, exact.right)
        for position in shown_set:
            assert fast.canvas[row, fast.place[row, position]] == text[position]


def test_a_texts_canvas_does_not_depend_on_its_batch():
    seeds, lengths = torch.tensor([5, 6, 7]), torch.tensor([3, 9, 6])
    fractions = torch.tensor([0.5, 0.7, 0.99], dtype=torch.double)
    together = draw_shown(lengths, fractions, seeds, 9)
    alone = draw_shown(lengths[1:2], fractions[1:2], seeds[1:2], 9)
    wider = draw_shown(lengths, fractions, seeds, 20)
    assert torch.equal(together[1:2], alone)
    assert torch.equal(wider[:, :9], together) and not wider[:, 9:].any()


def test_t_is_uniform_and_every_order_is_equally_likely():
    draws = 60_000
    lengths = torch.full((draws,), 3)
    ranks = random_ranks(torch.arange(draws), lengths, 3)
    _, counts = ranks.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    np.testing.assert_allclose(counts / draws, 1 / 6, atol=0.008)  # about five standard deviations
    fractions = torch.from_numpy(np.random.default_rng(0).random(draws))
    steps = draw_shown(lengths, fractions, torch.arange(draws), 3).sum(1)
    np.testing.assert_allclose(np.bincount(steps) / draws, 1 / 3, atol=0.01)


def test_at_least_one_position_is_hidden_whatever_the_fraction():
    lengths = torch.tensor([1, 2, 512])
    for fraction in (0.0, 0.5, 1.0 - 1e-16):
        shown = draw_shown(lengths, torch.full((3,), fraction, dtype=torch.double), torch.arange(3), 512)
        assert (shown.sum(1) < lengths).all()
