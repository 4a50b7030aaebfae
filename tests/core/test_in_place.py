"""The likelihood in place against enumeration of all orders of what is hidden."""

import itertools

import numpy as np
import pytest
import torch

from blanklm.core.in_place import Alternative, action_log_probs, exact, monte_carlo, words_of
from tests.support.models import make_blm, make_span_blm
from tests.support.oracles import log_joint

TEXT = (5, 9, 5, 7, 4, 6)


def enumerated(model, alternative, words=()):
    """Sum p over all orders of the hidden positions in which the positions of each of ``words`` rise."""
    given = [i for i in range(len(alternative.tokens)) if i not in alternative.hidden]
    orders = [
        order
        for order in itertools.permutations(alternative.hidden)
        if all([i for i in order if i in word] == list(word) for word in words)
    ]
    tokens = list(alternative.tokens)
    return np.logaddexp.reduce([log_joint(model, tokens, [*given, *order], first=len(given)) for order in orders])


@pytest.mark.parametrize("hidden", [(2,), (0, 1), (1, 3), (1, 2, 4), (0, 2, 3, 5), tuple(range(6))])
@pytest.mark.parametrize("make", [make_blm, make_span_blm])
def test_the_sum_over_states_equals_the_sum_over_all_orders(make, hidden):
    model, alternative = make(), Alternative(TEXT, hidden)
    found = exact(model, words_of(model, [alternative]))
    assert found[0] == pytest.approx(enumerated(model, alternative), abs=1e-4)


def test_words_of_parts_are_summed_over_the_orders_that_the_model_has_learnt():
    """Tokens 4 to 6 continue a word: the orders are those in which each word's tokens come from left to right."""
    model = make_blm(whole_words=True)
    model.edges.copy_(torch.tensor([[0, 1]] * 4 + [[1, 1]] * 3 + [[0, 1]] * 5))
    alternative = Alternative((9, 4, 8, 5, 6, 10), (0, 1, 3, 4))
    [words] = words_of(model, [alternative])
    assert words.words == ((0, 1), (3, 4)) and words.states == 9
    assert exact(model, [words])[0] == pytest.approx(enumerated(model, alternative, words.words), abs=1e-4)


def test_monte_carlo_is_unbiased_and_alternatives_share_their_orders():
    model = make_blm()
    alternatives = [Alternative(TEXT, (1, 2, 4)), Alternative((5, 9, 6, 7, 4, 6), (1, 2, 4))]
    words = words_of(model, alternatives)
    weights = np.exp(monte_carlo(model, words, orders=1500))
    truth = np.exp(exact(model, words))
    errors = weights.std(1, ddof=1) / np.sqrt(weights.shape[1])
    assert (np.abs(weights.mean(1) - truth) < 4 * errors).all()
    again = monte_carlo(model, words[1:], orders=3)
    np.testing.assert_allclose(again[0], monte_carlo(model, words, orders=3)[1], atol=1e-5)  # its orders are its own
    [order, other] = [[step for _, step in each.order(lambda blank: np.array([0.5, 0.1, 0.9]))] for each in words]
    assert order == other == [2, 1, 4]


def test_a_canvas_that_alternatives_share_is_read_once(monkeypatch):
    model, read = make_blm(), []
    score = model.score
    monkeypatch.setattr(model, "score", lambda ids, *rest: read.append(len(ids)) or score(ids, *rest))
    exact(model, words_of(model, [Alternative((5, word, 7), (1,)) for word in range(2, 12)]))
    assert sum(read) == 1


def test_blanks_that_stay_open_are_counted():
    """The second of two blanks is written while the first stays open."""
    from blanklm.core.in_place import action
    from blanklm.core.special import BLANK

    found = action((BLANK, 5, 7), (2,), 2)
    assert found.canvas == (BLANK, 5, BLANK) and found.blank == 1
    assert np.isfinite(action_log_probs(make_blm(), [found])).all()
