"""The language-modelling table, from corpus to rows, on a few lines and a few steps; what a cut-off estimate does."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from blanklm.core import likelihood
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS, PAD
from blanklm.core.texts import cut, one_stream
from blanklm.errors import BlankLMError
from blanklm.models.init import init_bias_from_frequencies
from blanklm.paper import runner
from blanklm.paper.baselines.left_to_right import LeftToRightStream
from blanklm.paper.streams import TokenStream
from blanklm.paper.tables import language_modelling as lm
from tests.support.baselines import make

TINY = {"layers": 1, "heads": 2, "width": 16, "feedforward": 32}
LINES = [
    " the company said it expects to sell N million shares ",
    " mr. <unk> said the group will buy the unit ",
    "",
    " traders said the market fell . on the news ",
]


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    """Experiments, tiny."""
    for corpus in ("ptb", "wikitext2", "wikitext103"):
        for split in ("train", "valid", "test"):
            path = tmp_path / "data" / corpus / f"{split}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(LINES * (4 if split == "test" else 8)) + "\n", encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))
    for name, value in {"FEW_CHUNKS": 2, "MANY_ORDERS": 40, "CHUNK": 8}.items():
        monkeypatch.setattr(lm, name, value)
    for name, corpus in lm.CORPORA.items():
        few = replace(corpus.training, steps=4, tokens_per_batch=256, warmup=1, evaluate_every=2, log_every=1)
        encoders = {key: replace(getattr(corpus, key), **TINY) for key in ("encoder", "strong_dropout")}
        monkeypatch.setitem(lm.CORPORA, name, replace(corpus, training=few, **encoders))
    for name, system in lm.SYSTEMS.items():
        training = {
            key: value
            for key, value in system.training.items()
            if key not in ("tokens_per_batch", "steps", "evaluate_every")
        }
        sizes = {"chunk": 8, "context": 6 if system.context else 0, "batch_scale": 1.0}
        monkeypatch.setitem(lm.SYSTEMS, name, replace(system, training=training, **sizes))
    lm.tokenised.cache_clear()
    yield lambda corpus, names, orders=20: lm.experiments(tmp_path / "out", [corpus], names, orders=orders)
    lm.tokenised.cache_clear()


def quiet(line):
    pass


def train(experiment):
    """With what it starts from."""
    runner.run_steps(list(runner.training_steps([experiment]).values()), say=quiet)


def test_every_row_is_of_the_whole_stream_with_its_ends(experiments, tmp_path):
    rows = {row["system"]: row for row in runner.run_experiments(experiments("ptb", None), say=quiet)}
    assert list(rows) == ["lm", "insertion", "blm", "lm-context", "blm-128", "blm-context"]
    words = sum(len(line.split()) + 1 for line in LINES) * 4  # each line, the empty ones too, with its <eos>
    for name, row in rows.items():
        assert json.loads((tmp_path / "out" / "results" / f"ptb-{name}.json").read_text()) == row
        chunks = 24 if name == "blm-context" else -(-words // 8)  # 12 lines of more than 8 words are cut in two
        assert row["test"] == {"tokens": words, "chunks": chunks} and row["chunk"] == 8
        assert row["training"]["steps"] == 4
        if name.startswith("lm"):
            assert row["exact"]["test"] > 1 and "seeded" in row["exact"]
            continue
        estimates = row["estimates"]
        if name == "blm-128":  # the BLM in context starts from it; it is not a row of the table
            assert not estimates
            continue
        assert [estimates[s]["orders"] for s in ("test", "seeded")] == [20, 40]
        assert estimates["test"]["tokens"] == words
        assert estimates["seeded"]["tokens"] == 16 or name == "blm-context"  # sentences are as long as they are
        found = estimates["test"]["perplexity"]
        assert list(found) == ["1", "3", "10"] and found["1"] > found["10"]
        assert estimates["test"]["interval"][0] < found["10"]
        assert row["bounds"]["test"] > found["10"]


def test_the_table_says_what_one_estimate_of_all_orders_would(experiments):
    """Orders drawn in slices, each kept in a file, are those of one estimate with the slices' seeds."""
    (experiment,) = experiments("ptb", ["insertion"])
    (row,) = runner.run_experiments([experiment], say=quiet)
    model, chunks = experiment.load(), cut(one_stream(lm.tokenised("ptb")[1]["test"]), 8)
    drawn = [likelihood.monte_carlo(model, chunks, 10, seed=seed).log_weights for seed in (0, 1)]
    whole = likelihood.Estimate(np.concatenate(drawn, 1), np.array([len(chunk) for chunk in chunks]))
    assert row["estimates"]["test"]["perplexity"]["10"] == pytest.approx(whole.at(10), rel=1e-5)
    assert experiment.estimate("test").perplexity == pytest.approx(whole.perplexity, rel=1e-5)


@pytest.mark.parametrize("name", ["lm", "insertion", "blm-context"])
def test_every_system_is_as_sure_of_its_words_as_suits_validation_texts(experiments, monkeypatch, name):
    monkeypatch.setattr(lm, "TEMPERATURES", (1.0, 5.0, 0.1))
    (experiment,) = experiments("ptb", [name])
    train(experiment)
    plain, path = lm.checkpoint.load(experiment.folder / "run").model, experiment.folder / "training.json"
    trained = json.loads(path.read_text())
    tried = trained["temperatures"]
    assert list(tried) == ["1.0", "5.0", "0.1"] and max(tried.values()) > 1.05 * min(tried.values())
    softened = experiment.load(temperature=5.0)
    fit = experiment.eval_sets["fit"]
    assert fit.texts == experiment.eval_sets["valid"].texts[:: lm.TEMPERATURE_STRIDE]
    assert tried["5.0"] == pytest.approx(lm._perplexity(softened, fit, draws=4), rel=1e-6)
    for put in (tried, tried | {"5.0": 0.0}, None):  # as found, another one, and from before there were any
        path.write_text(json.dumps({**trained, "temperatures": put} if put else {"steps": 1}))
        best = float(min(put, key=put.get)) if put else 1.0
        assert experiment.temperature == best
        torch.testing.assert_close(experiment.load().word_bias * best, plain.word_bias)
    path.write_text(json.dumps(trained | {"temperatures": {"5.0": 0.0}}))
    row = experiment.measure(quiet)
    assert row["temperature"] == 5.0
    assert (row.get("bounds") or row["exact"])["valid"] == pytest.approx(
        lm._perplexity(softened, experiment.eval_sets["valid"])
    )


def test_everything_in_context_is_measured_in_context(experiments):
    (experiment,) = experiments("wikitext2", ["blm-context"])
    (row,) = runner.run_experiments([experiment], say=quiet)
    model, test, seeded = experiment.load(), experiment.eval_sets["test"], experiment.eval_sets["seeded"]
    bound = likelihood.bound(model, test.texts, 32, given=test.given)
    assert row["bounds"]["test"] == pytest.approx(test.perplexity(bound), rel=1e-5)
    drawn = likelihood.monte_carlo(model, seeded.texts, 4, 0, given=seeded.given)  # as the first file has it
    assert experiment.estimate("seeded").log_weights[:, :4] == pytest.approx(drawn.log_weights, rel=1e-5)
    own = [text[given:] for text, given in zip(test.texts, test.given, strict=True)]
    stop = lm.tokenised("wikitext2")[0].encode(".")[0]
    assert sum(text[-1] == stop for text in own) >= 4  # a full stop ends a sentence there
    assert row["training"]["begins_with"] == "blm-128" and row["training"]["model"]["max_length"] == 14
    assert (
        row["training"]["model"]["encoder"]["dropout"]
        == experiment.data.strong_dropout.dropout
        != experiment.data.encoder.dropout
    )


def test_a_left_to_right_model_learns_to_read_a_context_from_longer_chunks(experiments):
    (experiment,) = experiments("ptb", ["lm-context"])
    lengths = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lm, "TokenStream", lambda lines, length: lengths.append(length) or TokenStream(lines, length))
        experiment.train(quiet)
    assert lengths == [14] and set(experiment.eval_sets["test"].tokens[:-1]) == {8}


def test_a_time_limit_is_each_systems_own(experiments):
    """What a system starts from is trained before it, with a limit of its own."""
    (experiment,) = experiments("ptb", ["blm-context"])
    runner.run_experiments([replace(experiment, seconds=60.0)], say=quiet)
    (start,) = experiments("ptb", ["blm-128"])
    for trained in (start, experiment):
        assert json.loads(trained.training_file.read_text())["training"]["seconds"] == 60.0


def test_an_estimate_that_was_cut_off_continues_with_the_next_orders(experiments, monkeypatch):
    (experiment,) = experiments("ptb", ["insertion"])
    experiment.train(quiet)

    def cut_off(line):
        if "seeded" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.measure(cut_off)
    first = experiment.estimate("test").log_weights
    assert first.shape[1] == 10 and not experiment.done()
    monkeypatch.setattr(runner, "Run", None)  # no training again
    (row,) = runner.run_experiments([experiment], say=quiet)
    assert experiment.done() and row["estimates"]["test"]["orders"] == 20
    np.testing.assert_array_equal(experiment.estimate("test").log_weights[:, :10], first)
    monkeypatch.setattr(lm.likelihood, "monte_carlo", None)  # nothing is left to do
    assert runner.run_experiments([experiment], say=quiet) == [row]
    (more,) = experiments("ptb", ["insertion"], orders=30)
    assert not more.done()


@pytest.mark.parametrize("names", [["blm"], ["blm-128", "blm-context"]])
def test_training_that_was_cut_off_goes_on_for_the_seconds_it_began_with(experiments, monkeypatch, names):
    *before, experiment = experiments("wikitext2", names)
    for first in before:
        first.train(quiet)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as cut_off:
        cut_off.setattr(runner.Run, "_evaluate", killed)  # at step 2 of 4
        with pytest.raises(KeyboardInterrupt):
            replace(experiment, seconds=1000.0).train(quiet)
    assert not (experiment.folder / "training.json").exists()
    replace(experiment, seconds=5.0).train(quiet)
    trained = json.loads((experiment.folder / "training.json").read_text())
    assert trained["steps"] == 4 and trained["training"]["seconds"] == 1000.0


@pytest.mark.parametrize("name", ["lm", "insertion", "blm"])
def test_words_begin_as_probable_as_they_are_frequent(experiments, name):
    tokenizer, lines = lm.tokenised("ptb")
    tokens = np.array(one_stream(lines["train"]))
    model = lm.SYSTEMS[name].make(lm.CORPORA["ptb"], len(tokenizer))
    init_bias_from_frequencies(model, tokens)
    probability = model.word_logits(torch.zeros(1, 16)).softmax(1)[0].detach().numpy()
    counts = np.bincount(tokens, minlength=len(tokenizer))
    there, expected = counts > 0, counts / len(tokens)
    np.testing.assert_allclose(probability[there] / probability[EOS], expected[there] / expected[EOS], rtol=1e-5)
    assert probability[PAD] == 0 and (probability[BLANK] > 0) == (name == "insertion")  # whose STOP it is
    assert probability.sum() - probability[there].sum() < 2 / len(tokenizer)


def test_systems_are_compared_on_the_same_tokens(experiments, monkeypatch):
    """Chunks of another length are cut from the same stretches."""
    monkeypatch.setitem(lm.SYSTEMS, "blm-128", replace(lm.SYSTEMS["blm-128"], chunk=4))
    short, long = experiments("ptb", ["blm", "blm-128"])
    flat = [list(itertools.chain.from_iterable(e.eval_sets["seeded"].texts)) for e in (short, long)]
    assert flat[0] == flat[1] and len(flat[0]) == 16
    assert set(long.eval_sets["seeded"].tokens) == {4} and set(short.eval_sets["seeded"].tokens) == {8}
    assert short.eval_sets["seeded"] == experiments("ptb", ["insertion"])[0].eval_sets["seeded"]
    (after,) = experiments("ptb", ["blm-context"])
    stream, test = one_stream(lm.tokenised("ptb")[1]["test"]), after.eval_sets["test"]
    own = [text[given:] for text, given in zip(test.texts, test.given, strict=True)]
    assert list(itertools.chain.from_iterable(own)) == stream  # each token once, the context not counted
    assert all(text[-1] == EOS or len(text) == 8 for text in own)
    starts = np.cumsum([0, *map(len, own)])
    for text, given, start in zip(test.texts, test.given, starts, strict=False):
        assert text[:given] == stream[max(0, start - 6) : start]
    chunks = [stream[i : i + 8] for i in range(0, len(stream), 8)]
    seeded = {chunks.index(list(text)) for text in short.eval_sets["seeded"].texts}
    begins = [test.texts[i] for i, start in enumerate(starts[:-1]) if start // 8 in seeded]
    assert after.eval_sets["seeded"].texts == begins  # what begins in the same chunks


def test_in_context_all_streams_of_a_length_have_all_the_probability(experiments, monkeypatch):
    """Of a left-to-right model, whose chunks begin where they begin whatever the tokens are."""
    (experiment,) = experiments("ptb", ["lm-context"])
    model, total = make(LeftToRightStream, 6), 0.0
    monkeypatch.setitem(lm.SYSTEMS, "lm-context", replace(lm.SYSTEMS["lm-context"], chunk=2, context=1))
    for stream in itertools.product((EOS, 4, 5), repeat=4):
        monkeypatch.setattr(lm, "one_stream", lambda lines, stream=stream: stream)
        pieces = lm.Chunks.of(experiment.pieces("test"), np.arange(2))
        with torch.no_grad():
            model.not_words[[2]] = -torch.inf  # three words and no others
        total += math.exp(sum(model.log_prob(pieces.texts, given=pieces.given)))
    assert total == pytest.approx(1.0, abs=1e-4)


def test_in_context_the_chunks_make_up_the_stream(experiments):
    """The exact perplexity of a left-to-right model, chunk by chunk, is that of its predictions one by one."""
    (experiment,) = experiments("ptb", ["lm-context"])
    (row,) = runner.run_experiments([experiment], say=quiet)
    model, stream = experiment.load(), one_stream(lm.tokenised("ptb")[1]["test"])
    log_p = 0.0
    for i in range(len(stream)):
        begin = max(0, i - i % 8 - 6)  # of the context of the chunk
        before, after = (model.log_prob([stream[begin:end]])[0] if end > begin else 0.0 for end in (i, i + 1))
        log_p += after - before
    assert row["exact"]["test"] == pytest.approx(math.exp(-log_p / len(stream)), rel=1e-4)


def test_a_system_in_context_starts_from_the_weights_of_another(experiments, monkeypatch):
    one_step = replace(lm.CORPORA["ptb"], training=replace(lm.CORPORA["ptb"].training, steps=1))
    monkeypatch.setitem(lm.CORPORA, "ptb", one_step)
    seen = []

    class Seen(runner.Run):
        def begin(self):
            seen.append({name: tensor.clone() for name, tensor in self.model.state_dict().items()})
            super().begin()

    monkeypatch.setattr(runner, "Run", Seen)
    (experiment,) = experiments("ptb", ["blm-context"])
    train(experiment)
    before = lm.checkpoint.load(experiment.out / "ptb" / "blm-128" / "run").model.state_dict()
    assert len(seen) == 2 and all(torch.equal(seen[1][name], before[name]) for name in before)


def test_from_the_command_line_and_a_corpus_that_is_put_there(experiments, tmp_path, blanklm):
    experiments("ptb", ["lm"])  # the fixture has made everything tiny
    arguments = ("reproduce", "language-modelling", "--out", tmp_path / "out", "--orders", 10)
    code, lines, said = blanklm(*arguments, "--corpus", "wikitext103", "--system", "lm", "--system", "insertion")
    assert code == 0 and "wikitext103 insertion, test:" in said
    assert "(exact)" in lines[1] and lines[2].startswith("wikitext103 InsT")
    code, _, said = blanklm(*arguments, "--system", "gpt")
    assert code == 1 and "there is no system 'gpt' in this table: choose lm, insertion, blm" in said
    code, _, said = blanklm(*arguments, "--corpus", "yahoo")
    assert code == 1 and "there is no corpus 'yahoo'" in said
    code, _, said = blanklm(*arguments, "--texts", 3)
    assert code == 1 and "does not take --texts" in said
    (tmp_path / "data" / "wikitext103" / "train.txt").unlink()
    lm.tokenised.cache_clear()
    code, _, said = blanklm(*arguments, "--corpus", "wikitext103", "--system", "blm")
    assert code == 1 and "put train.txt into" in said and len(said.strip().splitlines()) == 1
    with pytest.raises(BlankLMError, match="at least 1"):
        experiments("ptb", ["blm"], orders=0)


def test_a_stream_has_no_end_and_its_chunks_have_all_the_probability():
    model = make(LeftToRightStream, 6)
    pairs = [list(pair) for pair in itertools.product(range(2, 6), repeat=2)]  # every text of two tokens, <eos> or not
    assert sum(map(math.exp, model.log_prob(pairs))) == pytest.approx(1.0, abs=1e-5)
    with torch.inference_mode():
        z = model.encoder(model.embedding(torch.tensor([EOS, 4, 5])), Packing.of(torch.tensor([3]), 3))
        expected = model.word_logits(z).log_softmax(1)[[0, 1, 2], [4, 5, EOS]].sum()
    assert model.log_prob([[4, 5, EOS]])[0] == pytest.approx(float(expected), abs=1e-5)
