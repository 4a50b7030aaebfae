"""The mixed L-BLM: gaps targets to train on, what is told of lengths, the length posterior, words on the canvas."""

import itertools
import math
from dataclasses import fields

import pytest
import torch

from blanklm.core.conceal import conceal
from blanklm.core.special import BLANK, PAD
from blanklm.core.template import Blank
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import EncoderConfig
from blanklm.models.gaps import draw_gaps, draw_unknown_lengths
from blanklm.models.mixed_lblm import PLACE, RANGE, UNKNOWN, MixedConfig, MixedLBLM, hashed_words
from blanklm.restoration.restorer import Restorer
from blanklm.restoration.search import search_beams
from tests.support.lblm import TEXT, A, B, C, make


def drawn_gaps(texts=2000, width=300):
    lengths = torch.randint(1, width + 1, (texts,), generator=torch.Generator().manual_seed(0))
    hideable = torch.rand(texts, width, generator=torch.Generator().manual_seed(1)) < 0.9
    seeds = torch.arange(texts)
    return lengths, hideable, seeds, draw_gaps(lengths, width, seeds, hideable)


def test_gaps_cover_what_they_should():
    lengths, hideable, seeds, gap = drawn_gaps()
    inside = torch.arange(gap.shape[1]) < lengths[:, None]
    assert not (gap & ~(hideable & inside)).any()
    assert (gap.any(1) | ~(hideable & inside).any(1)).all()
    share = gap.sum(1) / (hideable & inside).sum(1).clamp_min(1)
    long = lengths > 100
    assert 0.25 < share[long].mean() < 0.45 and share[long].min() < 0.05 and (share[long] == 1).any()
    alone = draw_gaps(lengths[7:8], gap.shape[1], seeds[7:8], hideable[7:8])
    assert torch.equal(alone[0], gap[7])


def test_gaps_that_do_not_tell_their_length_are_whole_and_as_long_as_the_others():
    _, _, seeds, gap = drawn_gaps()
    unknown, least, most = draw_unknown_lengths(gap, seeds, longest=1000)
    assert unknown.any() and not (unknown & ~gap).any()
    runs = conceal(torch.zeros_like(gap).long(), torch.full((len(gap),), gap.shape[1]), ~gap)
    start = gap & (runs.left == 0)
    k = (runs.right + 1)[start & unknown]
    low, high = least[start & unknown], most[start & unknown]
    ranged = high > 0
    assert 0.4 < ranged.float().mean() < 0.6
    assert ((low <= k) & (k <= high))[ranged].all() and (low >= 1)[ranged].all() and (low[~ranged] == 0).all()
    for text in range(50):
        position = 0
        for is_gap, run in itertools.groupby(gap[text].tolist()):
            length = len(list(run))
            assert not is_gap or len(set(unknown[text, position : position + length].tolist())) == 1
            position += length
    # Their lengths are distributed as those of all gaps: within five standard deviations.
    every = (runs.right + 1)[start]
    for length in range(1, 11):
        share = (every == length).double().mean()
        assert abs((k == length).double().mean() - share) < 5 * math.sqrt(share * (1 - share) / len(k))


def test_gaps_of_untold_length_are_not_begun():
    model = make("mixed")
    batch = Batch(*pad([TEXT * 10] * 200), torch.rand(200, dtype=torch.double), torch.arange(200))
    targets = model.prepare(batch)
    layout = targets.layout
    unknown, _, _ = draw_unknown_lengths(
        draw_gaps(batch.lengths, 40, batch.seeds, model.writable[batch.tokens]), batch.seeds, 20
    )
    at = layout.text[targets.gaps], layout.position[targets.gaps]
    assert unknown[at].all() and int(unknown.sum()) == int(targets.ks.sum())


def test_the_canvas_has_a_symbol_a_place_and_one_for_a_gap_of_untold_length():
    model = make("mixed")
    tokens, lengths = pad([[A, B, B, A, A, B, A, B]])
    hidden = torch.tensor([[0, 1, 1, 0, 1, 1, 1, 0]]).bool()
    unknown = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0]]).bool()
    none = torch.zeros_like(tokens)
    layout = model.lay_out(tokens, lengths, hidden, unknown, none, none, on_gpu=False)
    assert layout.canvas.tolist() == [A, BLANK, BLANK, A, BLANK, B]
    assert layout.kind.tolist() == [PLACE, PLACE, UNKNOWN] and layout.hides.tolist() == [2, 2, 3]
    assert layout.first.tolist() == [0, 1, 0] and layout.second.tolist() == [1, 0, 0]
    assert layout.position.tolist() == [1, 2, 4]
    least, most = none.clone(), none.clone()
    least[0, 4], most[0, 4] = 2, 5
    layout = model.lay_out(tokens, lengths, hidden, unknown, least, most, on_gpu=False)
    assert layout.kind.tolist() == [PLACE, PLACE, RANGE]
    assert layout.first.tolist() == [0, 1, 2] and layout.second.tolist() == [1, 0, 5]


def test_a_gap_that_touches_a_place_stays_apart_from_it():
    model = make("mixed")
    tokens, lengths = pad([[A, B, B, A]])
    hidden, unknown = torch.tensor([[0, 1, 1, 0]]).bool(), torch.tensor([[0, 0, 1, 0]]).bool()
    none = torch.zeros_like(tokens)
    layout = model.lay_out(tokens, lengths, hidden, unknown, none, none, on_gpu=False)
    assert layout.kind.tolist() == [PLACE, UNKNOWN] and layout.hides.tolist() == [1, 1]


def test_the_length_posterior_sums_to_one_and_a_range_masks_it():
    model = make("mixed")
    tokens, lengths = pad([[A, BLANK, B], [A, BLANK, B]])
    hidden = unknown = tokens == BLANK
    least, most = torch.zeros_like(tokens), torch.zeros_like(tokens)
    least[1, 1], most[1, 1] = 3, 5
    log_p, text, position = model.score_lengths(tokens, lengths, hidden, unknown, least, most)
    assert text.tolist() == [0, 1] and position.tolist() == [1, 1]
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(2))
    assert (log_p[0] > -torch.inf).all()
    assert log_p[1].exp().nonzero().squeeze(1).tolist() == [2, 3, 4]


def drafts_of(texts, each, generator):
    """Some drafts of each text, the open places of each written at random or left open: tokens [R, L], of [R]."""
    tokens, lengths = pad(texts)
    of = torch.arange(len(texts)).repeat_interleave(each)
    written = torch.randint(A, B + 1, tokens[of].shape, generator=generator)
    keep_open = torch.rand(written.shape, generator=generator) < 0.5
    return tokens, lengths, torch.where((tokens[of] == BLANK) & ~keep_open, written, tokens[of]), of


def assert_read_around_as_whole(model, start, end):
    texts = [[A, B, BLANK, BLANK, B, A, C, B, A], [B, BLANK, A, A, BLANK, BLANK, B, A], [A, A, B, BLANK, A]]
    tokens, lengths, drafts, of = drafts_of(texts, 6, torch.Generator().manual_seed(0))
    place = torch.arange(tokens.shape[1])  # [L]
    inside = (place >= torch.tensor(start)[:, None]) & (place < torch.tensor(end)[:, None])  # [B, L]
    around = model.read_around(tokens, lengths, inside)
    near, whole = around.score_drafts(drafts, of), model.score_positions(drafts, lengths[of], drafts == BLANK)
    assert len(whole.text) and torch.equal(near.text, whole.text) and torch.equal(near.position, whole.position)
    torch.testing.assert_close(near.log_p_place, whole.log_p_place)
    torch.testing.assert_close(near.log_p_word, whole.log_p_word, atol=1e-4, rtol=1e-4)


def test_a_draft_read_around_its_gap_is_scored_as_the_whole_is():
    assert_read_around_as_whole(make("mixed"), [0, 0, 0], [9, 8, 5])
    # In one layer, what is far from a gap is the same whatever stands in the gap; no word may reach across.
    one_layer = make("mixed")
    one_layer.encoder.layers = one_layer.encoder.layers[:1]
    assert_read_around_as_whole(one_layer, [1, 0, 2], [5, 6, 5])


def test_a_search_near_the_gap_finds_what_the_whole_search_finds():
    model = make("mixed")
    model.encoder.layers = model.encoder.layers[:1]
    texts = [[A, B] * 6 + [BLANK] * 3 + [B, A, A] * 5, [B] * 8 + [BLANK] * 2 + [A] * 9]
    whole = search_beams(model, texts, beam=4)
    near = search_beams(model, texts, beam=4, window=2)
    assert [[f.ids for f in found] for found in near] == [[f.ids for f in found] for found in whole]
    for one, other in zip(itertools.chain(*near), itertools.chain(*whole), strict=True):
        assert math.isclose(one.log_prob, other.log_prob, abs_tol=1e-4)


@pytest.mark.slow
def test_the_length_of_a_gap_is_learnt():
    """One text by heart: what stands on either side of a gap says how long it is."""
    torch.manual_seed(0)
    letters = "abcdefghilmn"
    tokenizer = Tokenizer.train("character", [letters])
    model = MixedLBLM(MixedConfig(len(tokenizer), EncoderConfig(2, 2, 64, 128, dropout=0.0), longest_blank=12))
    model.set_vocabulary(tokenizer)
    texts = [tokenizer.encode(letters)] * 64
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(300):
        batch = Batch(*pad(texts), torch.rand(64, dtype=torch.double), torch.arange(64) + 64 * step)
        optimizer.zero_grad()
        model.loss(model.prepare(batch)).mean().backward()
        optimizer.step()
    restorer = Restorer(model, tokenizer)
    gaps = [(start, start + k) for start in range(1, 11) for k in range(1, 12 - start)]
    filled = restorer.fill([[letters[:start], Blank(), letters[end:]] for start, end in gaps])
    right = sum(len(span) == end - start for (span,), (start, end) in zip(filled, gaps, strict=True))
    assert right > 0.5 * len(gaps)  # one in six by chance


def test_the_loss_is_what_its_parts_say():
    model = make("mixed")
    texts = [[A, B, B, A, C, A, B, A, A, B] * 3, TEXT * 4, [A]]
    batch = Batch(*pad(texts * 20), torch.rand(60, dtype=torch.double), torch.arange(60))
    targets = model.prepare(batch)
    layout = targets.layout
    assert len(targets.gaps) and len(targets.places)
    assert torch.equal(targets.words, batch.tokens[layout.text[targets.places], layout.position[targets.places]])
    assert C not in targets.words.tolist()
    with torch.no_grad():
        loss = model.loss(targets)
        z = model.encode(layout)
        for text in range(60):
            places = [p for p in range(len(targets.places)) if layout.text[targets.places[p]] == text]
            total = 0.0
            for p in places:
                log_p = model.log_p_words(z[targets.places[p]][None])[0, targets.words[p]]
                total -= float(log_p) * int(targets.in_gaps[text]) / len(places)
            for g in range(len(targets.gaps)):
                at = targets.gaps[g]
                if layout.text[at] == text:
                    log_p = model.log_p_lengths(z[at][None], layout.first[at][None], layout.second[at][None])
                    total -= float(log_p[0, targets.ks[g] - 1])
            assert math.isclose(loss[text], total, abs_tol=1e-3)


def test_a_texts_loss_does_not_depend_on_its_batch():
    model = make("mixed")
    texts, fractions, seeds = [TEXT * 5, TEXT * 3, [A, B, C, A]], torch.tensor([0.1, 0.5, 0.9]).double(), [4, 5, 6]
    with torch.no_grad():
        together = model.loss(model.prepare(Batch(*pad(texts), fractions, torch.tensor(seeds))))
        for i, text in enumerate(texts):
            alone = Batch(*pad([text]), fractions[i : i + 1], torch.tensor(seeds[i : i + 1]))
            # Draws depend on the width of the batch, so the text is padded alike.
            wide = torch.full((1, 20), PAD)
            wide[0, : len(text)] = torch.tensor(text)
            alone = Batch(wide, alone.lengths, alone.fractions, alone.seeds)
            torch.testing.assert_close(model.loss(model.prepare(alone))[0], together[i], atol=1e-4, rtol=1e-4)


def test_words_have_a_number_by_their_spelling_and_broken_ones_none():
    tokenizer = Tokenizer.train("character", ["abcdefgh -"])
    symbols = torch.tensor([tokenizer.encode("abc de abc a-c ed cba")])
    space, dash = tokenizer.encode(" ")[0], tokenizer.encode("-")[0]
    numbers = hashed_words(symbols, symbols == space, symbols == dash, 10_007)[0].tolist()
    by_word = [set(part) for part in (numbers[0:3], numbers[4:6], numbers[7:10], numbers[11:14], numbers[15:17])]
    assert all(len(part) == 1 for part in by_word)
    abc, de, again, broken, ed = (part.pop() for part in by_word)
    assert abc == again and broken == 0 and 0 not in (abc, de, ed) and len({abc, de, ed, numbers[-1]}) == 4
    assert numbers[3] == numbers[6] == 0 and max(numbers) < 10_007


def test_words_that_are_known_change_what_is_restored():
    model = make("mixed")
    model.ends_word[C] = True
    text = [A, B, C, BLANK, A, C, B, B, A]
    tokens, lengths = pad([text])
    with_words = model.score_positions(tokens, lengths, tokens == BLANK).log_p_word
    model.word_embedding.weight.data.zero_()
    assert not torch.allclose(with_words, model.score_positions(tokens, lengths, tokens == BLANK).log_p_word)


def test_every_part_of_what_is_drawn_is_a_tensor_or_made_of_them():
    """So that it can be moved to another device while the one before it is trained on."""
    targets = make("mixed").prepare(Batch(*pad([TEXT]), torch.tensor([0.0]).double(), torch.tensor([1])))
    parts = {field.name: getattr(targets, field.name) for field in fields(targets)}
    assert all(isinstance(part, torch.Tensor) or fields(part) for part in parts.values())
