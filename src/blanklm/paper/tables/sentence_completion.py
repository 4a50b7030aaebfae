"""Sentence completion: the questions of MSR and of the SAT, by a BLM that read the challenge's novels alone.

    blanklm reproduce sentence-completion --out runs/completion [--system blm] [--seconds 500] [--budget small]

Each option stands in the blank, and the most probable given the rest is the answer. Nothing is fitted on the questions:
the options of a question are of one length, and validation loss on held-out paragraphs ends the training. Questions
made from these paragraphs, one word hidden in each, are asked too: by them systems may be compared before the test.
The bundled models stand beside it; their training texts hold one of the books that MSR's questions come from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import torch

from blanklm.api import BlankLM
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig, EncoderLayer
from blanklm.models.init import init_bias_from_frequencies, init_heads_on_neighbours
from blanklm.paper import runner
from blanklm.paper.provenance import Row, read_json
from blanklm.paper.runner import Say
from blanklm.paper.tasks.choices import Asked, accuracy, in_place
from blanklm.paper.tasks.completion import of_any_length, sentence_completion
from blanklm.training.run import TrainingConfig

CORPORA = ("novels",)
PARTS = ("train.0", "train.1", "train.2")
HELD_OUT_EVERY, OF_FEW = 500, 20  # one paragraph in so many; where few are read
VOCABULARY, MAX_LENGTH = 24_000, 160
DEV_QUESTIONS = 400
TEXTS_FOR_VOCABULARY = 10  # one paragraph in so many
SMALL_PARAGRAPHS = 5000
# Canvases of which most is shown: a question hides one word of a sentence.
TRAINING = TrainingConfig(
    steps=20_000, tokens_per_batch=131_072, learning_rate=3e-3, optimizer="muon", warmup=300, weight_decay=0.1,
    ema=0.998, skew=0.3, evaluate_every=1000, save_every=4000, log_every=50, patience=8,
)  # fmt: skip


@dataclass(frozen=True)
class System:
    label: str
    size: EncoderConfig | None = None  # None: a bundled model, as it comes


SYSTEMS = {
    "blm": System("BLM, the novels alone", EncoderConfig.of_size("base", dropout=0.1)),
    "blm-large": System("BLM of twice the layers, the novels alone", EncoderConfig(12, 12, 768, 3072, dropout=0.1)),
    "english": System("english"),
    "english-small": System("english-small"),
}


@cache
def paragraphs(most: int | None = None) -> tuple[list[str], list[str]]:
    """The sentences of the novels, a few together, to train on; and those of every so many-th paragraph, held out.

    Those of the first ``most`` paragraphs alone, if given. A question is a sentence; long paragraphs are cut between
    sentences, into pieces of up to sixty words or so.
    """
    train: list[str] = []
    held_out: list[str] = []
    every = (line for part in PARTS for line in read_corpus("sentence_completion", part))
    stride = HELD_OUT_EVERY if most is None else OF_FEW
    for number, line in enumerate(islice(every, most)):
        if line.strip():
            (train if number % stride else held_out).extend(pieces_of(line))
    return train, held_out


def pieces_of(paragraph: str, words: int = 60) -> list[str]:
    """Cut a paragraph between sentences, as soon as a piece has half of so many words."""
    pieces: list[list[str]] = [[]]
    for sentence in re.split(r"(?<=[.!?][\"'])\s+|(?<=[.!?])\s+", paragraph.strip()):
        if sum(len(part.split()) for part in pieces[-1]) >= words // 2:
            pieces.append([])
        pieces[-1].append(sentence)
    return [" ".join(piece) for piece in pieces]


@dataclass(frozen=True, kw_only=True)
class Experiment(runner.Experiment):
    texts: int = 0  # questions of each test; 0: all

    @property
    def spec(self) -> System:
        return SYSTEMS[self.system]

    @property
    def has_model(self) -> bool:
        return self.spec.size is not None

    def novels(self) -> tuple[list[str], list[str]]:
        return paragraphs(SMALL_PARAGRAPHS if self.budget.small else None)

    def train(self, say: Say) -> None:
        texts, held_out = self.novels()
        few = texts if self.budget.small else texts[::TEXTS_FOR_VOCABULARY]
        tokenizer = Tokenizer.train("bpe", few, vocabulary=VOCABULARY)
        size = EncoderConfig.of_size("tiny") if self.budget.small else self.spec.size
        assert size is not None
        torch.manual_seed(TRAINING.seed)
        model = BLM(BLMConfig(len(tokenizer), size, max_length=MAX_LENGTH, whole_words=True))
        model.set_vocabulary(tokenizer)
        init_heads_on_neighbours(next(module for module in model.modules() if isinstance(module, EncoderLayer)))
        train, valid = (
            TokenisedTexts.from_ids(tokenizer.encode_many(part), MAX_LENGTH) for part in (texts, held_out[:4000])
        )
        init_bias_from_frequencies(model, train.flat)
        say(f"{self.name}: {train.tokens:,} tokens of {len(texts):,} texts")
        self.fit(model, tokenizer, train, valid, TRAINING, say, lambda: {"texts": len(texts)})

    def measure(self, say: Say) -> Row:
        model = BlankLM.from_pretrained(self.run_folder if self.has_model else self.system)
        asked = {name: sentence_completion(name) for name in ("msr", "sat")}
        asked["held_out"] = of_any_length(self.novels()[1], DEV_QUESTIONS, longest=1)
        row: Row = {"corpus": self.corpus, "system": self.system, "label": self.spec.label}
        row["parameters"] = model.parameters
        if self.has_model:
            row["training"] = read_json(self.training_file)
        for name, questions in asked.items():
            questions = questions[: self.texts or None]
            if not questions:  # few held-out texts may give none
                continue
            row[name] = _score(model, questions)
            say(f"{self.name}: {row[name]['accuracy']:.1%} of {len(questions):,} questions, {name}")
        return row


def _score(model: BlankLM, questions: Sequence[Asked]) -> Row:
    measured = accuracy(in_place(model, questions), questions)
    del measured["groups"]
    return measured


def experiments(
    out: Path,
    corpora: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    texts: int = 0,
    seconds: float = 0.0,
    budget: runner.Budget = runner.WHOLE_RECIPE,
) -> list[Experiment]:
    """The systems that are asked, all or those named."""
    texts = texts or (20 if budget.small else 0)
    return [
        Experiment(out=out, corpus=corpus, system=system, texts=texts, seconds=seconds, budget=budget)
        for corpus in runner.choose("corpus", corpora, CORPORA, CORPORA)
        for system in runner.choose("system", systems, SYSTEMS, ("blm", "english", "english-small"))
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    lines = [f"{'':44}{'MSR':>9}{'95 %':>18}{'SAT':>9}{'held out':>10}"]
    for row in rows:
        interval = "{:.1%} to {:.1%}".format(*row["msr"]["interval"])
        sat, held_out = (format(row[name]["accuracy"], ".1%") if name in row else "" for name in ("sat", "held_out"))
        lines.append(f"{row['label']:44}{row['msr']['accuracy']:>9.1%}{interval:>18}{sat:>9}{held_out:>10}")
    return "\n".join(lines)
