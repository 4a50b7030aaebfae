"""What the English model was chosen among, and what it is compared with: same tokenizer, data, steps and judge.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.english_tries OUT --steps 1500 [--only NAME ...] [--at-once 3]

OUT is that of recipes/english.py, whose tokenizer is used. Writes OUT/NAME/run (the training run) and OUT/tries.json:
the infilling BLEU of each try, and the perplexity of what it filled in under the left-to-right model.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import nn

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import mask_corpus, read_corpus
from blanklm.errors import BlankLMError
from blanklm.models.backbone import Pretrained
from blanklm.models.blm import BLM
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.fill_in_middle import FillInMiddle
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import Predictor, PredictorConfig
from blanklm.paper.baselines.systems import LanguageModel, load_system
from blanklm.paper.bundled import english
from blanklm.paper.tables.report import report
from blanklm.paper.tasks.fluency import perplexity
from blanklm.paper.tasks.infilling import fills_of, score
from blanklm.training.run import Run, TrainingConfig

MAX_LENGTH = 510  # tokens: what MiniLM takes beside its own two symbols, so that every try sees the same texts
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
SMALLER = EncoderConfig(layers=6, heads=4, width=256, feedforward=1024, dropout=0.05)


@dataclass(frozen=True)
class Try:
    make: Callable[[Tokenizer, argparse.Namespace], nn.Module]
    training: dict[str, Any]  # settings other than the bundled model's
    decoding: dict[str, Any]


def of_bundled_size(kind: type[Predictor]) -> Callable[[Tokenizer, argparse.Namespace], Predictor]:
    """A rival with as many layers of the same width."""

    def make(tokenizer: Tokenizer, options: argparse.Namespace) -> Predictor:
        model = kind(PredictorConfig(len(tokenizer), english.MODEL, max_length=MAX_LENGTH))
        if hasattr(model, "starts_word"):
            model.starts_word.copy_(torch.from_numpy(tokenizer.starts_word))
        return model

    return make


def on_backbone(tokenizer: Tokenizer, options: argparse.Namespace) -> BLM:
    """Pretrained layers under the new, cased vocabulary."""
    return BLM.on(Pretrained.load(options.backbone), tokenizer, sides_hidden=512, whole_words=True)


AT_ONCE = {"order": "parallel"}
TRIES = {
    "lm": Try(of_bundled_size(LeftToRight), {}, {}),  # judges
    "fim": Try(of_bundled_size(FillInMiddle), {}, {}),  # writes the spans after the canvas
    "mlm": Try(of_bundled_size(Masked), {}, {}),  # is told the lengths
    "blm": Try(lambda tokenizer, options: english.build(tokenizer, english.MODEL), {}, AT_ONCE),
    "blm-uniform": Try(lambda tokenizer, options: english.build(tokenizer, english.MODEL), {"skew": 1.0}, AT_ONCE),
    "blm-not-averaged": Try(lambda tokenizer, options: english.build(tokenizer, english.MODEL), {"ema": 0.0}, AT_ONCE),
    "blm-smaller": Try(lambda tokenizer, options: english.build(tokenizer, SMALLER), {}, AT_ONCE),
    # What has been learnt before is not to be shaken off.
    "blm-backbone": Try(on_backbone, {"learning_rate": 5e-4}, AT_ONCE),
}
JUDGE = "lm"


def train_and_fill(
    name: str, tokenizer: Tokenizer, texts: TokenisedTexts, held_out: TokenisedTexts, options: argparse.Namespace
) -> None:
    """Train one try and have it fill the held-out texts; its result and its fills are in OUT/NAME."""
    this, folder = TRIES[name], options.out / name
    training = replace(english.TRAINING, steps=options.steps, warmup=options.steps // 10, **this.training)
    torch.manual_seed(training.seed)
    model = this.make(tokenizer, options)
    result = report(
        f"english {name}", model, training, *trained(name, model, tokenizer, texts, held_out, training, folder)
    )
    if name != JUDGE:
        result["scores"] = fill(folder, this.decoding)
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def trained(
    name: str,
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: TokenisedTexts,
    held_out: TokenisedTexts,
    training: TrainingConfig,
    folder: Path,
) -> tuple[Any, float]:
    """The progress of a whole run and its seconds, with a line of print now and then."""
    run = Run(model, tokenizer, texts, held_out, training, folder / "run", {"name": f"english-{name}"})
    run.begin()
    progress, started = run.progress, time.perf_counter()

    def say(loss: float, speed: float) -> None:
        best = f", best valid {progress.best:.4f} at {progress.best_step}" if progress.best_step else ""
        print(f"{name} step {progress.step}: loss {loss:.4f} nats/token{best}, {speed:,.0f} tokens/s", flush=True)

    run.go(say)
    return progress, time.perf_counter() - started


def fill(folder: Path, decoding: dict[str, Any]) -> dict[str, Any]:
    """BLEU and the rest by ratio; the filled texts are kept for the judge."""
    system, sentences = load_system(folder / "run"), list(read_corpus("english", "valid"))[:: english.EVERY]
    scores, filled = {}, {}
    for ratio in RATIOS:
        masked = [m for m in mask_corpus(sentences, ratio, seed=0) if m.spans]
        started = time.perf_counter()
        fills = fills_of(system, masked, **decoding)
        scores[f"{ratio:g}"] = score(masked, fills) | {"seconds": time.perf_counter() - started}
        filled[f"{ratio:g}"] = {"fills": [f.text for f in fills], "originals": [m.text for m in masked]}
    (folder / "fills.json").write_text(json.dumps(filled, ensure_ascii=False), encoding="utf-8")
    return scores


def judge(out: Path) -> dict[str, Any]:
    """The results of all tries so far, with the perplexity of what each filled in."""
    if not (out / JUDGE / "run" / "config.json").exists():
        raise BlankLMError(f"the fills are in {out}, and nobody is there to judge them: train --only {JUDGE}")
    model = LanguageModel.from_pretrained(out / JUDGE / "run")
    results: dict[str, Any] = {}
    of_originals: dict[str, float] = {}  # by ratio: the same texts for every try
    for name in TRIES:
        if not (out / name / "result.json").exists():
            continue
        results[name] = json.loads((out / name / "result.json").read_text(encoding="utf-8"))
        if name == JUDGE:
            continue
        filled = json.loads((out / name / "fills.json").read_text(encoding="utf-8"))
        for ratio, of in filled.items():
            if ratio not in of_originals:
                of_originals[ratio] = perplexity(model, of["originals"])
            results[name]["scores"][ratio] |= {
                "perplexity": perplexity(model, of["fills"]),
                "original_perplexity": of_originals[ratio],
            }
    (out / "tries.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--only", nargs="*", choices=TRIES, default=list(TRIES), help="none: judge what is there")
    parser.add_argument("--backbone", default="sentence-transformers/all-MiniLM-L6-v2", help="a folder or a Hub id")
    parser.add_argument("--at-once", type=int, default=1, help="tries trained side by side")
    options = parser.parse_args(arguments)
    corpus = english.corpus(options.out, english.PARTS, MAX_LENGTH) if options.only else ()
    for name in options.only:
        (options.out / name).mkdir(parents=True, exist_ok=True)

    def in_a_process(name: str) -> None:  # of its own, that shares the texts and leaves the GPU's memory when it ends
        process = get_context("fork").Process(target=train_and_fill, args=(name, *corpus, options))
        process.start()
        process.join()

    with ThreadPoolExecutor(options.at_once) as threads:
        list(threads.map(in_a_process, options.only))
    return judge(options.out)


if __name__ == "__main__":
    print(json.dumps(main(), indent=2))
