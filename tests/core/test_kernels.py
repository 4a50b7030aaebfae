"""Each kernel that computes many things at once against the slow, obvious version, on generated cases.

200 cases per property; ``python benchmarks/properties.py`` runs 10,000 and records them.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from blanklm.core.likelihood import exact
from blanklm.core.packing import ROWS, Packing, grouped_log_softmax, representatives
from blanklm.core.special import BLANK
from blanklm.models.attention import attend
from blanklm.restoration.search import fill_greedily, first_best, search_beams
from blanklm.training import quantise
from tests.support.models import make_blm, make_restorer
from tests.support.oracles import log_joint

RESTORER = make_restorer("ab", max_length=20, longest_blank=6)
lengths_of_texts = st.lists(st.integers(1, 7), min_size=1, max_size=5)
seeds = st.integers(0, 2**31)


def plain_attention(q, k, v, causal):
    """Return the attention of one sequence [C, H, d] in plain matrix products."""
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(len(q), len(q)).triu(1).bool(), -math.inf)
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1), v)


@given(lengths_of_texts, st.booleans(), seeds)
def test_attention_over_packed_sequences_is_that_of_each(lengths, causal, seed):
    q, k, v = torch.randn(3, sum(lengths), 2, 4, generator=torch.Generator().manual_seed(seed))
    packed = attend(q, k, v, Packing.of(torch.tensor(lengths), max(lengths)), causal)
    parts = zip(*(part.split(lengths) for part in (q, k, v)), strict=True)
    alone = torch.cat([plain_attention(*part, causal) for part in parts])
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-4)


@given(lengths_of_texts, st.sampled_from(ROWS), st.booleans(), seeds)
def test_attention_over_rows_is_that_of_each_sequence(lengths, row, causal, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = Packing.in_rows(torch.tensor(lengths), max(lengths), row)
    q, k, v = torch.randn(3, len(rows.sequence), 2, 4, generator=generator)
    packed = attend(q, k, v, rows, causal)
    inside = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    places = rows.places(inside)
    assert len(places.unique()) == sum(lengths)
    parts = zip(*(part[places].split(lengths) for part in (q, k, v)), strict=True)
    alone = torch.cat([plain_attention(*part, causal) for part in parts])
    torch.testing.assert_close(packed[places], alone, atol=1e-5, rtol=1e-4)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-30, 30)), min_size=1, max_size=20))
def test_a_softmax_within_groups_is_that_of_each_group(pairs):
    group, logits = torch.tensor([g for g, _ in pairs]), torch.tensor([x for _, x in pairs])
    found = grouped_log_softmax(logits, group, 5)
    for g in group.unique():
        expected = logits[group == g].log_softmax(0)
        torch.testing.assert_close(found[group == g], expected, atol=1e-4, rtol=1e-4)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_one_of_each_kind_stands_for_all_of_it(keys):
    index, kind = representatives(torch.tensor(keys))
    assert len(index) == len(set(keys))
    assert [keys[index[k]] for k in kind] == keys


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=20))
def test_the_first_of_the_best_of_each_group_is_found(pairs):
    score, group = torch.tensor([float(s) for _, s in pairs]), torch.tensor([g for g, _ in pairs], dtype=torch.long)
    expected = []
    for g in sorted(set(group.tolist())):
        members = [i for i in range(len(pairs)) if pairs[i][0] == g]
        expected.append(max(members, key=lambda i: (pairs[i][1], -i)))
    assert first_best(score, group).tolist() == expected


@given(st.integers(2, 8), st.integers(1, 2), st.integers(1, 2), seeds)
def test_packed_weights_come_back_as_their_formula_says(bits, rows, groups, seed):
    matrix = torch.randn(rows, groups * quantise.GROUP, generator=torch.Generator().manual_seed(seed))
    packed, scales = quantise.quantise(matrix, bits)
    assert quantise.bits_of(packed, scales) == bits and packed.numel() * 8 == matrix.numel() * bits
    half, slow = 2 ** (bits - 1), torch.empty_like(matrix)
    for i, j in itertools.product(range(rows), range(matrix.shape[1])):
        scale = scales[i, j // quantise.GROUP].float()
        slow[i, j] = (float((matrix[i, j] / scale).floor().clamp(-half, half - 1)) + 0.5) * scale
    assert torch.equal(quantise.dequantise(packed, scales, bits), slow)


@given(st.lists(st.integers(4, 7), min_size=1, max_size=3), seeds)
def test_the_exact_likelihood_is_the_sum_over_all_orders(text, seed):
    model = make_blm(vocabulary=8, seed=seed)
    orders = itertools.permutations(range(len(text)))
    slow = np.logaddexp.reduce([log_joint(model, text, order) for order in orders])
    assert exact(model, text) == pytest.approx(slow, abs=1e-4)


@torch.inference_mode()
def all_fills(ids):
    """Return each fill of a text and its log p: the position whose best character is most probable comes first."""
    tokens = torch.tensor([ids])
    if BLANK not in ids:
        return {tuple(ids): 0.0}
    scores = RESTORER.model.score_positions(tokens, torch.tensor([len(ids)]), tokens == BLANK)
    row = int(scores.log_p_word.max(1).values.argmax())
    fills = {}
    for word, log_p in enumerate(scores.log_p_word[row].tolist()):
        if log_p > -math.inf:
            written = [*ids]
            written[int(scores.position[row])] = word
            fills |= {fill: log_p + rest for fill, rest in all_fills(written).items()}
    return fills


canvases = st.lists(st.sampled_from([BLANK, *RESTORER.tokenizer.encode("ab")]), min_size=1, max_size=5)
canvases = canvases.filter(lambda ids: 1 <= ids.count(BLANK) <= 2)


@given(st.lists(canvases, min_size=1, max_size=2))
@torch.inference_mode()
def test_a_search_over_several_texts_finds_the_fills_of_each(texts):
    found = search_beams(RESTORER.model, texts, beam=64)
    greedy = fill_greedily(RESTORER.model, texts)
    for ids, fills, first in zip(texts, found, greedy, strict=True):
        expected = all_fills(ids)
        assert {tuple(fill.ids): pytest.approx(fill.log_prob, abs=1e-4) for fill in fills} == expected
        assert expected[tuple(first.ids)] == pytest.approx(first.log_prob, abs=1e-4)
