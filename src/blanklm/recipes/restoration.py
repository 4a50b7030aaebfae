"""Table 3 of the paper: restoration of damaged texts, on the corpora that could be had, beside the paper's numbers.

    BLANKLM_DATA=<corpora> python -m blanklm.recipes.restoration OUT WORK [SHARE [PART ...]]

Trains all PARTS, or those named, side by side on one GPU, each for its seconds (times SHARE), evaluates each, and
leaves in OUT one file for each of greek, latin and greek-lblm (half precision) and one with all results and logs. A
part that fails loses nothing of the others.

    python -m blanklm.recipes.restoration evaluate NAME MODEL OUT.json

evaluates a model folder as the part of that name would be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from blanklm import checkpoint
from blanklm.baselines import SlotBySlot
from blanklm.data import Masked, editors_restorations, read_corpus, slots_of_corpus
from blanklm.models.encoder import EncoderConfig
from blanklm.recipes import greek, latin
from blanklm.recipes.restorers import Recipe
from blanklm.restoring import Candidate, Gap, Restorer, fold
from blanklm.tasks.restoration import RATIOS, System, evaluate_fill, evaluate_rank, score_ranked, without_repeats

PARTS = {  # seconds of training
    "greek": 290,
    "latin": 150,
    "greek-lblm": 150,
    "greek-pythia": 200,
    "greek-pythia-word": 200,
    "try-characters": 70,
    "try-words": 70,
}
AROUND = 105  # seconds for reading the corpora and evaluating
TEXTS, PAPYRI, EDITED = 1000, 400, 400  # of the test sets
SMALL = EncoderConfig(layers=4, heads=6, width=192, feedforward=768, dropout=0.1)  # for trying things out
SEED = 1


def recipe_of(part: str) -> Recipe:
    match part.partition("-"):
        case "latin", _, _:
            return latin.RECIPE
        case "greek", _, kind:
            return replace(greek.RECIPE, name=part, kind=kind or "mixed")
        case "try", _, kind:
            return replace(greek.RECIPE, name=part, encoder=SMALL, words=0 if kind == "characters" else 4096)
    raise ValueError(f"there is no part {part!r}")


def load(part: str, folder: Path) -> System:
    return (SlotBySlot if "pythia" in part else Restorer).from_pretrained(folder)


# --- What is measured ---------------------------------------------------------------------------------------------


def evaluations(part: str) -> dict[str, Callable[[System], dict[str, float]]]:
    """The measurements of a part, by name, the most important first."""
    if part == "latin":
        return latin_evaluations()
    if part.startswith("try"):
        return {"valid_single": lambda system: evaluate_rank(system, slots("greek_documentary", "valid", None))}
    return greek_evaluations(told_only=part != "greek")


def slots(corpus: str, split: str, ratio: float | None) -> list[Masked]:
    """The slots of the texts of a split, of which some are drawn."""
    texts = list(read_corpus(corpus, split))
    if corpus == "edh_latin":
        known = set(read_corpus(corpus, "train"))
        texts = [latin.repaired(text) for text in texts if text not in known]
    return slots_of_corpus(Random(SEED).sample(texts, min(TEXTS, len(texts))), ratio, SEED)


def settings(corpus: str) -> dict[str, Callable[[System], dict[str, float]]]:
    """The paper's four."""
    measured: dict[str, Any] = {"single": lambda system: evaluate_rank(system, slots(corpus, "test", None))}
    for ratio in RATIOS:
        measured[f"{ratio:g}"] = lambda system, ratio=ratio: evaluate_fill(system, slots(corpus, "test", ratio))
    return measured


def untold(corpus: str) -> dict[str, Callable[[System], dict[str, float]]]:
    """A single slot whose length is not told, or within a range of half to one and a half times its length."""
    some = slots(corpus, "test", None)[: TEXTS // 2]
    return {
        "single, told": lambda system: evaluate_fill(system, some),
        "single, range": lambda system: evaluate_fill(system, some, (0.5, 1.5)),
        "single, unknown": lambda system: evaluate_fill(system, some, (0.0, 0.0)),
    }


def greek_evaluations(told_only: bool) -> dict[str, Callable[[System], dict[str, float]]]:
    measured = settings("greek_documentary")
    measured["phi_ml"] = lambda system: excerpts(system, "phi_ml_test_excerpts.tsv")
    measured["papyri"] = lambda system: excerpts(system, "restoration_pap_text_ups.tsv", PAPYRI)
    if not told_only:
        measured |= {"editors": lambda system: editors(system, greek_edited())} | untold("greek_documentary")
    return measured


def latin_evaluations() -> dict[str, Callable[[System], dict[str, float]]]:
    return settings("edh_latin") | {"editors": lambda system: editors(system, latin_edited())} | untold("edh_latin")


def excerpts(system: System, split: str, most: int | None = None) -> dict[str, float]:
    """Published items: a gap of known length in an excerpt. Accents are stripped from the solutions too."""
    rows = [line.split("\t") for line in read_corpus("greek_documentary", split)][1:]
    rows = Random(SEED).sample(rows, min(most or len(rows), len(rows)))
    documents = [[left, Gap(len(target), len(target)), right] for _, left, target, right, *_ in rows]
    ranked = [gaps[0] for gaps in system.rank(documents)]
    truths = [fold(row[2]) for row in rows]
    measured = score_ranked(ranked, truths)
    if len(rows[0]) > 4:  # the prediction of another model stands in the file
        theirs = score_ranked([[Candidate(fold(row[4]), 0.0)] for row in rows], truths)
        measured |= {"charbert_cer": theirs["cer"], "charbert_top1": theirs["top1"]}
    return measured


def editors(system: System, edited: list[Masked]) -> dict[str, float]:
    """What editors restored, from the text around it: CER of all, then by length."""
    some = Random(SEED).sample(edited, min(EDITED, len(edited)))
    measured = evaluate_rank(system, some)
    short = [Masked(m.template, m.spans) for m in some if all(len(span) <= 10 for span in m.spans)]
    return measured | {f"short_{name}": value for name, value in evaluate_rank(system, short).items()}


def latin_edited() -> list[Masked]:
    known = {latin.repaired(text) for text in read_corpus("edh_latin", "train")}
    edited = (editors_restorations(latin.repaired(line)) for line in read_corpus("edh_latin", "test.marked"))
    return without_repeats([m for m in edited if m], known)


def greek_edited() -> list[Masked]:
    records = (json.loads(line) for line in read_corpus("greek_documentary", "test.jsonl"))
    return [m for record in records if "[" in record["norm"] and (m := editors_restorations(record["norm"]))]


def evaluate(part: str, system: System, path: Path, result: dict[str, Any]) -> None:
    """Each measurement is written down as soon as it is there."""
    for name, measure in evaluations(part).items():
        try:
            result[name] = measure(system)
        except Exception as error:  # one measurement that fails must not lose the others
            result[name] = {"error": repr(error)}
        print(name, json.dumps(result[name]), flush=True)
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


# --- All parts at once --------------------------------------------------------------------------------------------


def run_part(part: str, work: Path, seconds: float) -> None:
    torch.set_float32_matmul_precision("high")
    corpus = latin.corpus() if part == "latin" else greek.corpus()
    folder = work / part
    result = recipe_of(part).make(folder, corpus, seconds)
    del corpus
    # What is bundled is what is measured: int8.
    evaluate(part, load(part, folder / "model"), folder / "result.json", result)


def run_all(out: Path, work: Path, share: float = 1.0, parts: Sequence[str] = tuple(PARTS)) -> None:
    began, limit = time.monotonic(), AROUND + share * max(PARTS[part] for part in parts)
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    running = {}
    for part in parts:
        seconds = str(PARTS[part] * share)
        command = [sys.executable, "-m", "blanklm.recipes.restoration", "part", part, str(work), seconds]
        # Batches of ever new shapes would leave the memory of seven processes in pieces.
        environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        with open(work / f"{part}.log", "w", encoding="utf-8") as log:  # the process keeps it open
            running[part] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    while running:
        time.sleep(1)
        late = time.monotonic() - began > limit
        for part, process in list(running.items()):
            if late and process.poll() is None:
                process.kill()
                process.wait()
            if process.poll() is not None:
                print(f"{part}: ended with {process.returncode} after {time.monotonic() - began:.0f} s", flush=True)
                del running[part]
                pack(out, work)
    print(summary(work, parts))


def pack(out: Path, work: Path) -> None:
    """The results and logs of all parts in one file, and each model that is wanted in a file of its own."""
    with tarfile.open(out / "results.tar.gz", "w:gz") as archive:
        for path in sorted([*work.glob("*/result.json"), *work.glob("*/run/metrics.jsonl"), *work.glob("*.log")]):
            archive.add(path, path.relative_to(work))
    for part in ("greek", "latin", "greek-lblm"):
        folder = work / part / "half"
        if folder.exists() and not (out / f"{part}.tar").exists():
            with tarfile.open(out / f"{part}.tar", "w") as archive:
                archive.add(folder, part)


def summary(work: Path, parts: Sequence[str] = tuple(PARTS)) -> str:
    lines = []
    for part in parts:
        path = work / part / "result.json"
        if not path.exists():
            log = work / f"{part}.log"
            lines.append(f"{part}: no result; {log.read_text(encoding='utf-8')[-600:] if log.exists() else ''}")
            continue
        result = json.loads(path.read_text(encoding="utf-8"))
        cers = {
            name: round(value["cer"], 1) for name, value in result.items() if isinstance(value, dict) and "cer" in value
        }
        lines.append(f"{part}: {result['training']['steps']} steps, loss {result['valid_bound']:.3f}, CER {cers}")
    return "\n".join(lines)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["part", part, work, seconds]:
            run_part(part, Path(work), float(seconds))
        case ["evaluate", part, folder, path]:
            evaluate(part, load(part, Path(folder)), Path(path), dict(checkpoint.read_config(Path(folder))["about"]))
        case [out, work]:
            run_all(Path(out), Path(work))
        case [out, work, share, *parts]:
            run_all(Path(out), Path(work), float(share), parts or tuple(PARTS))
