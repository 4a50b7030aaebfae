"""The BLM's probabilities and its loss, against plain enumeration."""

import itertools
import math

import numpy as np
import pytest
import torch

from blanklm.core.canvas import Trajectory
from blanklm.core.orders import bound
from blanklm.core.policy import SIDES
from blanklm.core.special import BLANK, PAD
from blanklm.core.template import Blank
from blanklm.core.texts import Batch, pad
from blanklm.decoding.scores import score
from tests.support.models import make_blm
from tests.support.oracles import log_joint

TEXT = [5, 9, 5, 7]


def log_prob_of_trajectory(model, text, order):
    """Slowly: one canvas, one action at a time, through the scores that decoding uses."""
    trajectory = Trajectory.from_order(text, order)
    total = 0.0
    for canvas, action in zip(trajectory.canvases, trajectory.actions, strict=False):
        scores = score(model, [[BLANK if isinstance(item, Blank) else item for item in canvas.items]])
        sides = scores.log_p_sides(torch.tensor([action.blank]), torch.tensor([action.token]))
        total += float(
            scores.log_p_blank[action.blank]
            + scores.log_p_word[action.blank, action.token]
            + sides[0, SIDES.index((action.left, action.right))]
        )
    return total


def test_the_actions_of_a_canvas_sum_to_one(blm):
    canvas = [BLANK, 5, BLANK, 6, 7, BLANK]
    scores = score(blm, [canvas])
    rows = torch.arange(3).repeat_interleave(blm.config.vocabulary)
    words = torch.arange(blm.config.vocabulary).repeat(3)
    joint = scores.log_p_blank[rows] + scores.log_p_word[rows, words]
    total = (joint[:, None] + scores.log_p_sides(rows, words)).exp().sum()
    assert total == pytest.approx(1.0, abs=1e-5)
    assert (scores.log_p_word[:, [PAD, BLANK]] == float("-inf")).all()


def test_training_and_decoding_give_an_action_the_same_probability(blm):
    for order in itertools.permutations(range(4)):
        assert log_joint(blm, TEXT, order) == pytest.approx(log_prob_of_trajectory(blm, TEXT, order), abs=1e-4)


def test_the_expected_loss_equals_the_exact_bound(blm):
    """Eq. 6 by enumerating all orders = the mean of Eq. 8 over t and all first-t subsets."""
    n = len(TEXT)
    by_orders = math.lgamma(n + 1) + np.mean(
        [log_joint(blm, TEXT, order) for order in itertools.permutations(range(n))]
    )
    by_losses = []
    for t in range(n):
        subsets = list(itertools.combinations(range(n), t))
        shown = torch.tensor([[i in subset for i in range(n)] for subset in subsets])
        tokens, lengths = torch.tensor([TEXT] * len(subsets)), torch.full((len(subsets),), n)
        log_probs = blm.action_log_probs(tokens, lengths, shown).sum(1)
        losses = bound(log_probs, lengths, lengths - shown.sum(1), torch.lgamma(lengths + 1.0))
        by_losses.append(losses.mean().item())
    assert -np.mean(by_losses) == pytest.approx(by_orders, abs=1e-4)


def test_the_loss_is_an_unbiased_draw_of_that_bound(blm):
    n, draws = len(TEXT), 20_000
    tokens, lengths = torch.tensor([TEXT]).expand(draws, n), torch.full((draws,), n)
    fractions = torch.from_numpy(np.random.default_rng(0).random(draws))
    with torch.inference_mode():
        losses = blm.loss(blm.prepare(Batch(tokens, lengths, fractions, torch.arange(draws))))
    exact = -(math.lgamma(n + 1) + np.mean([log_joint(blm, TEXT, o) for o in itertools.permutations(range(n))]))
    error = losses.std() / math.sqrt(draws)
    assert abs(losses.mean() - exact) < 4 * error
    assert error < 0.02 * abs(exact)  # or the line above would say nothing


def test_all_next_actions_of_a_canvas_vary_less_than_one(blm):
    """Why Eq. 8 sums over the next actions: the naive estimator scores one of them."""
    text = [5, 9, 5, 7, 11, 4, 4, 10, 6, 8, 9, 7]
    n, draws = len(text), 4000
    rng = np.random.default_rng(1)
    orders = torch.from_numpy(np.argsort(rng.random((draws, n)), axis=1))
    step = torch.from_numpy(rng.integers(n, size=draws))[:, None]
    tokens, lengths = torch.tensor([text]).expand(draws, n), torch.full((draws,), n)
    with torch.inference_mode():
        log_probs = blm.action_log_probs(tokens, lengths, orders < step)
    efficient = bound(log_probs.sum(1), lengths, n - step.squeeze(1), torch.lgamma(lengths + 1.0))
    naive = -math.lgamma(n + 1) - n * log_probs[orders == step]
    assert efficient.mean().item() == pytest.approx(naive.mean().item(), abs=5 * naive.std().item() / math.sqrt(draws))
    assert efficient.var() < 0.5 * naive.var()


def test_padding_changes_nothing(blm):
    texts = [[5, 6], [7, 8, 9, 10, 11, 5, 6], TEXT]
    tokens, lengths = pad(texts)
    fractions, seeds = torch.tensor([0.4, 0.6, 0.9], dtype=torch.double), torch.tensor([1, 2, 3])
    together = blm.loss(blm.prepare(Batch(tokens, lengths, fractions, seeds)))
    for i, text in enumerate(texts):
        alone = blm.loss(blm.prepare(Batch(*pad([text]), fractions[i : i + 1], seeds[i : i + 1])))
        torch.testing.assert_close(alone[0], together[i], atol=1e-4, rtol=1e-4)


def test_weights_are_tied():
    model = make_blm()
    names = [name for name, _ in model.named_parameters()]
    assert sum("embedding" in name for name in names) == 1
    assert sum(p.shape[0] == model.config.vocabulary and p.dim() == 2 for p in model.parameters()) == 1


def test_a_large_vocabulary_in_parts_gives_the_same_loss_and_gradients(blm, monkeypatch):
    batch = Batch(*pad([TEXT, [5, 6, 7]]), torch.tensor([0.3, 0.0], dtype=torch.double), torch.tensor([1, 2]))

    def gradients():
        blm.zero_grad()
        loss = blm.loss(blm.prepare(batch)).sum()
        loss.backward()
        return [loss.detach(), *(p.grad for p in blm.parameters())]

    whole = gradients()
    monkeypatch.setattr("blanklm.models.blm.WORDS_AT_ONCE", 5)
    for in_parts, at_once in zip(gradients(), whole, strict=True):
        torch.testing.assert_close(in_parts, at_once, atol=1e-5, rtol=1e-4)
