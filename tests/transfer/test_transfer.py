"""Transfer: texts are masked, rewritten and ranked."""

from dataclasses import replace

import pytest

from blanklm import BlankLM, BlankLMError, Transfer
from blanklm.transfer.options import TransferOptions, Weights
from tests.support.paths import YELP_WORDS

NICE = "The employees were super nice and efficient!"


def test_an_unknown_style_is_named_with_those_there_are(transfer):
    with pytest.raises(BlankLMError, match="there is no style 'angry': this model knows negative and positive"):
        transfer.rewrite(NICE, "angry")


def test_a_text_is_rewritten_in_the_other_style_and_keeps_the_rest(transfer):
    rewritten = transfer.rewrite(NICE, "negative", n=3)
    assert rewritten.reads_as == "positive" and rewritten.reads_as_p > 0.5
    best = rewritten.rewrites[0]
    assert rewritten.text == best.text == "".join(best.parts)
    assert transfer.classifier.log_probs([best.text])[0].argmax() == 0
    assert best.parts[0].startswith("The") or best.canvas.startswith("___")
    assert [r.score for r in rewritten.rewrites] == sorted((r.score for r in rewritten.rewrites), reverse=True)
    assert len({r.text for r in rewritten.rewrites}) == len(rewritten.rewrites) <= 3


def test_options_are_keywords_or_one_object(transfer):
    settings = {"n": 2, "samples": 3, "temperature": 0.9, "seed": 4}
    old = transfer.rewrite(NICE, "negative", **settings, fewer=True, weights=Weights(0.25, 0.1, 0))
    new = TransferOptions(**settings, try_smaller_masks=True, content=0.25, fluency=0.1, repetition=0)
    assert transfer.rewrite(NICE, "negative", options=new) == old
    assert transfer.rewrite(NICE, "negative", options=replace(new, seed=0), seed=4) == old


def test_a_contrast_may_be_chosen_for_one_call(transfer):
    plain = Transfer.from_pretrained("sentiment", device="cpu", contrast=0)
    expected = plain.rewrite(NICE, "negative", n=5)
    assert transfer.rewrite(NICE, "negative", n=5, contrast=0) == expected != transfer.rewrite(NICE, "negative", n=5)
    one_style = Transfer(transfer.classifier, [BlankLM.from_pretrained(YELP_WORDS, device="cpu")] * 2, transfer.styles)
    with pytest.raises(BlankLMError, match="leave out the contrast"):
        one_style.rewrite(NICE, "negative", contrast=0)


def test_results_do_not_depend_on_what_else_is_rewritten(transfer):
    texts = ["the food was great .", NICE, "i love this place !"]
    together = transfer.rewrite(texts, "negative")
    assert transfer.rewrite(texts[1:2], "negative", numbers=[1])[0].text == together[1].text
    assert transfer.rewrite(texts, "negative") == together


def test_a_text_that_is_no_longer_wanted_is_given_up(transfer):
    texts = ["the food was great .", "i love this place !"]
    gone, wanted = transfer.rewrite(texts, "negative", wanted=[lambda: False, lambda: True])
    assert gone is None and wanted.text


def test_the_model_is_not_a_blm(transfer):
    with pytest.raises(BlankLMError, match="use it with blanklm transfer"):
        BlankLM.from_pretrained("sentiment", device="cpu")
    with pytest.raises(BlankLMError, match="does not rewrite texts"):
        Transfer.from_pretrained(YELP_WORDS, device="cpu")


def test_a_text_of_no_style_with_no_fluent_rewrite_is_left_as_it_is_if_wanted(transfer, monkeypatch):
    assert transfer.rewrite(NICE, "negative", abstain=True) == transfer.rewrite(NICE, "negative")
    odd = "Partly cloudy in Los Angeles and cloudy in Pittsburgh"
    monkeypatch.setattr("blanklm.transfer.transfer.SURE", 1.1)
    monkeypatch.setattr("blanklm.transfer.transfer.FLUENT", 0.0)
    left = transfer.rewrite(odd, "negative", n=3, abstain=True)
    assert left.text == odd and [rewrite.parts for rewrite in left.rewrites] == [(odd,)]
    assert left.rewrites[0].content == 1 and transfer.rewrite(odd, "negative").text != odd
