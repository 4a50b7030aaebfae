"""Fill-mask as transformers answers it, with the probabilities of single words."""

import pytest

from blanklm import BlankLM
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from tests.support.models import make_blm, make_span_blm

KEYS = {"score", "token", "token_str", "sequence"}


@pytest.fixture(scope="module")
def small():
    return BlankLM.from_pretrained("english-small", device="cpu")


@pytest.mark.parametrize("mask", ["[MASK]", "<mask>"])
def test_one_mask_gives_a_list_and_several_a_list_for_each(small, mask):
    found = small.fill_mask(f"Paris is the {mask} of France.", top_k=3)
    assert len(found) == 3 and all(set(record) == KEYS for record in found)
    assert found[0]["token_str"] == "capital" and found[0]["sequence"] == "Paris is the capital of France."
    assert small.tokenizer.token(found[0]["token"]).endswith("capital")
    assert [record["score"] for record in found] == sorted((record["score"] for record in found), reverse=True)
    two = small.fill_mask(f"The {mask} sat on the {mask}.", top_k=2)
    assert len(two) == 2 and all(len(records) == 2 for records in two)
    assert two[1][0]["sequence"].startswith(f"The {mask} sat on the ") and mask not in two[1][0]["token_str"]


def test_texts_in_a_list_give_lists_and_one_in_a_list_does_not(small):
    one, other = "It was [MASK].", "We were [MASK] at home."
    both = small.fill_mask([one, other], top_k=2)
    assert both == [small.fill_mask(one, top_k=2), small.fill_mask(other, top_k=2)]
    assert small.fill_mask([one], top_k=2) == both[0]


def test_targets_are_scored_whatever_their_tokens(small):
    text = "I saw him [MASK] at school."
    found = small.fill_mask(text, targets=["perspicaciously", "today"])
    assert [record["token_str"] for record in found] == ["today", "perspicaciously"] and found[1]["token"] is None
    best = small.fill_mask(text, top_k=50)
    assert small.fill_mask(text, targets=best[7]["token_str"])[0]["score"] == pytest.approx(best[7]["score"], rel=1e-3)


@pytest.mark.parametrize("make", [make_blm, make_span_blm])
def test_scores_are_probabilities_of_all_single_words(make):
    tokenizer = Tokenizer.train("word", ["a b c d e f g h"])
    model = BlankLM(make(vocabulary=len(tokenizer)), tokenizer)
    scores = [record["score"] for record in model.fill_mask("a [MASK] b", top_k=100)]
    assert 0 < sum(scores) <= 1 + 1e-5 and len(scores) == 8
    targets = model.fill_mask("a [MASK] b", top_k=100, targets=list("abcdefgh"))
    assert [record["score"] for record in targets] == pytest.approx(scores, rel=1e-4)


def test_what_is_wrong_is_one_line(small):
    for text, settings, problem in (
        ("no mask", {}, "there is no mask"),
        ("a [MASK]", {"top_k": 0}, "top_k must be at least 1"),
        ("a [MASK]", {"targets": []}, "at least one target"),
        ("a [MASK]", {"targets": "two words"}, "choose ranks phrases"),
        ("word " * 600 + "[MASK]", {}, "split it"),
    ):
        with pytest.raises(BlankLMError, match=problem):
            small.fill_mask(text, **settings)
