"""What a training run has learnt, shown on held-out texts."""

from types import SimpleNamespace

from blanklm.learnt import MEASURED, MEASURED_WORDS, SHORT, _chosen

ROOMY = SimpleNamespace(tokenizer=SimpleNamespace(encode=str.split), longest=512)
NARROW = SimpleNamespace(tokenizer=SimpleNamespace(encode=list), longest=100)  # a token is a character


def text_of(words):
    return " ".join(["word"] * words)


def test_short_texts_are_compared_first_and_long_ones_where_there_are_few():
    short, long = [f"{text_of(9)} {i}" for i in range(3)], [f"{text_of(SHORT + 10)} {i}" for i in range(3)]
    assert _chosen([long[0], short[0], long[1], short[1], "too short", short[2], long[2]], [ROOMY]) == [*short, *long]


def test_no_more_texts_are_compared_than_take_seconds():
    assert len(_chosen([f"{text_of(5)} {i}" for i in range(2 * MEASURED)], [ROOMY])) == MEASURED
    chosen = _chosen([f"{text_of(SHORT * 4)} {i}" for i in range(MEASURED)], [ROOMY])
    assert MEASURED_WORDS - 4 * SHORT - 1 <= sum(len(text.split()) for text in chosen) <= MEASURED_WORDS


def test_a_text_that_one_of_the_models_cannot_take_is_left_out():
    assert _chosen([text_of(30), text_of(6)], [ROOMY, NARROW]) == [text_of(6)]
