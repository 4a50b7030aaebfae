"""Tokens are put into print."""

from dataclasses import replace

from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import blank_out
from blanklm.transfer.options import Weights
from blanklm.transfer.surface import is_tokenised, to_print


def test_plain_text_in_lower_case_comes_back_in_print(transfer):
    (pool,) = transfer.candidates([marked := transfer.mark("the food was terrible")], 1)
    pool = [(pool[0][0], replace(pool[0][1], spans=("amazing !",)))]
    assert transfer.rank(marked.text, pool, 1, Weights())[0].text == "the food was amazing!"
    tokenised = [(blank_out("it was bad .", [(0, 2), (3, 6), (7, 10), (11, 12)], {2}), pool[0][1])]
    assert transfer.rank("it was bad .", tokenised, 1, Weights())[0].text == "it was amazing ! ."


def test_tokens_are_put_into_print():
    places = [(0, 3), (4, 8), (9, 12), (13, 18), (18, 19)]
    masked = blank_out("The food was great!", places, {0, 1, 3})
    assert "".join(to_print(masked, ["i do n't think it", "good , i 'm sure"])) == (
        "I don't think it was good, I'm sure!"
    )
    masked = blank_out("The food was great!", places, {2, 3})
    assert to_print(masked, ["'s cold"]) == ("The food", "'s cold", "!")


def test_words_in_print_stand_apart_and_keep_what_they_had(transfer):
    def written(text, chosen, spans):
        return "".join(to_print(blank_out(text, transfer.tokenizer.places(text), chosen), spans))

    assert written("It's a nice place.", {1, 3}, ["is", "awful"]) == "It is an awful place."
    assert written("It was an awful place.", {3}, ["useful"]) == "It was a useful place."
    assert written("An hour of fun!", {3}, ["pain , i wo not say more"]) == "An hour of pain, I will not say more!"
    assert written("GREAT food.", {0}, ["very bad"]) == "VERY BAD food."
    assert written("I do like it.", {1, 2}, ["n't like"]) == "I not like it."  # "In't" is not a word
    assert written("I do like it.", {2}, ["n't like"]) == "I don't like it."


def test_marks_stand_apart_and_corpus_text_stays_as_it_is():
    words = Tokenizer.train("word", ["It isn't so, is it? (5:30)"], lowercase=True, marks_apart=True)
    text = "Isn't it so... at 5:30, (is it)?"
    assert [text[a:b] for a, b in words.places(text)] == [
        "Is",
        "n't",
        "it",
        "so",
        "...",
        "at",
        "5:30",
        ",",
        "(",
        "is",
        "it",
        ")",
        "?",
    ]
    tokenised = "it 's n't so , is it ?"
    assert [tokenised[a:b] for a, b in words.places(tokenised)] == tokenised.split()
    assert words.encode("It isn't so?") == words.encode("it is n't so ?")
    assert Tokenizer(words.backend).kind == "word"


def test_placeholders_are_written_into_corpus_text_alone(transfer):
    assert all(word.startswith("_") for word in transfer.placeholders)
    assert is_tokenised("it 's _num_ dollars .", transfer.tokenizer)
    assert not any(is_tokenised(text, transfer.tokenizer) for text in ("It's 10 dollars.", "it's 10 dollars."))
