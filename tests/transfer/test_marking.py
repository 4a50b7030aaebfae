"""Which words are marked, and the masks made of them."""

import pytest

from blanklm import BlankLMError
from blanklm.transfer.marking import MAX_MASKS, MarkedText, find_words, is_negated

NICE = "The employees were super nice and efficient!"


def test_what_is_above_average_is_masked_and_the_rest_comes_back_as_it_was(transfer):
    marked = transfer.mark(NICE)
    assert [word.text for word in marked.words] == [
        "The",
        "employees",
        "were",
        "super",
        "nice",
        "and",
        "efficient",
        "!",
    ]
    assert sum(word.weight for word in marked.words) == pytest.approx(1, abs=1e-4)
    for word, (start, end) in zip(marked.words, marked.spans, strict=True):
        assert word.masked == (word.weight > 1 / len(marked.words))
        assert NICE[start:end] == word.text
    assert marked.masked.text == NICE
    assert {"nice", "efficient"} & {w.text for w in marked.words if w.masked}


def test_smaller_masks_are_nested_in_larger_ones(transfer):
    marked = MarkedText.of("a b c d e f", [(2 * i, 2 * i + 1) for i in range(6)], [6, 5, 4, 3, 2, 1], {0, 1, 2, 3, 4})
    nested = [str(mask.template) for mask in marked.nested_masks()]
    assert nested == ["___ b c d e f", "___ c d e f", "___ d e f", "___ f"]
    assert len(nested) == MAX_MASKS
    whole = MarkedText.of(marked.text, marked.spans, [1] * 6, {0, 4}, by_user=True)
    assert [str(mask.template) for mask in whole.nested_masks()] == ["___ b c d ___ f"]


def test_a_mask_is_words_phrases_or_numbers_wherever_they_stand():
    text = "Good food, good  service: goods."
    words = [(0, 4), (5, 9), (9, 10), (11, 15), (17, 24), (24, 25), (26, 31), (31, 32)]
    assert find_words(text, words, ["good"]) == {0, 3}
    assert find_words(text, words, ["good service"]) == {3, 4}
    assert find_words(text, words, [1, "Goods"]) == {1, 6}
    for wrong, message in (
        (["bad"], "no 'bad'"),
        ([8], "its words are 0 to 7"),
        ([-1], "no word -1"),
        ([" "], "empty"),
    ):
        with pytest.raises(BlankLMError, match=message):
            find_words(text, words, wrong)


@pytest.mark.parametrize(
    ("text", "mask", "message"),
    [
        ("", None, "empty"),
        ("   ", None, "empty"),
        ("great", None, "only one word in 'great'"),
        ("great!", ["great"], "only one word"),
        ("?!...", None, "there is no word in"),
        ("the ___ was great", None, "has a blank"),
        ("great food", ["great food"], "covers all"),
        ("word " * 1000, None, "split it"),
    ],
)
def test_bad_input_is_answered_plainly(transfer, text, mask, message):
    with pytest.raises(BlankLMError, match=message):
        transfer.rewrite(text, "negative", mask)


def test_where_no_word_stands_out_a_mask_is_asked_for(transfer, monkeypatch):
    monkeypatch.setattr(transfer.classifier, "attention", lambda texts: [[0.25] * 4 for _ in texts])
    with pytest.raises(BlankLMError, match="no word of 'a b c d' stands out: choose words to replace with a mask"):
        transfer.rewrite("a b c d", "negative")
    assert transfer.rewrite("a b c d", "negative", mask=["c"]).marked.canvas == "a b ___ d"


def test_a_word_and_its_not_are_replaced_together(transfer):
    text = "We couldn't talk, and I can't stay."
    for mask in ([1], [2], ["couldn't"]):
        assert transfer.mark(text, mask).canvas == "We ___ talk, and I can't stay."
    assert is_negated(text, transfer.tokenizer.places(text), 1)
    tokenised = "we could n't talk ."  # words apart stay apart
    assert transfer.mark(tokenised, [2]).canvas == "we could ___ talk ."
