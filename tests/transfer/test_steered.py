"""Transfer by the bundled model that steers English."""

import json
import shutil

import numpy as np
import pytest
import torch

from blanklm import BlankLM, Transfer, pretrained
from blanklm.errors import CheckpointError
from blanklm.transfer.marking import carriers, grown
from blanklm.transfer.steered import SteeredTransfer

TIRED, GARDEN = "I am really tired today.", "The garden looks beautiful in spring."
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tone() -> Transfer:
    return Transfer.from_pretrained(device="cpu")


def test_it_is_the_default_and_stands_on_english(tone):
    assert isinstance(tone, SteeredTransfer) and tone.styles == ["negative", "positive"]
    assert tone.about["name"] == "tone" and tone.base.about["name"] == "english"
    assert tone.parameters == tone.base.parameters + tone.tone.parameter_count


def test_votes_add_up_to_the_style_of_a_text_and_show_the_words_that_carry_it(tone):
    assert tone.log_probs([TIRED, GARDEN]).argmax(1).tolist() == [0, 1]
    np.testing.assert_allclose(np.exp(tone.log_probs([TIRED, GARDEN])).sum(1), 1.0)
    for text, word in ((TIRED, "tired"), (GARDEN, "beautiful")):
        marked = tone.mark(text)
        assert [word.text for word in marked.words if word.masked] == [word]
        assert max(marked.words, key=lambda word: word.weight).text == word
        assert sum(word.weight for word in marked.words) == pytest.approx(1)


def test_what_is_not_masked_stays_and_the_rest_gets_the_other_style(tone):
    for text, to in ((TIRED, "positive"), (GARDEN, "negative")):
        rewritten = tone.rewrite(text, to, n=3)
        assert rewritten.marked.canvas in {rewrite.canvas for rewrite in tone.rewrite(text, to, n=40).rewrites}
        for rewrite in rewritten.rewrites:
            assert "".join(rewrite.parts) == rewrite.text and list(rewrite.parts[::2]) == rewrite.canvas.split("___")
        best = rewritten.rewrites[0]
        assert tone.styles[tone.log_probs([best.text])[0].argmax()] == to and best.style > 0.5
        assert len(best.text.split()) <= len(text.split()) + 1  # at most a word more in each blank
        scores = [rewrite.score for rewrite in rewritten.rewrites]
        assert scores == sorted(scores, reverse=True)


def test_texts_are_rewritten_the_same_alone_and_together_and_masks_may_be_chosen(tone):
    together = tone.rewrite([GARDEN, TIRED], "positive", samples=4)
    assert tone.rewrite([TIRED], "positive", numbers=[1], samples=4)[0].text == together[1].text
    mine = tone.rewrite(TIRED, "positive", mask=["really"], samples=2)
    assert mine.marked.canvas == "I am ___ tired today." and mine.text.endswith(" tired today.")
    plain = tone.rewrite(TIRED, "positive", contrast=0, samples=4)
    assert plain.rewrites[0].canvas == together[1].rewrites[0].canvas


def test_fluency_is_what_the_base_thinks_of_all_words_and_counts_as_it_is_told(tone):
    (best, *_) = tone.rewrite(TIRED, "positive", samples=4).rewrites
    expected = np.mean([word.log_prob for word in tone.base.surprise(best.text)])
    assert best.fluency == pytest.approx(expected, abs=1e-3)
    alone = tone.rewrite(TIRED, "positive", samples=4, fluency=0, content=0, repetition=0).rewrites[0]
    assert alone.score == pytest.approx(np.log(alone.style), abs=1e-3)


def test_a_base_that_is_loaded_is_shared(tone):
    again = Transfer.from_pretrained("tone", base=tone.base)
    assert again.base is tone.base
    assert again.rewrite(TIRED, "positive", samples=2) == tone.rewrite(TIRED, "positive", samples=2)


def test_a_model_for_other_weights_or_another_vocabulary_is_refused(tone, tmp_path):
    folder = tmp_path / "tone"
    shutil.copytree(pretrained.locate("tone"), folder)
    config = json.loads((folder / "config.json").read_text())
    config["model"]["base_sum"] = "0" * 64
    (folder / "config.json").write_text(json.dumps(config))
    from blanklm.training.sums import seal

    seal(folder)
    with pytest.raises(CheckpointError, match="made for other weights of english"):
        Transfer.from_pretrained(folder)
    small = BlankLM.from_pretrained("english-small", device="cpu")
    with pytest.raises(CheckpointError, match="does not fit english"):
        Transfer.from_pretrained("tone", base=small)


def test_the_base_computes_in_8_bits_and_the_vectors_do_not_change_it(tone):
    before = tone.base.surprise(TIRED)
    tone.rewrite(TIRED, "positive", samples=2)
    assert tone.base.surprise(TIRED) == before
    assert tone.tone.vectors.dtype == torch.float32


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.1, 0.0, 1.0, 0.2], {2}),
        ([0.0, 1.0, 0.2, 0.5], {1, 2, 3}),  # what stands between two of them
        ([0.0, 1.0, 0.0, 0.5], {1, 3}),
        ([0.0, -1.0], set()),
        ([], set()),
    ],
)
def test_words_near_the_weightiest_carry_the_style(weights, expected):
    assert carriers(weights) == expected


def test_a_mask_grows_by_words_that_stand_beside_it():
    assert grown({3}, {0, 1, 4, 5, 7}) == {3, 4, 5}
    assert grown({2, 6}, {1, 3, 4, 8}) == {1, 2, 3, 4, 6}


def test_a_text_of_no_style_is_left_as_it_is_if_wanted(tone):
    plain = "My cousin works as an electrician."
    assert tone.rewrite(plain, "negative", abstain=True, samples=2).text == plain
    assert tone.rewrite(TIRED, "positive", abstain=True, samples=4).text != TIRED
