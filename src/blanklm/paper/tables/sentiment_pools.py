"""What the models of the sentiment table write: pools of rewritten sentences to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blanklm.api import BlankLM
from blanklm.models.rewriter import Rewriter
from blanklm.models.styled_blm import StyledBLM
from blanklm.paper.baselines.systems import Infiller
from blanklm.paper.provenance import read_json, write_json
from blanklm.paper.runner import Say, print_line
from blanklm.paper.tables.sentiment_models import sentences
from blanklm.paper.tasks.sentiment import STYLES, Salience
from blanklm.training import checkpoint
from blanklm.transfer.marking import MarkedText
from blanklm.transfer.options import SAMPLES
from blanklm.transfer.results import count_repetitions, overlap
from blanklm.transfer.transfer import StyleClassifier, Transfer

VALIDATION = 150  # sentences of each sentiment, to choose settings by
MIN_SALIENCE = {"yelp": 15.0, "amazon": 5.5}  # of Li et al. 2018

Record = dict[str, Any]  # of ``record``


@dataclass(frozen=True)
class Writer:
    """Models that write, the masks they fill, and how they are sampled; masked language models are not."""

    models: tuple[str, ...]
    masks: str = "attention"
    temperature: float | None = 1.0
    contrast: float = 0.0
    samples: int = SAMPLES


# Writers with settings that are chosen on validation sentences: the model, and numbers of samples to choose from.
TUNED = {"one": ("blm-both", (SAMPLES, 2 * SAMPLES)), "small": ("model", (SAMPLES,))}
DRAWINGS = [(0.5, 0.0), (0.7, 0.0), (0.5, 1.0), (0.7, 1.0), (1.0, 1.0)]  # temperature, contrast; the paper's is (1, 0)


def tuned_name(writer: str, temperature: float, contrast: float) -> str:
    return f"{writer}-{temperature:g}-{contrast:g}"


FIXED = {
    "two": Writer(("blm-0", "blm-1")),
    "one": Writer(("blm-both",)),
    "small": Writer(("model",)),
    "two-frequency": Writer(("blm-0", "blm-1"), "frequency"),
    "masked": Writer(("masked-0", "masked-1"), temperature=None),
    "guided": Writer(("guided-0", "guided-1"), temperature=None),
}
GRID = {
    tuned_name(writer, temperature, contrast): Writer((model,), "attention", temperature, contrast, max(samples))
    for writer, (model, samples) in TUNED.items()
    for temperature, contrast in DRAWINGS
}
WRITERS = FIXED | GRID


def writes(corpus: str, writer: str) -> bool:
    """Whether a writer knows a corpus: the bundled model knows Yelp only."""
    return corpus == "yelp" or WRITERS[writer].models != ("model",)


def model_folder(folder: Path, model: str) -> Path:
    return folder / model if model == "model" else folder / model / "run"


def transfer_of(folder: Path, writer: Writer, classifier: StyleClassifier, device: str | None = None) -> Transfer:
    """Put the models of a writer together."""
    loaded = [checkpoint.load(model_folder(folder, model)) for model in writer.models]
    device = checkpoint.device_for(device)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    whole = [part.model.writer if isinstance(part.model, Rewriter) else part.model for part in loaded]
    models: list[Any] = [model.to(device, dtype).eval() for model in whole]
    if isinstance(models[0], StyledBLM):
        models = [models[0].in_style(style, writer.contrast) for style in (0, 1)]
    return Transfer(classifier, [BlankLM(model, loaded[0].tokenizer) for model in models], STYLES)


def marks(corpus: str, how: str, transfer: Transfer, texts: Sequence[str], style: int) -> list[MarkedText]:
    """Mark what is to be rewritten in texts of one style: at least one word of each."""
    attention = transfer.classifier.attention(texts)
    salience = Salience([sentences(corpus, "train", s) for s in (0, 1)]) if how == "frequency" else None
    marked = []
    for text, weights in zip(texts, attention, strict=True):
        places = transfer.tokenizer.places(text)
        if salience is not None and len(places) == len(text.split()):
            weights = salience.of_words(text, style)
            chosen = salience.marked(text, style, MIN_SALIENCE[corpus])
        else:
            chosen = {i for i, weight in enumerate(weights) if weight > 1 / len(weights)}
        marked.append(MarkedText.of(text, places, weights, chosen or {int(np.argmax(weights))}))
    return marked


def pool_file(folder: Path, writer: str, style: int, split: str) -> Path:
    return folder / "pools" / f"{writer}.{split}.{style}.json"


def is_written(folder: Path, writer: str, split: str) -> bool:
    return all(pool_file(folder, writer, style, split).exists() for style in (0, 1))


def write_pools(
    out: Path,
    corpus: str,
    writer: str,
    split: str,
    say: Say = print_line,
    samples: int | None = None,
    fewer: bool = True,
    most: int | None = None,
) -> None:
    """Rewrite the sentences of a split in the other style, ``most`` of each; a record for each.

    By default with all samples that settings may be chosen from; ``fewer``: of smaller masks too.
    """
    for style in (0, 1):
        path = pool_file(out / corpus, writer, style, split)
        if not path.exists():
            number = samples or WRITERS[writer].samples
            write_json(path, pool(out / corpus, corpus, writer, style, split, number, fewer, most))
            say(f"{corpus} {writer}: wrote {split} sentences as {STYLES[style]} ones")


def pool(
    folder: Path, corpus: str, name: str, style: int, split: str, samples: int, fewer: bool, most: int | None = None
) -> list[Record]:
    """What a writer makes of the sentences of a split in the style ``style``."""
    writer = WRITERS[name]
    classifier = StyleClassifier.from_pretrained(folder / "classifier" / "run")
    texts = sentences(corpus, split, 1 - style)[: most or (VALIDATION if split == "valid" else None)]
    if writer.temperature is None:  # a masked language model, which is told the lengths
        marked = marks(corpus, writer.masks, Transfer(classifier, [], STYLES), texts, 1 - style)
        model = Infiller.from_pretrained(model_folder(folder, writer.models[style]))
        fills = model.fill([m.canvas for m in marked], hidden=[m.masked.spans for m in marked])
        return [{"source": m.text, "greedy": fill.text} for m, fill in zip(marked, fills, strict=True)]
    transfer = transfer_of(folder, writer, classifier)
    marked = marks(corpus, writer.masks, transfer, texts, 1 - style)
    greedy = transfer.writers[style].fill([m.canvas for m in marked])
    pools = transfer.candidates(marked, style, samples=samples, temperature=writer.temperature, fewer=fewer)
    return [
        record(transfer, m, fill.text, sampled, style) for m, fill, sampled in zip(marked, greedy, pools, strict=True)
    ]


def record(transfer: Transfer, marked: MarkedText, greedy: str, sampled: Sequence, style: int) -> Record:
    """A sentence, the most probable fill of its mask, and each sample: text, words masked, and what it is ranked by."""
    texts = [fill.text for _, fill in sampled]
    source, *others = transfer.tokenizer.encode_many([marked.text, *texts])
    log_p = transfer.classifier.log_probs(texts)[:, style]
    samples = [
        [
            fill.text,
            sum(len(span.split()) for span in mask.spans),
            round(float(log_style), 4),
            round(overlap(source, other), 4),
            round(fill.log_prob / max(1, sum(len(span.split()) for span in fill.spans)), 4),
        ]
        for (mask, fill), other, log_style in zip(sampled, others, log_p, strict=True)
    ]
    return {"source": marked.text, "canvas": marked.canvas, "greedy": greedy, "samples": samples}


def records_of(out: Path, corpus: str, system: str, split: str = "test") -> list[Record]:
    """A record for each sentence, in the order of the test set: negative ones, which become positive, first."""
    paths = [out / corpus / "pools" / f"{system}.{split}.{style}.json" for style in (1, 0)]
    return [with_repetitions(record) for path in paths for record in read_json(path)]


def with_repetitions(record: Record) -> Record:
    """The record with a last number for each sample: how many of its words are written again."""
    source, samples = record["source"].split(), record.get("samples", ())
    return record | {"samples": [[*sample, count_repetitions(source, sample[0].split())] for sample in samples]}
