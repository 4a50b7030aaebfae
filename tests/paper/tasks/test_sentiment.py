"""Sentiment transfer as a task: the scale of the paper, files in any order, the frontier, masks by frequency."""

import numpy as np
import pytest

from blanklm.errors import DataError
from blanklm.paper.tasks.metrics import corpus_bleu
from blanklm.paper.tasks.sentiment import PUBLISHED, Salience, TestSet, placed_by_source, published, score
from tests.support.oracles import slow_bleu
from tests.support.paths import FIXTURES

AMAZON = FIXTURES / "amazon"  # a sample: 30 sentences around the one of each sentiment that a published file leaves out


class FirstWord:
    """A judge that finds texts positive that begin with "good"."""

    def log_probs(self, texts):
        good = np.array([text.startswith("good") for text in texts])
        return np.log(np.stack((~good, good), axis=1) + 1e-9)


@pytest.mark.usefixtures("corpora")
def test_the_output_of_zhang_et_al_scores_as_in_the_paper():
    test = TestSet.load("yelp")
    outputs = published("yelp", test)["Zhang et al. 2018"]
    scores = score(test, [outputs[i] for i in range(1000)], FirstWord())
    assert round(scores["bleu"], 1) == 22.8
    assert round(scores["bleu_all_references"], 1) == 44.3


@pytest.mark.usefixtures("corpora")
@pytest.mark.parametrize(("corpus", "bleu"), [("yelp", 31.4), ("amazon", 44.5)])
def test_copying_scores_high(corpus, bleu):
    test = TestSet.load(corpus)
    assert round(score(test, test.sources, FirstWord())["bleu"], 1) == bleu


@pytest.mark.usefixtures("corpora")
def test_amazon_outputs_are_placed_by_their_sources():
    test = TestSet.load("amazon")
    outputs = published("amazon", test)
    assert {name: len(found) for name, found in outputs.items()} == {
        name: 998 if "label" in name else 1000 for name in PUBLISHED["amazon"].values()
    }
    # A system that changes little resembles its own source more than its neighbour's, wherever the line stood.
    found = outputs["Li et al. 2018, file 'label'"]
    shared = [len(set(text.split()) & set(test.sources[i].split())) / len(text.split()) for i, text in found.items()]
    assert np.mean(shared) > 0.7


def sample(name):
    return (AMAZON / name).read_text(encoding="utf-8").splitlines()


def test_copying_a_sample_scores_what_the_definition_of_bleu_says():
    test = TestSet(sample("test.txt"), [1] * 30 + [0] * 30, [sample("reference.txt")])
    copied = score(test, test.sources, FirstWord())
    assert copied["self_bleu"] == pytest.approx(100)
    assert copied["bleu"] == pytest.approx(slow_bleu(test.sources, test.references[0]), abs=1e-6)
    unaligned = corpus_bleu(test.sources, test.references[0][1:] + test.references[0][:1])
    assert copied["bleu"] > 40 > 5 > unaligned  # the references stand beside their sources


def test_a_sample_of_published_outputs_is_placed_by_its_sources():
    """The published file leaves out a sentence of each sentiment, so that line numbers are wrong from there on."""
    sources, lines = sample("test.txt"), sample("label.tsf")
    placed = placed_by_source(lines, sources)
    assert sorted(set(range(60)) - set(placed)) == [15, 45]

    def shared(outputs):
        return np.mean([len(set(text.split()) & set(sources[i].split())) / len(text.split()) for i, text in outputs])

    assert shared(placed.items()) > 0.7 > 0.4 > shared(enumerate(line.split("\t")[1] for line in lines))


def test_lines_in_any_order_are_placed_by_their_source_and_strangers_refused():
    lines = ["b  c\tx y\t0", "a\tz\t0"]
    assert placed_by_source(lines, ["a", "missing", "b c"]) == {2: "x y", 0: "z"}
    with pytest.raises(DataError, match="not in the test set"):
        placed_by_source(["d\tx\t0"], ["a"])


def test_accuracy_is_of_the_wanted_sentiment():
    test = TestSet(["bad food", "good food"], [1, 0], [["good food", "bad food"]])
    scores = score(test, ["good food", "good food"], FirstWord())
    assert scores["accuracy"] == 50 and scores["texts"] == 2
    assert score(test, test.references[0], FirstWord())["accuracy"] == 100


def test_masks_by_frequency():
    salience = Salience([["bad food", "bad place", "not good"] * 5, ["good food", "good place"] * 5])
    assert salience.of_words("bad food", 0) == [11.0, 6.0]  # "food" through "bad food": 5 + 1 over 0 + 1
    assert salience.marked("the bad food", 0, least=7) == {1}
    assert salience.marked("good place", 0, least=7) == {1}  # none is that salient: the most salient one
    assert salience.marked("not good food", 0, least=6) == {0, 1}
