"""A BLM that reads its context apart: one pass over the context for all canvases that come after it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from blanklm.api import BlankLM
from blanklm.core.conceal import conceal
from blanklm.core.likelihood import bound, exact, monte_carlo
from blanklm.core.packing import pack
from blanklm.core.rotation import rotate
from blanklm.core.texts import Batch, one_stream, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.backbone import BackboneConfig
from blanklm.models.blm import BLM
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.context_blm import ContextBLM, ContextBLMConfig, Contexts
from blanklm.paper.baselines.temperature import apply_temperature
from blanklm.paper.streams import TextsInContext
from blanklm.training import checkpoint
from blanklm.training.epochs import Draw
from blanklm.training.run import TrainingConfig, train

ENCODER = EncoderConfig(layers=3, heads=2, width=16, feedforward=32, dropout=0.0)
TEXTS = [[5, 9, 5, 7, 6, 8], [4, 4, 9], [9, 8, 7, 6, 5, 4, 9], [7], [6, 5, 6]]
GIVEN = [3, 0, 4, 0, 3]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    made = ContextBLM(ContextBLMConfig(vocabulary=12, encoder=ENCODER, sides_hidden=16, finding=8, context=4))
    for parameter in made.parameters():  # far from uniform: what a symbol reads is to show
        torch.nn.init.normal_(parameter, std=0.4)
    return made.eval()


def canvases(seed=0):
    """Texts, their given tokens, and what is shown of the others at random."""
    tokens, lengths = pad(TEXTS)
    given = torch.tensor(GIVEN)
    shown = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(seed)) < 0.4
    position = torch.arange(tokens.shape[1])
    return tokens, lengths, (shown | (position < given[:, None])) & (position < lengths[:, None]), given


def encoded(model, canvas, given):
    """z [c, d] of one canvas, its context and all else side by side in each layer, without packing."""
    z = model.embedding(canvas)  # [c, d]
    rotary = model.encoder.rotary.angles(torch.arange(len(z)))
    for layer in model.encoder.layers:
        q, k, v = layer.queries_keys_values(layer.attention_norm(z)).view(len(z), 3, layer.heads, -1).unbind(1)
        q, k = rotate(q, rotary), rotate(k, rotary)
        scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[2] ** 0.5  # [H, c, c]
        scores[:, :given, given:] = -torch.inf  # a context does not see what comes after it
        z = z + layer.attention_out(torch.einsum("hij,jhd->ihd", scores.softmax(2), v).flatten(1))
        z = z + layer.feedforward_out(torch.nn.functional.gelu(layer.feedforward_in(layer.feedforward_norm(z))))
    return model.encoder.norm(z)


def plainly(model, text, shown, given, temperature=1.0):
    """log p of each action [n] on one canvas."""
    actions = pack(text[None], conceal(text[None], torch.tensor([len(text)]), shown[None]))
    z, answer = encoded(model, actions.canvas, given), torch.zeros(len(text))
    p_blank = model.choose(z[actions.blanks]).squeeze(1).softmax(0)  # [K]
    for row, word, left, right, position in zip(
        actions.queried[actions.row], actions.word, actions.left, actions.right, actions.position, strict=True
    ):
        blank = z[actions.blanks[row]]
        p_word = (model.word_logits(blank[None])[0] / temperature).softmax(0)  # [V]
        if given:
            finds = model.found(z[:given]) @ model.find(blank)  # [C]
            a = torch.cat((finds, model.writes(blank))).softmax(0)
            p_word = (p_word * a[-1]).index_add(0, text[:given], a[:-1])
            assert p_word.sum() == pytest.approx(1.0, abs=1e-5)
        p_sides = model.sides_logits(model.sides_from_blank(blank)[None], word[None])[0].softmax(0)
        side = 2 * (left > 0) + (right > 0)
        answer[position] = (p_blank[row] * p_word[word] * p_sides[side]).log()
    return answer


@torch.inference_mode()
def test_the_context_is_read_once_and_all_is_the_same(model):
    for seed in range(5):
        tokens, lengths, shown, given = canvases(seed)
        once = model.action_log_probs(tokens, lengths, shown, given=given)
        for row, n in enumerate(lengths):
            expected = plainly(model, tokens[row, :n], shown[row, :n], int(given[row]))
            assert torch.allclose(once[row, :n], expected, atol=1e-5)
        assert not once[~(torch.arange(tokens.shape[1]) < lengths[:, None])].any()
        wanted = torch.rand(tokens.shape) < 0.5
        some = model.action_log_probs(tokens, lengths, shown, wanted, given)
        assert torch.allclose(some, torch.where(wanted, once, 0.0), atol=1e-5)


@torch.inference_mode()
def test_a_temperature_is_one_of_the_words_of_its_own(model):
    soft = ContextBLM(model.config).eval()
    soft.load_state_dict(model.state_dict())
    apply_temperature(soft, 1.3)
    tokens, lengths, shown, given = canvases()
    found = soft.action_log_probs(tokens, lengths, shown, given=given)
    for row, n in enumerate(lengths):
        expected = plainly(model, tokens[row, :n], shown[row, :n], int(given[row]), temperature=1.3)
        assert torch.allclose(found[row, :n], expected, atol=1e-5)


def test_equal_contexts_are_read_together():
    tokens = torch.tensor([[5, 9, 5, 7], [5, 9, 5, 8], [5, 9, 6, 8], [9, 5, 5, 8], [5, 9, 5, 7], [5, 9, 5, 7]])
    contexts = Contexts.distinct(tokens, torch.tensor([3, 3, 3, 3, 2, 0]))
    assert contexts.of[0] == contexts.of[1] and len(set(contexts.of.tolist())) == 5
    read = contexts.symbols.split(contexts.packing.lengths.tolist())
    assert [read[of].tolist() for of in contexts.of] == [[5, 9, 5], [5, 9, 5], [5, 9, 6], [9, 5, 5], [5, 9], []]


@torch.inference_mode()
def test_without_a_context_it_is_a_blm(model):
    plain = BLM(model.config)
    plain.load_state_dict({name: model.state_dict()[name] for name in plain.state_dict()})
    tokens, lengths = pad(TEXTS)
    shown = torch.zeros_like(tokens, dtype=torch.bool)
    expected = plain.eval().action_log_probs(tokens, lengths, shown)
    assert torch.allclose(model.action_log_probs(tokens, lengths, shown), expected, atol=1e-6)
    none = torch.zeros_like(lengths)
    assert torch.allclose(model.action_log_probs(tokens, lengths, shown, given=none), expected, atol=1e-6)
    assert monte_carlo(model, TEXTS, 3).perplexity == pytest.approx(monte_carlo(plain, TEXTS, 3).perplexity, rel=1e-5)


def test_likelihoods_after_a_context_agree_with_enumeration(model):
    truth = np.array([exact(model, text, given=known) for text, known in zip(TEXTS, GIVEN, strict=True)])
    estimate = monte_carlo(model, TEXTS, 4000, given=GIVEN)
    assert np.abs(estimate.log_likelihoods - truth).max() < 0.15
    low = bound(model, TEXTS, 400, given=GIVEN)
    assert (low < truth + 0.05).all()
    # Training has the same loss: its bound is that of ``bound``, in expectation.
    draws = 3000
    tokens, lengths = pad([TEXTS[0]] * draws)
    fractions, seeds = (torch.arange(draws) + 0.5) / draws, torch.arange(draws)
    batch = Batch(tokens, lengths, fractions, seeds, given=torch.full((draws,), GIVEN[0]))
    with torch.no_grad():
        losses = model.loss(model.prepare(batch))
    assert -float(losses.mean()) == pytest.approx(
        bound(model, [TEXTS[0]] * 50, 60, given=[GIVEN[0]] * 50).mean(), abs=0.1
    )


def test_canvases_that_share_a_context_are_trained_as_if_each_had_its_own(model):
    tokens, lengths = pad([TEXTS[0], TEXTS[0], TEXTS[2], TEXTS[0], TEXTS[1]])
    given = torch.tensor([3, 3, 4, 3, 0])
    batch = Batch(tokens, lengths, torch.tensor([0.1, 0.5, 0.4, 0.9, 0.3]), torch.arange(5), given=given)
    together = model.prepare(batch)
    assert len(together.contexts.packing) == 3
    parts = [part[k : k + 1] for k in range(5) for part in vars(batch).values() if isinstance(part, torch.Tensor)]
    alone = [Batch(*parts[i : i + 4], given=parts[i + 4]) for i in range(0, 25, 5)]
    losses = torch.cat([model.loss(model.prepare(one)) for one in alone])  # [5]
    assert torch.allclose(model.loss(together), losses, atol=1e-4)
    expected = torch.autograd.grad(losses.sum(), list(model.parameters()), allow_unused=True)
    found = torch.autograd.grad(model.loss(together).sum(), list(model.parameters()), allow_unused=True)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-3)


@pytest.mark.slow
def test_what_is_read_apart_is_learnt(tmp_path):
    """Two words alternate for a while, then two others: only a context of two tokens can tell which comes next."""
    words = [f"w{i}" for i in range(8)]
    tokenizer = Tokenizer.train("word", [" ".join(words)], vocabulary=100)
    pairs = np.random.default_rng(0).integers(len(words), size=(200, 2))
    stream = np.array(tokenizer.encode(" ".join(words[k] for pair in pairs for k in (*pair,) * 10)))
    texts = TextsInContext(stream, [1] * len(stream), 2)
    torch.manual_seed(0)
    encoder = replace(ENCODER, layers=2, width=32, feedforward=64)
    model = ContextBLM(
        ContextBLMConfig(vocabulary=len(tokenizer), encoder=encoder, sides_hidden=16, finding=8, context=2)
    )
    config = TrainingConfig(steps=150, tokens_per_batch=1024, learning_rate=1e-2, warmup=20, evaluate_every=50)
    train(model, tokenizer, texts, texts, config, tmp_path / "run", show_progress=False)
    model = checkpoint.load(tmp_path / "run").model
    assert isinstance(model, ContextBLM)
    thirds = [stream[start : start + 3].tolist() for start in range(0, 1000, 20)]
    assert monte_carlo(model, thirds, 1, given=[2] * 50).perplexity < 1.5
    assert monte_carlo(model, [third[1:] for third in thirds], 1, given=[1] * 50).perplexity > 4


def test_a_stream_is_scored_sentence_by_sentence(tmp_path, blanklm):
    texts = ["the food was good . great !", "so was the wine .", "never again"]
    tokenizer = Tokenizer.train("word", texts, vocabulary=100)
    (stop,) = tokenizer.encode(".")
    settings = {"sides_hidden": 16, "finding": 8, "context": 5, "max_length": 11, "ends": [stop]}
    torch.manual_seed(1)
    made = ContextBLM(ContextBLMConfig(vocabulary=len(tokenizer), encoder=ENCODER, **settings)).eval()
    checkpoint.save(tmp_path / "model", made, tokenizer)
    loaded = BlankLM.from_pretrained(tmp_path / "model")
    assert loaded.model.config == made.config
    stream = one_stream(tokenizer.encode_many(texts))
    # "the food was good .", "great ! <eos>", "so was the wine . <eos>", "never again <eos>", each after five tokens
    ends = [5, 8, 14, 17]
    starts = [0, *ends[:-1]]
    given = [min(5, start) for start in starts]
    pieces = [stream[start - known : end] for start, known, end in zip(starts, given, ends, strict=True)]
    expected = monte_carlo(made, pieces, 6, seed=2, given=given)
    assert loaded.perplexity(texts, 6, seed=2).perplexity == pytest.approx(expected.perplexity, rel=1e-5)
    by_itself = monte_carlo(made, [stream[:11], stream[11:]], 6, seed=2)
    assert loaded.perplexity(texts, 6, chunk=11, seed=2).perplexity == pytest.approx(by_itself.perplexity, rel=1e-5)
    command = ("score", "--stream", "--model", tmp_path / "model", "--orders", 6, "--seed", 2)
    code, out, _ = blanklm(*command, "--json", stdin="\n".join(texts).encode())
    record = json.loads(out[0])
    assert code == 0 and record["perplexity"] == pytest.approx(expected.perplexity, rel=1e-5)
    assert (record["chunk"], record["context"], record["tokens_with_eos"]) == (6, 5, 17)
    assert "sentences of at most 6 after 5 tokens" in blanklm(*command, stdin="\n".join(texts).encode())[1][0]


def test_settings_that_cannot_be():
    for context in (0, 512):
        with pytest.raises(BlankLMError, match=rf"context \({context}\) must be at least 1 and smaller"):
            ContextBLMConfig(vocabulary=12, encoder=ENCODER, context=context)
    with pytest.raises(BlankLMError, match="`whole_words` cannot be combined with a context"):
        ContextBLMConfig(vocabulary=12, encoder=ENCODER, context=4, whole_words=True)


def test_a_text_by_itself_is_refused(model):
    tokenizer = Tokenizer.train("word", ["a b c d e f g h"], vocabulary=100)
    language_model = BlankLM(model, tokenizer)
    for use in (lambda: language_model.fill("a ___ b"), lambda: language_model.score("a b")):
        with pytest.raises(BlankLMError, match="only scores text in context"):
            use()


def test_texts_have_the_context_that_the_model_is_to_be_given(model, tmp_path):
    tokenizer = Tokenizer.train("word", ["a b c d e f g h"], vocabulary=100)
    texts = TextsInContext(np.arange(4, 12), [4, 4], 3)
    config = TrainingConfig(steps=1, tokens_per_batch=64)
    with pytest.raises(BlankLMError, match="4 tokens of context; the texts have 3"):
        train(model, tokenizer, texts, texts, config, tmp_path / "run", show_progress=False)


def test_a_very_improbable_word_is_as_improbable_as_the_mixture_says(model):
    sure = ContextBLM(model.config).eval()
    sure.load_state_dict(model.state_dict())
    with torch.no_grad():
        sure.word_bias[11] = -200.0
    tokens, lengths, given = torch.tensor([[5, 9, 5, 11, 6]]), torch.tensor([5]), torch.tensor([3])
    shown = torch.arange(5)[None] < 3
    log_prob = sure.action_log_probs(tokens, lengths, shown, given=given)[0, 3]
    with torch.no_grad():
        assert log_prob < -150
        assert float(log_prob) == pytest.approx(float(plainly_in_logs(sure, tokens[0], shown[0], 3)), rel=1e-4)
    log_prob.backward()
    assert sure.word_bias.grad[11] == pytest.approx(1.0, abs=1e-3)


def plainly_in_logs(model, text, shown, given):
    """log p of writing position ``given`` on the canvas that shows the context alone, where no copy is possible."""
    rest = plainly(model, text, shown, given)[given + 1]  # the other word of the same blank, by p and not by log p
    z = encoded(model, pack(text[None], conceal(text[None], torch.tensor([len(text)]), shown[None])).canvas, given)
    blank = z[given]
    own = model.word_logits(blank[None])[0].log_softmax(0)
    log_a = torch.cat((model.found(z[:given]) @ model.find(blank), model.writes(blank))).log_softmax(0)
    sides = [model.sides_logits(model.sides_from_blank(blank)[None], text[i, None])[0].log_softmax(0) for i in (3, 4)]
    assert rest == pytest.approx(float(log_a[-1] + own[text[4]] + sides[1][2]), abs=1e-4)
    return log_a[-1] + own[text[3]] + sides[0][1]


def test_words_lost_in_training_leave_a_word_in_each_context():
    torch.manual_seed(0)
    encoder = replace(ENCODER, layers=6, word_dropout=0.8)
    model = ContextBLM(ContextBLMConfig(vocabulary=12, encoder=encoder, sides_hidden=16, finding=8, context=4)).train()
    tokens, lengths = pad([[5, 9, 7, 6]] * 40)
    batch = Batch(tokens, lengths, torch.rand(40), torch.arange(40), given=torch.full((40,), 1))
    norms = []
    for _ in range(5):
        model.zero_grad()
        model.loss(model.prepare(batch)).mean().backward()
        norms.append(float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])))
    assert max(norms) < 100


def test_without_a_context_too_every_parameter_has_a_gradient(model):
    """Processes that train together wait for all of them."""
    tokens, lengths = pad([[5, 9], [7]])
    batch = Batch(tokens, lengths, torch.rand(2), torch.arange(2), given=torch.zeros(2, dtype=torch.long))
    grads = torch.autograd.grad(model.loss(model.prepare(batch)).sum(), list(model.parameters()))
    assert all(grad is not None for grad in grads)


def test_a_large_vocabulary_in_parts_and_half_precision_give_the_same_losses(model, monkeypatch):
    tokens, lengths = pad(TEXTS)
    batch = Batch(tokens, lengths, torch.rand(5), torch.arange(5), given=torch.tensor(GIVEN))
    losses = model.loss(model.prepare(batch))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(model.loss(model.prepare(batch)), losses, rtol=0.05)
    monkeypatch.setattr("blanklm.models.blm.WORDS_AT_ONCE", 5)
    assert torch.allclose(model.loss(model.prepare(batch)), losses, atol=1e-4)


def test_the_canvases_of_a_text_stay_together_in_pieces():
    indices = np.array([7, 7, 7, 3, 3, 3, 9, 9, 9])
    draw = Draw(indices, np.arange(9) / 9, np.arange(9))
    parts = [draw.part(rank, 2) for rank in range(2)]
    assert [part.indices.tolist() for part in parts] == [[7, 7, 7, 9, 9, 9], [3, 3, 3]]
    assert [part.seeds.tolist() for part in parts] == [[0, 1, 2, 6, 7, 8], [3, 4, 5]]
    assert not len(draw.part(3, 4).indices)


def test_it_needs_layers_of_its_own():
    with pytest.raises(BlankLMError, match="blanklm's own encoder"):
        ContextBLM(ContextBLMConfig(vocabulary=12, encoder=BackboneConfig({"hidden_size": 16}, 512), context=4))
