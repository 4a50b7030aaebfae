"""The list of words that repairs are made of."""

from blanklm.paper.bundled import word_list
from blanklm.repairing.lexicon import Lexicon


def test_words_are_counted_and_written_as_within_sentences(tmp_path):
    texts = ["However, we met Paul in the States.", "The states of matter, and Paul's father-in-law.", "rare"] * 9
    found = dict(word_list.counted(texts[:-2]))
    assert found["however"] == 9 and found["Paul"] == 9 and found["states"] == 17 and found["Paul's"] == 8
    assert found["father-in-law"] == 8 and "rare" in found and "States" not in found
    assert "However" not in dict(word_list.counted(texts[:6])) and not word_list.counted(texts[:21:3])
    word_list.write(tmp_path / "words.tsv.xz", word_list.counted(texts))
    assert (tmp_path / "words.tsv.xz").stat().st_size > 50


def test_the_bundled_list_is_of_common_words():
    words = Lexicon.english().words
    assert len(words) > 40_000 and all(count >= word_list.LEAST for _, count in words.values())
    assert words["the"][1] > 10**6 and words["monday"][0] == "Monday" and words["long-term"][0] == "long-term"
