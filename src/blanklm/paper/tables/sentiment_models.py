"""The models of the sentiment table: classifiers, and the BLMs and masked models that rewrite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blanklm import pretrained
from blanklm.core.special import UNK
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.files import replacing
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.model import Model
from blanklm.models.rewriter import Rewriter, RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.paper import runner
from blanklm.paper.baselines.guided import Guided
from blanklm.paper.baselines.judge import ConvolutionClassifier, ConvolutionClassifierConfig
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.bundled import yelp_words
from blanklm.paper.runner import Say, print_line
from blanklm.paper.tasks.sentiment import STYLES
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig
from blanklm.transfer.transfer import StyleClassifier

MIN_COUNT = {"yelp": 5, "amazon": 3}  # rarer words are unknown
CORPORA = tuple(MIN_COUNT)
MAX_LENGTH = 128
SMALL_TEXTS: dict[str, int | None] = {"train": 10_000, "valid": 100}  # of each sentiment, with the small budget
TABLE = EncoderConfig.of_size("small")
# The steps of each model are those that the table was made with.
WRITING = TrainingConfig(
    steps=1360, tokens_per_batch=32_768, learning_rate=2e-3, warmup=300, ema=0.998, evaluate_every=400,
)  # fmt: skip
CLASSIFYING = TrainingConfig(
    steps=1760, tokens_per_batch=16_384, learning_rate=2e-3, warmup=100, ema=0.99, evaluate_every=100,
)  # fmt: skip
FINE_TUNING = TrainingConfig(
    steps=200, tokens_per_batch=8192, learning_rate=1e-3, warmup=50, ema=0.99, evaluate_every=100, save_every=25,
)  # fmt: skip
GUIDING = TrainingConfig(steps=310, tokens_per_batch=16_384, learning_rate=3e-4, warmup=50, evaluate_every=100)
ABOUT = {
    "name": "sentiment",
    "summary": "Rewrites English review sentences from negative to positive and back",
    "language": "English",
    "licence": "CC BY-SA 4.0",
    "data": "421,900 sentences of the Yelp sentiment corpus (Shen et al. 2017; Li et al. 2018)",
}


# --- Texts ----------------------------------------------------------------------------------------------------


def sentences(corpus: str, split: str, style: int) -> list[str]:
    return [line for line in read_corpus(corpus, f"{split}.{style}") if line.strip()]


def tokenise(out: Path, corpus: str, say: Say = print_line) -> None:
    """Write the vocabulary of a corpus and its texts as ids, which all models share."""
    folder = out / corpus
    folder.mkdir(parents=True, exist_ok=True)
    training = [sentences(corpus, "train", style) for style in (0, 1)]
    every = [line for lines in training for line in lines]
    tokenizer = Tokenizer.train("word", every, min_count=MIN_COUNT[corpus], lowercase=True, marks_apart=True)
    for split, by_style in (("train", training), ("valid", [sentences(corpus, "valid", style) for style in (0, 1)])):
        for style, lines in enumerate(by_style):
            texts = TokenisedTexts.from_ids(tokenizer.encode_many(lines), MAX_LENGTH)
            with replacing(folder / f"{split}.{style}.npz") as path, open(path, "wb") as file:
                np.savez_compressed(file, flat=texts.flat, lengths=texts.lengths)
    with replacing(folder / "tokenizer.json") as path:
        tokenizer.save(path)
    say(f"{corpus}: {len(every):,} sentences, {len(tokenizer):,} words")


def tokenised(out: Path, corpus: str, split: str, styles: Sequence[int], most: int | None = None) -> TokenisedTexts:
    """Read the texts of a split in these styles, or the first so many of each."""
    parts = []
    for style in styles:
        with np.load(out / corpus / f"{split}.{style}.npz") as saved:
            lengths = saved["lengths"][:most]
            texts = [ids.tolist() for ids in np.split(saved["flat"][: lengths.sum()], lengths.cumsum()[:-1])]
        parts.append(TokenisedTexts.from_ids(texts, style=style))
    return TokenisedTexts.joined(parts)


# --- Models ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """A model to train: how it is made, on which sentiments, and how it is trained."""

    make: Callable[[Tokenizer, Experiment], Model]
    styles: tuple[int, ...]
    training: TrainingConfig
    starts_from: tuple[str, ...] = ()
    only: str = ""  # the one corpus that has it


@dataclass(frozen=True, kw_only=True)
class Experiment(runner.Experiment):
    """A model on a corpus; the rows of the table compare what several of them write (``sentiment``)."""

    start: str | None = None  # the model that the small writer starts from

    @property
    def spec(self) -> System:
        return SYSTEMS[self.system]

    @property
    def size(self) -> EncoderConfig:
        """Of the models that write."""
        return EncoderConfig.of_size("tiny") if self.budget.small else TABLE

    @property
    def starts_from(self) -> tuple[Experiment, ...]:
        return tuple(replace(self, system=name) for name in self.spec.starts_from)

    def train(self, say: Say) -> None:
        tokenizer = Tokenizer.load(self.out / self.corpus / "tokenizer.json")
        torch.manual_seed(self.spec.training.seed)
        model = self.spec.make(tokenizer, self)
        counts = SMALL_TEXTS if self.budget.small else {"train": None, "valid": None}
        texts, held_out = (
            tokenised(self.out, self.corpus, split, self.spec.styles, most) for split, most in counts.items()
        )
        self.fit(model, tokenizer, texts, held_out, self.spec.training, say, self._accuracies)

    def _accuracies(self) -> dict[str, Any]:
        """The accuracy of a classifier on validation and test sentences; nothing of other models."""
        if self.system not in ("classifier", "judge"):
            return {}
        classifier = StyleClassifier.from_pretrained(self.run_folder)
        return {f"{split}_accuracy": accuracy(classifier, self.corpus, split) for split in ("valid", "test")}


def accuracy(classifier: StyleClassifier, corpus: str, split: str) -> float:
    by_style = [sentences(corpus, split, style) for style in (0, 1)]
    right = [classifier.log_probs(lines).argmax(1) == style for style, lines in enumerate(by_style)]
    return 100 * float(np.concatenate(right).mean())


def classifier(words: Tokenizer, _: Experiment) -> AttentionClassifier:
    return AttentionClassifier(AttentionClassifierConfig(len(words), max_length=MAX_LENGTH))


def judge(words: Tokenizer, _: Experiment) -> ConvolutionClassifier:
    return ConvolutionClassifier(ConvolutionClassifierConfig(len(words), max_length=MAX_LENGTH))


def blm(words: Tokenizer, experiment: Experiment) -> BLM:
    return BLM(BLMConfig(len(words), experiment.size, sides_hidden=256, max_length=MAX_LENGTH))


def styled_blm(words: Tokenizer, experiment: Experiment) -> StyledBLM:
    return StyledBLM(StyledBLMConfig(len(words), experiment.size, sides_hidden=256, max_length=MAX_LENGTH))


def small_blm(words: Tokenizer, experiment: Experiment) -> StyledBLM:
    """Initialise the writer that is bundled with a BLM of the same sentences (bundled/yelp_words), or from scratch.

    A word that the BLM does not know starts as its unknown word.
    """
    if experiment.start is None:
        config = StyledBLMConfig(len(words), yelp_words.MODEL, sides_hidden=256, max_length=MAX_LENGTH)
        return StyledBLM(config)
    start = checkpoint.load(pretrained.locate(experiment.start))
    model = StyledBLM(StyledBLMConfig(**(vars(start.model.config) | {"vocabulary": len(words)})))
    known = start.tokenizer.backend.get_vocab()
    by_id = sorted(words.backend.get_vocab().items(), key=lambda entry: entry[1])
    rows = torch.tensor([known.get(word, UNK) for word, _ in by_id])  # [V]
    weights = start.model.state_dict()
    weights |= {name: weights[name][rows] for name in ("embedding.weight", "word_bias")}
    model.load_state_dict({name: w for name, w in weights.items() if name != "edges"}, strict=False)
    return model


def masked(words: Tokenizer, experiment: Experiment) -> Masked:
    return Masked(PredictorConfig(len(words), experiment.size, max_length=MAX_LENGTH))


def guided(style: int, _: Tokenizer, experiment: Experiment) -> Guided:
    start, guide = (checkpoint.load(other.run_folder).model for other in experiment.starts_from)
    assert isinstance(start, Masked) and isinstance(guide, AttentionClassifier)  # as SYSTEMS says
    return Guided(start, guide, style)


SYSTEMS = {
    "classifier": System(classifier, (0, 1), CLASSIFYING),
    "judge": System(judge, (0, 1), replace(CLASSIFYING, steps=1400, seed=1)),
    "blm-0": System(blm, (0,), WRITING),
    "blm-1": System(blm, (1,), WRITING),
    "blm-both": System(styled_blm, (0, 1), WRITING),
    "blm-small": System(small_blm, (0, 1), FINE_TUNING, only="yelp"),
    "masked-0": System(masked, (0,), replace(WRITING, steps=970)),
    "masked-1": System(masked, (1,), replace(WRITING, steps=970)),
    "guided-0": System(partial(guided, 0), (0, 1), GUIDING, ("masked-0", "classifier")),
    "guided-1": System(partial(guided, 1), (0, 1), GUIDING, ("masked-1", "classifier")),
}


def experiments(out: Path, corpus: str, **settings: Any) -> list[Experiment]:
    systems = [name for name, system in SYSTEMS.items() if system.only in ("", corpus)]
    return [Experiment(out=out, corpus=corpus, system=name, **settings) for name in systems]


def bundle(out: Path, corpus: str, say: Say = print_line) -> None:
    """Save the classifier and the small writer as one model, in int8."""
    parts = [checkpoint.load(out / corpus / part / "run") for part in ("classifier", "blm-small")]
    marker, writer = (part.model for part in parts)
    model = Rewriter(RewriterConfig(list(STYLES), marker.config, writer.config))
    model.classifier.load_state_dict(marker.state_dict())
    model.writer.load_state_dict(writer.state_dict())
    checkpoint.save(out / corpus / "model", model, parts[1].tokenizer, ABOUT, dtype=torch.int8)
    say(f"{corpus}: {out / corpus / 'model'} is what is bundled")
