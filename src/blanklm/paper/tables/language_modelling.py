"""Tables 5 and 6 of the paper: perplexity on Penn Treebank and WikiText, by Monte Carlo over orders (Appendix B).

    blanklm reproduce language-modelling --out runs/lm [--corpus ptb] [--part blm] [--orders 100] ...

A part is a system; each is trained on the stream of its corpus (every line ended by <eos>), in chunks that begin
elsewhere in every epoch, and is measured on the test stream in chunks from its beginning, each by itself, or "in
context", each after the tokens before it. In context a BLM goes from sentence to sentence instead of chunk to chunk: it
has to say where each ends, which no one could know of a chunk. The tokens decide how a stream is cut, so the product of
p(sentence | context) is at most the probability of the stream. Perplexity is per token with <eos> counted.

OUT/CORPUS/PART holds the run and the weights of the orders drawn so far, OUT/results/CORPUS-PART.json the row of the
table. What is there already is not done again: an estimate that was cut off goes on with the next orders.

WikiText-103 is a corpus of this table whose text does not come with any repository: put it into BLANKLM_DATA.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from blanklm.api import BlankLM
from blanklm.core import likelihood
from blanklm.core.likelihood import Estimate
from blanklm.core.texts import TokenisedTexts, TokenStream, cut, one_stream, sentences_in_context
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import mask_corpus, read_corpus
from blanklm.errors import BlankLMError
from blanklm.files import replacing
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.init import init_bias_from_frequencies, init_heads_on_neighbours
from blanklm.paper.baselines.context_blm import COPYING, ContextBLM, ContextBLMConfig
from blanklm.paper.baselines.insertion import InsertionTransformer
from blanklm.paper.baselines.left_to_right import LeftToRightStream
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.tables.report import go, report, write_json
from blanklm.paper.tables.reproduction import Reproduced
from blanklm.paper.tasks.infilling import fills_of, score
from blanklm.training import checkpoint
from blanklm.training.run import Run, TrainingConfig

CHUNK = 64  # tokens; in context, of the longest sentence
CONTEXT = 192  # tokens before each chunk or sentence, for a system in context
STRETCH, STRETCHES = 256, 32  # the part of a test set that tries are compared on: so many stretches of so many tokens
SEEDED, MANY = 10, 1000  # chunks for which m is that large
SLICE = 10  # orders of each chunk that are drawn at a time
HIDDEN = (0.1, 0.3, 0.5)  # shares of words, where what orders do to infilling is measured
TRIED_WITH = 30  # orders
WRITTEN = 32  # texts that a model writes, for the two-sided view
TREND = (1, 3, 10, 30, 100, 300, 1000)
TEMPERATURES = (0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5)
FITTED = 4  # one of so many validation pieces says which is best


# --- The corpora ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    name: str
    encoder: EncoderConfig
    guarded: EncoderConfig  # more dropout, for systems that learn texts by heart sooner
    training: TrainingConfig
    ends: tuple[str, ...] = ()  # the words that end a sentence, beside <eos>

    def lines(self, split: str) -> list[str]:
        return list(read_corpus(self.name, split))

    @property
    def end_tokens(self) -> list[int]:
        tokenizer, _ = tokenised(self.name)
        return [token for word in self.ends for token in tokenizer.encode(word)]


MEDIUM = EncoderConfig(layers=6, heads=6, width=384, feedforward=1536)
BASE = EncoderConfig.of_size("base", dropout=0.1)


def dropouts(dropout: float, hidden: float = 0.1, word: float = 0.1) -> dict[str, float]:
    """Dropout everywhere: what keeps a model from learning a small corpus by heart."""
    return {"dropout": dropout, "output_dropout": dropout, "hidden_dropout": hidden, "word_dropout": word}


TRAINING = TrainingConfig(
    steps=100_000, tokens_per_batch=65_536, learning_rate=3e-3, optimizer="muon", warmup=300, weight_decay=0.1,
    ema=0.999, evaluate_every=1000, save_every=2000, log_every=50,
)  # fmt: skip
CORPORA = {
    "ptb": Corpus("ptb", replace(MEDIUM, **dropouts(0.35)), replace(MEDIUM, **dropouts(0.45, 0.2)), TRAINING),
    "wikitext2": Corpus(
        "wikitext2", replace(MEDIUM, **dropouts(0.25)), replace(MEDIUM, **dropouts(0.4, 0.2)), TRAINING, ends=(".",)
    ),
    "wikitext103": Corpus("wikitext103", BASE, BASE, replace(TRAINING, tokens_per_batch=8192), ends=(".",)),
}
AT_HAND = ["ptb", "wikitext2"]  # what is done where no corpus is named


@dataclass(frozen=True)
class Chunks:
    """Some chunks or sentences of a stream."""

    texts: list[list[int]]  # each after the tokens that it is given
    given: list[int]  # how many those are

    @classmethod
    def of(cls, chunks: TokenisedTexts, indices: np.ndarray) -> Chunks:
        return cls(*chunks.after_context(indices))

    @property
    def tokens(self) -> np.ndarray:
        """[chunks] how many tokens each has of its own."""
        return np.array([len(text) for text in self.texts]) - np.array(self.given)

    def perplexity(self, log_probs: Sequence[float] | np.ndarray) -> float:
        return math.exp(-float(np.sum(log_probs)) / int(self.tokens.sum()))


@cache
def tokenised(name: str) -> tuple[Tokenizer, dict[str, list[list[int]]]]:
    """The word vocabulary of a corpus, all of it, and its lines."""
    corpus = CORPORA[name]
    lines = {split: corpus.lines(split) for split in ("train", "valid", "test")}
    tokenizer = Tokenizer.train("word", lines["train"], vocabulary=1_000_000)
    return tokenizer, {split: tokenizer.encode_many(texts) for split, texts in lines.items()}


# --- The systems ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    label: str
    kind: type = BLM
    guarded: bool = False  # whether it has the corpus's encoder with more dropout
    encoder: dict[str, Any] = field(default_factory=dict)  # what differs from the corpus's, here
    training: dict[str, Any] = field(default_factory=dict)  # and here
    batch: float = 1.0  # tokens in a batch, in parts of the corpus's
    chunk: int = CHUNK  # tokens; of a system that goes by sentences, those of the longest
    context: int = 0  # tokens before a chunk or sentence that it is given
    begins_with: str = ""  # the system whose weights it goes on with
    tried: bool = False  # only compared with others, on a part of the test set

    @property
    def length(self) -> int:
        """The longest text, with its context."""
        return self.context + self.chunk

    @property
    def is_left_to_right(self) -> bool:
        return self.kind is LeftToRightStream

    @property
    def by_sentence(self) -> bool:
        """Whether it goes from sentence to sentence, not from chunk to chunk.

        A left-to-right model does not: where a sentence ends depends on the token after it, which it is to predict.
        """
        return self.context > 0 and not self.is_left_to_right

    def make(self, corpus: Corpus, vocabulary: int) -> nn.Module:
        encoder = replace(corpus.guarded if self.guarded else corpus.encoder, **self.encoder)
        if not issubclass(self.kind, BLM):
            return self.kind(PredictorConfig(vocabulary, encoder, self.length))
        config = BLMConfig(vocabulary, encoder, max_length=self.length)
        if issubclass(self.kind, ContextBLM):
            config = ContextBLMConfig(**vars(config), context=self.context, ends=tuple(corpus.end_tokens))
        model = self.kind(config)
        init_heads_on_neighbours(model.encoder.layers[0])
        return model


tried = partial(System, tried=True)
EVERYWHERE = 0.5  # of a batch: what asks for a word at every place takes longer over each token
SOON = {"evaluate_every": 100}  # a left-to-right model learns from every place, and soon by heart
GOES_ON = {"steps": 5000, "learning_rate": 1.5e-3, "evaluate_every": 250, "canvases": 4}
ELSEWHERE = {"output_dropout": 0.0, "hidden_dropout": 0.0, "word_dropout": 0.0}
SYSTEMS = {
    "lm": System("left-to-right Transformer", LeftToRightStream, True, training=SOON, batch=EVERYWHERE),
    "insertion": System("InsT", InsertionTransformer, batch=EVERYWHERE),
    "blm": System("BLM"),
    "lm-context": System(
        "left-to-right Transformer in context",
        LeftToRightStream,
        True,
        training=SOON,
        batch=EVERYWHERE,
        context=CONTEXT,
    ),
    # What the BLM in context goes on with. By itself it is no better than the BLM, so it is no row of the table.
    "blm-128": tried("BLM, chunks of 128", guarded=True, chunk=128),
    # Nine of ten tokens are context: in larger batches as many are to be written. The canvases of a text share one.
    "blm-context": System(
        "BLM in context", ContextBLM, True, training=GOES_ON, batch=10.0, context=CONTEXT, begins_with="blm-128"
    ),
}


# --- One part: train and measure --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Part(Reproduced):
    corpus: Corpus
    orders: int = 100  # m on the whole test set

    @property
    def system(self) -> System:
        return SYSTEMS[self.name]

    # --- Training ---------------------------------------------------------------------------------------------------

    def train(self, say: Callable[[str], None] = print) -> None:
        if (self.folder / "training.json").exists():
            return
        tokenizer, lines = tokenised(self.corpus.name)
        tokens = round(self.system.batch * self.corpus.training.tokens_per_batch)
        config = replace(self.corpus.training, tokens_per_batch=tokens, seconds=self.training_seconds)
        config = replace(config, **self.system.training)
        torch.manual_seed(config.seed)
        model = self.system.make(self.corpus, len(tokenizer))
        # A left-to-right model learns to read a context from longer chunks: every word has what stands before it.
        texts = TokenStream(lines["train"], self.system.length) if not self.system.by_sentence else self.pieces("train")
        if self.system.begins_with:
            self._go_on(model, say)
        else:
            init_bias_from_frequencies(model, texts.flat)
        folder, about = self.folder / "run", {"name": f"{self.corpus.name}-{self.name}", "data": self.corpus.name}
        run = Run(model, tokenizer, texts, self.pieces("valid"), config, folder, about, self.workers, self.compiles)
        seconds, progress = go(run, f"{self.corpus.name} {self.name}", say), run.progress
        result = report("language modelling", model, config, progress, seconds)
        result |= {"tokens": texts.tokens, "steps": progress.step, "epochs": round(progress.tokens / texts.tokens, 1)}
        result |= {"train_loss": _last_loss(folder / "metrics.jsonl"), "begins_with": self.system.begins_with}
        result["temperatures"] = self._temperatures()
        write_json(self.folder / "training.json", result)

    def _go_on(self, model: nn.Module, say: Callable[[str], None]) -> None:
        """The weights that a system begins with, which are learnt first; not by a clock that is meant for its own."""
        before = replace(self, name=self.system.begins_with)
        if self.seconds and not (before.folder / "training.json").exists():
            raise BlankLMError(f"{self.name} goes on with {before.name}, which is not trained yet: train it first")
        before.train(say)
        own = {name: weights for name, weights in model.state_dict().items() if name.startswith(COPYING)}
        model.load_state_dict(checkpoint.load(before.folder / "run").model.state_dict() | own)

    @property
    def training_seconds(self) -> float:
        """What training may take; of a run that was cut off, what it began with, so that it is the same run."""
        begun = self.folder / "run" / "run.json"
        return json.loads(begun.read_text(encoding="utf-8"))["training"]["seconds"] if begun.exists() else self.seconds

    def pieces(self, split: str) -> TokenisedTexts:
        """The stream in chunks or in sentences, with their context."""
        stream = np.array(one_stream(tokenised(self.corpus.name)[1][split]))
        if self.system.by_sentence:
            return sentences_in_context(stream, self.corpus.end_tokens, self.system.chunk, self.system.context)
        lengths = [len(chunk) for chunk in cut(stream, self.system.chunk)]
        return TokenisedTexts(stream, lengths, context=self.system.context)

    # --- Measuring --------------------------------------------------------------------------------------------------

    @cached_property
    def on(self) -> dict[str, Chunks]:
        """The validation and the test stream, and of the latter what begins in some chunks and in some stretches."""
        valid, test = self.pieces("valid"), self.pieces("test")

        def begin_in_some(length: int, count: int) -> np.ndarray:
            return np.flatnonzero(np.isin(test.starts[:-1] // length, _some(-(-test.tokens // length), count)))

        return {
            "fit": Chunks.of(valid, np.arange(0, len(valid), FITTED)),
            "valid": Chunks.of(valid, np.arange(len(valid))),
            "test": Chunks.of(test, np.arange(len(test))),
            "seeded": Chunks.of(test, begin_in_some(CHUNK, SEEDED)),
            "sample": Chunks.of(test, begin_in_some(STRETCH, STRETCHES)),
        }

    @property
    def plan(self) -> Iterator[tuple[str, int]]:
        """What is measured one after the other: a set of chunks and the number of orders it is to have."""
        yield "sample", min(TRIED_WITH, self.orders)
        if not self.system.tried:
            yield "test", min(SLICE, self.orders)
            yield "seeded", min(MANY, 10 * self.orders)
            yield "test", self.orders

    def estimate(self, name: str) -> Estimate | None:
        """That of the orders drawn so far for a set of chunks."""
        parts = [np.load(path) for path in sorted((self.folder / "orders").glob(f"{name}-*.npy"))]
        if not parts:
            return None
        return Estimate(np.concatenate(parts, 1), self.on[name].tokens)

    def load(self, temperature: float | None = None, exact: bool = False) -> nn.Module:
        """The best model, as sure of its words as suits validation texts; in half precision on a GPU, or ``exact``."""
        model = checkpoint.load(self.folder / "run").model.eval()
        model.apply_temperature(self.temperature if temperature is None else temperature)
        return model.to("cuda", torch.float32 if exact else torch.bfloat16) if torch.cuda.is_available() else model

    def _temperatures(self) -> dict[str, float]:
        """The perplexity of every so many pieces of the validation stream, or its bound, at each temperature."""
        return {str(t): _perplexity(self.load(t), self.on["fit"], draws=4) for t in TEMPERATURES}

    @property
    def temperature(self) -> float:
        """That of the lowest."""
        tried = self._trained.get("temperatures", {"1.0": 0.0})
        return float(min(tried, key=tried.__getitem__))

    @property
    def _trained(self) -> dict[str, Any]:
        return json.loads((self.folder / "training.json").read_text(encoding="utf-8"))

    def measure(self, say: Callable[[str], None] = print, until: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """Everything that is not measured yet, or as much as can be ``until`` it is time; the row after each step."""
        model = self.load()
        if isinstance(model, LeftToRightStream):
            return self.write_row({"exact": self._exact(model)})
        bounds = self._once("bounds", lambda: self._bounds(model))
        found: dict[str, Any] = {"bounds": bounds}
        if isinstance(model, BLM) and not self.system.context:
            found["infilling"] = self._once(
                "infilling", lambda: infilling_bleu(model, tokenised(self.corpus.name)[0], self.on["sample"].texts)
            )
            if not self.system.tried:
                found["two_sided"] = self._once("two-sided", lambda: self._two_sided(model))
        if not self.system.tried:
            found["precision"] = self._once("precision", lambda: self._precisions(model))
        row = self.write_row(found)
        if self.compiles and model.device.type == "cuda":
            model.compile_parts()
        for name, orders in self.plan:
            chunks, width = self.on[name], min(orders, MANY // 10 if name == "seeded" else SLICE)
            for number in range(-(-orders // width)):
                path = self.folder / "orders" / f"{name}-{number:03}.npy"
                if path.exists():
                    continue
                if until():
                    return row
                budget = _budget(model)
                drawn = likelihood.monte_carlo(model, chunks.texts, width, number, budget, given=chunks.given)
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as temporary, open(temporary, "wb") as file:
                    np.save(file, drawn.log_weights)
                row = self.write_row(found)
                so_far = self.estimate(name)
                say(f"{self.corpus.name} {self.name}, {name}: {so_far.perplexity:.2f} at m = {so_far.orders}")
        return row

    def _once(self, name: str, find: Callable[[], Any]) -> Any:
        path = self.folder / f"{name}.json"
        if not path.exists():
            write_json(path, find())
        return json.loads(path.read_text(encoding="utf-8"))

    def _exact(self, model: LeftToRightStream) -> dict[str, float]:
        """Perplexities of a model that needs no estimate."""
        return {name: _perplexity(model, chunks) for name, chunks in self.on.items() if name != "fit"}

    def _bounds(self, model: nn.Module) -> dict[str, float]:
        """exp of the bound of Eq. 6."""
        return {name: _perplexity(model, self.on[name]) for name in ("valid", "test")}

    def _two_sided(self, model: BLM) -> dict[str, Any]:
        """On texts that the model itself has written: perplexities that are too high and too low in expectation.

        The order that a text was written in is a draw from p(order | x). With it among the orders, E[1 / X_m] is
        1 / p(x), so that E[log X_m] is at least log p(x); without it, at most. Of other texts no such order is known.
        """
        texts, own = likelihood.draw_texts(model, WRITTEN, 2 * self.system.chunk)
        if not texts:
            return {"texts": 0}
        drawn = likelihood.monte_carlo(model, texts, self.orders + 1, tokens_per_batch=_budget(model), known_orders=own)
        found = {"texts": len(texts), "tokens": int(drawn.tokens.sum()), "orders": self.orders}
        without = Estimate(drawn.log_weights[:, 1:], drawn.tokens)
        return found | {"perplexity": [drawn.perplexity, without.perplexity]}

    def _precisions(self, model: nn.Module) -> dict[str, float]:
        """The perplexity of the seeded chunks under the same orders, as everything is measured here and in float32."""
        chunks, budget, found = self.on["seeded"], _budget(model) // 8, {}
        for one in (model, self.load(exact=True)):
            drawn = likelihood.monte_carlo(one, chunks.texts, SLICE, tokens_per_batch=budget, given=chunks.given)
            found[str(one.embedding.weight.dtype).removeprefix("torch.")] = drawn.perplexity
        return found

    def write_row(self, found: dict[str, Any]) -> dict[str, Any]:
        """The row of the table, as far as there is one; ``found`` is what is no estimate."""
        estimates = {name: self.estimate(name) for name in ("test", "seeded", "sample")}
        row = {
            "corpus": self.corpus.name,
            "system": self.name,
            "label": self.system.label,
            "chunk": self.system.chunk,
            "context": self.system.context,
            "temperature": self.temperature,
            "test": {"tokens": int(self.on["test"].tokens.sum()), "chunks": len(self.on["test"].texts)},
            **found,
            "estimates": {name: _described(estimate) for name, estimate in estimates.items() if estimate},
            "training": self._trained,
        }
        write_json(self.row, row)
        return row

    @property
    def done(self) -> bool:
        if not self.row.exists():
            return False
        if self.system.kind is LeftToRightStream:
            return True
        return all((e := self.estimate(name)) is not None and e.orders >= orders for name, orders in self.plan)


def infilling_bleu(model: BLM, tokenizer: Tokenizer, chunks: Sequence[Sequence[int]]) -> dict[str, dict[str, float]]:
    """BLEU of blanks filled in the chunks, by share of words hidden; <eos> stands in them as a word."""
    texts = [" ".join(map(tokenizer.token, chunk)) for chunk in chunks]
    system = BlankLM(model, tokenizer)
    found = {}
    for ratio in HIDDEN:
        masked = [m for m in mask_corpus(texts, ratio, 0) if m.spans]
        found[f"{ratio:g}"] = score(masked, fills_of(system, masked, order="parallel"))
    return found


def _some(chunks: int, count: int) -> np.ndarray:
    """So many of the chunks, chosen at random, the same every time; not the last, which may be shorter."""
    whole = max(1, chunks - 1)
    return np.sort(np.random.default_rng(0).choice(whole, min(count, whole), replace=False))


def _described(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval
    return {
        "chunks": len(estimate.tokens),
        "tokens": int(estimate.tokens.sum()),
        "orders": estimate.orders,
        "perplexity": {str(m): estimate.at(m) for m in TREND if m <= estimate.orders},
        "at_all": estimate.perplexity,  # m being all orders there are
        "interval": [low, high],
    }


def _perplexity(model: nn.Module, chunks: Chunks, draws: int = 32) -> float:
    """Exact for a left-to-right model; of others, that of the bound of Eq. 6."""
    if isinstance(model, LeftToRightStream):
        return chunks.perplexity(model.log_prob(chunks.texts, given=chunks.given))
    budget = _budget(model) // 8  # each canvas has many rows of the vocabulary
    return chunks.perplexity(likelihood.bound(model, chunks.texts, draws, tokens_per_batch=budget, given=chunks.given))


def _budget(model: nn.Module) -> int:
    """Tokens scored together: enough to fill a GPU, few enough for several processes to share its memory.

    Where most of them are context, which is read once, there may be more.
    """
    return (2**21 if isinstance(model, ContextBLM) else 2**19) if model.device.type == "cuda" else 2**14


def _last_loss(path: Path) -> float | None:
    """The training loss that was logged last, nats a token."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    losses = [record["loss"] for record in records if "loss" in record]
    return losses[-1] if losses else None


# --- All of it --------------------------------------------------------------------------------------------------------


def parts_of(corpus: str, names: Sequence[str] | None = None, **settings: Any) -> list[Part]:
    """The parts of a corpus: those named, or all that are rows of the table and what they go on with."""
    if settings.get("orders", 1) < 1:
        raise BlankLMError(f"the number of orders is at least 1, not {settings['orders']}")
    if corpus not in CORPORA:
        raise BlankLMError(f"there is no corpus {corpus!r} in this table: choose {', '.join(CORPORA)}")
    unknown = [name for name in names or () if name not in SYSTEMS]
    if unknown:
        raise BlankLMError(f"there is no part {unknown[0]!r}: choose {', '.join(SYSTEMS)}")
    rows = [name for name, system in SYSTEMS.items() if not system.tried]
    chosen = set(names or (*rows, *(SYSTEMS[name].begins_with for name in rows)))
    wanted = [name for name in SYSTEMS if name in chosen]
    return [Part(corpus=CORPORA[corpus], name=name, **settings) for name in wanted]


def main(parts: Sequence[Part], say: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Do what is not done yet of each part."""
    for part in parts:
        if not part.done:
            part.train(say)
            part.measure(say)
    return [read_row(part) for part in parts]


def read_row(part: Part) -> dict[str, Any]:
    return json.loads(part.row.read_text(encoding="utf-8"))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for a terminal: the perplexity of the test set (or, after ~, of a part of it) at each m."""
    shown = (1, 10, 30, 100, 1000)
    lines = [f"{'':44}{'bound':>8}" + "".join(f"{f'm = {m}':>10}" for m in shown) + f"{'interval':>20}"]
    for row in rows:
        name = f"{row['corpus']} {row['label']}"[:43]
        if "exact" in row:
            lines.append(f"{name:44}{row['exact']['test']:8.2f}  (exact)")
            continue
        estimates = row["estimates"]
        estimate, mark = (estimates["test"], "") if "test" in estimates else (estimates.get("sample"), "~")
        found = estimate["perplexity"] if estimate else {}
        cells = [f"{mark}{found[str(m)]:.2f}" if str(m) in found else "" for m in shown]
        interval = f"{estimate['interval'][0]:.2f} - {estimate['interval'][1]:.2f}" if estimate else ""
        lines.append(f"{name:44}{row['bounds']['test']:8.2f}" + "".join(f"{c:>10}" for c in cells) + f"{interval:>20}")
    return "\n".join(lines)
