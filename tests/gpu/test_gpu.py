"""On a GPU the packed, row-packed and compiled paths give what the plain ones give on a CPU in float32."""

import dataclasses

import pytest
import torch

from blanklm import BlankLM
from blanklm.core.likelihood import bound, exact
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, PAD
from blanklm.core.texts import Batch, pad
from blanklm.models.attention import attend
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import Encoder, EncoderConfig
from blanklm.models.llama import LlamaConfig
from blanklm.paper.baselines.insertion import InsertionTransformer
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.masked import Masked
from blanklm.training import checkpoint
from blanklm.training.prepare import move
from blanklm.training.run import TrainingConfig, train
from tests.support import baselines, lblm
from tests.support.models import make_blm, make_span_blm
from tests.support.runs import corpus, new_model

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]
GPU = "cuda"
WORDS_AND_SPANS = [
    {},
    {"n": 3, "beam": 3},
    *({"blanks": "words", **options} for options in ({"order": "left-to-right"}, {"order": "parallel"}, {"beam": 3})),
]
MODELS = {
    "BLM": lambda: make_blm(spread=3.0),
    "span BLM": lambda: make_span_model(),
    "BLM on Llama": lambda: make_llama(),
    "L-BLM": lambda: lblm.make("lblm", spread=3.0),
    "mixed L-BLM": lambda: lblm.make("mixed", spread=3.0),
    "insertion": lambda: baselines.make(InsertionTransformer),
    "left-to-right": lambda: baselines.make(LeftToRight),
    "masked": lambda: baselines.make(Masked),
}


def make_span_model():
    """A span BLM whose distributions are no sharper than those of the others, so that the same tolerances do."""
    model = make_span_blm()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3 / 8)
    return model


def make_llama():
    """A BLM on the encoder of ``english``: shared keys and values, and rotations of its own."""
    torch.manual_seed(0)
    config = LlamaConfig(2, 4, 2, 32, 16, 64, longest=200, query_norm=True)
    return BLM(BLMConfig(12, config, sides_hidden=16, max_length=200)).eval()


def batch_for(model, longest):
    """Random texts of the model's vocabulary, some as long as ``longest``."""
    torch.manual_seed(0)
    size = 6 if model.config.vocabulary == lblm.C + 1 else model.config.vocabulary  # L-BLM: two letters are written
    lengths = torch.cat((torch.randint(1, longest + 1, (40,)), torch.tensor([longest]))).tolist()
    texts = [torch.randint(4, size, (length,)).tolist() for length in lengths]
    return Batch(*pad(texts), torch.rand(len(texts), dtype=torch.float64), torch.arange(len(texts)))


def on_gpu(batch):
    return dataclasses.replace(move(batch, GPU), for_gpu=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("longest", [5, 150])
def test_varlen_attention_equals_padded_attention(causal, longest):
    torch.manual_seed(0)
    lengths = torch.cat((torch.randint(1, longest + 1, (20,)), torch.tensor([longest])))
    q, k, v = torch.randn(3, int(lengths.sum()), 4, 32)  # each [T, H, d/H]
    plain = attend(q, k, v, Packing.of(lengths, longest), causal)
    packed = attend(*(x.to(GPU, torch.bfloat16) for x in (q, k, v)), Packing.of(lengths.to(GPU), longest), causal)
    torch.testing.assert_close(packed.float().cpu(), plain, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("longest", "row"), [(7, 64), (64, 128)])
def test_rows_of_short_sequences_equal_sequences_end_to_end(causal, longest, row):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(2, 2, 32, 64, dropout=0.0), causal).eval()
    lengths = torch.cat((torch.randint(1, longest + 1, (60,)), torch.tensor([longest])))
    ids, embedding = torch.randint(2, 9, (len(lengths), longest)), torch.randn(9, 32)
    end_to_end = Packing.of(lengths, longest)
    expected = encoder(embedding[end_to_end.lay(ids)], end_to_end)
    rows = Packing.in_rows(lengths.to(GPU), longest, row)
    z = encoder.to(GPU)(embedding.to(GPU)[rows.lay(ids.to(GPU))], rows)  # [T, d]
    inside = torch.arange(longest, device=GPU) < rows.lengths[:, None]  # [B, L]
    torch.testing.assert_close(z[rows.places(inside)].cpu(), expected, atol=1e-4, rtol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("longest", [20, 100])
@pytest.mark.parametrize("name", MODELS)
def test_losses_equal_those_of_the_cpu(name, longest):
    """Texts of 20 tokens are laid in rows, those of 100 end to end."""
    model = MODELS[name]()
    batch = batch_for(model, longest)
    plain = model.loss(model.prepare(batch))
    model.to(GPU)
    prepared = model.prepare(on_gpu(batch))
    torch.testing.assert_close(model.loss(prepared).cpu(), plain, atol=1e-2, rtol=1e-3)
    with torch.autocast(GPU, torch.bfloat16):  # the kernel for packed sequences
        halved = model.loss(prepared).float().cpu()
    assert halved.sum() == pytest.approx(float(plain.sum()), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BLM", "span BLM", "BLM on Llama", "L-BLM", "left-to-right"])
def test_compiled_parts_have_the_loss_and_the_gradients_of_the_eager_ones(name):
    eager, compiled = (MODELS[name]().to(GPU).train() for _ in range(2))
    compiled.compile_parts()
    for longest in (20, 25, 100):
        prepared = eager.prepare(on_gpu(batch_for(eager, longest)))
        losses = [model.loss(prepared) for model in (eager, compiled)]
        torch.testing.assert_close(losses[1], losses[0], atol=1e-2, rtol=1e-3)
        for loss in losses:
            loss.sum().backward()
    for expected, parameter in zip(eager.parameters(), compiled.parameters(), strict=True):
        if expected.grad is not None:
            scale = float(expected.grad.abs().max())
            torch.testing.assert_close(parameter.grad, expected.grad, atol=1e-3 * scale + 1e-4, rtol=1e-2)


@pytest.mark.slow
def test_compiled_parts_over_packed_sequences_in_bf16_have_the_loss_of_the_cpu():
    """As in training: compiled layers, sequences end to end, the kernel of packed attention."""
    model = make_blm(spread=3.0)
    batch = batch_for(model, 100)
    plain = float(model.loss(model.prepare(batch)).detach().sum())
    model.to(GPU).train().compile_parts()
    with torch.autocast(GPU, torch.bfloat16):
        loss = model.loss(model.prepare(on_gpu(batch))).float().sum()
    loss.backward()
    assert float(loss.detach()) == pytest.approx(plain, rel=0.05)
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_likelihoods_equal_those_of_the_cpu():
    text = [5, 9, 5, 7, 11]
    model = make_blm(spread=3.0)
    plain = exact(model, text), bound(model, [text], 8, seed=1)
    model.to(GPU)
    fast = exact(model, text), bound(model, [text], 8, seed=1)
    assert fast[0] == pytest.approx(plain[0], abs=1e-2)
    assert fast[1] == pytest.approx(plain[1], abs=1e-2)


@torch.inference_mode()
def test_the_scores_of_a_restorer_equal_those_of_the_cpu():
    model = lblm.make("mixed", spread=3.0)
    tokens = torch.tensor([[4, 5, BLANK, BLANK, 4], [5, BLANK, 4, PAD, PAD]])
    lengths = torch.tensor([5, 3])
    plain = model.score_positions(tokens, lengths, tokens == BLANK)
    model.to(GPU)
    fast = model.score_positions(tokens.to(GPU), lengths.to(GPU), tokens.to(GPU) == BLANK)
    torch.testing.assert_close(fast.log_p_word.cpu(), plain.log_p_word, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("options", WORDS_AND_SPANS, ids=str)
def test_a_fill_equals_that_of_the_cpu(options):
    texts = ["They also have ___ which ___.", "She opened the ___[1-2] and ___.", "The ___[2] was late, so ___[3-6]."]
    cpu, gpu = (BlankLM.from_pretrained("english", device=device, dtype=torch.float32) for device in ("cpu", GPU))
    plain, fast = cpu.fill(texts, **options), gpu.fill(texts, **options)
    assert [fill.text for fill in fast] == [fill.text for fill in plain]
    assert [fill.log_prob for fill in fast] == pytest.approx([fill.log_prob for fill in plain], abs=1e-2)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_training_in_bf16_learns_and_its_checkpoint_loads_on_a_cpu(tmp_path, optimizer):
    tokenizer, texts = corpus()
    config = TrainingConfig(
        steps=60, tokens_per_batch=512, learning_rate=3e-3, warmup=5, optimizer=optimizer, precision="bf16",
        evaluate_every=20, log_every=20,
    )  # fmt: skip
    model = new_model(tokenizer)
    batch = Batch(*pad([text.tolist() for text in texts]), torch.rand(len(texts)), torch.arange(len(texts)))
    with torch.no_grad():
        before = model.loss(model.prepare(batch)).sum()
    progress = train(model, tokenizer, texts, texts, config, tmp_path, show_progress=False)
    trained = checkpoint.load(tmp_path).model
    assert progress.step == 60 and trained.device.type == "cpu"
    with torch.no_grad():
        assert trained.loss(trained.prepare(batch)).sum() < 0.8 * before
