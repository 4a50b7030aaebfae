"""An exported model scores as the model does, in the runtime that it is for."""

import base64
import json
import sys

import numpy as np
import pytest
import torch

from blanklm import BlankLM
from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.span_view import Vocabulary
from blanklm.errors import BlankLMError
from blanklm.export.graph import in_whole_numbers
from blanklm.export.to_onnx import FLAGS, export
from blanklm.extras import how_to_install
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.int8 import to_int8
from blanklm.models.llama import LlamaConfig
from blanklm.training.quantise import dequantise, quantise
from tests.support.models import at_four_bits, make_span_blm
from tests.support.onnx_graphs import exported, kinds_of, places

TEXTS = ["the food was good , and the service was not .", "they have ice cream", "it was fun"] * 2
CANVASES = [
    [[5, BLANK, 6], [BLANK], [7, 8, BLANK, 9, BLANK, 5, 6, 7]],
    [[BLANK, BLANK, 4]],
    [[5] * 30 + [BLANK] + [6] * 9, [BLANK, 7]],
]
WORDS_TOKENIZER = Tokenizer.train("word", TEXTS)
EXACT = 1e-4  # what float32 may differ by where nothing else does


def llama() -> BLM:
    torch.manual_seed(1)
    encoder = LlamaConfig(2, 4, 2, 64, 16, 96, 128, query_norm=True, query_bias=True)
    model = BLM(BLMConfig(len(WORDS_TOKENIZER), encoder, sides_hidden=32, max_length=64)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model


@pytest.fixture(scope="module")
def english() -> BlankLM:
    return BlankLM.from_pretrained("english-small", device="cpu")


@pytest.fixture(scope="module")
def run_english(english, tmp_path_factory):
    return exported(english, tmp_path_factory.mktemp("english"))


@torch.inference_mode()
@pytest.mark.parametrize("canvases", CANVASES)
def test_english_small_scores_words_lengths_and_sides_as_in_pytorch(english, run_english, canvases):
    ids, lengths = pad(canvases)
    words = torch.randint(-1, 40, ids.shape, generator=torch.Generator().manual_seed(0))
    policy = english.model.for_blanks("spans")
    expected = policy.score_spans(ids, lengths, ids.shape[1], words)
    found = run_english(0, canvas=ids, lengths=lengths, blanks=places(ids), kinds=kinds_of(ids, words))
    torch.testing.assert_close(found["log_p_word"], expected.log_p_first, rtol=0, atol=EXACT)
    torch.testing.assert_close(found["log_p_length"], expected.log_p_length, rtol=0, atol=EXACT)
    rows = torch.arange(len(found["from_blank"]))
    tokens = torch.randint(4, 12_000, rows.shape, generator=torch.Generator().manual_seed(1))
    sides = run_english(1, from_blank=found["from_blank"], words=tokens)["sides"]
    more = sides[:, :2].log_softmax(1)
    torch.testing.assert_close(more, expected.log_p_more(rows, tokens), rtol=0, atol=EXACT)


@torch.inference_mode()
@pytest.mark.parametrize("make", [llama, lambda: make_span_blm(vocabulary=len(WORDS_TOKENIZER), max_length=64)])
@pytest.mark.parametrize("canvases", CANVASES)
def test_blanks_of_words_are_scored_as_in_pytorch(tmp_path, make, canvases):
    model = at_four_bits(make())
    model.set_vocabulary(WORDS_TOKENIZER)
    ids, lengths = pad(canvases)
    run = exported(BlankLM(model, WORDS_TOKENIZER), tmp_path, blanks="words" if hasattr(model, "told") else None)
    expected = model.score(ids, lengths, ids.shape[1])
    found = run(0, canvas=ids, lengths=lengths, blanks=places(ids))
    torch.testing.assert_close(found["log_p_word"], expected.log_p_word, rtol=0, atol=EXACT)
    of_canvas = (ids == BLANK).sum(1).tolist()
    log_p_blank = torch.cat([blank.log_softmax(0) for blank in found["blank"].split(of_canvas)])
    torch.testing.assert_close(log_p_blank, expected.log_p_blank, rtol=0, atol=EXACT)
    rows = torch.arange(len(log_p_blank))
    sides = run(1, from_blank=found["from_blank"], words=4 + rows)["sides"].log_softmax(1)
    torch.testing.assert_close(sides, expected.log_p_sides(rows, 4 + rows), rtol=0, atol=EXACT)


@pytest.mark.parametrize("bits", range(2, 9))
def test_weights_of_a_few_bits_are_stored_exactly(bits):
    matrix = dequantise(*quantise(torch.randn(20, 64), bits), bits)
    whole, scales = in_whole_numbers(matrix)
    assert whole.dtype == (np.int8 if bits < 8 else np.int16)
    restored = torch.from_numpy(whole).unflatten(1, (-1, 32)) * torch.from_numpy(scales)[:, :, None]
    assert torch.equal(restored.flatten(1), matrix)


def test_other_weights_are_rounded_to_8_bits():
    matrix = torch.randn(20, 64)
    matrix[3] = 0.0
    whole, scales = in_whole_numbers(matrix)
    restored = torch.from_numpy(whole).unflatten(1, (-1, 32)) * torch.from_numpy(scales)[:, :, None]
    assert whole.dtype == np.int8
    assert (restored.flatten(1) - matrix).abs().max() <= matrix.abs().max() / 127 / 2 + 1e-6


def test_the_config_says_what_decoding_asks_of_tokens(english, tmp_path):
    export(english, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    flags = np.frombuffer(base64.b64decode(config["flags"]), np.uint8)
    vocabulary = Vocabulary.of(english.tokenizer, torch.device("cpu"))
    bit = {name: flags >> place & 1 for place, name in enumerate(FLAGS, 2)}
    assert (flags & 3).tolist() == vocabulary.kinds.tolist()
    assert bit["starts_word"].tolist() == english.tokenizer.starts_word.tolist()
    assert bit["letters"].tolist() == vocabulary.letters.tolist()
    assert set(np.flatnonzero(bit["opening"])) == vocabulary.opening
    assert config["blanks"] == "spans" and config["max_length"] == english.longest


def test_a_model_that_computes_in_8_bits_is_refused(tmp_path):
    model = at_four_bits(llama())
    model.set_vocabulary(WORDS_TOKENIZER)
    to_int8(model)
    with pytest.raises(BlankLMError, match="load it with dtype"):
        export(BlankLM(model, WORDS_TOKENIZER), tmp_path)


def test_the_command_writes_the_folder(blanklm, tmp_path):
    code, lines, errors = blanklm("export", "--onnx", "english-small", "--out", tmp_path / "onnx")
    assert (code, errors) == (0, "")
    assert lines[0].startswith("16.5 MB in ")
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == set(lines[0].split(": ")[1].split(", "))


def test_what_cannot_be_exported_is_refused_in_one_line(blanklm, tmp_path, monkeypatch):
    assert blanklm("export", "english-small", "--out", tmp_path / "a")[::2] == (
        1,
        "error: choose the format to export: --onnx\n",
    )
    code, _, errors = blanklm("export", "--onnx", "latin", "--out", tmp_path / "a")
    assert code == 1 and errors == "error: latin does not fill blanks: use it with blanklm restore\n"
    for name in [name for name in sys.modules if name.startswith(("onnx.", "blanklm.export"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, errors = blanklm("export", "--onnx", "english-small", "--out", tmp_path / "a")
    assert code == 1 and errors == f"error: exporting needs onnx: {how_to_install('onnx')}\n"
    assert not (tmp_path / "a").exists()
