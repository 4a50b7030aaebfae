"""exact against enumeration of all orders; the estimators against exact."""

import itertools
import math

import numpy as np
import pytest
import torch

from blanklm.core import likelihood
from blanklm.core.likelihood import Estimate, bound, exact, monte_carlo
from blanklm.core.texts import Batch, pad
from blanklm.errors import BlankLMError
from blanklm.paper.baselines.insertion import InsertionTransformer
from tests.support.baselines import make
from tests.support.models import make_blm
from tests.support.oracles import log_joint, log_p_of_order

TEXTS = [[5, 9, 5, 7], [4], [6, 6, 10]]


@pytest.mark.parametrize("text", TEXTS)
def test_the_subset_sum_equals_the_sum_over_all_orders(blm, text):
    by_orders = np.logaddexp.reduce([log_joint(blm, text, order) for order in itertools.permutations(range(len(text)))])
    assert exact(blm, text) == pytest.approx(by_orders, abs=1e-4)
    assert exact(blm, text, tokens_per_batch=5) == pytest.approx(by_orders, abs=1e-4)


def test_texts_of_a_length_have_at_most_all_the_probability():
    """The probabilities of all one- and two-word texts, plus those of leaving a blank after two words, sum to one."""
    model = make_blm(vocabulary=6)
    words = range(2, 6)
    total = sum(math.exp(exact(model, [w])) for w in words)
    total += sum(math.exp(exact(model, list(pair))) for pair in itertools.product(words, repeat=2))
    assert 0 < total < 1
    model.sides_out.bias.data += torch.tensor([100.0, 0, 0, 0])  # never leave a blank
    assert sum(math.exp(exact(model, [w])) for w in words) == pytest.approx(1.0, abs=1e-5)


def test_monte_carlo_over_texts_agrees_with_exact(blm):
    estimate = monte_carlo(blm, TEXTS, orders=4000, tokens_per_batch=4096)
    for k, text in enumerate(TEXTS):
        assert abs(estimate.log_likelihoods[k] - exact(blm, text)) < 4 * estimate.standard_errors[k] + 1e-4
    assert estimate.standard_errors[0] < 0.05
    assert estimate.standard_errors[1] == pytest.approx(0, abs=1e-6)  # one word has one order


def test_canvases_that_orders_share_are_scored_once_and_nothing_changes(blm, monkeypatch):
    together = monte_carlo(blm, TEXTS, orders=40)
    scored, score = [], blm.action_log_probs
    monkeypatch.setattr(
        blm, "action_log_probs", lambda tokens, *rest: scored.append(len(tokens)) or score(tokens, *rest)
    )
    monte_carlo(blm, TEXTS, orders=40)
    assert sum(scored) <= 2**4 - 1 + 2**3 - 1 + 1  # the sets of shown positions but the full one, of each text
    monkeypatch.setattr(likelihood, "_distinct", lambda text, shown: (torch.arange(len(text)),) * 2)
    apart = monte_carlo(blm, TEXTS, orders=40)
    assert sum(scored) > 40 * 8
    np.testing.assert_allclose(together.log_likelihoods, apart.log_likelihoods, atol=1e-5)


def test_monte_carlo_is_unbiased_for_p_and_low_for_log_p(blm):
    text, truth = TEXTS[0], exact(blm, TEXTS[0])
    logs = monte_carlo(blm, [text] * 3000, orders=1).log_likelihoods
    p = np.exp(logs - truth)
    assert abs(p.mean() - 1) < 4 * p.std() / math.sqrt(len(p))
    assert logs.mean() < truth - 0.05
    more = monte_carlo(blm, [text] * 300, orders=10).log_likelihoods
    assert logs.mean() < more.mean() < truth + 0.02


def test_the_rest_of_a_text_after_its_first_tokens(blm):
    """Given its first tokens, p of the rest is the sum over orders of the others; the estimators agree with it."""
    text, given = [5, 9, 5, 7, 6], 2
    orders = [(0, 1, *order) for order in itertools.permutations(range(2, 5))]
    joints = [log_joint(blm, text, order, first=given) for order in orders]
    truth = exact(blm, text, given=given)
    assert truth == pytest.approx(np.logaddexp.reduce(joints), abs=1e-4)
    estimate = monte_carlo(blm, [text, [4], text], orders=2000, given=[given, 0, 5])
    assert estimate.tokens.tolist() == [3, 1, 0]
    assert abs(estimate.log_likelihoods[0] - truth) < 4 * estimate.standard_errors[0] + 1e-4
    assert estimate.log_likelihoods[1] == pytest.approx(exact(blm, [4]), abs=1e-4)  # nothing is given
    assert not estimate.log_weights[2].any() and exact(blm, text, given=5) == 0.0  # all of it is
    low = bound(blm, [text] * 200, draws=30, given=[given] * 200)
    assert abs(low.mean() - math.log(6) - np.mean(joints)) < 4 * low.std() / math.sqrt(200)  # Eq. 6 over all orders
    fractions = torch.from_numpy(np.random.default_rng(0).random(4000))
    batch = Batch(*pad([text] * 4000), fractions, torch.arange(4000), given=torch.full((4000,), given))
    losses = blm.loss(blm.prepare(batch)).detach().numpy()  # and training's, in expectation
    assert abs(losses.mean() + math.log(6) + np.mean(joints)) < 4 * losses.std() / math.sqrt(4000)
    for wrong in ([6], [-1], [2, 2]):
        with pytest.raises(BlankLMError, match="between 0 and the length"):
            monte_carlo(blm, [text], 3, given=wrong)
    for wrong in (6, -1):
        with pytest.raises(BlankLMError, match=r"between 0 and the length of the text \(5\)"):
            exact(blm, text, given=wrong)


def test_the_rest_of_a_text_in_orders_that_keep_words_whole():
    model = make_blm(vocabulary=12, whole_words=True)
    model.edges.copy_(torch.tensor([[0, 1]]).expand_as(model.edges))
    model.edges[7, 0] = 1  # the token 7 continues a word: positions 2 and 3 are one
    text, given = [5, 9, 5, 7, 6], 2
    orders = [order for order in itertools.permutations(range(2, 5)) if order.index(2) < order.index(3)]
    joints = [log_joint(model, text, (0, 1, *order), first=given) for order in orders]
    low = bound(model, [text] * 200, draws=30, given=[given] * 200)
    assert abs(low.mean() - math.log(len(orders)) - np.mean(joints)) < 4 * low.std() / math.sqrt(200)


def test_the_standard_errors_cover_the_expected_log_estimate(blm):
    """Of 400 estimates of E[log X_m], about 95 % are within 1.96 errors of the mean of them all."""
    estimate = monte_carlo(blm, [TEXTS[0]] * 400, orders=50)
    center = estimate.log_likelihoods.mean()
    inside = np.abs(estimate.log_likelihoods - center) < 1.96 * estimate.standard_errors
    assert 0.85 < inside.mean() <= 1.0


@pytest.mark.parametrize("kind", ["BLM", "InsT"])
@pytest.mark.parametrize("m", [1, 2])
def test_over_all_draws_of_m_orders_the_mean_of_x_m_is_p_itself(blm, kind, m):
    """Unbiasedness by enumeration: every m-tuple of orders is equally likely, and the mean of X_m is exactly p(x)."""
    text = TEXTS[2]
    model, joint = (blm, log_joint) if kind == "BLM" else (make(InsertionTransformer, 12), log_p_of_order)
    weights = [math.log(6) + joint(model, text, order) for order in itertools.permutations(range(3))]
    tuples = np.array(list(itertools.product(weights, repeat=m)))  # [6^m, m]
    x_m = Estimate(tuples, np.full(len(tuples), 3)).log_likelihoods
    truth = exact(model, text)
    assert np.exp(x_m).mean() == pytest.approx(math.exp(truth), rel=1e-4)
    assert x_m.mean() < truth  # and its log is too low
    drawn = monte_carlo(model, [text] * 500, m, seed=3).log_likelihoods  # what is drawn is one of these
    assert all(np.abs(x_m - one).min() < 1e-4 for one in drawn)
    p = np.exp(drawn - truth)
    assert abs(p.mean() - 1) < 4 * p.std() / math.sqrt(500)


def test_a_smaller_m_is_read_off_the_same_orders(blm):
    estimate = monte_carlo(blm, TEXTS, orders=12)
    assert estimate.at(12) == pytest.approx(estimate.perplexity)
    by_four = [Estimate(estimate.log_weights[:, k : k + 4], estimate.tokens).log_likelihoods for k in (0, 4, 8)]
    assert estimate.at(4) == pytest.approx(math.exp(-np.mean(by_four, 0).sum() / 8))
    assert estimate.at(1) == pytest.approx(math.exp(-estimate.log_weights.mean(1).sum() / 8))
    assert estimate.at(1) > estimate.at(4) > estimate.at(12)
    assert estimate.interval[0] < estimate.perplexity < estimate.interval[1]
    assert monte_carlo(blm, TEXTS, orders=1).interval == (0.0, math.inf)  # one order says nothing of the others


def test_the_interval_holds_where_few_orders_outweigh_all_others():
    """Weights that spread over tens of nats, as those of long chunks do: the delta method would be far too sure."""
    rng, tokens = np.random.default_rng(0), np.full(60, 128)
    drawn = [Estimate(rng.normal(0, 10, (60, 40)), tokens) for _ in range(300)]
    center = np.mean([estimate.log_likelihoods.sum() for estimate in drawn]) / tokens.sum()
    inside = [low < math.exp(-center) < high for low, high in (estimate.interval for estimate in drawn)]
    assert np.mean(inside) > 0.93
    deltas = [1.96 * math.sqrt((e.standard_errors**2).sum()) / tokens.sum() for e in drawn]
    sure = [abs(-math.log(e.perplexity) - center) < d for e, d in zip(drawn, deltas, strict=True)]
    assert np.mean(sure) < 0.6


def writer():
    """A model that writes texts of a few words."""
    model = make_blm(vocabulary=6, spread=6.0)
    model.sides_out.bias.data += torch.tensor([1.5, 0, 0, 0])
    return model


def test_the_stratified_bound_agrees_with_the_enumerated_one_and_varies_less(blm):
    text = TEXTS[0]
    enumerated = math.lgamma(5) + np.mean([log_joint(blm, text, order) for order in itertools.permutations(range(4))])
    stratified = bound(blm, [text] * 500, draws=4)
    assert abs(stratified.mean() - enumerated) < 4 * stratified.std() / math.sqrt(500)
    plain = bound(blm, [text] * 2000, draws=1).reshape(500, 4).mean(1)
    assert stratified.std() < plain.std()
    assert enumerated < exact(blm, text)


def test_perplexity_counts_every_token(blm):
    estimate = monte_carlo(blm, TEXTS, orders=3)
    assert estimate.perplexity == pytest.approx(math.exp(-estimate.log_likelihoods.sum() / 8))
    low, high = estimate.interval
    assert low < estimate.perplexity < high


def test_an_empty_text_is_certain_and_a_long_one_is_refused(blm):
    assert exact(blm, []) == 0.0
    assert monte_carlo(blm, [[], [5]], orders=2).log_likelihoods[0] == 0.0
    assert bound(blm, [[], [5]])[0] == 0.0
    with pytest.raises(BlankLMError, match="at most 16"):
        exact(blm, [5] * 17)


def whole_word_model():
    """Tokens 4-7 begin a word (a space), 8-11 continue one."""
    model = make_blm(whole_words=True)
    model.edges[4:8] = torch.tensor([0, 1], dtype=torch.int8)
    model.edges[8:12] = torch.tensor([1, 1], dtype=torch.int8)
    return model


def test_orders_that_keep_words_in_order_have_a_bound_and_an_estimate_of_their_own():
    model, text = whole_word_model(), [4, 9, 8, 6, 10]  # two words, of three and two tokens
    orders = [
        order for order in itertools.permutations(range(5)) if in_order(order, (0, 1, 2)) and in_order(order, (3, 4))
    ]
    assert len(orders) == 10
    joints = [log_joint(model, text, order) for order in orders]
    estimate = monte_carlo(model, [text] * 40, orders=50)
    assert abs(estimate.log_likelihoods.mean() - np.logaddexp.reduce(joints)) < 4 * estimate.standard_errors.mean()
    enumerated = math.log(10) + np.mean(joints)
    bounds = bound(model, [text] * 400, draws=5)
    assert abs(bounds.mean() - enumerated) < 4 * bounds.std() / 20
    assert bounds.std() / 20 < 0.05 * abs(enumerated)
    assert enumerated < np.logaddexp.reduce(joints) < exact(model, text)
    batch = Batch(*pad([text] * 4000), torch.from_numpy(np.random.default_rng(0).random(4000)), torch.arange(4000))
    with torch.inference_mode():
        losses = model.loss(model.prepare(batch))
    assert abs(-losses.mean() - enumerated) < 4 * losses.std() / math.sqrt(4000)


def in_order(order, positions):
    return [p for p in order if p in positions] == sorted(positions)


@pytest.mark.parametrize("budget", [1, 7, 30, 10_000])
def test_the_batch_size_changes_nothing(blm, budget):
    texts = [[5, 6, 7, 8], [], [9], [5, 9, 5], [9]]
    whole = monte_carlo(blm, texts, orders=3, seed=1)
    counted = []
    cut = monte_carlo(blm, texts, orders=3, seed=1, tokens_per_batch=budget, progress=counted.append)
    np.testing.assert_allclose(cut.log_likelihoods, whole.log_likelihoods, atol=1e-4)
    assert sum(counted) == 3 * 9
    np.testing.assert_allclose(bound(blm, texts, 2, tokens_per_batch=budget), bound(blm, texts, 2), atol=1e-4)


@pytest.mark.parametrize("method", [exact, lambda *a, **k: monte_carlo(a[0], [a[1]], 8, **k)], ids=["exact", "orders"])
def test_progress_counts_canvases_and_what_it_raises_stops_the_work(blm, method):
    done = []
    method(blm, TEXTS[0], tokens_per_batch=8, progress=done.append)
    assert sum(done) in (2 ** len(TEXTS[0]) - 1, 8 * len(TEXTS[0])) and len(done) > 2

    def stop(count):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        method(blm, TEXTS[0], tokens_per_batch=8, progress=stop)
