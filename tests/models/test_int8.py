"""Products in 8 bits: the same whole numbers with and without the kernel, close to float32, whatever else is read."""

import copy

import pytest
import torch
from torch import nn

from blanklm import BlankLM
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError, CheckpointError
from blanklm.models import int8
from blanklm.models.blm import BLM
from blanklm.models.causal_backbone import CausalPretrained
from blanklm.models.int8 import Int8Matrix, balance, has_kernel, in_whole_numbers, to_int8
from blanklm.training import checkpoint
from tests.support.backbones import CAUSAL, publish_causal
from tests.support.models import make_blm, make_span_blm

needs_kernel = pytest.mark.skipif(not has_kernel(), reason="this CPU has no product of 8 bits that cannot overflow")


@pytest.fixture(scope="module")
def llamas(tmp_path_factory):
    """A BLM on each family of language models, with weights in float32."""
    models = {}
    for family in CAUSAL:
        source = CausalPretrained.load(publish_causal(tmp_path_factory.mktemp(family), family))
        torch.manual_seed(1)
        models[family] = BLM.on(source, source.tokenizer(), sides_hidden=16).eval()
    return models


@pytest.fixture
def anywhere(monkeypatch):
    """Products as a CPU without the kernel computes them."""
    monkeypatch.setattr(int8, "has_kernel", lambda: False)


def inputs(model, lengths=(9, 1, 30), seed=0):
    """Vectors of random words with blanks, packed."""
    torch.manual_seed(seed)
    tokens = torch.randint(model.config.vocabulary, (sum(lengths),))
    tokens[::4] = BLANK
    return model.embedding(tokens), Packing.of(torch.tensor(lengths), max(lengths))


def test_a_row_is_rounded_to_127ths_of_its_largest_number():
    whole, step = in_whole_numbers(torch.tensor([[0.5, -2.0, 1.0], [0.0, 0.0, 0.0]]))
    assert whole.tolist() == [[32, -127, 64], [0, 0, 0]] and step[0].item() == pytest.approx(2 / 127)


@needs_kernel
@pytest.mark.parametrize("shape", [(1, 576, 960), (37, 1536, 576), (6, 7, 5)], ids=str)
def test_the_kernel_sums_the_same_whole_numbers_as_float32_does(shape, monkeypatch):
    rows, inner, columns = shape
    torch.manual_seed(0)
    weight, bias, x = torch.randn(columns, inner), torch.randn(columns), torch.randn(rows, inner)
    x[0] *= 1e6
    weight[1] *= 1e-6
    packed, without_bias = Int8Matrix(weight, bias), Int8Matrix(weight)
    monkeypatch.setattr(int8, "has_kernel", lambda: False)
    plain = Int8Matrix(weight, bias)
    assert type(packed.product) is not type(plain.product)
    scale = torch.rand(rows, 1)
    torch.testing.assert_close(packed(x, scale), plain(x, scale), rtol=1e-6, atol=1e-5)
    sums = without_bias(x) / x.abs().amax(1, True) / (weight.abs().amax(1) / 127**2)  # whole ones
    torch.testing.assert_close(sums, sums.round(), rtol=1e-5, atol=0.02)


def test_the_largest_numbers_do_not_overflow(anywhere):
    """Where a kernel adds in 16 bits they do, so that kernel is not used (``has_kernel``)."""
    for sign in (1.0, -1.0):
        product = Int8Matrix(torch.full((16, 2048), sign))(torch.ones(2, 2048))
        torch.testing.assert_close(product, torch.full((2, 16), 2048 * sign))
        if has_kernel():
            torch.testing.assert_close(
                int8._PackedProduct(*in_whole_numbers(torch.full((16, 2048), sign)))(torch.ones(2, 2048)), product
            )


def test_zeros_stay_zeros():
    assert not Int8Matrix(torch.zeros(4, 8))(torch.randn(3, 8)).any()
    assert not Int8Matrix(torch.randn(4, 8))(torch.zeros(3, 8)).any()


def test_what_a_row_gives_does_not_depend_on_the_others():
    torch.manual_seed(0)
    matrix, x = Int8Matrix(torch.randn(40, 64)), torch.randn(50, 64)
    torch.testing.assert_close(matrix(x)[7:8], matrix(x[7:8]), rtol=0, atol=0)


@torch.inference_mode()
@pytest.mark.parametrize("family", CAUSAL)
def test_a_layer_with_joined_products_computes_what_separate_ones_do(family, llamas):
    """The oracle: the layer of float32 with each of its linears in 8 bits, one by one."""
    model = copy.deepcopy(llamas[family])
    vectors, packing = inputs(model)
    rotary, packing = packing.turned(model.encoder.rotary)
    joined = int8.Int8LlamaLayer(model.encoder.layers[0])
    layer = model.encoder.layers[0]
    for name, linear in int8._linears(layer).items():
        setattr(layer, name, Int8Matrix(linear.weight, linear.bias))
    torch.testing.assert_close(joined(vectors, rotary, packing), layer(vectors, rotary, packing), rtol=1e-4, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("which", [*CAUSAL, "own"])
def test_balancing_changes_nothing_that_the_model_computes(which, llamas):
    model = make_blm(vocabulary=60) if which == "own" else copy.deepcopy(llamas[which])
    layer = model.encoder.layers[0]
    layer.feedforward_norm.weight.data[3] = 40.0  # one channel far larger than the others
    vectors, packing = inputs(model)
    before, weights = model.encoder(vectors, packing), copy.deepcopy(model.encoder.state_dict())
    balance(model)
    torch.testing.assert_close(model.encoder(vectors, packing), before, rtol=2e-3, atol=2e-3)
    assert layer.feedforward_norm.weight[3] < 20
    for matrix in ("attention_out.weight", "feedforward_norm.weight", "attention_norm.weight"):
        assert not torch.equal(model.encoder.state_dict()[f"layers.0.{matrix}"], weights[f"layers.0.{matrix}"])


@torch.inference_mode()
@pytest.mark.parametrize("which", [*CAUSAL, "own"])
def test_in_8_bits_the_vectors_and_words_are_nearly_those_of_float32(which, llamas):
    model = make_blm(vocabulary=60) if which == "own" else copy.deepcopy(llamas[which])
    vectors, packing = inputs(model)
    z = model.encoder(vectors, packing)
    logits = model.word_logits(z)
    to_int8(model)
    assert any(isinstance(module, Int8Matrix) for module in model.modules())
    assert not any(isinstance(module, nn.Linear) for module in model.encoder.modules())
    found = model.encoder(vectors, packing)
    assert found.sub(z).norm() < 0.08 * z.norm()
    words = model.word_logits(z)
    known = logits.isfinite()
    assert words[known].sub(logits[known]).norm() < 0.03 * logits[known].norm()


@torch.inference_mode()
def test_a_layer_that_is_not_balanced_loses_more(llamas, monkeypatch):
    """Channels that are many times as large as the others are why there is ``balance``."""
    model = copy.deepcopy(llamas["llama"])
    model.encoder.layers[0].feedforward_norm.weight.data[[3, 8]] = 60.0
    vectors, packing = inputs(model)
    z = model.encoder(vectors, packing)
    plain = copy.deepcopy(model)
    to_int8(model)
    monkeypatch.setattr(int8, "balance", lambda model: None)
    to_int8(plain)
    errors = [(made.encoder(vectors, packing) - z).norm().item() for made in (model, plain)]
    assert errors[0] < 0.8 * errors[1]


def test_a_model_in_8_bits_counts_the_same_parameters_and_cannot_be_saved(tmp_path, llamas):
    model = copy.deepcopy(llamas["qwen2"])
    before = model.parameter_count
    checkpoint.convert(model, torch.int8)
    assert model.parameter_count == before
    with pytest.raises(CheckpointError, match="computes in int8: load it with"):
        checkpoint.save(tmp_path, model, Tokenizer.train("word", ["a b"]))
    assert not list(tmp_path.iterdir())


def test_only_large_models_on_a_cpu_compute_in_8_bits_unless_asked(monkeypatch):
    model = make_blm()
    assert checkpoint.dtype_for(model) == torch.float32
    monkeypatch.setattr(checkpoint, "LARGE", 1)
    assert checkpoint.dtype_for(model) == torch.int8
    model.to("meta")
    assert checkpoint.dtype_for(model) == torch.float32
    with pytest.raises(BlankLMError, match="int8 is for models on a CPU"):
        checkpoint.convert(model, torch.int8)


def test_fills_in_8_bits_are_the_same_with_and_without_the_kernel(monkeypatch):
    """So a canvas has one answer on all kinds of CPU."""
    tokenizer = Tokenizer.train("word", ["the cat sat on a mat , and so did dogs ."])
    answers = []
    for kernel in (int8.has_kernel(), False):
        monkeypatch.setattr(int8, "has_kernel", lambda kernel=kernel: kernel)
        model = make_span_blm(vocabulary=len(tokenizer))
        to_int8(model)
        canvases = [f"the ___ sat {word} ___ ." for word in ("on", "a", "mat", "and")]
        answers.append(BlankLM(model, tokenizer, {}).fill(canvases))
    assert [fill.text for fill in answers[0]] == [fill.text for fill in answers[1]]
