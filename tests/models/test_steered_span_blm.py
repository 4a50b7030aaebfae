"""A BLM of spans steered by vectors of styles, and the votes of words for a style."""

from dataclasses import replace

import pytest
import torch

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.llama import LlamaConfig
from blanklm.models.steered_span_blm import SteeredSpanBLM
from blanklm.models.tone import Tone, ToneConfig
from blanklm.training import checkpoint
from tests.support.models import make_span_blm

LLAMA = LlamaConfig(3, heads=4, key_value_heads=2, width=32, head_width=8, feedforward=48, longest=512)
CANVASES = torch.tensor([[5, BLANK, 7, 8], [BLANK, 9, BLANK, 0]])
LENGTHS = torch.tensor([4, 3])
UNTOLD = torch.full_like(CANVASES, -1)


def make_steered(styles=2, spread=0.3):
    base = make_span_blm(encoder=LLAMA)
    torch.manual_seed(1)
    return base, SteeredSpanBLM.steering(base, spread * torch.randn(3, styles, 32))


def first_words(model):
    return model.score_spans(CANVASES, LENGTHS, 4, UNTOLD).log_p_first


def test_vectors_of_zeros_change_nothing_and_others_do():
    base, steered = make_steered()
    expected = first_words(base.for_blanks("spans"))
    still = SteeredSpanBLM.steering(base, torch.zeros(3, 2, 32))
    torch.testing.assert_close(first_words(still.in_style(1)), expected)
    torch.testing.assert_close(first_words(steered), expected)  # in no style
    assert not torch.allclose(first_words(steered.in_style(0)), first_words(steered.in_style(1)))


def test_a_vector_is_added_to_what_each_layer_reads():
    base, steered = make_steered()
    for number, layer in enumerate(base.encoder.layers):
        layer.register_forward_pre_hook(lambda _, inputs, i=number: (inputs[0] + steered.vectors[i, 1], *inputs[1:]))
    expected = first_words(base.for_blanks("spans"))
    for layer in base.encoder.layers:
        layer._forward_pre_hooks.clear()
    torch.testing.assert_close(first_words(steered.in_style(1)), expected)


def test_a_contrast_weighs_words_by_the_ratio_of_the_styles():
    _, steered = make_steered(styles=3)
    own, *others = (first_words(steered.in_style(style)) for style in (2, 0, 1))
    words = own.isfinite()
    expected = (own + 0.7 * (own - (others[0] + others[1]) / 2)).masked_fill(~words, -torch.inf).log_softmax(1)
    found = first_words(steered.in_style(2, contrast=0.7))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(3))


def test_the_loss_of_a_text_is_that_of_its_own_style():
    _, steered = make_steered()
    texts = [[5, 6, 7, 8, 9, 10], [4, 9, 8, 7, 6], [10, 4, 5, 9, 6, 6, 7]]
    batch = Batch(*pad(texts), torch.tensor([0.0, 0.3, 0.6]), torch.arange(3), styles=torch.tensor([0, 1, 0]))
    mixed = steered.loss(steered.prepare(batch))
    for style in range(2):
        alone = replace(batch, styles=torch.full((3,), style))
        same = batch.styles == style
        torch.testing.assert_close(steered.loss(steered.prepare(alone))[same], mixed[same])
    with pytest.raises(BlankLMError, match="texts with a style"):
        steered.prepare(replace(batch, styles=None))


def test_only_the_vectors_learn_and_the_base_keeps_its_weights():
    base, _ = make_steered()
    base.requires_grad_(False)
    before = {name: weight.clone() for name, weight in base.state_dict().items()}
    vectors = torch.nn.Parameter(torch.zeros(3, 2, 32))
    steered = SteeredSpanBLM.steering(base, vectors)
    # In style 0 a span after 5 is 8, in style 1 it is 9.
    texts, styles = [[5, 8, 7], [5, 9, 7]] * 8, torch.tensor([0, 1] * 8)
    region = torch.tensor([[False, True, False]]).expand(16, 3)
    batch = Batch(*pad(texts), torch.zeros(16), torch.arange(16), styles=styles)
    optimizer = torch.optim.Adam([vectors], lr=0.1)
    for _ in range(60):
        loss = steered.loss(steered.prepare_styled(batch, region)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    canvas = torch.tensor([[5, BLANK, 7]])
    for style, word in ((0, 8), (1, 9)):
        scores = steered.in_style(style).score_spans(canvas, torch.tensor([3]), 3, torch.tensor([[-1, 1, -1]]))
        assert scores.log_p_first[0].argmax() == word
    assert {name: True for name in before} == {
        name: bool((base.state_dict()[name] == before[name]).all()) for name in before
    }
    assert "vectors" not in dict(base.named_parameters())


def test_vectors_of_another_model_and_layers_of_another_kind_are_refused():
    base, _ = make_steered()
    with pytest.raises(BlankLMError, match="3 layers of width 32"):
        SteeredSpanBLM.steering(base, torch.zeros(4, 2, 32))
    with pytest.raises(BlankLMError, match="Llama-type"):
        SteeredSpanBLM.steering(make_span_blm(), torch.zeros(2, 2, 16))


# --- Votes ------------------------------------------------------------------------------------------------------------


def make_tone(**changes) -> Tone:
    torch.manual_seed(0)
    known = {"vocabulary": 12, "max_length": 512, "layers": 3, "width": 32, "styles": ["sad", "glad"]}
    return Tone(ToneConfig(**known | {"base": "tiny", "base_sum": "0", "votes_above": 2, "votes_hidden": 8} | changes))


def test_votes_read_what_a_lower_layer_makes_of_each_token():
    base, _ = make_steered()
    tone = make_tone()
    tokens, lengths = pad([[5, 6, 7, 8], [9, 4]])
    first, second = tone.votes_on(base, tokens, lengths)
    assert first.shape == (4, 2) and second.shape == (2, 2)
    packing = Packing.of(lengths, 4)
    vectors = base.embedding(packing.lay(tokens))
    rotary, packing = packing.turned(base.encoder.rotary)
    for layer in base.encoder.layers[:2]:
        vectors = layer(vectors, rotary, packing)
    torch.testing.assert_close(torch.cat((first, second)), tone.votes(vectors).detach())
    alone = tone.votes_on(base, *pad([[9, 4]]))[0]
    torch.testing.assert_close(alone, second)  # whatever else is in the batch


def test_a_temperature_divides_the_votes():
    states = torch.randn(5, 32)
    torch.testing.assert_close(make_tone(temperature=2.0).votes(states) * 2, make_tone().votes(states))


def test_a_tone_is_the_same_after_saving_and_loading(tmp_path):
    tone, tokenizer = make_tone(), Tokenizer.train("character", ["abcdefgh"])
    checkpoint.save(tmp_path, tone, tokenizer, dtype=torch.float32)
    loaded = checkpoint.load(tmp_path).model
    assert loaded.config == tone.config
    assert all(torch.equal(loaded.state_dict()[name], weight) for name, weight in tone.state_dict().items())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"styles": ["sad"]}, "two different styles"),
        ({"styles": ["sad", "sad"]}, "two different styles"),
        ({"votes_above": 4}, "between 1 and the 3 layers"),
        ({"temperature": 0.0}, "above 0"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(wrong, message):
    with pytest.raises(BlankLMError, match=message):
        make_tone(**wrong)
