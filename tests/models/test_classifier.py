"""The two classifiers, the style-conditioned BLM and the guided MLM, against slow and obvious versions."""

import pytest
import torch
from torch import nn

from blanklm.core.special import BLANK
from blanklm.core.texts import Batch, TokenisedTexts, pad
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.rewriter import RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.paper.baselines.guided import TEMPERATURE, Guided, above_average
from blanklm.paper.baselines.judge import ConvolutionClassifier, ConvolutionClassifierConfig
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.training import checkpoint
from blanklm.training.epochs import validation_epoch

TEXTS = [[4, 5, 6, 7, 8], [9], [5, 4, 11]]
TINY = EncoderConfig(2, 2, 16, 32, dropout=0.0)


def attention_classifier(seed=0):
    torch.manual_seed(seed)
    return AttentionClassifier(AttentionClassifierConfig(12, width=8)).eval()


def convolution_classifier():
    torch.manual_seed(0)
    return ConvolutionClassifier(ConvolutionClassifierConfig(12, width=8, filters=5)).eval()


@pytest.mark.parametrize("make", [attention_classifier, convolution_classifier])
def test_a_text_reads_the_same_alone_and_in_a_batch(make):
    model = make()
    together = model.logits(*pad(TEXTS))
    for row, text in zip(together, TEXTS, strict=True):
        torch.testing.assert_close(row, model.logits(*pad([text]))[0])


def test_the_bi_lstm_is_torchs_own():
    model = attention_classifier()
    both = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
    for direction, suffix in ((model.forwards, ""), (model.backwards, "_reverse")):
        for name, weight in direction.named_parameters():
            getattr(both, name + suffix).data.copy_(weight)
    tokens, lengths = pad([TEXTS[0]])
    vectors = model.embedding(tokens)
    torch.testing.assert_close(model.states(vectors, lengths), both(vectors)[0])


def test_attention_is_a_distribution_over_the_words_of_a_text():
    tokens, lengths = pad(TEXTS)
    weights = attention_classifier().attention(tokens, lengths)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
    assert all((row[n:] == 0).all() and (row[:n] > 0).all() for row, n in zip(weights, lengths, strict=True))
    assert above_average(weights, lengths)[1].sum() == 0  # the only word of a text is not above its average


def test_the_filters_see_every_run_of_words_once():
    model = convolution_classifier()
    vectors = model.embedding(torch.tensor(TEXTS[0]))  # [n, e]
    found = []
    for size, filters in zip(model.SIZES, model.filters, strict=True):
        edge = vectors.new_zeros(size - 1, 8)
        padded = torch.cat((edge, vectors, edge))
        runs = [filters(padded[i : i + size].T.flatten()) for i in range(len(vectors) + size - 1)]
        found.append(torch.stack(runs).relu().amax(0))
    torch.testing.assert_close(model.logits(*pad([TEXTS[0]]))[0], model.out(torch.cat(found)))


# --- A style for the BLM --------------------------------------------------------------------------------------


def styled(seed=0):
    torch.manual_seed(seed)
    model = StyledBLM(StyledBLMConfig(12, TINY, sides_hidden=16)).eval()
    nn.init.normal_(model.style.weight)
    return model


def batch_of(styles):
    parts = [TokenisedTexts.from_ids([text], style=style) for text, style in zip(TEXTS, styles, strict=True)]
    (draw,) = validation_epoch(texts := TokenisedTexts.joined(parts), 1000)
    return draw.collate(texts), texts


def test_each_text_is_scored_in_its_own_style():
    model = styled()
    batch, texts = batch_of([0, 1, 0])
    assert texts.styles.tolist() == [0, 1, 0]
    own = model.loss(model.prepare(batch))  # [3]
    for style in (0, 1):
        fixed = model.in_style(style)
        alone = BLM.loss(fixed, BLM.prepare(fixed, batch))
        torch.testing.assert_close(own[batch.styles == style], alone[batch.styles == style])
        assert (own[batch.styles != style] - alone[batch.styles != style]).abs().min() > 1e-3


def test_a_style_of_zeros_is_no_style():
    model, plain = styled(), BLM(BLMConfig(12, TINY, sides_hidden=16)).eval()
    nn.init.zeros_(model.style.weight)
    plain.load_state_dict({name: w for name, w in model.state_dict().items() if name != "style.weight"})
    batch, _ = batch_of([0, 1, 0])
    torch.testing.assert_close(model.loss(model.prepare(batch)), plain.loss(plain.prepare(batch)))


def test_the_style_is_not_a_symbol_of_the_canvas_and_must_be_chosen():
    model = styled()
    canvases, lengths = pad([[4, BLANK, 6]])
    scores = [model.in_style(style).score(canvases, lengths, 3) for style in (0, 1)]
    assert scores[0].log_p_word.shape == (1, 12)
    assert not torch.allclose(scores[0].log_p_word, scores[1].log_p_word)
    with pytest.raises(BlankLMError, match="choose one with in_style"):
        model.score(canvases, lengths, 3)


def test_a_contrast_avoids_the_words_of_the_other_styles():
    model = styled()
    canvases, lengths = pad([[4, BLANK, 6, BLANK], [BLANK, 7]])
    own, other = (model.in_style(style).score(canvases, lengths, 4) for style in (1, 0))
    contrasted = model.in_style(1, contrast=1.5).score(canvases, lengths, 4)
    p = own.log_p_word.exp() * (own.log_p_word.exp() / other.log_p_word.exp()).nan_to_num(0) ** 1.5
    torch.testing.assert_close(contrasted.log_p_word.exp(), p / p.sum(1, keepdim=True))
    torch.testing.assert_close(contrasted.log_p_blank, own.log_p_blank)
    assert contrasted.log_p_word[:, BLANK].isneginf().all()  # still not a word
    assert torch.equal(model.in_style(1, contrast=0.0).score(canvases, lengths, 4).log_p_word, own.log_p_word)


def test_a_styled_blm_and_classifiers_come_back_from_disk_as_what_they_are(tmp_path):
    from blanklm.core.tokenizer import Tokenizer

    words = Tokenizer.train("word", ["a b c d e f g h"])
    assert len(words) == 12
    for model in (styled(), attention_classifier(), convolution_classifier()):
        checkpoint.save(tmp_path / "model", model, words)
        loaded = checkpoint.load(tmp_path / "model").model
        assert type(loaded) is type(model)
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))


def test_a_rewriter_knows_as_many_names_as_styles():
    with pytest.raises(BlankLMError, match="one distinct name"):
        RewriterConfig(["one", "one"], AttentionClassifierConfig(12), StyledBLMConfig(12, TINY))


# --- Soft words -----------------------------------------------------------------------------------------------


def test_the_guided_loss_puts_back_own_texts_and_shows_others_to_the_classifier():
    classifier = attention_classifier(seed=3)
    torch.manual_seed(0)
    masked = Masked(PredictorConfig(12, TINY))
    model = Guided(masked, classifier, style=1).eval()
    tokens, lengths = pad([TEXTS[0], TEXTS[2]])
    batch = Batch(tokens, lengths, torch.zeros(2), torch.zeros(2), styles=torch.tensor([1, 0]))
    losses = model.loss(batch)
    for text, style, loss in zip((TEXTS[0], TEXTS[2]), (1, 0), losses, strict=True):
        ids, length = pad([text])
        hidden = above_average(classifier.attention(ids, length), length)[0]
        canvas = torch.where(hidden, BLANK, ids[0])
        from blanklm.core.packing import Packing

        z = model.encoder(model.embedding(canvas), Packing.of(length, len(text)))
        logits = model.word_logits(z)[hidden]
        if style == 1:
            expected = -logits.log_softmax(1).gather(1, ids[0][hidden][:, None]).sum()
        else:
            vectors = classifier.embedding(ids).clone()
            vectors[0, hidden] = (logits / TEMPERATURE).softmax(1) @ classifier.embedding.weight
            expected = -classifier.read(vectors, length).log_softmax(1)[0, 1]
        torch.testing.assert_close(loss, expected)


def test_training_through_the_classifier_moves_the_writer_and_not_the_classifier():
    classifier = attention_classifier(seed=3)
    before = [p.clone() for p in classifier.parameters()]
    torch.manual_seed(0)
    model = Guided(Masked(PredictorConfig(12, TINY)), classifier, style=1)
    tokens, lengths = pad(TEXTS)
    batch = Batch(tokens, lengths, torch.zeros(3), torch.zeros(3), styles=torch.zeros(3, dtype=torch.long))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(30):
        loss = model.loss(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.01
    assert all(torch.equal(a, b) for a, b in zip(before, classifier.parameters(), strict=True))
    assert not any("guide" in name for name in model.state_dict())
