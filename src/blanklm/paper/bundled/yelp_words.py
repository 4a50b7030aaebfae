"""The model ``yelp-words``: a small word-level BLM of restaurant reviews, for tests and as the start of ``sentiment``.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.yelp_words OUT

Writes OUT/model (half precision, as in tests/fixtures) and OUT/result.json.
"""

from __future__ import annotations

import json
import random
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from blanklm.api import BlankLM
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.provenance import Row, report, write_result
from blanklm.paper.tasks.infilling import evaluate
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig, train

MODEL = EncoderConfig(layers=4, heads=3, width=192, feedforward=768, dropout=0.1)
TRAINING = TrainingConfig(
    steps=8000, tokens_per_batch=65_536, learning_rate=2e-3, warmup=500, weight_decay=0.01, ema=0.999,
    evaluate_every=500, save_every=4000, log_every=100,
)  # fmt: skip
RATIOS, SENTENCES = (0.1, 0.3, 0.5), 500  # of the validation set, for choosing how to decode
DECODINGS: dict[str, dict[str, Any]] = {
    "greedy, confident": {},
    "greedy, model": {"order": "model"},
    "greedy, left-to-right": {"order": "left-to-right"},
    "parallel": {"order": "parallel"},
    "beam 5, confident": {"beam": 5},
    "beam 5, confident, length penalty 1": {"beam": 5, "length_penalty": 1.0},
    "beam 5, model": {"beam": 5, "order": "model"},
    "beam 5, model, length penalty 1": {"beam": 5, "order": "model", "length_penalty": 1.0},
}


def sentences(split: str) -> list[str]:
    """Read the sentences of both sentiments: the model does not know which is which."""
    return [
        line for line in chain(read_corpus("yelp", f"{split}.0"), read_corpus("yelp", f"{split}.1")) if line.strip()
    ]


def main(out: Path, training: TrainingConfig = TRAINING) -> Row:
    texts, validation = sentences("train"), sentences("valid")
    tokenizer = Tokenizer.train("word", texts, min_count=5, lowercase=True)
    torch.manual_seed(training.seed)
    model = BLM(BLMConfig(len(tokenizer), MODEL, sides_hidden=256, max_length=128))
    about = {
        "name": "yelp-words",
        "summary": "A small word-level BLM of restaurant reviews (lower case, tokenised)",
        "language": "English",
        "licence": "CC BY-SA 4.0",
        "data": "421,900 sentences of the Yelp sentiment corpus (Shen et al. 2017; Li et al. 2018)",
    }
    tokenised, held_out = (
        TokenisedTexts.from_ids(tokenizer.encode_many(part), max_length=128) for part in (texts, validation)
    )
    started = time.perf_counter()
    progress = train(model, tokenizer, tokenised, held_out, training, out / "run", about=about, show_progress=False)
    seconds = time.perf_counter() - started

    best = checkpoint.load(out / "run")
    checkpoint.save(out / "model", best.model, best.tokenizer, about, dtype=torch.float16)
    result = report("yelp_words", model, training, progress, seconds) | {
        "valid_bleu": compare_decodings(BlankLM.from_pretrained(out / "model"), validation),
    }
    return write_result(out / "result.json", result)


def compare_decodings(model: BlankLM, validation: list[str]) -> dict[str, dict[str, float]]:
    """Compute BLEU of each way to decode at each mask ratio, on validation sentences."""
    chosen = random.Random(0).sample(validation, min(SENTENCES, len(validation)))
    reports = {name: evaluate(model, chosen, RATIOS, seed=0, **options) for name, options in DECODINGS.items()}
    any_report = next(iter(reports.values()))
    table = {"no infill": {ratio: row["no_infill_bleu"] for ratio, row in any_report.items()}}
    return table | {name: {ratio: row["bleu"] for ratio, row in report.items()} for name, report in reports.items()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), indent=2))
