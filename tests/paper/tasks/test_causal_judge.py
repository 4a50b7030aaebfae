"""A published language model as a judge of fluency."""

import math

import pytest
import torch

from blanklm.errors import BlankLMError
from blanklm.models.causal_backbone import CausalPretrained
from blanklm.paper.tasks import causal_judge
from blanklm.paper.tasks.causal_judge import CausalJudge
from blanklm.paper.tasks.fluency import perplexity
from tests.support.backbones import LINES, publish_causal, publish_tied, transformers, write_gguf

TEXTS = [*LINES, "In 1984!", "good", LINES[0] + " " + LINES[1] + " " + LINES[0]]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    return {family: publish_tied(root / family, family) for family in ("llama", "qwen2", "qwen3")}


def library_log_prob(folder, text):
    """By the loss of the transformers library, the token that ends a text before it and after it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([[words.eos_token_id, *words(text, add_special_tokens=False).input_ids, words.eos_token_id]])
    with torch.inference_mode():
        return -model(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_it_gives_texts_the_probability_that_the_library_gives(family, published, monkeypatch):
    expected = [library_log_prob(published[family], text) for text in TEXTS]
    for tokens, rows in ((2048, 512), (60, 7)):  # all together, and a few at a time
        monkeypatch.setattr(causal_judge, "TOKENS_AT_ONCE", tokens)
        monkeypatch.setattr(causal_judge, "ROWS_AT_ONCE", rows)
        assert CausalJudge.load(published[family], "cpu").log_prob(TEXTS) == pytest.approx(expected, rel=1e-4)


def test_perplexity_is_per_word_whatever_its_tokens(published):
    judge = CausalJudge.load(published["llama"], "cpu")
    words = sum(len(text.split()) + 1 for text in TEXTS)  # and the ends
    assert perplexity(judge, TEXTS) == pytest.approx(math.exp(-sum(judge.log_prob(TEXTS)) / words))
    assert judge.log_prob([]) == []


def test_a_text_longer_than_the_model_takes_is_read_in_stretches(published):
    judge, text = CausalJudge.load(published["llama"], "cpu"), " ".join(LINES * 3)
    ids = judge.backend.encode(text).ids
    assert len(ids) > judge.longest == 64
    whole = [judge.eos, *ids, judge.eos]
    by_hand = sum(judge._read([whole[i : i + 65]])[0] for i in range(0, len(whole) - 1, 64))
    assert judge.log_prob(["good", text])[1] == pytest.approx(by_hand, rel=1e-5)


def test_a_gguf_file_judges_as_the_folder_that_it_was_made_of(published, tmp_path):
    pytest.importorskip("gguf")
    judge = CausalJudge.load(write_gguf(tmp_path / "tiny.gguf", published["llama"]), "cpu")
    assert judge.log_prob(TEXTS) == pytest.approx(CausalJudge.load(published["llama"], "cpu").log_prob(TEXTS), rel=1e-4)


def test_a_model_that_cannot_judge_is_refused_in_one_line(published, tmp_path):
    with pytest.raises(BlankLMError, match="tied"):
        CausalJudge.load(publish_causal(tmp_path / "untied", "llama"))
    source = CausalPretrained.load(published["llama"])
    for part in ("backend", "eos"):
        with pytest.raises(BlankLMError, match="cannot judge"):
            CausalJudge(CausalPretrained(**vars(source) | {part: None}))
