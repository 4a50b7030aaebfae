"""Where and when: n-grams, targets and the loss against slow and obvious versions."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
import torch

from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.attribution import AttributionConfig, AttributionModel, Inscriptions, ngrams
from blanklm.training import checkpoint

ALPHABET = Tokenizer.train("character", ["abcdefgh "])
(SPACE,) = ALPHABET.encode(" ")
TEXTS = [" dab cab # ad abba ", " a#b ", "#", "", " gag gag ", " " + "abcdefgh " * 9]


def tokens_of(texts):
    return pad(ALPHABET.encode_many(texts))[0]


def slow_ngrams(text):
    """Every n-gram of one text, letter by letter."""
    found = set()
    for size in (2, 3, 4, 5):
        found |= {("characters", text[i : i + size]) for i in range(len(text) - size + 1)}
    found = {(kind, gram) for kind, gram in found if "#" not in gram}
    words = text.split(" ")
    whole = [word if 0 < i < len(words) - 1 and word and "#" not in word else None for i, word in enumerate(words)]
    found |= {("word", word) for word in whole if word}
    found |= {("pair", f"{one} {two}") for one, two in pairwise(whole) if one and two}
    return found


def make_model(texts=TEXTS):
    torch.manual_seed(0)
    keys = np.unique(ngrams(tokens_of(texts).numpy(), SPACE)[1])
    config = AttributionConfig(
        len(ALPHABET), SPACE, len(keys), ("Asia", "Baetica", "Dacia"), bc=50, years=25, bins=6, width=32
    )
    model = AttributionModel(config)
    model.keys.copy_(torch.from_numpy(keys))
    return model.eval()


def test_n_grams_are_those_of_the_slow_version_and_none_crosses_what_is_lost():
    owners, keys = ngrams(tokens_of(TEXTS).numpy(), SPACE)
    of_each = [set(keys[owners == i].tolist()) for i in range(len(TEXTS))]
    slow = [slow_ngrams(text) for text in TEXTS]
    assert [len(found) for found in of_each] == [len(found) for found in slow] and len(keys) == sum(map(len, slow))
    for i in range(len(TEXTS)):
        for j in range(len(TEXTS)):
            assert len(of_each[i] & of_each[j]) == len(slow[i] & slow[j]), (TEXTS[i], TEXTS[j])


def test_a_text_reads_the_same_alone_and_in_a_batch():
    model = make_model()
    together = model.logits(model.bags(tokens_of(TEXTS)))
    for i, text in enumerate(TEXTS):
        for alone, row in zip(model.logits(model.bags(tokens_of([text]))), together, strict=True):
            torch.testing.assert_close(alone[0], row[i])


def test_n_grams_that_were_not_learnt_change_nothing_but_what_they_stand_beside():
    model = make_model([" dab cab "])
    assert len(model.bags(tokens_of([" hhh "])).entries) == 0
    for one, other in zip(*(model.logits(model.bags(tokens_of([text]))) for text in (" hhh ", "")), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("years", [(-50, 99), (-3, 20), (7, 7), (24, 25), (-400, -300), (90, 500), (-60, -40), (1, 0)])
def test_a_target_is_spread_over_the_editors_years_one_by_one(years):
    slow = torch.zeros(6)
    for year in range(years[0], years[1] + 1):
        slow[min(max((year + 50) // 25, 0), 5)] += 1
    slow /= max(1, years[1] - years[0] + 1)
    torch.testing.assert_close(make_model().target(*years), slow)


def test_the_loss_is_that_of_the_slow_version_and_of_what_is_known_alone():
    model = make_model()
    labels = torch.tensor([2, -1, 0, 1, -1, 1]), torch.tensor([[-3, 20], [7, 7], [1, 0], [60, 99], [1, 0], [-50, -30]])
    with torch.no_grad():
        losses = model.loss(model.prepare(Inscriptions(tokens_of(TEXTS), *labels)))
        places, dates = (logits.softmax(1) for logits in model.logits(model.bags(tokens_of(TEXTS))))
    for i, (place, (first, last)) in enumerate(zip(labels[0].tolist(), labels[1].tolist(), strict=True)):
        slow = 0.0 if place < 0 else -math.log(places[i, place])
        for year in range(first, last + 1):
            slow -= math.log(dates[i, (year + 50) // 25]) / (last - first + 1)
        assert losses[i].item() == pytest.approx(slow, abs=1e-4)


def test_a_stored_model_is_the_same_once_rounded(tmp_path):
    model = make_model()
    checkpoint.save(tmp_path / "one", model, ALPHABET, {"name": "tiny"}, word_bits=4)
    once = checkpoint.load(tmp_path / "one").model
    checkpoint.save(tmp_path / "two", once, ALPHABET, {"name": "tiny"}, word_bits=4)
    twice = checkpoint.load(tmp_path / "two").model
    assert once.config.places == ["Asia", "Baetica", "Dacia"] and torch.equal(once.keys, model.keys)
    for loaded, other in ((once, model), (twice, once)):
        for one, two in zip(*(m.logits(m.bags(tokens_of(TEXTS))) for m in (loaded, other)), strict=True):
            torch.testing.assert_close(one, two, atol=0.35 if other is model else 1e-3, rtol=0)


def test_a_model_of_nothing_is_refused():
    with pytest.raises(BlankLMError, match=re.escape("needs n-grams, places and bins of at least one year")):
        AttributionConfig(9, 4, 5, (), 0, 25, 4)
