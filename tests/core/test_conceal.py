"""The tensor kernel equals the plain-Python version, and draws what Algorithm 1 asks for."""

import itertools
import random

import numpy as np
import torch

from blanklm.core.canvas import conceal as conceal_slowly
from blanklm.core.conceal import conceal
from blanklm.core.orders import next_in_words, show_first, uniform_ranks, whole_word_ranks, words_of
from blanklm.core.packing import pack
from blanklm.core.special import BLANK, PAD
from blanklm.core.template import Blank


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


def draw_shown(lengths, fractions, seeds, width):
    return show_first(uniform_ranks(seeds, lengths, width), lengths, fractions)


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
    ranks = uniform_ranks(torch.arange(draws), lengths, 3)
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


def test_packing_loses_nothing_but_the_padding():
    rng = random.Random(2)
    texts = random_texts(rng, batch=50)
    width = max(map(len, texts))
    tokens = torch.tensor([text + [PAD] * (width - len(text)) for text in texts])
    shown = torch.tensor([[rng.random() < 0.5 for _ in range(width)] for _ in texts])
    wanted = torch.tensor([[rng.random() < 0.5 for _ in range(width)] for _ in texts])
    concealed = conceal(tokens, torch.tensor([len(text) for text in texts]), shown)
    for chosen in (None, wanted):
        packed = pack(tokens, concealed, chosen)
        starts = packed.packing.starts.tolist()
        for row, (start, end) in enumerate(itertools.pairwise(starts)):
            assert packed.canvas[start:end].tolist() == concealed.canvas[row, : concealed.lengths[row]].tolist()
            assert packed.packing.position[start:end].tolist() == list(range(end - start))
        assert (packed.canvas == BLANK).nonzero().squeeze(1).tolist() == packed.blanks.tolist()
        actions = set(zip(packed.text.tolist(), packed.position.tolist(), strict=True))
        expected = concealed.hidden if chosen is None else concealed.hidden & chosen
        assert actions == set(map(tuple, expected.nonzero().tolist()))
        place = packed.blanks[packed.queried[packed.row]]  # the blank of each action on the packed canvas
        assert torch.equal(place, packed.packing.starts[packed.text] + concealed.place[packed.text, packed.position])
        assert torch.equal(packed.word, tokens[packed.text, packed.position])
        assert set(packed.row.tolist()) == set(range(len(packed.queried)))


def test_words_are_runs_of_letters_digits_or_marks():
    edges = torch.tensor([[0, 1], [1, 1], [3, 3]])  # " un", "believ", ","
    assert words_of(torch.tensor([[0, 1, 1, 2, 0, 1, 0, 1]]), edges)[0].tolist() == [0, 0, 0, 1, 2, 2, 3, 3]


def test_orders_of_words_are_all_the_interleavings_equally_often():
    word, draws = torch.tensor([[0, 0, 1, 2, 2, 9]]), 60_000  # words of 2, 1 and 2 tokens, and padding
    lengths = torch.full((draws,), 5)
    ranks = whole_word_ranks(torch.arange(draws), lengths, word.expand(draws, -1))
    assert (ranks[:, 5] == 5).all()
    orders, counts = ranks[:, :5].unique(dim=0, return_counts=True)
    assert len(orders) == 30  # 5! / (2! 1! 2!)
    assert ((orders[:, 0] < orders[:, 1]) & (orders[:, 3] < orders[:, 4])).all()
    np.testing.assert_allclose(counts / draws, 1 / 30, atol=0.004)  # about five standard deviations


def test_the_weight_of_a_words_next_token_is_the_chance_that_it_is_written_next():
    word, draws, n = torch.tensor([0, 0, 0, 1, 2, 2]), 20_000, 6
    ranks = whole_word_ranks(torch.arange(draws), torch.full((draws,), n), word.expand(draws, n))
    for shown in range(n):
        hidden = ranks >= shown
        by_canvas = {}
        for row in range(draws):
            by_canvas.setdefault(tuple(hidden[row].tolist()), []).append(int((ranks[row] == shown).nonzero()))
        canvas, written = max(by_canvas.items(), key=lambda item: len(item[1]))
        weights = next_in_words(torch.tensor([canvas]), word[None])[0]
        assert weights.sum() == sum(canvas)
        frequency = np.bincount(written, minlength=n) / len(written)
        np.testing.assert_allclose(frequency, weights / sum(canvas), atol=5 * 0.5 / len(written) ** 0.5)
