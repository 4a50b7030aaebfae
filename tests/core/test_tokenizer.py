"""Three tokenizers, one behaviour: text around blanks comes back character for character."""

import random

import pytest
import torch

from blanklm.core.orders import words_of
from blanklm.core.special import BLANK, EOS, PAD, UNK
from blanklm.core.template import Blank, Template
from blanklm.core.tokenizer import KINDS, Tokenizer
from blanklm.errors import BlankLMError, CheckpointError
from tests.support.canvases import LINES


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return Tokenizer.train(request.param, LINES, vocabulary=400)


def test_the_special_tokens_have_fixed_ids(tokenizer):
    assert [tokenizer.token(i) for i in (PAD, BLANK, UNK, EOS)] == ["<pad>", "<blank>", "<unk>", "<eos>"]


def test_known_text_survives_encoding_and_decoding(tokenizer):
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == line


def test_saved_and_loaded_it_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.kind == tokenizer.kind and len(again) == len(tokenizer)
    assert again.encode(LINES[0]) == tokenizer.encode(LINES[0])


def test_a_template_becomes_a_canvas_with_one_blank_each(tokenizer):
    ids, _ = tokenizer.encode_template(Template.parse("they ___ have ___[2-3] ."))
    assert ids.count(BLANK) == 2
    assert PAD not in ids


def test_hidden_words_put_back_give_the_text_character_for_character(tokenizer):
    """Cut random stretches of words out of real text, encode canvas and stretches apart, and put them back."""
    rng = random.Random(1)
    for _ in range(300):
        line = rng.choice(LINES)
        words = line.split(" ")
        start = rng.randrange(len(words))
        end = rng.randrange(start, len(words)) + 1
        before, span, after = words[:start], words[start:end], words[end:]
        template = Template((" ".join(before) + " " * bool(before), " " * bool(after) + " ".join(after)), (Blank(),))
        ids, spaces = tokenizer.encode_template(template)
        whole = tokenizer.encode(line)
        prefix, suffix = ids[: ids.index(BLANK)], ids[ids.index(BLANK) + 1 :]
        hidden = whole[len(prefix) : len(whole) - len(suffix)]
        assert prefix + hidden + suffix == whole  # the canvas is the text with a run of its tokens replaced
        text = tokenizer.span_text(hidden, spaces[0])
        assert text == " ".join(span)
        assert tokenizer.render(template, [text]) == line


def test_special_words_typed_by_a_user_are_text(tokenizer):
    assert BLANK not in tokenizer.encode("a <blank> b <pad>") and PAD not in tokenizer.encode("a <blank> b <pad>")


def test_specials_and_broken_bytes_are_never_written(tokenizer):
    never = tokenizer.never_written
    assert never[:4].all()
    writable = [i for i in range(len(tokenizer)) if not never[i]]
    assert writable and all("�" not in tokenizer.token_text(i) for i in writable)


def test_word_vocabulary_is_cut_by_frequency_and_size():
    texts = ["a a a b b c"]
    assert len(Tokenizer.train("word", texts, min_count=2)) == 4 + 2
    small = Tokenizer.train("word", texts, vocabulary=5)
    assert small.encode("a b") == [4, UNK]
    assert small.unknown_words("b a c b") == ["b", "c"]


def test_a_control_character_is_part_of_a_word_in_training_and_in_use():
    """Python splits there, `tokenizers` does not; what was learnt must be what is looked up."""
    tokenizer = Tokenizer.train("word", ["a\x1fb c"])
    assert tokenizer.decode(tokenizer.encode("c a\x1fb")) == "c a\x1fb"
    assert tokenizer.unknown_words("a\x1fb \x1f c") == ["\x1f"]


def test_words_can_be_folded_to_lower_case():
    assert Tokenizer.train("word", ["they"], lowercase=True).encode("They") == [4]


def test_the_corpus_symbol_for_unknown_words_is_the_unknown_word():
    assert Tokenizer.train("word", ["the <unk> fell"]).encode("<unk>") == [UNK]


def test_the_space_before_a_blank_goes_with_the_fill_in_bpe():
    bpe = Tokenizer.train("bpe", LINES, vocabulary=400)
    _, spaces = bpe.encode_template(Template.parse("I went to ___, then (___) and\n___"))
    assert spaces == [True, False, False]
    assert bpe.starts_word[bpe.encode(" good")[0]] and not bpe.starts_word[bpe.encode("good")[0]]


def test_a_word_ends_where_letters_digits_and_marks_meet():
    bpe = Tokenizer.train("bpe", LINES, vocabulary=400)
    text = "Hotel, 42nd (ice) it's café!"
    ids = bpe.encode(text)
    word = words_of(torch.tensor([ids]), torch.from_numpy(bpe.edges))[0].tolist()
    units = ["".join(bpe.decode([i for i, w in zip(ids, word, strict=True) if w == k])) for k in range(max(word) + 1)]
    assert units == ["Hotel", ",", " 42", "nd", " (", "ice", ")", " it", "'", "s", " café", "!"]


def test_touching_blanks_of_words_do_not_run_together():
    words = Tokenizer.train("word", LINES)
    assert words.render(Template.parse("___[1-]___ ."), ["ice", "cream"]) == "ice cream ."


def test_bad_requests_are_named():
    with pytest.raises(BlankLMError, match="choose word, character, bpe"):
        Tokenizer.train("syllable", LINES)


def test_a_damaged_or_foreign_file_is_named(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"version": "1.0", "tru')
    with pytest.raises(CheckpointError, match="not a readable tokenizer"):
        Tokenizer.load(path)
    path.write_text('{"version":"1.0","model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}')
    with pytest.raises(CheckpointError, match="no tokenizer of blanklm"):
        Tokenizer.load(path)
