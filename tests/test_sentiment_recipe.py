"""The sentiment recipe runs from corpora to table and bundled model, on a few lines and a few steps."""

import json
import time

import pytest

from blanklm import Transfer
from blanklm.models.encoder import EncoderConfig
from blanklm.recipes import sentiment
from blanklm.tasks.sentiment import PUBLISHED

GOOD = ["the food was great .", "i love this place !", "very nice staff and good service ."]
BAD = ["the food was awful .", "i hate this place !", "very rude staff and bad service ."]


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    for corpus, references in (("yelp", 4), ("amazon", 1)):
        folder = tmp_path / "data" / corpus
        (folder / "baseline_outputs").mkdir(parents=True)
        for style, (own, other) in enumerate(((BAD, GOOD), (GOOD, BAD))):
            for split, times in (("train", 20), ("valid", 2), ("test", 1)):
                (folder / f"{split}.{style}").write_text("\n".join(own * times), encoding="utf-8")
            for number in range(references):
                (folder / f"reference.{style}.{number}").write_text("\n".join(other), encoding="utf-8")
            for name in PUBLISHED[corpus]:
                with_source = [f"{source}\t{output}\t{style}" for source, output in zip(own, other, strict=True)]
                file, lines = (
                    (f"{name}.test.{style}.tsf", other)
                    if corpus == "yelp"
                    else (f"sentiment.test.{style}.{name}", with_source[::-1])
                )
                (folder / "baseline_outputs" / file).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize("corpus", sentiment.CORPORA)
def test_from_corpora_to_table(corpora, tmp_path, monkeypatch, corpus):
    tiny = EncoderConfig(1, 2, 16, 32, dropout=0.0)
    monkeypatch.setattr(sentiment, "TABLE", tiny)
    monkeypatch.setattr(sentiment, "SMALL", tiny)
    monkeypatch.setitem(sentiment.MIN_COUNT, corpus, 1)
    out = tmp_path / "out"
    sentiment.tokenise(out, corpus)
    for name in sentiment.PARTS:
        sentiment.train_part(out, corpus, name, time.time() + 0.3)
    for system in sentiment.SYSTEMS:
        for style in (0, 1):
            sentiment.write_pool(out, corpus, system, style, "test")
    result = sentiment.score_corpus(out, corpus)
    assert json.loads((out / corpus / "result.json").read_text()) == result
    assert set(result["ours"]) == set(sentiment.ROWS)
    assert result["known"]["copy of the source"]["self_bleu"] == pytest.approx(100)
    published = next(iter(PUBLISHED[corpus].values()))
    assert result["known"][published]["bleu"] == pytest.approx(
        100
    )  # the references themselves, placed by their sources
    assert {"classifier", "judge", "guided-1"} <= set(result["parts"])
    sentiment.bundle(out, corpus)
    rewritten = Transfer.from_pretrained(out / corpus / "model", "cpu").rewrite("i love this place !", "negative")
    assert rewritten.to == "negative" and rewritten.text
