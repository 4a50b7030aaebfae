"""Transfer: what is masked, what is written, how it is ranked; the command; training on any two styles."""

import json
from dataclasses import replace
from itertools import product

import pytest
from safetensors.torch import load_file

from blanklm import BlankLM, BlankLMError, Transfer
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import blank_out
from blanklm.transfer.transfer import MASKS, Marked, Weights, in_print, is_negated, overlap, places_of, written_again
from tests.support.paths import YELP_WORDS

NICE = "The employees were super nice and efficient!"


@pytest.fixture(scope="module")
def transfer() -> Transfer:
    return Transfer.from_pretrained(device="cpu")


# --- Masks ----------------------------------------------------------------------------------------------------


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
    for word in marked.words:
        assert word.masked == (word.weight > 1 / len(marked.words))
        assert NICE[word.start : word.end] == word.text
    assert marked.masked.text == NICE
    assert {"nice", "efficient"} & {w.text for w in marked.words if w.masked}


def test_smaller_masks_are_nested_in_larger_ones(transfer):
    marked = Marked.of("a b c d e f", [(2 * i, 2 * i + 1) for i in range(6)], [6, 5, 4, 3, 2, 1], {0, 1, 2, 3, 4})
    nested = [str(mask.template) for mask in marked.nested()]
    assert nested == ["___ b c d e f", "___ c d e f", "___ d e f", "___ f"]
    assert len(nested) == MASKS
    whole = Marked.of(marked.text, [(w.start, w.end) for w in marked.words], [1] * 6, {0, 4}, by_user=True)
    assert [str(mask.template) for mask in whole.nested()] == ["___ b c d ___ f"]


def test_a_mask_is_words_phrases_or_numbers_wherever_they_stand():
    text = "Good food, good  service: goods."
    words = [(0, 4), (5, 9), (9, 10), (11, 15), (17, 24), (24, 25), (26, 31), (31, 32)]
    assert places_of(text, words, ["good"]) == {0, 3}
    assert places_of(text, words, ["good service"]) == {3, 4}
    assert places_of(text, words, [1, "Goods"]) == {1, 6}
    for wrong, message in (
        (["bad"], "no 'bad'"),
        ([8], "its words are 0 to 7"),
        ([-1], "no word -1"),
        ([" "], "nothing"),
    ):
        with pytest.raises(BlankLMError, match=message):
            places_of(text, words, wrong)


@pytest.mark.parametrize(
    ("text", "mask", "message"),
    [
        ("", None, "empty"),
        ("   ", None, "empty"),
        ("great", None, "one word alone in 'great'"),
        ("great!", ["great"], "one word alone"),
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
    with pytest.raises(BlankLMError, match="no word of 'a b c d' stands out: say which to replace with a mask"):
        transfer.rewrite("a b c d", "negative")
    assert transfer.rewrite("a b c d", "negative", mask=["c"]).marked.canvas == "a b ___ d"


@pytest.mark.parametrize("weights", [(-1, 0), (0, float("nan")), (float("inf"), 0)])
def test_weights_are_numbers(weights):
    with pytest.raises(BlankLMError, match=r"the weight of (content|fluency) is 0 or more"):
        Weights(*weights)


def test_plain_text_in_lower_case_is_written_as_in_print(transfer, monkeypatch):
    (pool,) = transfer.candidates([marked := transfer.mark("the food was terrible")], 1)
    pool = [(pool[0][0], replace(pool[0][1], spans=("amazing !",)))]
    assert transfer.ranked(marked.text, pool, 1, Weights())[0].text == "the food was amazing!"
    tokenised = [(blank_out("it was bad .", [(0, 2), (3, 6), (7, 10), (11, 12)], {2}), pool[0][1])]
    assert transfer.ranked("it was bad .", tokenised, 1, Weights())[0].text == "it was amazing ! ."


def test_an_unknown_style_is_named_with_those_there_are(transfer):
    with pytest.raises(BlankLMError, match="there is no style 'angry': this model knows negative and positive"):
        transfer.rewrite(NICE, "angry")


# --- Writing and choosing -------------------------------------------------------------------------------------


def test_a_text_is_rewritten_in_the_other_style_and_keeps_the_rest(transfer):
    rewritten = transfer.rewrite(NICE, "negative", n=3)
    assert rewritten.reads_as == "positive" and rewritten.reads_as_p > 0.5
    best = rewritten.rewrites[0]
    assert rewritten.text == best.text == "".join(best.parts)
    assert transfer.classifier.log_probs([best.text])[0].argmax() == 0
    assert best.parts[0].startswith("The") or best.canvas.startswith("___")
    assert [r.score for r in rewritten.rewrites] == sorted((r.score for r in rewritten.rewrites), reverse=True)
    assert len({r.text for r in rewritten.rewrites}) == len(rewritten.rewrites) <= 3


def test_ranked_by_the_classifier_alone_it_is_the_papers_way(transfer):
    marked = transfer.mark("the staff was super friendly and the food was great .")
    (pool,) = transfer.candidates([marked], 0, fewer=False)
    assert len(pool) == 10 and {str(mask.template) for mask, _ in pool} == {marked.canvas}
    ranked = transfer.ranked(marked.text, pool, 0, Weights(0, 0, 0))
    log_p = transfer.classifier.log_probs([fill.text for _, fill in pool])[:, 0]
    assert ranked[0].score == pytest.approx(log_p.max())
    assert [r.style for r in ranked] == sorted((r.style for r in ranked), reverse=True)
    kept = transfer.ranked(marked.text, pool, 0, Weights(1e6, 0, 0))
    assert kept[0].content == max(r.content for r in ranked)


def test_results_do_not_depend_on_what_else_is_rewritten(transfer):
    texts = ["the food was great .", NICE, "i love this place !"]
    together = transfer.rewrite(texts, "negative")
    assert transfer.rewrite(texts[1:2], "negative", numbers=[1])[0].text == together[1].text
    assert transfer.rewrite(texts, "negative") == together


def test_a_text_that_is_no_longer_wanted_is_given_up(transfer):
    texts = ["the food was great .", "i love this place !"]
    gone, wanted = transfer.rewrite(texts, "negative", wanted=[lambda: False, lambda: True])
    assert gone is None and wanted.text


def test_placeholders_are_written_into_corpus_text_alone(transfer):
    assert all(word.startswith("_") for word in transfer.placeholders)
    assert transfer.is_tokenised("it 's _num_ dollars .")
    assert not transfer.is_tokenised("It's 10 dollars.") and not transfer.is_tokenised("it's 10 dollars.")


def test_in_print():
    places = [(0, 3), (4, 8), (9, 12), (13, 18), (18, 19)]
    masked = blank_out("The food was great!", places, {0, 1, 3})
    assert "".join(in_print(masked, ["i do n't think it", "good , i 'm sure"])) == (
        "I don't think it was good, I'm sure!"
    )
    masked = blank_out("The food was great!", places, {2, 3})
    assert in_print(masked, ["'s cold"]) == ("The food", "'s cold", "!")


def test_in_print_words_stand_apart_and_keep_what_they_had(transfer):
    def written(text, chosen, spans):
        return "".join(in_print(blank_out(text, transfer.tokenizer.places(text), chosen), spans))

    assert written("It's a nice place.", {1, 3}, ["is", "awful"]) == "It is an awful place."
    assert written("It was an awful place.", {3}, ["useful"]) == "It was a useful place."
    assert written("An hour of fun!", {3}, ["pain , i wo not say more"]) == "An hour of pain, I will not say more!"
    assert written("GREAT food.", {0}, ["very bad"]) == "VERY BAD food."
    assert written("I do like it.", {1, 2}, ["n't like"]) == "I not like it."  # "In't" is no word
    assert written("I do like it.", {2}, ["n't like"]) == "I don't like it."


def test_a_word_and_its_not_are_replaced_together(transfer):
    text = "We couldn't talk, and I can't stay."
    for mask in ([1], [2], ["couldn't"]):
        assert transfer.mark(text, mask).canvas == "We ___ talk, and I can't stay."
    assert is_negated(text, transfer.tokenizer.places(text), 1)
    tokenised = "we could n't talk ."  # words apart stay apart
    assert transfer.mark(tokenised, [2]).canvas == "we could ___ talk ."


@pytest.mark.parametrize(
    ("written", "again"),
    [
        ("the staff was rude and the food was rude .", 1),
        ("the staff was great and the food was great .", 0),  # as in the source
        ("it is so so bad", 0),
    ],
)
def test_words_written_again_are_counted(written, again):
    source = "the staff was great and the food was great ."
    assert written_again(source.split(), written.split()) == again
    assert Weights().score(0, 0, 0, again) == -again and Weights(repetition=0).score(0, 0, 0, again) == 0


def test_overlap_is_that_of_bags():
    assert overlap([1, 2, 2, 3], [2, 2, 4]) == pytest.approx(4 / 7)
    assert overlap([1], [1]) == 1 and overlap([], []) == 0


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


def test_the_model_is_no_blm(transfer):
    with pytest.raises(BlankLMError, match="use it with blanklm transfer"):
        BlankLM.from_pretrained("sentiment", device="cpu")
    with pytest.raises(BlankLMError, match="does not rewrite texts"):
        Transfer.from_pretrained(YELP_WORDS, device="cpu")


# --- The command ----------------------------------------------------------------------------------------------


def test_the_command_gives_what_python_gives(blanklm, transfer):
    code, lines, _ = blanklm("transfer", "--to", "negative", NICE, "--device", "cpu")
    assert (code, lines) == (0, [transfer.rewrite(NICE, "negative").text])


def test_the_mask_is_shown_and_changed(blanklm):
    code, lines, _ = blanklm("transfer", "--show-mask", NICE, "--mask", "super nice", "--mask", "employees")
    assert (code, lines) == (0, ["The [employees] were [super nice] and efficient!"])
    code, lines, _ = blanklm("transfer", "--to", "negative", "--show-mask", NICE, "--mask", "super nice", "-n", 2)
    assert code == 0 and lines[0] == "The employees were [super nice] and efficient!"
    assert all("The employees were " in line and line.endswith(" and efficient!") for line in lines[1:])


def test_json_has_words_and_rewrites(blanklm):
    code, lines, _ = blanklm("transfer", "--to", "negative", "--json", NICE, "-n", 2)
    record = json.loads(lines[0])
    assert code == 0 and record["input"] == NICE and record["to"] == "negative"
    assert [word["text"] for word in record["words"]][:2] == ["The", "employees"]
    assert 1 <= len(record["rewrites"]) <= 2 and record["rewrites"][0]["text"]


def test_a_file_is_answered_line_by_line(blanklm, tmp_path):
    (tmp_path / "texts.txt").write_text("the food was great .\n\nawful service .\n", encoding="utf-8")
    code, lines, said = blanklm("transfer", "--to", "negative", "--file", tmp_path / "texts.txt")
    assert code == 1 and len(lines) == 3 and lines[1] == ""
    assert "error: line 2: the text is empty" in said
    assert "note: line 3: the text reads as negative already" in said


def test_where_nothing_is_found_in_the_style_and_where_words_are_unknown_it_is_said(blanklm):
    code, lines, said = blanklm("transfer", "--to", "negative", "I love and adore this place!", "--mask", "this")
    assert code == 0 and len(lines) == 1
    assert "note: nothing was found that reads as negative" in said and "--mask" in said
    assert "does not know 'qwertz'" in blanklm("transfer", "--to", "negative", "The qwertz was great.")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NICE,), "say in which style to write with --to"),
        ((NICE, "--to", "angry"), "there is no style 'angry'"),
        ((NICE, "--to", "negative", "--mask", "slow"), "there is no 'slow'"),
        ((NICE, "--to", "negative", "--samples", "0"), "at least 1"),
        ((NICE, "--to", "negative", "--contrast", "-1"), "the contrast of styles is from 0 to 10"),
        ((NICE, "--to", "negative", "--temperature", "0"), "temperature must be above 0"),
        ((NICE, "--to", "negative", "-m", YELP_WORDS), "does not rewrite texts"),
    ],
)
def test_what_is_wrong_is_one_line(blanklm, arguments, message):
    code, lines, said = blanklm("transfer", *arguments)
    assert code == 1 and lines == [] and message in said and said.count("\n") == 1


# --- Training on any two styles -------------------------------------------------------------------------------


@pytest.mark.slow
def test_any_two_styles_can_be_trained_resumed_and_used(blanklm, tmp_path):
    things = ("the food", "the service", "my waiter", "this place", "the room", "our table")
    for style, words in (("grumpy", ("awful", "rude", "cold")), ("cheerful", ("great", "friendly", "warm"))):
        lines = [" ".join(line) for line in product(things, ("was", "is"), words, (".", "!", "today ."))]
        (tmp_path / f"{style}.txt").write_text("\n".join(lines), encoding="utf-8")
    out, files = tmp_path / "run", ("--style0", tmp_path / "grumpy.txt", "--style1", tmp_path / "cheerful.txt")
    small = ("--size", "tiny", "--steps", 150, "--tokens-per-batch", 1024, "--learning-rate", 0.01)
    command = ("train", "--task", "transfer", *files, "--out", out, *small)
    assert blanklm(*command)[0] == 0
    code, lines, _ = blanklm("transfer", "-m", out, "--to", "grumpy", "--show-mask", "the food was friendly today .")
    assert code == 0 and lines[0] == "the food was [friendly] today ."
    assert set(lines[1].split()) & {"awful", "rude", "cold"}
    weights = load_file(out / "model.safetensors")
    assert blanklm(*command, "--resume")[0] == 0  # there is nothing left to do
    again = load_file(out / "model.safetensors")
    assert weights.keys() == again.keys() and all(weights[name].equal(again[name]) for name in weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "transfer", "--style0", "a.txt"), "give --style0 and --style1"),
        (("a.txt", "--task", "transfer", "--style0", "a.txt", "--style1", "b.txt"), "leave out TEXTS"),
        (("a.txt", "--style0", "b.txt"), "go with --task transfer"),
        (("--task", "transfer", "--style0", "a.txt", "--style1", "x/a.txt"), "names of their own"),
        ((), "no texts"),
    ],
)
def test_what_does_not_go_together_is_one_line(blanklm, tmp_path, arguments, message):
    code, _, said = blanklm("train", *arguments, "--out", tmp_path / "run")
    assert code == 1 and message in said and said.count("\n") == 1
