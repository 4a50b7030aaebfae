"""Llama-type language models under the BLM's heads, from folders and GGUF files; tiny random ones of each family."""

import json
import shutil

import numpy as np
import pytest
import torch

import blanklm
from blanklm import BlankLM
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS, PAD, SPECIAL_TOKENS
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM
from blanklm.models.causal_backbone import CausalPretrained, is_causal
from blanklm.models.llama import LlamaConfig
from blanklm.training import checkpoint
from tests.support.backbones import CAUSAL, LINES, losses_of_training, publish, publish_causal, transformers, write_gguf


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    return {family: publish_causal(root / family, family) for family in CAUSAL}


@pytest.fixture(scope="module")
def gguf_file(published, tmp_path_factory):
    pytest.importorskip("gguf")
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", published["llama"])


@pytest.mark.parametrize("family", CAUSAL)
@torch.inference_mode()
def test_in_causal_mode_the_logits_are_those_of_the_library(family, published):
    source = CausalPretrained.load(published[family])
    encoder = source.config.build(causal=True).eval()
    encoder.load_state_dict(source.weights)
    original = transformers.AutoModelForCausalLM.from_pretrained(published[family], tie_word_embeddings=True).eval()
    texts = [[5, 9, 300, 17, 8, 8, 40], [7], list(range(10, 40))]
    lengths = torch.tensor([len(ids) for ids in texts])
    for packing in (Packing.of(lengths, 30), Packing.in_rows(lengths, 30, 64)):
        z = encoder(source.vectors[packing.lay(pad(texts)[0])], packing)
        for ids, first in zip(texts, packing.starts[:-1].tolist(), strict=True):
            theirs = original.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            torch.testing.assert_close(z[first : first + len(ids)], theirs, atol=2e-4, rtol=1e-3)
            logits = original.lm_head(theirs)
            torch.testing.assert_close(
                z[first : first + len(ids)] @ original.lm_head.weight.T, logits, atol=2e-3, rtol=1e-3
            )


@torch.inference_mode()
def test_as_a_filler_it_reads_in_both_directions(published):
    source = CausalPretrained.load(published["llama"])
    model = BLM.on(source, source.tokenizer(), sides_hidden=16).eval()
    before, after = (score(model, [[BLANK, 5, last]]).log_p_word[0] for last in (6, 7))
    assert not torch.allclose(before, after)


def test_its_own_tokenizer_reads_texts_as_the_library_does(published):
    source = CausalPretrained.load(published["llama"])
    tokenizer, words = source.tokenizer(), transformers.AutoTokenizer.from_pretrained(published["llama"])
    assert [tokenizer.token(i) for i in range(4)] == list(SPECIAL_TOKENS) and tokenizer.kind == "bpe"
    for line in [*LINES, "In 1984, at 12:30 — ok?"]:
        tokens = [tokenizer.token(i) for i in tokenizer.encode(line)]
        assert tokens == words.convert_ids_to_tokens(words.encode(line, add_special_tokens=False))
        assert tokenizer.decode(tokenizer.encode(line)) == line


def test_a_cut_tokenizer_keeps_its_first_merges_with_their_vectors(published):
    source = CausalPretrained.load(published["llama"])
    tokenizer = source.tokenizer(merges=20)
    assert len(tokenizer) == len(SPECIAL_TOKENS) + 256 + 20
    vectors = BLM.on(source, tokenizer, sides_hidden=16).embedding.weight.detach()
    old = source.backend.get_vocab()
    for i in range(4, len(tokenizer)):
        assert torch.equal(vectors[i], source.vectors[old[tokenizer.token(i)]])
    assert torch.equal(vectors[EOS], source.vectors[0]) and not vectors[PAD].any()
    assert tokenizer.decode(tokenizer.encode(LINES[2])) == LINES[2]
    with pytest.raises(BlankLMError, match="choose 0 to"):
        source.tokenizer(merges=10**6)


def test_a_new_tokenizers_words_begin_as_the_mean_of_the_old_tokens_that_spell_them(published):
    source = CausalPretrained.load(published["llama"])
    tokenizer = Tokenizer.train("word", ["good food liked unbelievable"])
    vectors = BLM.on(source, tokenizer, sides_hidden=16).embedding.weight.detach()
    i = tokenizer.encode("unbelievable")[0]
    ids = source.backend.encode("unbelievable").ids
    torch.testing.assert_close(vectors[i], source.vectors[ids].mean(0))


def test_a_gguf_file_holds_the_same_model_as_the_folder(published, gguf_file):
    from_file, from_folder = CausalPretrained.load(gguf_file), CausalPretrained.load(published["llama"])
    assert {**vars(from_file.config), "norm_epsilon": 0} == {**vars(from_folder.config), "norm_epsilon": 0}
    assert from_file.config.norm_epsilon == pytest.approx(from_folder.config.norm_epsilon)
    assert from_file.weights.keys() == from_folder.weights.keys()
    for name, weight in from_folder.weights.items():
        assert torch.equal(from_file.weights[name], weight), name
    assert torch.equal(from_file.vectors, from_folder.vectors) and from_file.eos == from_folder.eos == 0
    for line in [*LINES, "In 1984, at 12:30 — ok?"]:
        assert from_file.tokenizer().encode(line) == from_folder.tokenizer().encode(line)


def test_a_saved_model_loads_without_the_backbone_and_learns(published, tmp_path):
    folder = shutil.copytree(published["qwen3"], tmp_path / "backbone")
    source = CausalPretrained.load(folder)
    tokenizer = source.tokenizer(merges=30)
    torch.manual_seed(0)
    model = BLM.on(source, tokenizer, sides_hidden=16, whole_words=True).train()
    texts = [ids[:30] for ids in tokenizer.encode_many(LINES)] * 4
    losses = losses_of_training(model, texts, 3e-3, 40)
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    shutil.rmtree(folder)
    checkpoint.save(tmp_path / "model", model.eval(), tokenizer)
    loaded = checkpoint.load(tmp_path / "model").model
    assert isinstance(loaded.config.encoder, LlamaConfig) and loaded.config == model.config
    canvas = [BLANK, 5, 6, BLANK, 7]
    torch.testing.assert_close(score(loaded, [canvas]).log_p_word, score(model, [canvas]).log_p_word)
    fill = BlankLM.from_pretrained(tmp_path / "model", device="cpu").fill("I will ___[1-3] come back")
    assert fill.text == f"I will {fill.spans[0]} come back"


def test_fit_starts_from_a_gguf_file_with_blanks_of_both_kinds(gguf_file, tmp_path):
    model = blanklm.fit(
        LINES * 10, out=tmp_path / "run", backbone=str(gguf_file), merges=10, steps=2, tokens_per_batch=256,
        show_progress=False,
    )  # fmt: skip
    assert len(model.tokenizer) == 270 and model.model.config.encoder.key_value_heads == 1
    assert model.fill("The food was ___.").text.startswith("The food was ")
    assert model.about["backbone"] == "tiny.gguf"


def test_which_backbones_are_causal(published, tmp_path):
    assert is_causal(str(published["qwen2"])) and is_causal("anything.gguf")
    assert not is_causal(str(publish(tmp_path / "bert", "bert"))) and not is_causal(str(tmp_path / "nothing"))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_gguf_file_is_refused_in_one_line(share, gguf_file, tmp_path):
    data = gguf_file.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(BlankLMError, match="cannot load the backbone") as refusal:
        CausalPretrained.load(path)
    assert "\n" not in str(refusal.value)


def test_a_damaged_gguf_file_is_read_or_refused_in_one_line(gguf_file, tmp_path):
    data = bytearray(gguf_file.read_bytes())
    path, rng = tmp_path / "damaged.gguf", np.random.default_rng(0)
    for place in rng.integers(0, 4000, 60):  # in the header, where sizes and kinds are
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            CausalPretrained.load(path)
        except BlankLMError as refusal:
            assert "\n" not in str(refusal)


def test_other_architectures_and_cuts_are_refused_in_one_line(published, tmp_path):
    pytest.importorskip("gguf")
    with pytest.raises(BlankLMError, match="one of llama, qwen2, qwen3, not falcon"):
        CausalPretrained.load(write_gguf(tmp_path / "falcon.gguf", published["llama"], "falcon"))
    unknown = CausalPretrained.load(write_gguf(tmp_path / "cut.gguf", published["llama"], pre="chinchilla"))
    with pytest.raises(BlankLMError, match="train a tokenizer with --tokenizer bpe"):
        unknown.tokenizer()
    with pytest.raises(BlankLMError, match="there is no file"):
        CausalPretrained.load(tmp_path / "nothing.gguf")


def test_a_vocabulary_that_does_not_fit_is_refused_in_one_line(published, tmp_path):
    folder = shutil.copytree(published["llama"], tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}))
    with pytest.raises(BlankLMError, match="yarn"):
        CausalPretrained.load(folder)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["surplus"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BlankLMError, match="more tokens than it has vectors"):
        CausalPretrained.load(folder)


@pytest.mark.parametrize("wrong", [{"heads": 3}, {"head_width": 5}, {"layers": 0}])
def test_sizes_that_cannot_be_built_are_refused(wrong):
    sizes = {"layers": 1, "heads": 4, "key_value_heads": 2, "width": 8, "head_width": 4, "feedforward": 8, "longest": 9}
    with pytest.raises(BlankLMError):
        LlamaConfig(**sizes | wrong)
