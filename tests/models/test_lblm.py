"""The L-BLM scores what the slow version says, sums to one, and always writes exactly k characters."""

import itertools
import math

import pytest
import torch

from blanklm.core import likelihood
from blanklm.core.canvas import Trajectory
from blanklm.core.canvas import conceal as conceal_slowly
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK
from blanklm.core.template import Blank
from blanklm.core.texts import Batch, pad
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.models.lblm import LBLMConfig, number_features
from blanklm.restoration.search import Wanted, fill_greedily, log_probs_of, log_probs_of_fills, search_beams
from tests.support.lblm import TEXT, A, B, C, make


@pytest.fixture(scope="module", params=["lblm", "mixed"])
def model(request):
    return make(request.param)


@torch.no_grad()
def slow_log_prob(model, text, shown, position):
    """log p(b, w, l | c) on one canvas of ``Blank`` objects, step by step as Section 4.2 says it."""
    canvas, actions = conceal_slowly(text, shown, lengths=True)
    action = actions[position]
    ids = torch.tensor([BLANK if isinstance(item, Blank) else item for item in canvas.items])
    vectors = model.embedding(ids)
    for at, item in enumerate(canvas.items):
        if isinstance(item, Blank):
            vectors[at] = vectors[at] + model.length_in(model.numbers[item.length])
    z = model.encoder(vectors, Packing.of(torch.tensor([len(ids)]), len(ids)))
    blanks = list(canvas.blanks)
    log_p_blank = torch.stack([model.choose(z[at]).squeeze() for at in blanks]).log_softmax(0)
    at = blanks[action.blank]
    scores = [float(z[at] @ model.embedding.weight[w] + model.word_bias[w]) for w in (A, B)]
    log_p_word = torch.tensor(scores).log_softmax(0)[action.token - A]
    v = model.embedding.weight[action.token]
    query = model.left_out(torch.relu(model.left_from_blank(z[at]) + model.left_from_word(v)))
    k = canvas.items[at].length
    features = [torch.cat((model.numbers[left], model.numbers[k - 1 - left])) for left in range(k)]
    log_p_left = torch.stack([query @ feature for feature in features]).log_softmax(0)[action.left]
    return float(log_p_blank[action.blank] + log_p_word + log_p_left)


def test_the_lblm_scores_every_action_as_the_slow_version_does():
    model = make("lblm")
    text = [A, B, C, B, A, A]  # C is shown always
    for shown in ({2}, {0, 2}, {2, 4}, {2, 3, 5}):
        mask = torch.tensor([[i in shown for i in range(len(text))]])
        with torch.no_grad():
            fast = model.action_log_probs(torch.tensor([text]), torch.tensor([len(text)]), mask)[0]
            for position in set(range(len(text))) - shown:
                assert math.isclose(fast[position], slow_log_prob(model, text, shown, position), abs_tol=1e-4)


def test_the_probabilities_of_all_actions_sum_to_one(model):
    texts = [[A, BLANK, BLANK, B, BLANK], [BLANK, C], [A, BLANK, BLANK, BLANK, BLANK]]
    tokens, lengths = pad(texts)
    scores = model.score_positions(tokens, lengths, tokens == BLANK)
    joint = scores.log_p_place[:, None] + scores.log_p_word
    for text, ids in enumerate(texts):
        mine = scores.text == text
        assert scores.position[mine].tolist() == [i for i, token in enumerate(ids) if token == BLANK]
        torch.testing.assert_close(joint[mine].exp().sum(), torch.tensor(1.0), atol=1e-4, rtol=0)
        torch.testing.assert_close(scores.log_p_word[mine].exp().sum(1), torch.ones(int(mine.sum())))
    assert (scores.log_p_word[:, [BLANK, C]] == -torch.inf).all()


def test_the_joint_of_places_and_characters_is_the_actions_probability(model):
    tokens, lengths = torch.tensor([TEXT]), torch.tensor([4])
    shown = torch.tensor([[False, True, False, False]])
    with torch.no_grad():
        actions = model.action_log_probs(tokens, lengths, shown)[0]
    scores = model.score_positions(tokens, lengths, ~shown)
    for row, position in enumerate(scores.position.tolist()):
        joint = scores.log_p_place[row] + scores.log_p_word[row, TEXT[position]]
        torch.testing.assert_close(joint, actions[position], atol=1e-4, rtol=1e-4)


def test_the_exact_likelihood_is_the_sum_over_all_orders_and_sums_to_one_over_texts(model):
    def log_joint(order):
        total = 0.0
        for step, position in enumerate(order):
            shown = torch.tensor([[i in order[:step] for i in range(len(TEXT))]])
            log_probs = model.action_log_probs(torch.tensor([TEXT]), torch.tensor([len(TEXT)]), shown)
            total += float(log_probs[0, position])
        return total

    with torch.no_grad():
        orders = [log_joint(order) for order in itertools.permutations(range(len(TEXT)))]
    exact = likelihood.exact(model, TEXT)
    assert math.isclose(exact, torch.tensor(orders).double().logsumexp(0), abs_tol=1e-4)
    total = sum(math.exp(likelihood.exact(model, text)) for text in itertools.product((A, B), repeat=3))
    assert math.isclose(total, 1.0, abs_tol=1e-4)


def test_the_lblms_loss_averages_to_the_bound_over_orders(monkeypatch):
    model, n = make("lblm"), len(TEXT)
    orders = list(itertools.permutations(range(n)))
    pairs = [(order, t) for order in orders for t in range(n)]
    ranks = torch.tensor([[order.index(i) for i in range(n)] for order, _ in pairs])
    monkeypatch.setattr(model, "orders", lambda *_: (ranks, torch.full((len(pairs),), math.lgamma(n + 1))))
    fractions = torch.tensor([(t + 0.5) / n for _, t in pairs], dtype=torch.double)
    batch = Batch(*pad([TEXT] * len(pairs)), fractions, torch.arange(len(pairs)))
    with torch.no_grad():
        loss = model.loss(model.prepare(batch)).double().mean()
    log_joints = []
    for order in orders:
        steps = Trajectory.from_order(TEXT, order, lengths=True)
        assert [c for c in steps.canvases[-1].items] == TEXT
        log_joints.append(sum(slow_log_prob(model, TEXT, set(order[:t]), order[t]) for t in range(n)))
    expected = -math.lgamma(n + 1) - sum(log_joints) / len(orders)
    assert math.isclose(loss, expected, abs_tol=1e-3)
    assert loss >= -likelihood.exact(model, TEXT)


def test_monte_carlo_agrees_with_the_exact_likelihood(model):
    estimate = likelihood.monte_carlo(model, [TEXT], orders=2000, seed=1)
    exact = likelihood.exact(model, TEXT)
    assert abs(estimate.log_likelihoods[0] - exact) < 5 * estimate.standard_errors[0] + 1e-3


# --- Decoding ---------------------------------------------------------------------------------------------------------


def sequential_log_prob(model, text, answer):
    """log p of an answer under the rule "most confident place first", one pass after another."""
    ids, answers, total = list(text), iter(answer), 0.0
    target = [next(answers) if token == BLANK else token for token in text]
    while BLANK in ids:
        tokens = torch.tensor([ids])
        scores = model.score_positions(tokens, torch.tensor([len(ids)]), tokens == BLANK)
        row = int(scores.log_p_word.max(1).values.argmax())
        position = int(scores.position[row])
        total += float(scores.log_p_word[row, target[position]])
        ids[position] = target[position]
    return total


def test_a_wide_beam_finds_every_fill_with_its_exact_probability(model):
    text = [A, BLANK, BLANK, B, BLANK, A]
    (found,) = search_beams(model, [text], beam=64)
    assert len(found) == 8 and [f.log_prob for f in found] == sorted((f.log_prob for f in found), reverse=True)
    assert math.isclose(sum(math.exp(f.log_prob) for f in found), 1.0, abs_tol=1e-4)
    for filled in found:
        answer = [filled.ids[i] for i, token in enumerate(text) if token == BLANK]
        assert math.isclose(filled.log_prob, sequential_log_prob(model, text, answer), abs_tol=1e-4)


def test_greedy_fills_many_texts_as_it_fills_one(model):
    texts = [[A, BLANK, B], [BLANK] * 7, [A, BLANK, BLANK, BLANK, C, BLANK, B], [A, B]]
    together = fill_greedily(model, texts)
    for text, filled in zip(texts, together, strict=True):
        (alone,) = fill_greedily(model, [text])
        assert alone.ids == filled.ids and math.isclose(alone.log_prob, filled.log_prob, abs_tol=1e-3)
        assert len(filled.ids) == len(text) and BLANK not in filled.ids and C not in set(filled.ids) - set(text)
        assert [i for i, token in enumerate(text) if token == BLANK] == sorted(filled.place_log_probs)
        assert all(a == b for a, b in zip(text, filled.ids, strict=True) if a != BLANK)
    (best,) = search_beams(model, [texts[1]], beam=1)
    assert best[0].ids == together[1].ids


def test_with_gaps_every_gap_is_written_in_each_pass(model, monkeypatch):
    passes = []
    score = model.score_positions
    monkeypatch.setattr(model, "score_positions", lambda *given: passes.append(1) or score(*given))
    text, gaps = [BLANK, BLANK, A, BLANK, BLANK, BLANK], [0, 0, -1, 1, 1, 1]
    (filled,) = fill_greedily(model, [text], [[g + 1 for g in gaps]])
    assert len(passes) == 3 and BLANK not in filled.ids


def test_a_temperature_is_a_power_of_what_each_place_says(model):
    text = [A, BLANK, B]
    (plain,), (cooler,) = (search_beams(model, [text], beam=2, temperature=t) for t in (1.0, 0.5))
    powers = {tuple(f.ids): math.exp(2 * f.log_prob) for f in plain}
    for filled in cooler:
        assert math.isclose(math.exp(filled.log_prob), powers[tuple(filled.ids)] / sum(powers.values()), abs_tol=1e-4)
    (guess,) = fill_greedily(model, [text], temperature=0.5)
    assert guess.ids == cooler[0].ids and math.isclose(guess.log_prob, cooler[0].log_prob, abs_tol=1e-4)


def test_a_fill_is_as_probable_by_itself_as_a_search_says(model):
    text = [A, BLANK, BLANK, B, BLANK, A]
    (found,) = search_beams(model, [text], beam=64)
    log_probs = log_probs_of_fills(model, text, [fill.ids for fill in found])
    assert log_probs == pytest.approx([fill.log_prob for fill in found], abs=1e-4)


def test_texts_with_the_same_gap_are_searched_as_one(model):
    texts = [[A, *[BLANK] * length, B, C] for length in (1, 2, 3)]
    apart = search_beams(model, texts, beam=64)
    log_p = [math.log(p) for p in (0.2, 0.5, 0.3)]
    together = search_beams(model, texts, beam=64, wanted=[Wanted(0, log_prob=p) for p in log_p])
    for one, other, p in zip(apart, together, log_p, strict=True):
        assert {tuple(f.ids): pytest.approx(f.log_prob + p, abs=1e-4) for f in one} == {
            tuple(f.ids): f.log_prob for f in other
        }
    few = search_beams(model, texts, beam=3, wanted=[Wanted(0, log_prob=p) for p in log_p])
    assert sum(map(len, few)) <= 3 * len(texts)  # of each length, what was open last competed with all that were


def test_what_is_wanted_has_so_many_letters():
    model, text = make("mixed"), [A, BLANK, BLANK, BLANK, B]
    model.ends_word[C] = True  # a space
    (every,) = search_beams(model, [text], beam=64)
    (found,) = search_beams(model, [text], beam=64, wanted=[Wanted(0, (2, 2))])
    right = {tuple(f.ids): f.log_prob for f in every if sum(token != C for token in f.ids[1:4]) == 2}
    assert {tuple(f.ids): pytest.approx(f.log_prob, abs=1e-4) for f in found} == right
    assert found.right == pytest.approx(sum(map(math.exp, right.values())), abs=0.2)
    (none,) = search_beams(model, [text], wanted=[Wanted(0, (4, 4))])
    assert not none


def test_what_stands_in_a_text_is_scored_as_if_it_were_hidden(model):
    texts, positions = [[A, B, B, A, C], [B, A], [A, A, B]], [[0, 2], [], [1]]
    found = log_probs_of(model, texts, positions)
    assert found[1] == 0.0
    for text, hidden, log_prob in zip(texts[::2], positions[::2], found[::2], strict=True):
        ids = torch.tensor([[BLANK if i in hidden else token for i, token in enumerate(text)]])
        scores = model.score_positions(ids, torch.tensor([len(text)]), ids == BLANK)
        each = {int(p): float(row[text[p]]) for p, row in zip(scores.position, scores.log_p_word, strict=True)}
        assert sorted(each) == hidden and math.isclose(log_prob, sum(each.values()), abs_tol=1e-4)


def test_bad_options_are_refused_in_one_line(model):
    with pytest.raises(BlankLMError, match="at least 1"):
        search_beams(model, [[BLANK]], beam=0)
    with pytest.raises(BlankLMError, match="1 to 1,000"):
        LBLMConfig(10, EncoderConfig(1, 1, 8, 8), longest_blank=5000)


def test_blanks_of_up_to_a_thousand_have_lengths_of_their_own():
    features = number_features(1000)
    nearest = torch.cdist(features, features).fill_diagonal_(torch.inf).min()
    assert nearest > 0.1
    model = make("lblm", letters=1)
    (filled,) = fill_greedily(model, [[A] + [BLANK] * 1000], [[1] + [2 + i for i in range(1000)]])
    assert len(filled.ids) == 1001
    with torch.no_grad():
        tokens, lengths = torch.full((1, 1000), A), torch.tensor([1000])
        log_probs = model.action_log_probs(tokens, lengths, torch.zeros(1, 1000, dtype=torch.bool))
    assert math.isclose(float(log_probs.exp().sum()), 1.0, abs_tol=1e-3)
