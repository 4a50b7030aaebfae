"""RoBERTa, BERT+LM and seq2seq against slow and obvious versions of themselves."""

import math
from dataclasses import replace
from random import Random

import pytest
import torch

from blanklm.core.canvas import conceal as conceal_slowly
from blanklm.core.conceal import conceal
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS, PAD, UNK
from blanklm.core.template import Template
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.bert_lm import BertLM, BertLMConfig
from blanklm.paper.baselines.predictor import CanvasIds, PredictorConfig
from blanklm.paper.baselines.roberta import RobertaMasked, roberta_of
from blanklm.paper.baselines.seq2seq import COPIES, TARGETS, Seq2Seq, Seq2SeqConfig, spans_with_marks
from blanklm.paper.baselines.systems import Infiller, fitting_spans, load_system
from blanklm.paper.baselines.training_masks import draw_hidden
from blanklm.training import checkpoint
from tests.support.baselines import allow_all, batch_of, random_texts

TINY = EncoderConfig(2, 2, 16, 32, dropout=0.0)
VOCABULARY = 12


def spread(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "positions" not in name:
                parameter.mul_(8.0)
    return model.eval()


# --- RoBERTa ----------------------------------------------------------------------------------------------------


def test_it_is_roberta_for_masked_lm():
    """With the weights of the library's own model it predicts what that predicts."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(0)
    model = spread(RobertaMasked(PredictorConfig(VOCABULARY, roberta_of(TINY, 20), 20)))
    theirs = RobertaForMaskedLM(RobertaConfig(**model.config.encoder.settings | {"vocab_size": VOCABULARY + 2})).eval()
    begin, end = VOCABULARY, VOCABULARY + 1
    with torch.no_grad():
        ours = model.encoder.layers.state_dict()
        missing = theirs.roberta.load_state_dict(ours, strict=False).missing_keys
        assert missing == ["embeddings.word_embeddings.weight"]
        symbols = torch.stack((model.encoder.begin, model.encoder.end))
        theirs.roberta.embeddings.word_embeddings.weight.copy_(torch.cat((model.embedding.weight, symbols)))
        for name in ("dense", "layer_norm"):
            getattr(theirs.lm_head, name).load_state_dict(getattr(model, name).state_dict())
        theirs.lm_head.bias[:VOCABULARY] = model.word_bias
        text = torch.tensor([4, BLANK, 6, 7, BLANK])
        z = model.encoder(model.embedding(text), Packing.of(torch.tensor([5]), 5))
        # As vectors: RoBERTa's own padding has the id of our blank.
        vectors = theirs.roberta.embeddings.word_embeddings(torch.tensor([[begin, *text, end]]))
        expected = theirs(inputs_embeds=vectors).logits[0, 1:-1, :VOCABULARY]
    kept = [i for i in range(VOCABULARY) if i not in (PAD, BLANK)]
    torch.testing.assert_close(model.word_logits(z)[:, kept], expected[:, kept], atol=1e-4, rtol=1e-4)


# --- BERT+LM ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert_lm():
    torch.manual_seed(0)
    return spread(BertLM(BertLMConfig(VOCABULARY, TINY, 20, decoder=TINY)))


@torch.inference_mode()
def log_p_in_blank(model, canvas, place, written):
    """[V] of the next token of the blank at ``place``, after what has been ``written`` there."""
    z = model.encoder(model.embedding(torch.tensor(canvas)), Packing.of(torch.tensor([len(canvas)]), len(canvas)))
    words = torch.tensor([EOS, *written])
    joined = model.join(torch.cat((model.embedding(words), z[place].expand(len(words), -1)), 1))
    out = model.decoder(joined, Packing.of(torch.tensor([len(words)]), len(words)))
    return model.word_logits(out[-1]).log_softmax(-1)


def test_bert_lm_learns_each_span_from_its_blanks_vector(bert_lm):
    texts = random_texts(12)
    batch = batch_of(texts)
    losses = bert_lm.loss(bert_lm.prepare(batch)).detach()
    hidden = draw_hidden(batch, bert_lm.starts_word)
    for row, text in enumerate(texts):
        shown = [i for i in range(len(text)) if not hidden[row, i]]
        canvas, _ = conceal_slowly(text, shown)
        ids = [BLANK if i in canvas.blanks else item for i, item in enumerate(canvas.items)]
        total, position = 0.0, 0
        for place, item in enumerate(ids):
            if item != BLANK:
                position += 1
                continue
            span = []
            while position < len(text) and hidden[row, position]:
                span.append(text[position])
                position += 1
            for i, token in enumerate([*span, EOS]):
                total += float(log_p_in_blank(bert_lm, ids, place, span[:i])[token])
        assert float(losses[row]) == pytest.approx(-total, rel=1e-4)


def test_bert_lm_fills_blank_after_blank_with_what_it_wrote_before(bert_lm):
    canvases = [[4, BLANK, 5, BLANK], [BLANK, 5], [4, 4, 4, BLANK, 5, 6, BLANK, 4]]
    bans = allow_all(bert_lm)
    written = bert_lm.write([CanvasIds(ids, [False] * ids.count(BLANK)) for ids in canvases], bans)
    for ids, found in zip(canvases, written, strict=True):
        ids, total = list(ids), 0.0
        for span in found.spans:
            place, room, slow = ids.index(BLANK), bert_lm.config.max_length - len(ids), []
            while True:
                log_p = log_p_in_blank(bert_lm, ids, place, slow)
                allowed = log_p + bans[0]
                if slow:
                    allowed[EOS] = log_p[EOS]
                token = EOS if slow and len(slow) > room else int(allowed.argmax())
                total += float(log_p[token])
                if token == EOS:
                    break
                slow.append(token)
            assert span == slow
            ids[place : place + 1] = span
        assert found.log_prob == pytest.approx(total, rel=1e-4)


# --- Seq2seq ----------------------------------------------------------------------------------------------------


def seq2seq(target, vocabulary=VOCABULARY):
    torch.manual_seed(0)
    return Seq2Seq(Seq2SeqConfig(vocabulary, target, 1, 2, 16, 32, dropout=0.0, max_length=20)).eval()


def test_what_is_to_be_written():
    tokens = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, PAD, PAD]])
    lengths = torch.tensor([5, 3])
    shown = torch.tensor([[True, False, False, True, False], [False, True, True, True, True]])
    concealed = conceal(tokens, lengths, shown)
    assert spans_with_marks(tokens, concealed.hidden, concealed.left).tolist() == [
        [6, 7, BLANK, 9, EOS],
        [5, EOS, PAD, PAD, PAD],
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_a_text_is_seen_under_ten_masks_and_no_more(target):
    model = seq2seq(target)
    text = random_texts(1, longest=20)[0]
    text = (text * 20)[:18]
    batch = batch_of([text] * 400)
    batch = replace(batch, seeds=torch.randint(2**40, (400,), generator=torch.Generator().manual_seed(0)))
    pairs = model.prepare(batch)
    assert 8 <= len(pairs.source.unique(dim=0)) <= COPIES
    alone = model.prepare(batch_of([text]))
    assert alone.source[0].tolist() in [row[: len(alone.source[0])].tolist() for row in pairs.source]


@pytest.mark.parametrize("target", TARGETS)
def test_the_loss_is_that_of_the_target_token_by_token(target):
    model = seq2seq(target)
    pairs = model.prepare(batch_of(random_texts(6)))
    losses = model.loss(pairs).detach()
    for row in range(6):
        source = pairs.source[row][pairs.source[row] != PAD]
        wanted = pairs.target[row][pairs.target[row] != PAD].tolist()
        assert wanted[-1] == EOS
        total = 0.0
        with torch.no_grad():
            for i, token in enumerate(wanted):
                before = torch.tensor([[EOS, *wanted[:i]]])
                logits = model.network(input_ids=source[None], decoder_input_ids=before).logits[0, -1]
                total += float(logits.log_softmax(-1)[token])
        assert float(losses[row]) == pytest.approx(-total, rel=1e-4)


@torch.inference_mode()
def search_slowly(model, source, allowed, beam, longest):
    """Beam search of one text, every beginning read anew at each step."""
    alive, answers, ended = [(0.0, [])], [], 0
    for step in range(1, longest + 1):
        found = []
        for total, words in alive:
            before = torch.tensor([[EOS, *words]])
            logits = model.network(input_ids=torch.tensor([source]), decoder_input_ids=before).logits[0, -1]
            found += [(total + float(x), [*words, w]) for w, x in enumerate(logits.log_softmax(-1) + allowed)]
        found = sorted((f for f in found if f[0] > -math.inf), key=lambda f: -f[0])[: 2 * beam]
        ending = found if step == longest else [f for f in found[:beam] if f[1][-1] == EOS]
        answers += [(total / step, total, words) for total, words in ending]
        ended += len(ending)
        alive = [f for f in found if f[1][-1] != EOS][:beam]
        if ended >= beam:
            break
    _, total, words = max(answers, key=lambda a: a[0])
    return [w for w in words if w != EOS], total


def briefly_trained(target):
    """So that answers differ in length."""
    model, batch = seq2seq(target), batch_of(random_texts(64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        model.loss(model.prepare(batch)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("beam", [1, 3])
def test_beam_search_of_many_texts_is_that_of_each(target, beam):
    model = briefly_trained(target)
    canvases = [[i if i % 4 else BLANK for i in text] for text in random_texts(12)]
    allowed = torch.zeros(VOCABULARY)
    allowed[[PAD, UNK, BLANK] if target == "full" else [PAD, UNK]] = -math.inf
    with torch.inference_mode():
        together = model._search(pad(canvases)[0], allowed, beam, longest=9)
    lengths = set()
    for canvas, (answer, log_prob) in zip(canvases, together, strict=True):
        slow, total = search_slowly(model, canvas, allowed, beam, longest=9)
        assert answer == slow and log_prob == pytest.approx(total, rel=1e-3)
        lengths.add(len(answer))
    assert len(lengths) > 1


@pytest.mark.parametrize("target", TARGETS)
def test_no_special_token_is_written(target):
    model = seq2seq(target)
    canvases = [CanvasIds([4, BLANK, 5, BLANK], [False, False]), CanvasIds([BLANK, 5], [False])]
    for written in model.write(canvases, allow_all(model), beam=2):
        answer = written.whole if target == "full" else [i for span in written.spans for i in span]
        assert set(answer) <= ({*range(4, VOCABULARY), UNK} if target == "full" else set(range(4, VOCABULARY)))


def test_an_unknown_target_is_refused():
    with pytest.raises(BlankLMError, match="full or fill"):
        Seq2SeqConfig(12, "both")


@pytest.mark.parametrize(
    ("canvas", "text", "spans"),
    [
        ("a ___ b ___ .", "a x b y z .", ["x", "y z"]),
        ("a ___ b ___ .", "a b b y .", ["b", "y"]),  # a blank holds at least a word
        ("___ b", "x y b", ["x y"]),
        ("a ___", "a x", ["x"]),
        ("a ___ b c ___ c", "a b b c c b c x c", ["b", "c b c x"]),
        ("a ___ b ___ .", "a x b .", None),  # an empty blank
        ("a ___ b ___ .", "a x y z .", None),  # a lost word
        ("a ___ b", "a x c b b", ["x c b"]),
        ("a ___ b", "a b", None),
    ],
)
def test_a_whole_text_is_taken_apart_where_it_fits(canvas, text, spans):
    template = Template.parse(canvas)
    assert fitting_spans(template, text.split()) == spans
    if spans:
        assert template.render(spans) == text


def test_fitting_agrees_with_trying_every_way_to_cut():
    from itertools import combinations

    rng = Random(0)
    for _ in range(300):
        pieces = [" ".join(rng.choices("ab", k=rng.randrange(1, 3))) for _ in range(rng.randrange(2, 4))]
        words = rng.choices("ab", k=rng.randrange(3, 9))
        template = Template.parse(" ___ ".join(pieces))
        ends = combinations(range(1, len(words)), 2 * (len(pieces) - 1))
        ways = []
        for cut in ends:
            parts = [words[i:j] for i, j in zip((0, *cut), (*cut, len(words)), strict=True)]
            if [" ".join(part) for part in parts[::2]] == pieces:
                ways.append([" ".join(part) for part in parts[1::2]])
        found = fitting_spans(template, words)
        assert (found in ways) if ways else (found is None)


class Scripted(torch.nn.Module):
    """A seq2seq model that answers what it is told."""

    def __init__(self, answers, vocabulary):
        super().__init__()
        self.config = Seq2SeqConfig(vocabulary, "full", max_length=64)
        self.answers, self.device = answers, torch.device("cpu")

    def write(self, canvases, bans):
        return self.answers


def test_outputs_that_do_not_fit_are_shown_as_they_are():
    from blanklm.paper.baselines.predictor import WrittenSpans

    tokenizer = Tokenizer.train("word", ["when time flies , where does it go ?"])

    def fill(written, canvas="when ___ zzz , ___ go ?"):
        return Infiller(Scripted([written], len(tokenizer)), tokenizer).fill([canvas])[0]

    ids = tokenizer.encode
    good = fill(WrittenSpans([], 0.0, ids("when time zzz , where does it go ?")))
    assert good.spans == ("time", "where does it") and good.text == "when time zzz , where does it go ?"
    lost = fill(WrittenSpans([], 0.0, ids("when time , go ?")))
    assert lost.text == "when time , go ?" and lost.spans == ("", "")
    few = fill(WrittenSpans([ids("time")], 0.0))
    assert few.spans == ("time", "") and few.text.split() == ["when", "time", "zzz", ",", "go", "?"]
    many = fill(WrittenSpans([ids("time"), ids("it"), ids("where it")], 0.0))
    assert many.spans == ("time", "it") and many.text == "when time zzz , it go ? where it"


def test_weights_that_have_two_names_are_stored_once(tmp_path):
    from safetensors import safe_open

    tokenizer = Tokenizer.train("word", ["a b c d e f g h"])
    model = seq2seq("full", len(tokenizer))
    checkpoint.save(tmp_path / "model", model, tokenizer)
    with safe_open(tmp_path / "model" / "model.safetensors", "pt") as file:
        assert sum("embed_tokens" in name or "lm_head" in name for name in file.keys()) == 0  # noqa: SIM118
    system = load_system(tmp_path / "model", device="cpu")
    assert all(
        torch.equal(a, b) for a, b in zip(system.model.state_dict().values(), model.state_dict().values(), strict=True)
    )
    assert system.model.network.lm_head.weight is system.model.network.model.shared.weight


@pytest.mark.parametrize("kind", ["roberta-masked", "bert-lm", "insertion"])
def test_every_kind_comes_back_from_disk(tmp_path, kind):
    from blanklm.paper.baselines.insertion import InsertionTransformer

    tokenizer = Tokenizer.train("word", ["a b c d e f g h"])
    makers = {
        "roberta-masked": lambda: RobertaMasked(PredictorConfig(len(tokenizer), roberta_of(TINY, 20), 20)),
        "bert-lm": lambda: BertLM(BertLMConfig(len(tokenizer), TINY, 20, decoder=TINY)),
        "insertion": lambda: InsertionTransformer(PredictorConfig(len(tokenizer), TINY, 20)),
    }
    before = Infiller(makers[kind](), tokenizer)
    checkpoint.save(tmp_path / "model", before.model, tokenizer)
    after = load_system(tmp_path / "model", device="cpu")
    assert type(after.model) is type(before.model)
    told = {"hidden": [["b c"]]} if before.oracle else {}
    assert after.fill(["a ___ d"], **told) == before.fill(["a ___ d"], **told)
