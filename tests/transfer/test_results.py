"""The terms of the score of a rewrite, and their weights."""

import pytest

from blanklm import BlankLMError
from blanklm.transfer.options import Weights
from blanklm.transfer.results import count_repetitions, overlap


@pytest.mark.parametrize("weights", [(-1, 0), (0, float("nan")), (float("inf"), 0)])
def test_weights_are_numbers(weights):
    with pytest.raises(BlankLMError, match=r"the weight of (content|fluency) must be 0 or more"):
        Weights(*weights)


def test_ranked_by_the_classifier_alone_it_is_the_papers_way(transfer):
    marked = transfer.mark("the staff was super friendly and the food was great .")
    (pool,) = transfer.candidates([marked], 0, fewer=False)
    assert len(pool) == 10 and {str(mask.template) for mask, _ in pool} == {marked.canvas}
    ranked = transfer.rank(marked.text, pool, 0, Weights(0, 0, 0))
    log_p = transfer.classifier.log_probs([fill.text for _, fill in pool])[:, 0]
    assert ranked[0].score == pytest.approx(log_p.max())
    assert [r.style for r in ranked] == sorted((r.style for r in ranked), reverse=True)
    kept = transfer.rank(marked.text, pool, 0, Weights(1e6, 0, 0))
    assert kept[0].content == max(r.content for r in ranked)


@pytest.mark.parametrize(
    ("written", "repetitions"),
    [
        ("the staff was rude and the food was rude .", 1),
        ("the staff was great and the food was great .", 0),  # as in the source
        ("it is so so bad", 0),
    ],
)
def test_repeated_words_are_counted(written, repetitions):
    source = "the staff was great and the food was great ."
    assert count_repetitions(source.split(), written.split()) == repetitions
    assert (
        Weights().score(0, 0, 0, repetitions) == -repetitions and Weights(repetition=0).score(0, 0, 0, repetitions) == 0
    )


def test_overlap_is_that_of_bags():
    assert overlap([1, 2, 2, 3], [2, 2, 4]) == pytest.approx(4 / 7)
    assert overlap([1], [1]) == 1 and overlap([], []) == 0
