"""Tables 5 and 6 of the paper: perplexity on Penn Treebank and WikiText, by Monte Carlo over orders (Appendix B).

    blanklm reproduce language-modelling --out runs/lm [--corpus ptb] [--system blm] [--orders 100] ...

Each system is trained on the stream of its corpus (every line ended by <eos>), in chunks that begin at another offset
in every epoch, and is measured on the test stream in chunks from its beginning, each by itself, or "in context", each
after the tokens before it. In context a BLM goes from sentence to sentence instead of chunk to chunk: it has to say
where each ends, which no one could know of a chunk. The tokens decide how a stream is cut, so the product of
p(sentence | context) is at most the probability of the stream. Perplexity is per token with <eos> counted.

OUT/CORPUS/SYSTEM/orders keeps the weights of the orders drawn so far: with more --orders, or after an interruption,
an estimate continues with the next orders. The text of WikiText-103 does not come with any repository: put it into
BLANKLM_DATA.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blanklm.core import likelihood
from blanklm.core.likelihood import Estimate
from blanklm.core.texts import TokenisedTexts, cut, one_stream
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.errors import BlankLMError
from blanklm.files import replacing
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig, EncoderLayer
from blanklm.models.init import init_bias_from_frequencies, init_heads_on_neighbours
from blanklm.models.model import Model
from blanklm.paper import runner
from blanklm.paper.baselines.context_blm import COPYING, ContextBLM, ContextBLMConfig
from blanklm.paper.baselines.insertion import InsertionTransformer
from blanklm.paper.baselines.left_to_right import LeftToRightStream
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.baselines.temperature import apply_temperature
from blanklm.paper.provenance import Row, read_json
from blanklm.paper.runner import Say
from blanklm.paper.streams import TextsInContext, TokenStream, sentences_in_context
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig

CHUNK = 64  # tokens; in context, of the longest sentence
CONTEXT = 192  # tokens before each chunk or sentence, for a system in context
FEW_CHUNKS, MANY_ORDERS = 10, 1000  # a part of the test set for which m is large
ORDERS_PER_FILE = 10  # orders of each chunk that are drawn together
TREND = (1, 3, 10, 30, 100, 300, 1000)
TEMPERATURES = (0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5)
SMALL_LINES, SMALL_ORDERS = 1000, 2
TEMPERATURE_STRIDE = 4  # one of so many validation pieces decides the temperature


# --- The corpora ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    name: str
    encoder: EncoderConfig
    strong_dropout: EncoderConfig  # for systems that overfit sooner
    training: TrainingConfig
    ends: tuple[str, ...] = ()  # the words that end a sentence, besides <eos>

    most_lines: int = 0  # of each file; 0: all

    @property
    def end_tokens(self) -> list[int]:
        tokenizer, _ = tokenised(self.name, self.most_lines)
        return [token for word in self.ends for token in tokenizer.encode(word)]

    def small(self) -> Corpus:
        """The first lines and tiny models: to see in minutes that all of it runs."""
        tiny = EncoderConfig.of_size("tiny")
        return replace(self, most_lines=SMALL_LINES, encoder=tiny, strong_dropout=tiny)


def medium(dropout: float, hidden: float = 0.1) -> EncoderConfig:
    """Return a medium encoder with dropout everywhere, which keeps it from overfitting a small corpus."""
    return EncoderConfig(
        layers=6,
        heads=6,
        width=384,
        feedforward=1536,
        dropout=dropout,
        output_dropout=dropout,
        hidden_dropout=hidden,
        word_dropout=0.1,
    )


BASE = EncoderConfig.of_size("base", dropout=0.1)
TRAINING = TrainingConfig(
    steps=100_000, tokens_per_batch=65_536, learning_rate=3e-3, optimizer="muon", warmup=300, weight_decay=0.1,
    ema=0.999, evaluate_every=1000, save_every=2000, log_every=50,
)  # fmt: skip
CORPORA = {
    "ptb": Corpus("ptb", medium(0.35), medium(0.45, hidden=0.2), TRAINING),
    "wikitext2": Corpus("wikitext2", medium(0.25), medium(0.4, hidden=0.2), TRAINING, ends=(".",)),
    "wikitext103": Corpus("wikitext103", BASE, BASE, replace(TRAINING, tokens_per_batch=8192), ends=(".",)),
}
DEFAULT_CORPORA = ("ptb", "wikitext2")


@dataclass(frozen=True)
class Chunks:
    """Chunks or sentences of a stream."""

    texts: list[list[int]]  # each after the tokens that it is given
    given: list[int]  # how many those are

    @classmethod
    def of(cls, chunks: TextsInContext, indices: np.ndarray) -> Chunks:
        return cls(*chunks.after_context(indices))

    @property
    def tokens(self) -> np.ndarray:
        """[chunks] the length of each without its context."""
        return np.array([len(text) for text in self.texts]) - np.array(self.given)

    def perplexity(self, log_probs: Sequence[float] | np.ndarray) -> float:
        return math.exp(-float(np.sum(log_probs)) / int(self.tokens.sum()))


@cache
def tokenised(name: str, most: int = 0) -> tuple[Tokenizer, dict[str, list[list[int]]]]:
    """Return the whole word vocabulary of a corpus, and its lines; ``most`` of training, a tenth of the others."""
    counts = {"train": most or None, "valid": most // 10 or None, "test": most // 10 or None}
    lines = {split: list(islice(read_corpus(name, split), count)) for split, count in counts.items()}
    tokenizer = Tokenizer.train("word", lines["train"], vocabulary=1_000_000)
    return tokenizer, {split: tokenizer.encode_many(texts) for split, texts in lines.items()}


# --- The systems ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    label: str
    kind: type[BLM | InsertionTransformer | LeftToRightStream] = BLM
    strong_dropout: bool = False  # whether it has the corpus's encoder with strong dropout
    training: dict[str, Any] = field(default_factory=dict)  # what differs from the corpus's
    batch_scale: float = 1.0  # tokens in a batch, as a multiple of the corpus's
    chunk: int = CHUNK  # tokens; of a system that goes by sentences, those of the longest
    context: int = 0  # tokens before a chunk or sentence that it is given
    starts_from: str = ""  # the system whose weights it is initialised with
    in_table: bool = True  # whether it is estimated on the test set; otherwise another system starts from it

    @property
    def length(self) -> int:
        """The longest text, with its context."""
        return self.context + self.chunk

    @property
    def by_sentence(self) -> bool:
        """Whether it goes from sentence to sentence, not from chunk to chunk.

        A left-to-right model does not: where a sentence ends depends on the token after it, which it is to predict.
        """
        return self.context > 0 and self.kind is not LeftToRightStream

    def make(self, corpus: Corpus, vocabulary: int) -> Model:
        encoder = corpus.strong_dropout if self.strong_dropout else corpus.encoder
        if not issubclass(self.kind, BLM):
            return self.kind(PredictorConfig(vocabulary, encoder, self.length))
        config = BLMConfig(vocabulary, encoder, max_length=self.length)
        if self.kind is ContextBLM:
            config = ContextBLMConfig(**vars(config), context=self.context, ends=tuple(corpus.end_tokens))
        model = self.kind(config)
        first = next(module for module in model.modules() if isinstance(module, EncoderLayer))
        init_heads_on_neighbours(first)
        return model


BATCH_SCALE_LM = 0.5  # a model that predicts a word at every place takes longer over each token
EVAL_OFTEN = {"evaluate_every": 100}  # a left-to-right model learns from every place, and soon overfits
FINE_TUNING = {"steps": 5000, "learning_rate": 1.5e-3, "evaluate_every": 250, "canvases": 4}
_LM = System(
    "left-to-right Transformer", LeftToRightStream, strong_dropout=True, training=EVAL_OFTEN, batch_scale=BATCH_SCALE_LM
)
SYSTEMS = {
    "lm": _LM,
    "insertion": System("InsT", InsertionTransformer, batch_scale=BATCH_SCALE_LM),
    "blm": System("BLM"),
    "lm-context": replace(_LM, label="left-to-right Transformer in context", context=CONTEXT),
    "blm-128": System("BLM, chunks of 128", strong_dropout=True, chunk=128, in_table=False),
    # Nine of ten tokens are context, so batches are larger. The canvases of a text share its context.
    "blm-context": System(
        "BLM in context", ContextBLM, True, FINE_TUNING, batch_scale=10.0, context=CONTEXT, starts_from="blm-128"
    ),
}


# --- Experiments ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Experiment(runner.Experiment):
    orders: int = 100  # m on the whole test set

    @property
    def data(self) -> Corpus:
        return CORPORA[self.corpus].small() if self.budget.small else CORPORA[self.corpus]

    @property
    def spec(self) -> System:
        return SYSTEMS[self.system]

    @property
    def starts_from(self) -> tuple[Experiment, ...]:
        return (replace(self, system=self.spec.starts_from),) if self.spec.starts_from else ()

    # --- Training ---------------------------------------------------------------------------------------------------

    def train(self, say: Say) -> None:
        tokenizer, lines = tokenised(self.corpus, self.data.most_lines)
        tokens = round(self.spec.batch_scale * self.data.training.tokens_per_batch)
        config = replace(self.data.training, tokens_per_batch=tokens)
        config = replace(config, **self.spec.training)
        torch.manual_seed(config.seed)
        model = self.spec.make(self.data, len(tokenizer))
        # A left-to-right model learns to read a context from longer chunks: every word has what stands before it.
        texts: TokenisedTexts = (
            self.pieces("train") if self.spec.by_sentence else TokenStream(lines["train"], self.spec.length)
        )
        for start in self.starts_from:
            new = {name: weights for name, weights in model.state_dict().items() if name.startswith(COPYING)}
            model.load_state_dict(checkpoint.load(start.run_folder).model.state_dict() | new)
        if not self.starts_from:
            init_bias_from_frequencies(model, texts.flat)

        def facts() -> dict[str, Any]:
            loss, temperatures = _last_loss(self.run_folder / "metrics.jsonl"), self._temperatures()
            start = {"train_loss": loss, "begins_with": self.spec.starts_from}
            return {"tokens": texts.tokens, "temperatures": temperatures} | start

        self.fit(model, tokenizer, texts, self.pieces("valid"), config, say, facts)

    def pieces(self, split: str) -> TextsInContext:
        """Cut the stream into chunks or sentences, with their context."""
        stream = one_stream(tokenised(self.corpus, self.data.most_lines)[1][split])
        if self.spec.by_sentence:
            return sentences_in_context(stream, self.data.end_tokens, self.spec.chunk, self.spec.context)
        lengths = [len(chunk) for chunk in cut(stream, self.spec.chunk)]
        return TextsInContext(np.array(stream), lengths, self.spec.context)

    def _temperatures(self) -> dict[str, float]:
        """The perplexity of a part of the validation stream, or its bound, at each temperature."""
        return {str(t): _perplexity(self.load(t), self.eval_sets["fit"], draws=4) for t in TEMPERATURES}

    # --- Measuring --------------------------------------------------------------------------------------------------

    @cached_property
    def eval_sets(self) -> dict[str, Chunks]:
        """The validation stream and a part of it, the test stream, and what begins in some chunks of that."""
        valid, test = self.pieces("valid"), self.pieces("test")
        chunks = max(1, -(-test.tokens // CHUNK) - 1)  # without the last, which may be shorter
        few = np.random.default_rng(0).choice(chunks, min(FEW_CHUNKS, chunks), replace=False)
        return {
            "fit": Chunks.of(valid, np.arange(0, len(valid), TEMPERATURE_STRIDE)),
            "valid": Chunks.of(valid, np.arange(len(valid))),
            "test": Chunks.of(test, np.arange(len(test))),
            "seeded": Chunks.of(test, np.flatnonzero(np.isin(test.starts[:-1] // CHUNK, few))),
        }

    @property
    def plan(self) -> Iterator[tuple[str, int]]:
        """What is estimated, one after the other: a set of chunks and the number of orders it is to have."""
        if self.spec.in_table and self.spec.kind is not LeftToRightStream:
            yield "test", min(ORDERS_PER_FILE, self.orders)
            yield "seeded", min(MANY_ORDERS, 10 * self.orders)
            yield "test", self.orders

    def done(self) -> bool:
        estimates = {name: self.estimate(name) for name, _ in self.plan} if self.row_file.exists() else {}
        counts = {name: estimate.orders for name, estimate in estimates.items() if estimate}
        return self.row_file.exists() and all(counts.get(name, 0) >= orders for name, orders in self.plan)

    def estimate(self, name: str) -> Estimate | None:
        """The estimate by the orders drawn so far for a set of chunks."""
        parts = [np.load(path) for path in sorted((self.folder / "orders").glob(f"{name}-*.npy"))]
        return Estimate(np.concatenate(parts, 1), self.eval_sets[name].tokens) if parts else None

    def load(self, temperature: float | None = None) -> Any:
        """Load the best model at the temperature that suits validation texts; in half precision on a GPU."""
        model: Any = checkpoint.load(self.run_folder).model.eval()  # of System.kind
        apply_temperature(model, self.temperature if temperature is None else temperature)
        return model.to("cuda", torch.bfloat16) if torch.cuda.is_available() else model

    @property
    def temperature(self) -> float:
        """The temperature of the lowest perplexity on validation texts."""
        perplexities = read_json(self.training_file).get("temperatures", {"1.0": 0.0})
        return float(min(perplexities, key=perplexities.__getitem__))

    def measure(self, say: Say) -> Row:
        model = self.load()
        if isinstance(model, LeftToRightStream):
            sets = {name: chunks for name, chunks in self.eval_sets.items() if name != "fit"}
            measured: Row = {"exact": {name: _perplexity(model, chunks) for name, chunks in sets.items()}}
        else:
            measured = {"bounds": {name: _perplexity(model, self.eval_sets[name]) for name in ("valid", "test")}}
            if model.device.type == "cuda":
                model.compile_parts()
            for name, orders in self.plan:
                self._draw(model, name, orders, say)
        estimates = {name: self.estimate(name) for name in ("test", "seeded")}
        test = self.eval_sets["test"]
        return {
            "corpus": self.corpus,
            "system": self.system,
            "label": self.spec.label,
            "chunk": self.spec.chunk,
            "context": self.spec.context,
            "temperature": self.temperature,
            "test": {"tokens": int(test.tokens.sum()), "chunks": len(test.texts)},
            **measured,
            "estimates": {name: _described(estimate) for name, estimate in estimates.items() if estimate},
            "training": read_json(self.training_file),
        }

    def _draw(self, model: Any, name: str, orders: int, say: Say) -> None:
        """Draw the orders of a set of chunks that are not drawn yet, a file for some at a time."""
        chunks = self.eval_sets[name]
        width = min(orders, MANY_ORDERS // 10 if name == "seeded" else ORDERS_PER_FILE)
        for number in range(-(-orders // width)):
            path = self.folder / "orders" / f"{name}-{number:03}.npy"
            if path.exists():
                continue
            drawn = likelihood.monte_carlo(model, chunks.texts, width, number, _budget(model), given=chunks.given)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, open(temporary, "wb") as file:
                np.save(file, drawn.log_weights)
            if estimate := self.estimate(name):
                say(f"{self.name}, {name}: {estimate.perplexity:.2f} at m = {estimate.orders}")


def _described(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval
    return {
        "chunks": len(estimate.tokens),
        "tokens": int(estimate.tokens.sum()),
        "orders": estimate.orders,
        "perplexity": {str(m): estimate.at(m) for m in TREND if m <= estimate.orders},
        "at_all": estimate.perplexity,  # with all orders that were drawn
        "interval": [low, high],
    }


def _perplexity(model: Any, chunks: Chunks, draws: int = 32) -> float:
    """Exact for a left-to-right model; of others, that of the bound of Eq. 6."""
    if isinstance(model, LeftToRightStream):
        return chunks.perplexity(model.log_prob(chunks.texts, given=chunks.given))
    budget = _budget(model) // 8  # each canvas has many rows of the vocabulary
    return chunks.perplexity(likelihood.bound(model, chunks.texts, draws, tokens_per_batch=budget, given=chunks.given))


def _budget(model: Model) -> int:
    """Tokens scored together: enough to fill a GPU, few enough for several processes to share its memory.

    Where most of them are context, which is read once, there may be more.
    """
    return (2**21 if isinstance(model, ContextBLM) else 2**19) if model.device.type == "cuda" else 2**14


def _last_loss(path: Path) -> float | None:
    """The training loss that was logged last, in nats per token."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    losses = [record["loss"] for record in records if "loss" in record]
    return losses[-1] if losses else None


# --- The table --------------------------------------------------------------------------------------------------------


def experiments(
    out: Path,
    corpora: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    orders: int | None = None,
    seconds: float = 0.0,
    budget: runner.Budget = runner.WHOLE_RECIPE,
) -> list[Experiment]:
    """The experiments of the table, all or those named."""
    orders = (SMALL_ORDERS if budget.small else 100) if orders is None else orders
    if orders < 1:
        raise BlankLMError(f"--orders must be at least 1, not {orders}")
    return [
        Experiment(out=out, corpus=corpus, system=system, orders=orders, seconds=seconds, budget=budget)
        for corpus in runner.choose("corpus", corpora, CORPORA, DEFAULT_CORPORA)
        for system in runner.choose("system", systems, SYSTEMS, SYSTEMS)
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal: the perplexity of the test set at each m."""
    shown = (1, 10, 30, 100, 1000)
    lines = [f"{'':44}{'bound':>8}" + "".join(f"{f'm = {m}':>10}" for m in shown) + f"{'interval':>20}"]
    for row in rows:
        name = f"{row['corpus']} {row['label']}"[:43]
        if "exact" in row:
            lines.append(f"{name:44}{row['exact']['test']:8.2f}  (exact)")
            continue
        estimate = row["estimates"].get("test", {"perplexity": {}})
        cells = [f"{estimate['perplexity'][m]:.2f}" if m in estimate["perplexity"] else "" for m in map(str, shown)]
        interval = "{:.2f} - {:.2f}".format(*estimate["interval"]) if "interval" in estimate else ""
        lines.append(f"{name:44}{row['bounds']['test']:8.2f}" + "".join(f"{c:>10}" for c in cells) + f"{interval:>20}")
    return "\n".join(lines)
