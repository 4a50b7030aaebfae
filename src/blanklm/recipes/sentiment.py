"""Table 4 of the paper, sentiment transfer on Yelp and Amazon, and the bundled model ``sentiment``.

    BLANKLM_DATA=<corpora> blanklm reproduce sentiment --out OUT [--seconds SECONDS]

Trains, all at once on one device and in SECONDS (240 by default): the classifier that masks and ranks, the judge, a
BLM for each sentiment, one for both, a smaller one to bundle, and masked language models before and after training
through the classifier. Then has each rewrite the test sentences. Writes under OUT, for each corpus: a model folder
and a log for each part, ``pools`` (all that was written), ``result.json`` (the table), and ``model`` (what is bundled).
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

from blanklm import checkpoint
from blanklm.api import BlankLM
from blanklm.baselines import Infiller
from blanklm.batching import TokenisedTexts
from blanklm.data import read_corpus
from blanklm.metrics import corpus_bleu
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.classifier import (
    AttentionClassifier,
    AttentionClassifierConfig,
    ConvolutionClassifier,
    ConvolutionClassifierConfig,
)
from blanklm.models.encoder import EncoderConfig
from blanklm.models.guided import Guided
from blanklm.models.masked import Masked
from blanklm.models.predictor import PredictorConfig
from blanklm.models.rewriter import Rewriter, RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.recipes.report import report
from blanklm.tasks.sentiment import STYLES, Salience, TestSet, frontier, score, score_known
from blanklm.tokenizer import Tokenizer
from blanklm.training import Run, TrainingConfig
from blanklm.transfer import SAMPLES, TEMPERATURE, Marked, StyleClassifier, Transfer, Weights, overlap

CORPORA = ("yelp", "amazon")
MIN_COUNT = {"yelp": 5, "amazon": 3}  # rarer words are unknown
LEAST_SALIENCE = {"yelp": 15.0, "amazon": 5.5}  # of Li et al. 2018
MAX_LENGTH = 128
SECONDS = 240.0  # for all of it
TABLE = EncoderConfig.of_size("small")
SMALL = EncoderConfig(layers=4, heads=3, width=192, feedforward=768, dropout=0.1)  # with its classifier under 6 MB
BY_THE_CLOCK = TrainingConfig(steps=10**6, save_every=10**6)  # each part ends when its time is over
WRITING = replace(BY_THE_CLOCK, tokens_per_batch=32_768, learning_rate=2e-3, warmup=300, ema=0.998, evaluate_every=400)
CLASSIFYING = replace(
    BY_THE_CLOCK, tokens_per_batch=16_384, learning_rate=2e-3, warmup=100, ema=0.99, evaluate_every=100
)
GUIDING = replace(BY_THE_CLOCK, tokens_per_batch=16_384, learning_rate=3e-4, warmup=50, evaluate_every=100)
VALIDATION = 100  # sentences of each sentiment, to choose weights by
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
    return StyledBLM(StyledBLMConfig(len(words), SMALL, sides_hidden=256, max_length=MAX_LENGTH))


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
    "blm-small": Part(small_blm, (0, 1), WRITING, 0.66),
    "masked-0": Part(masked, (0,), WRITING, 0.45),
    "masked-1": Part(masked, (1,), WRITING, 0.45),
    "guided-0": Part(guided(0), (0, 1), GUIDING, 0.63, ("masked-0", "classifier")),
    "guided-1": Part(guided(1), (0, 1), GUIDING, 0.63, ("masked-1", "classifier")),
}  # fmt: skip
ONLY_YELP = ("blm-small",)


def train_part(out: Path, corpus: str, name: str, until: float) -> dict:
    """Train one part until the moment ``until`` (of time.time)."""
    part, folder = PARTS[name], out / corpus
    for other in part.after:
        wait_for(folder / other / "result.json", until)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    torch.manual_seed(part.training.seed)
    model = part.make(tokenizer, folder)
    texts, held_out = (tokenised(out, corpus, split, part.styles) for split in ("train", "valid"))
    training = replace(part.training, seconds=max(1.0, until - time.time()))
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


def write_json(path: Path, value: Any) -> None:
    with checkpoint.replacing(path) as temporary:
        temporary.write_text(json.dumps(value) + "\n", encoding="utf-8")


# --- Writing --------------------------------------------------------------------------------------------------

SYSTEMS = {  # what writes, who says which words are masked, and the temperature of the samples
    "two": (("blm-0", "blm-1"), "attention", 1.0),
    "one": (("blm-both",), "attention", 1.0),
    "small": (("blm-small",), "attention", 1.0),
    "two-frequency": (("blm-0", "blm-1"), "frequency", 1.0),
    "one-cool": (("blm-both",), "attention", TEMPERATURE),
    "small-cool": (("blm-small",), "attention", TEMPERATURE),
    "masked": (("masked-0", "masked-1"), "attention", None),
    "guided": (("guided-0", "guided-1"), "attention", None),
}


def transfer_of(folder: Path, parts: Sequence[str], classifier: StyleClassifier, device: str | None = None) -> Transfer:
    """The parts of a system together."""
    loaded = [checkpoint.load(folder / part) for part in parts]
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    models = [part.model.to(device, dtype).eval() for part in loaded]
    if isinstance(models[0], StyledBLM):
        models = [models[0].in_style(style) for style in (0, 1)]
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
    parts, how, temperature = SYSTEMS[system]
    folder = out / corpus
    classifier = StyleClassifier.from_pretrained(folder / "classifier")
    texts = sentences(corpus, split, 1 - style)[: VALIDATION if split == "valid" else None]
    oracle = temperature is None
    transfer = Transfer(classifier, [], STYLES) if oracle else transfer_of(folder, parts, classifier)
    marked = marks(corpus, how, transfer, texts, 1 - style)
    if oracle:
        model = Infiller.from_pretrained(folder / parts[style])
        fills = model.fill([m.canvas for m in marked], hidden=[m.masked.spans for m in marked])
        records = [{"source": m.text, "greedy": fill.text} for m, fill in zip(marked, fills, strict=True)]
    else:
        greedy = transfer.writers[style].fill([m.canvas for m in marked])
        pools = transfer.candidates(marked, style, temperature=temperature, fewer=True)
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


# --- Scoring --------------------------------------------------------------------------------------------------

CONTENT = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # weights of the frontier
MAY_COST = 0.5  # points of the classifier's accuracy on validation sentences, for the sake of content
BY_CLASSIFIER = Weights(content=0.0, fluency=0.0)

Record = dict[str, Any]  # of ``record``


def records_of(out: Path, corpus: str, systems: Sequence[str], split: str = "test") -> list[Record]:
    """A record for each sentence, in the order of the test set: negative ones, which become positive, first.

    Where several systems are named, the samples of all of them.
    """
    pools = [
        [
            record
            for style in (1, 0)
            for record in json.loads(
                (out / corpus / "pools" / f"{name}.{split}.{style}.json").read_text(encoding="utf-8")
            )
        ]
        for name in systems
    ]
    return [each[0] | {"samples": [s for r in each for s in r.get("samples", ())]} for each in zip(*pools, strict=True)]


def chosen(record: Record, weights: Weights, nested: bool) -> list:
    """The sample that ranks first; without smaller masks, of those of the whole mask alone."""
    samples = record["samples"]
    most = max(sample[1] for sample in samples)
    pool = samples if nested else [sample for sample in samples if sample[1] == most]
    return max(pool, key=lambda sample: weights.score(*sample[2:]))


def greedy(record: Record) -> str:
    return record["greedy"]


def best(weights: Weights, nested: bool) -> Callable[[Record], str]:
    return lambda record: chosen(record, weights, nested)[0]


ROWS: dict[str, tuple[tuple[str, ...], Callable[[Record], str]]] = {
    "M&I with MLM": (("masked",), greedy),
    "M&I with MLM + classifier": (("guided",), greedy),
    "M&I with BLM": (("two",), greedy),
    "M&I with BLM + classifier": (("two",), best(BY_CLASSIFIER, nested=False)),
    "M&I with BLM + ranking": (("two",), best(Weights(), nested=True)),
    "M&I with BLM + ranking, whole mask": (("two",), best(Weights(), nested=False)),
    "M&I with BLM + ranking, fluency 0": (("two",), best(Weights(fluency=0.0), nested=True)),
    "M&I with BLM + ranking, fluency 0, 20 samples": (("two", "one"), best(Weights(fluency=0.0), nested=True)),
    "M&I with BLM, one model": (("one",), greedy),
    "M&I with BLM, one model + classifier": (("one",), best(BY_CLASSIFIER, nested=False)),
    "M&I with BLM, one model + ranking": (("one",), best(Weights(), nested=True)),
    "M&I with BLM, frequency masks": (("two-frequency",), greedy),
    "M&I with BLM, frequency masks + classifier": (("two-frequency",), best(BY_CLASSIFIER, nested=False)),
    "M&I with BLM, frequency masks + ranking": (("two-frequency",), best(Weights(), nested=True)),
    "M&I with BLM, one model, temperature 0.5 + classifier": (("one-cool",), best(BY_CLASSIFIER, nested=False)),
    "M&I with BLM, one model, temperature 0.5 + ranking": (("one-cool",), best(Weights(), nested=True)),
    "bundled": (("small",), greedy),
    "bundled + classifier": (("small",), best(BY_CLASSIFIER, nested=False)),
    "bundled + ranking": (("small",), best(Weights(), nested=True)),
    "bundled, temperature 0.5 + ranking": (("small-cool",), best(Weights(), nested=True)),
    "bundled, temperature 0.5 + ranking, whole mask": (("small-cool",), best(Weights(), nested=False)),
}


def score_corpus(out: Path, corpus: str) -> dict[str, Any]:
    """The table of a corpus, from what was written; a system that wrote nothing has no row."""
    judge, test = StyleClassifier.from_pretrained(out / corpus / "judge"), TestSet.load(corpus)
    there = {path.name.split(".")[0] for path in (out / corpus / "pools").glob("*.test.0.json")}
    ours: dict[str, dict[str, float]] = {}
    for name, (systems, choose) in ROWS.items():
        if there.issuperset(systems):
            ours[name] = score(test, [choose(r) for r in records_of(out, corpus, systems)], judge)
    weighed = [Weights(content=content) for content in CONTENT] if "two" in there else []
    records = records_of(out, corpus, ("two",)) if weighed else []
    ranked = {
        f"{weights.content:g}": score(test, [best(weights, nested=True)(r) for r in records], judge)
        for weights in weighed
    }
    known = score_known(corpus, judge)
    result = {
        "corpus": corpus,
        "samples": SAMPLES,
        "weights": asdict(Weights()),
        "known": known,
        "ours": ours,
        "ranked": ranked,
        "validation": on_validation(out, corpus, weighed),
        "frontier": frontier(known | ours | {f"content {content}": row for content, row in ranked.items()}),
        "parts": {
            name: json.loads((out / corpus / name / "result.json").read_text(encoding="utf-8"))
            for name in PARTS
            if (out / corpus / name / "result.json").exists()
        },
    }
    write_json(out / corpus / "result.json", result)
    return result


def on_validation(out: Path, corpus: str, weighed: Sequence[Weights]) -> dict[str, dict[str, float]]:
    """What weights are chosen by: of validation sentences, how many the classifier finds in the wanted style."""
    if not (out / corpus / "pools" / "two.valid.0.json").exists():
        return {}
    records = records_of(out, corpus, ("two",), "valid")
    rows = {}
    for weights in weighed:
        samples = [chosen(record, weights, nested=True) for record in records]
        rows[f"{weights.content:g}"] = {
            "classifier_accuracy": 100 * float(np.mean([sample[2] > np.log(0.5) for sample in samples])),
            "content": 100 * float(np.mean([sample[3] for sample in samples])),
        }
    return rows


def content_to_choose(validations: Sequence[Mapping[str, Mapping[str, float]]]) -> float:
    """The greatest weight of content that costs the classifier's accuracy at most ``MAY_COST`` on every corpus."""

    def affordable(weight: str) -> bool:
        cost = [rows["0"]["classifier_accuracy"] - rows[weight]["classifier_accuracy"] for rows in validations]
        return max(cost) <= MAY_COST

    return max(float(weight) for weight in validations[0] if affordable(weight))


def compare_temperatures(out: Path, corpus: str = "yelp") -> list[dict[str, float]]:
    """The bundled model at several temperatures, on other validation sentences than those the weights were chosen by.

    Perplexity is that under the bundled model yelp-words, which had no part in the writing, by 8 orders a sentence.
    """
    transfer = Transfer.from_pretrained(out / corpus / "model")
    judge, reader = StyleClassifier.from_pretrained(out / corpus / "judge"), BlankLM.from_pretrained("yelp-words")
    by_target = [sentences(corpus, "valid", 1 - target)[VALIDATION : 2 * VALIDATION] for target in (0, 1)]
    sources = by_target[0] + by_target[1]

    def measured(texts: list[str]) -> dict[str, float]:
        scores = reader.score(texts, orders=8)
        nats = -sum(s.log_prob for s in scores) / sum(s.tokens for s in scores)
        return {"perplexity": float(np.exp(nats)), "self_bleu": corpus_bleu(texts, sources)}

    rows = [{"temperature": 0.0, **measured(sources)}]  # the sources themselves
    for temperature in (1.0, 0.7, 0.5):
        for fewer in (False, True):
            options = {"temperature": temperature, "fewer": fewer}
            written = [transfer.rewrite(texts, STYLES[to], **options) for to, texts in enumerate(by_target)]
            texts = [rewritten.text for each in written for rewritten in each]
            found = judge.log_probs(texts).argmax(1)
            right = found == np.repeat((0, 1), [len(texts) for texts in by_target])
            rows.append(options | {"accuracy": 100 * float(right.mean())} | measured(texts))
    write_json(out / corpus / "temperatures.json", rows)
    return rows


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
    writing = [
        ("write", corpus, system, str(style))
        for system in SYSTEMS
        for corpus in CORPORA
        for style in (0, 1)
        if corpus == "yelp" or "blm-small" not in SYSTEMS[system][0]
    ]
    run_all(out, writing, began + 0.97 * seconds)
    run_all(out, [*(("score", corpus) for corpus in CORPORA), ("temperatures", "yelp")], began + 1.5 * seconds)
    for corpus in CORPORA:
        print((out / "logs" / f"score-{corpus}.txt").read_text(encoding="utf-8"))


def run_all(out: Path, jobs: Sequence[tuple[str, ...]], until: float) -> None:
    """Run the jobs side by side; whatever is not done by ``until`` is stopped."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    running = []
    for job in jobs:
        log = open(out / "logs" / f"{'-'.join(job[:4] if job[0] == 'write' else job[:3])}.txt", "w")  # noqa: SIM115
        command = [sys.executable, "-m", "blanklm.recipes.sentiment", str(out), *job]
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
        for split in ("test", "valid"):
            write_pool(out, corpus, rest[0], int(rest[1]), split)
    elif what == "temperatures":
        print(json.dumps(compare_temperatures(out, corpus)))
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
