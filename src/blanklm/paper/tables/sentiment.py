"""Table 4 of the paper, sentiment transfer on Yelp and Amazon, and the bundled model ``sentiment``.

    BLANKLM_DATA=<corpora> blanklm reproduce sentiment --out OUT [--seconds SECONDS]

Trains, all at once on one device and in SECONDS (240 by default): the classifier that masks and ranks, the judge, a
BLM for each sentiment, one for both, a smaller one to bundle, and masked language models before and after training
through the classifier. Then, in nearly as long again, has each rewrite validation sentences, chooses settings by
them, and has the chosen ones rewrite the test sentences. Writes under OUT, for each corpus: a model folder and a log
for each part, ``pools`` (all that was written), ``choice.json`` (the settings), ``result.json`` (the table), and
``model`` (what is bundled).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from blanklm.api import BlankLM
from blanklm.core.special import UNK
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.rewriter import Rewriter, RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.paper.baselines.guided import Guided
from blanklm.paper.baselines.judge import ConvolutionClassifier, ConvolutionClassifierConfig
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.baselines.systems import Infiller
from blanklm.paper.render.source import checkout
from blanklm.paper.tables.report import report
from blanklm.paper.tasks.metrics import corpus_bleu
from blanklm.paper.tasks.sentiment import STYLES, Salience, TestSet, frontier, score, score_known
from blanklm.training import checkpoint
from blanklm.training.run import Run, TrainingConfig
from blanklm.transfer.transfer import SAMPLES, Marked, StyleClassifier, Transfer, Weights, overlap, written_again

CORPORA = ("yelp", "amazon")
MIN_COUNT = {"yelp": 5, "amazon": 3}  # rarer words are unknown
LEAST_SALIENCE = {"yelp": 15.0, "amazon": 5.5}  # of Li et al. 2018
MAX_LENGTH = 128
SECONDS = 240.0  # for all of it
TABLE = EncoderConfig.of_size("small")
STARTS_FROM = "tests/fixtures/yelp-words"  # of a checkout; with the classifier it is under 6 MB
BY_THE_CLOCK = TrainingConfig(steps=10**6, save_every=10**6)  # each part ends when its time is over
WRITING = replace(BY_THE_CLOCK, tokens_per_batch=32_768, learning_rate=2e-3, warmup=300, ema=0.998, evaluate_every=400)
CLASSIFYING = replace(
    BY_THE_CLOCK, tokens_per_batch=16_384, learning_rate=2e-3, warmup=100, ema=0.99, evaluate_every=100
)
STARTED = replace(
    BY_THE_CLOCK, tokens_per_batch=8192, learning_rate=1e-3, warmup=50, ema=0.99, evaluate_every=100, save_every=25
)
GUIDING = replace(BY_THE_CLOCK, tokens_per_batch=16_384, learning_rate=3e-4, warmup=50, evaluate_every=100)
VALIDATION = 150  # sentences of each sentiment, to choose settings by
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


def tokenise(out: Path, corpus: str) -> None:
    """The vocabulary of a corpus and its texts as ids, for every part to share; where they are there, they stay."""
    folder = out / corpus
    if (folder / "tokenizer.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    training = [sentences(corpus, "train", style) for style in (0, 1)]
    every = [line for lines in training for line in lines]
    tokenizer = Tokenizer.train("word", every, min_count=MIN_COUNT[corpus], lowercase=True, marks_apart=True)
    for split, by_style in (("train", training), ("valid", [sentences(corpus, "valid", style) for style in (0, 1)])):
        for style, lines in enumerate(by_style):
            texts = TokenisedTexts(tokenizer.encode_many(lines), MAX_LENGTH)
            np.savez_compressed(folder / f"{split}.{style}.npz", flat=texts.flat, lengths=texts.lengths)
    tokenizer.save(folder / "tokenizer.json")


def tokenised(out: Path, corpus: str, split: str, styles: Sequence[int]) -> TokenisedTexts:
    parts = []
    for style in styles:
        with np.load(out / corpus / f"{split}.{style}.npz") as saved:
            texts = np.split(saved["flat"], saved["lengths"].cumsum()[:-1])
        parts.append(TokenisedTexts(texts, style=style))
    return TokenisedTexts.joined(parts)


# --- The parts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A model to train: how it is made of a vocabulary, on which sentiments, how, and until which share of the time."""

    make: Callable[[Tokenizer, Path], nn.Module]  # told the vocabulary and the corpus's folder
    styles: tuple[int, ...]
    training: TrainingConfig
    until: float
    after: tuple[str, ...] = ()  # parts that must be there


def blm(words: Tokenizer, _: Path) -> BLM:
    return BLM(BLMConfig(len(words), TABLE, sides_hidden=256, max_length=MAX_LENGTH))


def styled_blm(words: Tokenizer, _: Path) -> StyledBLM:
    return StyledBLM(StyledBLMConfig(len(words), TABLE, sides_hidden=256, max_length=MAX_LENGTH))


def small_blm(words: Tokenizer, _: Path) -> StyledBLM:
    """Begins as yelp-words (see STARTS_FROM), which has learnt the same sentences without their sentiment.

    A word that it does not know begins as its unknown word.
    """
    start = checkpoint.load(checkout() / STARTS_FROM)
    model = StyledBLM(StyledBLMConfig(**(vars(start.model.config) | {"vocabulary": len(words)})))
    known = start.tokenizer.backend.get_vocab()
    by_id = sorted(words.backend.get_vocab().items(), key=lambda entry: entry[1])
    rows = torch.tensor([known.get(word, UNK) for word, _ in by_id])  # [V]
    weights = start.model.state_dict()
    weights |= {name: weights[name][rows] for name in ("embedding.weight", "word_bias")}
    model.load_state_dict({name: w for name, w in weights.items() if name != "edges"}, strict=False)
    return model


def guided(style: int) -> Callable[[Tokenizer, Path], Guided]:
    return lambda _, folder: Guided(
        checkpoint.load(folder / f"masked-{style}").model, checkpoint.load(folder / "classifier").model, style
    )


def masked(words: Tokenizer, _: Path) -> Masked:
    return Masked(PredictorConfig(len(words), TABLE, max_length=MAX_LENGTH))


PARTS = {
    "classifier": Part(
        lambda words, _: AttentionClassifier(AttentionClassifierConfig(len(words), max_length=MAX_LENGTH)),
        (0, 1), CLASSIFYING, 0.28,
    ),
    "judge": Part(
        lambda words, _: ConvolutionClassifier(ConvolutionClassifierConfig(len(words), max_length=MAX_LENGTH)),
        (0, 1), replace(CLASSIFYING, seed=1), 0.28,
    ),
    "blm-0": Part(blm, (0,), WRITING, 0.66),
    "blm-1": Part(blm, (1,), WRITING, 0.66),
    "blm-both": Part(styled_blm, (0, 1), WRITING, 0.66),
    "blm-small": Part(small_blm, (0, 1), STARTED, 0.66),
    "masked-0": Part(masked, (0,), WRITING, 0.45),
    "masked-1": Part(masked, (1,), WRITING, 0.45),
    "guided-0": Part(guided(0), (0, 1), GUIDING, 0.63, ("masked-0", "classifier")),
    "guided-1": Part(guided(1), (0, 1), GUIDING, 0.63, ("masked-1", "classifier")),
}  # fmt: skip
ONLY_YELP = ("blm-small", "model")  # and what is bundled of it


def train_part(out: Path, corpus: str, name: str, until: float) -> dict:
    """Train one part until the moment ``until`` (of time.time)."""
    part, folder = PARTS[name], out / corpus
    for other in part.after:
        wait_for(folder / other / "result.json", until)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    torch.manual_seed(part.training.seed)
    model = part.make(tokenizer, folder)
    texts, held_out = (tokenised(out, corpus, split, part.styles) for split in ("train", "valid"))
    training = replace(part.training, seconds=max(0.1, until - time.time()))
    run = Run(model, tokenizer, texts, held_out, training, folder / name, None, workers=2, compiles=False)
    run.begin()
    progress = run.progress

    def say(loss: float, speed: float) -> None:
        if progress.step % (10 * training.log_every) == 0:
            print(f"step {progress.step}: loss {loss:.4f}, best valid {progress.best:.4f} at {progress.best_step}, "
                  f"{speed:,.0f} tokens/s", flush=True)  # fmt: skip

    run.go(say)
    result = report(f"sentiment {corpus} {name}", model, training, progress, progress.seconds)
    result |= {"epochs": progress.tokens / texts.tokens, "steps": progress.step}
    if name in ("classifier", "judge"):
        classifier = StyleClassifier.from_pretrained(folder / name)
        result |= {f"{split}_accuracy": accuracy(classifier, corpus, split) for split in ("valid", "test")}
    write_json(folder / name / "result.json", result)
    return result


def accuracy(classifier: StyleClassifier, corpus: str, split: str) -> float:
    by_style = [sentences(corpus, split, style) for style in (0, 1)]
    found = [classifier.log_probs(lines).argmax(1) == style for style, lines in enumerate(by_style)]
    return 100 * float(np.concatenate(found).mean())


def wait_for(path: Path, until: float) -> None:
    while not path.exists():
        if time.time() > until:
            raise TimeoutError(f"{path} did not come in time")
        time.sleep(0.2)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    with checkpoint.replacing(path) as temporary:
        temporary.write_text(json.dumps(value) + "\n", encoding="utf-8")


# --- Writing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """What writes, who says which words are masked, and how it is drawn; a masked language model is not drawn from."""

    parts: tuple[str, ...]
    masks: str = "attention"
    temperature: float | None = 1.0
    contrast: float = 0.0
    samples: int = SAMPLES


# Those whose settings are chosen on validation sentences: the part, and numbers of samples to choose among.
WRITERS = {"one": ("blm-both", (SAMPLES, 2 * SAMPLES)), "small": ("model", (SAMPLES,))}
DRAWN = [(0.5, 0.0), (0.7, 0.0), (0.5, 1.0), (0.7, 1.0), (1.0, 1.0)]  # temperature and contrast; (1, 0) is the paper's


def drawn(writer: str, temperature: float, contrast: float) -> str:
    return f"{writer}-{temperature:g}-{contrast:g}"


SYSTEMS = {
    "two": System(("blm-0", "blm-1")),
    "one": System(("blm-both",)),
    "small": System(("model",)),
    "two-frequency": System(("blm-0", "blm-1"), "frequency"),
    "masked": System(("masked-0", "masked-1"), temperature=None),
    "guided": System(("guided-0", "guided-1"), temperature=None),
}
SYSTEMS |= {
    drawn(writer, temperature, contrast): System((part,), "attention", temperature, contrast, max(samples))
    for writer, (part, samples) in WRITERS.items()
    for temperature, contrast in DRAWN
}


GRID = {name for name in SYSTEMS if name not in ("two", "one", "small", "two-frequency", "masked", "guided")}


def is_written(corpus: str, system: str) -> bool:
    return corpus == "yelp" or not set(ONLY_YELP) & set(SYSTEMS[system].parts)


def transfer_of(folder: Path, system: System, classifier: StyleClassifier, device: str | None = None) -> Transfer:
    """The parts of a system together."""
    loaded = [checkpoint.load(folder / part) for part in system.parts]
    device = checkpoint.device_for(device)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    whole = [part.model.writer if isinstance(part.model, Rewriter) else part.model for part in loaded]
    models = [model.to(device, dtype).eval() for model in whole]
    if isinstance(models[0], StyledBLM):
        models = [models[0].in_style(style, system.contrast) for style in (0, 1)]
    return Transfer(classifier, [BlankLM(model, loaded[0].tokenizer) for model in models], STYLES)


def marks(corpus: str, how: str, transfer: Transfer, texts: Sequence[str], style: int) -> list[Marked]:
    """The texts, of one style, with what is to be written anew; one word alone is never masked, all but one may be."""
    attention = transfer.classifier.attention(texts)
    salience = Salience([sentences(corpus, "train", s) for s in (0, 1)]) if how == "frequency" else None
    marked = []
    for text, weights in zip(texts, attention, strict=True):
        places = transfer.tokenizer.places(text)
        if salience is not None and len(places) == len(text.split()):
            weights = salience.of_words(text, style)
            chosen = salience.marked(text, style, LEAST_SALIENCE[corpus])
        else:
            chosen = {i for i, weight in enumerate(weights) if weight > 1 / len(weights)}
        marked.append(Marked.of(text, places, weights, chosen or {int(np.argmax(weights))}))
    return marked


def write_pool(out: Path, corpus: str, system: str, style: int, split: str) -> None:
    """What a system writes for the sentences of a split in the style ``style``; a record for each."""
    how, folder = SYSTEMS[system], out / corpus
    samples, fewer = how.samples, True
    if split == "test" and system in GRID:  # what was not chosen need not be drawn
        samples, fewer = needed(read_json(folder / "choice.json"))[system]
    classifier = StyleClassifier.from_pretrained(folder / "classifier")
    texts = sentences(corpus, split, 1 - style)[: VALIDATION if split == "valid" else None]
    oracle = how.temperature is None
    transfer = Transfer(classifier, [], STYLES) if oracle else transfer_of(folder, how, classifier)
    marked = marks(corpus, how.masks, transfer, texts, 1 - style)
    if oracle:
        model = Infiller.from_pretrained(folder / how.parts[style])
        fills = model.fill([m.canvas for m in marked], hidden=[m.masked.spans for m in marked])
        records = [{"source": m.text, "greedy": fill.text} for m, fill in zip(marked, fills, strict=True)]
    else:
        greedy = transfer.writers[style].fill([m.canvas for m in marked])
        pools = transfer.candidates(marked, style, samples, how.temperature, fewer=fewer)
        records = [
            record(transfer, m, fill.text, pool, style) for m, fill, pool in zip(marked, greedy, pools, strict=True)
        ]
    (folder / "pools").mkdir(exist_ok=True)
    write_json(folder / "pools" / f"{system}.{split}.{style}.json", records)


def record(transfer: Transfer, marked: Marked, greedy: str, pool: Sequence, style: int) -> dict[str, Any]:
    """A sentence, the most probable fill of its mask, and each sample: text, words masked, and what it is ranked by."""
    texts = [fill.text for _, fill in pool]
    own, *others = transfer.tokenizer.encode_many([marked.text, *texts])
    log_p = transfer.classifier.log_probs(texts)[:, style]
    samples = [
        [
            fill.text,
            sum(len(span.split()) for span in mask.spans),
            round(float(log_style), 4),
            round(overlap(own, other), 4),
            round(fill.log_prob / max(1, sum(len(span.split()) for span in fill.spans)), 4),
        ]
        for (mask, fill), other, log_style in zip(pool, others, log_p, strict=True)
    ]
    return {"source": marked.text, "canvas": marked.canvas, "greedy": greedy, "samples": samples}


# --- Choosing -------------------------------------------------------------------------------------------------

CONTENT = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # weights of the frontier
CHOICE = [Weights(content, fluency) for content in CONTENT[:6] for fluency in (0.0, 0.1, 0.3)]
BY_CLASSIFIER = Weights(content=0.0, fluency=0.0, repetition=0.0)  # the paper's way
MAY_COST = 1.0  # points of the judge's accuracy on validation sentences, for the sake of what is kept

Record = dict[str, Any]  # of ``record``


def records_of(out: Path, corpus: str, system: str, split: str = "test") -> list[Record]:
    """A record for each sentence, in the order of the test set: negative ones, which become positive, first."""
    paths = [out / corpus / "pools" / f"{system}.{split}.{style}.json" for style in (1, 0)]
    return [with_repetitions(record) for path in paths for record in read_json(path)]


def with_repetitions(record: Record) -> Record:
    """The record with a last number for each sample: how many of its words are written again."""
    source, samples = record["source"].split(), record.get("samples", ())
    return record | {"samples": [[*sample, written_again(source, sample[0].split())] for sample in samples]}


@dataclass(frozen=True)
class Setting:
    """How a text is rewritten: which system wrote, how many samples of which masks, and what they are ranked by."""

    system: str
    samples: int
    fewer: bool
    weights: Weights

    def best(self, record: Record) -> list:
        """The sample that ranks first."""
        return max(self.among(record), key=lambda sample: self.weights.score(*sample[2:]))

    def among(self, record: Record) -> list[list]:
        """The samples that are looked at: the first so many of each mask, or of the whole mask."""
        by_mask: dict[int, list[list]] = {}
        for sample in record["samples"]:
            by_mask.setdefault(sample[1], []).append(sample)
        masks = by_mask.values() if self.fewer else [by_mask[max(by_mask)]]
        return [sample for of_mask in masks for sample in of_mask[: self.samples]]

    def to_json(self) -> dict[str, Any]:
        how = SYSTEMS[self.system]
        return asdict(self) | {"temperature": how.temperature, "contrast": how.contrast}

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Setting:
        return cls(saved["system"], saved["samples"], saved["fewer"], Weights(**saved["weights"]))


@dataclass
class OnValidation:
    """What settings are chosen by: the accuracy by the judge and BLEU against the source, on validation sentences.

    These have no references. They are not the sentences that the judge is asked about in the end, and it ranks nothing:
    what is written for a sentence is chosen without it.
    """

    judge: StyleClassifier
    records: dict[str, list[Record]]  # of each system

    @classmethod
    def of(cls, out: Path, corpus: str, systems: Sequence[str]) -> OnValidation:
        records = {system: records_of(out, corpus, system, "valid") for system in systems}
        return cls(StyleClassifier.from_pretrained(out / corpus / "judge"), records)

    def __post_init__(self) -> None:
        texts = {s[0] for records in self.records.values() for record in records for s in record["samples"]}
        self.finds = dict(zip(texts, self.judge.log_probs(list(texts)).argmax(1).tolist(), strict=True))

    def written(self, setting: Setting) -> list[str]:
        return [setting.best(record)[0] for record in self.records[setting.system]]

    def accuracy(self, texts: Sequence[str]) -> float:
        """Of what was written: the first half was to be positive, the second negative."""
        wanted = [1 - i * 2 // len(texts) for i in range(len(texts))]
        return 100 * float(np.mean([self.finds[text] == style for text, style in zip(texts, wanted, strict=True)]))

    def self_bleu(self, setting: Setting, texts: Sequence[str]) -> float:
        return corpus_bleu(texts, [record["source"] for record in self.records[setting.system]])

    def choose(self, settings: Sequence[Setting], may_cost: float = MAY_COST) -> dict[str, Any]:
        """The setting that keeps most of the source, of those at most ``may_cost`` less accurate than the best."""
        written = {setting: self.written(setting) for setting in settings}
        accuracy = {setting: self.accuracy(texts) for setting, texts in written.items()}
        least = max(accuracy.values()) - may_cost
        kept = {s: self.self_bleu(s, written[s]) for s in settings if accuracy[s] >= least}
        best = max(kept, key=lambda setting: kept[setting])
        return {
            "setting": best.to_json(),
            "accuracy": accuracy[best],
            "self_bleu": kept[best],
            "most_accurate": max(accuracy.values()),
            "of": len(settings),
        }


def choose(out: Path, corpus: str) -> dict[str, Any]:
    """The settings of the table, chosen on validation sentences; and what each way of drawing would give."""
    there = {path.name.removesuffix(".valid.0.json") for path in (out / corpus / "pools").glob("*.valid.0.json")}
    choice: dict[str, Any] = {"corpus": corpus, "sentences": 2 * VALIDATION, "may_cost": MAY_COST, "chosen": {}}
    if "two" in there:
        two = OnValidation.of(out, corpus, ["two"])
        choice["chosen"]["two"] = {"ranking": two.choose(settings_of("two", SAMPLES, True))}
    for writer, (_, numbers) in WRITERS.items():
        systems = {drawn(writer, *how): how for how in DRAWN}
        if not there.issuperset(systems):
            continue
        valid = OnValidation.of(out, corpus, list(systems))
        by_classifier = {name: Setting(name, SAMPLES, False, BY_CLASSIFIER) for name in systems}
        plain = [setting for name, setting in by_classifier.items() if systems[name][1] == 0]
        ranked = [
            setting
            for name in systems
            for samples in numbers
            for fewer in (False, True)
            for setting in settings_of(name, samples, fewer)
        ]
        choice["chosen"][writer] = {
            "classifier": valid.choose(plain),
            "contrast + classifier": valid.choose(list(by_classifier.values())),
            "ranking": valid.choose(ranked),
            "ranking, whole mask": valid.choose([s for s in ranked if not s.fewer and s.samples == SAMPLES]),
        }
        choice.setdefault("rows", {})[writer] = list(each_way(valid, systems))
    write_json(out / corpus / "choice.json", choice)
    return choice


def settings_of(system: str, samples: int, fewer: bool) -> list[Setting]:
    return [Setting(system, samples, fewer, weights) for weights in CHOICE]


def each_way(valid: OnValidation, systems: Mapping[str, tuple[float, float]]) -> Iterator[dict[str, Any]]:
    """What each temperature and contrast gives by the classifier alone, and with the weights chosen for it."""
    for name, (temperature, contrast) in systems.items():
        for fewer in (False, True):
            paper = Setting(name, SAMPLES, fewer, BY_CLASSIFIER)
            texts = valid.written(paper)
            ranking = valid.choose(settings_of(name, SAMPLES, fewer))
            yield {
                "temperature": temperature,
                "contrast": contrast,
                "fewer": fewer,
                "classifier": {"accuracy": valid.accuracy(texts), "self_bleu": valid.self_bleu(paper, texts)},
                "ranking": ranking,
            }


# --- Scoring --------------------------------------------------------------------------------------------------

Pick = Callable[[Record], str]


def greedy(record: Record) -> str:
    return record["greedy"]


def best(setting: Setting) -> Pick:
    return lambda record: setting.best(record)[0]


def rows_of(choice: Mapping[str, Any]) -> dict[str, tuple[str, Pick]]:
    """Each row of the table: the system that wrote, and what is taken of what it wrote.

    The rows of the paper, and those that do without one thing or other, as they are; the others as chosen.
    """

    def by_classifier(system: str) -> tuple[str, Pick]:
        return system, best(Setting(system, SAMPLES, False, BY_CLASSIFIER))

    rows: dict[str, tuple[str, Pick]] = {
        "M&I with MLM": ("masked", greedy),
        "M&I with MLM + classifier": ("guided", greedy),
        "M&I with BLM": ("two", greedy),
        "M&I with BLM + classifier": by_classifier("two"),
        "M&I with BLM, one model": ("one", greedy),
        "M&I with BLM, one model + classifier": by_classifier("one"),
        "M&I with BLM, frequency masks": ("two-frequency", greedy),
        "M&I with BLM, frequency masks + classifier": by_classifier("two-frequency"),
        "bundled": ("small", greedy),
        "bundled + classifier": by_classifier("small"),
    }
    for writer, ways in choice["chosen"].items():
        name = {"two": "M&I with BLM", "one": "M&I with BLM, one model", "small": "bundled"}[writer]
        for way, chosen in ways.items():
            setting = Setting.of(chosen["setting"])
            rows[f"{name}, chosen: {way}"] = setting.system, best(setting)
            if writer == "two":
                rows["M&I with BLM, frequency masks, same ranking"] = (
                    "two-frequency",
                    best(replace(setting, system="two-frequency")),
                )
            if way == "contrast + classifier":
                rows[f"{name}, contrast"] = setting.system, greedy
    return rows


def needed(choice: Mapping[str, Any]) -> dict[str, tuple[int, bool]]:
    """Of each system that was chosen: how many samples of its masks are looked at, and whether of smaller ones too."""
    most: dict[str, tuple[int, bool]] = {}
    for chosen in (chosen for ways in choice["chosen"].values() for chosen in ways.values()):
        setting = Setting.of(chosen["setting"])
        samples, fewer = most.get(setting.system, (0, False))
        most[setting.system] = max(samples, setting.samples), fewer or setting.fewer
    return most


def score_corpus(out: Path, corpus: str) -> dict[str, Any]:
    """The table of a corpus, from what was chosen and written; a system that wrote nothing has no row."""
    folder = out / corpus
    judge, test = StyleClassifier.from_pretrained(folder / "judge"), TestSet.load(corpus)
    choice = read_json(folder / "choice.json") if (folder / "choice.json").exists() else {"chosen": {}}
    there = {path.name.removesuffix(".test.0.json") for path in (folder / "pools").glob("*.test.0.json")}
    ours: dict[str, dict[str, float]] = {}
    for name, (system, pick) in rows_of(choice).items():
        if system in there:
            ours[name] = score(test, [pick(record) for record in records_of(out, corpus, system)], judge)
    ranked: dict[str, dict[str, float]] = {}
    if "one" in choice["chosen"]:  # the frontier: the chosen ranking, with other weights of content
        setting = Setting.of(choice["chosen"]["one"]["ranking"]["setting"])
        for content in CONTENT:
            pick = best(replace(setting, weights=replace(setting.weights, content=content)))
            ranked[f"{content:g}"] = score(
                test, [pick(record) for record in records_of(out, corpus, setting.system)], judge
            )
    known = score_known(corpus, judge)
    result = {
        "corpus": corpus,
        "known": known,
        "ours": ours,
        "ranked": ranked,
        "frontier": frontier(known | ours | {f"content {content}": row for content, row in ranked.items()}),
        "parts": {
            name: read_json(folder / name / "result.json") for name in PARTS if (folder / name / "result.json").exists()
        },
    }
    write_json(folder / "result.json", result)
    return result


def bundle(out: Path, corpus: str = "yelp") -> None:
    """The classifier and the small BLM as one model, in int8."""
    classifier, writer = (checkpoint.load(out / corpus / part) for part in ("classifier", "blm-small"))
    model = Rewriter(RewriterConfig(list(STYLES), classifier.model.config, writer.model.config))
    model.classifier.load_state_dict(classifier.model.state_dict())
    model.writer.load_state_dict(writer.model.state_dict())
    checkpoint.save(out / corpus / "model", model, writer.tokenizer, ABOUT, dtype=torch.int8)


# --- All of it ------------------------------------------------------------------------------------------------


def main(out: Path, seconds: float = SECONDS) -> None:
    """Every part in a process of its own; one that fails is logged and missed by those that need it alone."""
    began = time.time()
    run_all(out, [("tokenise", corpus) for corpus in CORPORA], began + seconds)
    training = [
        ("train", corpus, name, str(began + part.until * seconds))
        for name, part in PARTS.items()
        for corpus in CORPORA
        if corpus == "yelp" or name not in ONLY_YELP
    ]
    run_all(out, training, began + 0.71 * seconds)
    there = [(corpus, system) for system in SYSTEMS for corpus in CORPORA if is_written(corpus, system)]
    drawing = [("draw", corpus, writer, style) for corpus in CORPORA for writer in WRITERS for style in "01"]
    writing = [
        ("write", corpus, system, style, "test") for corpus, system in there if system not in GRID for style in "01"
    ]
    two = [("write", corpus, "two", style, "valid") for corpus in CORPORA for style in "01"]
    run_all(out, [*writing, *two, *(job for job in drawing if is_written(*job[1:3]))], began + 1.2 * seconds)
    run_all(out, [("choose", corpus) for corpus in CORPORA], began + 1.4 * seconds)
    chosen = [
        ("write", corpus, system, style, "test")
        for corpus in CORPORA
        if (out / corpus / "choice.json").exists()
        for system in sorted(needed(read_json(out / corpus / "choice.json")).keys() & GRID)
        for style in "01"
    ]
    run_all(out, chosen, began + 1.6 * seconds)
    run_all(out, [("score", corpus) for corpus in CORPORA], began + 1.8 * seconds)
    for corpus in CORPORA:
        print((out / "logs" / f"score-{corpus}.txt").read_text(encoding="utf-8"))


def run_all(out: Path, jobs: Sequence[tuple[str, ...]], until: float) -> None:
    """Run the jobs side by side; whatever is not done by ``until`` is stopped."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    running = []
    for job in jobs:
        log = open(out / "logs" / f"{'-'.join(job[:3] if job[0] == 'train' else job)}.txt", "w")  # noqa: SIM115
        command = [sys.executable, "-m", "blanklm.paper.tables.sentiment", str(out), *job]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        running.append((job, process))
    for job, process in running:
        try:
            code = process.wait(max(0.1, until - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = "out of time"
        if code:
            print(f"{' '.join(job)}: {code}", flush=True)


def job(out: Path, what: str, corpus: str, *rest: str) -> None:
    if what == "tokenise":
        tokenise(out, corpus)
    elif what == "train":
        print(json.dumps(train_part(out, corpus, rest[0], float(rest[1]))))
        if rest[0] == "blm-small":
            bundle(out, corpus)
    elif what == "write":
        write_pool(out, corpus, rest[0], int(rest[1]), rest[2])
    elif what == "draw":
        for how in DRAWN:
            write_pool(out, corpus, drawn(rest[0], *how), int(rest[1]), "valid")
    elif what == "choose":
        print(json.dumps(choose(out, corpus)["chosen"]))
    elif what == "score":
        print("\n".join(table(score_corpus(out, corpus))))


def table(result: dict[str, Any]) -> Iterator[str]:
    """The table as text."""
    ranked = {f"content {content}": row for content, row in result["ranked"].items()}
    for name, row in (result["known"] | result["ours"] | ranked).items():
        numbers = " ".join(f"{key} {row[key]:.1f}" for key in ("accuracy", "bleu", "bleu_all_references") if key in row)
        yield f"{result['corpus']}: {name}: {numbers}"


if __name__ == "__main__":
    job(Path(sys.argv[1]), *sys.argv[2:])
