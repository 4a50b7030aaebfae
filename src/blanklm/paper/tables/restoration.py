"""Table 3 of the paper: restoration of damaged texts, on the corpora that could be had, beside the paper's numbers.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.tables.restoration OUT WORK [PART ...]

Trains all PARTS, or those named, side by side on one GPU, each for its seconds, evaluates each, and leaves in OUT one
file for each of greek, latin and greek-lblm (half precision) and one with all results and logs. A part that fails loses
nothing of the others. Under NVIDIA's MPS the parts share the card as PARTS says.

    python -m blanklm.paper.tables.restoration smoke OUT WORK

does the same in a minute: few steps, few texts, and how many steps a second each part makes.

    python -m blanklm.paper.tables.restoration evaluate NAME MODEL OUT.json [TEXTS [MEASUREMENT ...]]

evaluates a model folder as the part of that name would be, by all measurements or those named, on so many texts; and

    python -m blanklm.paper.tables.restoration words NAME MODEL OUT.json TEXTS MEASUREMENT ...

with and without the words that its corpus attests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

from blanklm.core.template import Blank
from blanklm.data import Masked, editors_restorations, read_corpus, slots_of_corpus
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.systems import SlotBySlot
from blanklm.paper.bundled import greek, latin
from blanklm.paper.bundled.restorers import CALIBRATED, Corpus, Recipe
from blanklm.paper.tables.report import write_json
from blanklm.paper.tasks.restoration import RATIOS, System, evaluate_fill, evaluate_rank, score_ranked, without_repeats
from blanklm.restoration.normalise import fold
from blanklm.restoration.restorer import Restorer
from blanklm.restoration.results import Candidate
from blanklm.training import checkpoint


@dataclass(frozen=True)
class Share:
    """What a part gets of the machine."""

    seconds: float  # of training
    waits: bool = True  # for those that do not, where the GPU is busy; under MPS
    workers: int = 6  # processes that prepare its batches
    compiles: bool = False


PARTS = {
    "greek": Share(410, waits=False, workers=7, compiles=True),
    "latin": Share(385, waits=False, compiles=True),
    "greek-lblm": Share(240, workers=3, compiles=True),
    "greek-pythia": Share(225, workers=2),
    "greek-pythia-word": Share(225, workers=2),
    "try-characters": Share(130, workers=2),  # do vectors for whole words pay?
    "try-words": Share(130, workers=2),
    "greek-documents": Share(225, workers=3, compiles=True),  # without literature: does it pay?
}
LIMIT = 500  # seconds of all: for reading the corpora, training and evaluating
TEXTS, MULTIPLE, PAPYRI, EDITED = 1000, 300, 400, 300  # of the test sets; MULTIPLE: texts of many slots
SMOKE = {  # one part of each kind: to see that all works, and how fast the two that are compiled become
    "greek": Share(40, waits=False, compiles=True),
    "latin": Share(40, waits=False, compiles=True),
    "greek-lblm": Share(12, workers=3),
    "greek-pythia-word": Share(12, workers=2),
    "try-words": Share(12, workers=2),
}
SMOKE_TEXTS, SMOKE_LIMIT = 4, 75
SMALL = EncoderConfig(layers=4, heads=6, width=192, feedforward=768, dropout=0.1)  # for trying things out
SEED = 1


def recipe_of(part: str) -> Recipe:
    match part.partition("-"):
        case "latin", _, _:
            return latin.RECIPE
        case "greek", _, ("" | "documents"):
            return replace(greek.RECIPE, name=part)
        case "greek", _, kind:
            return replace(greek.RECIPE, name=part, kind=kind)
        case "try", _, kind:
            return replace(latin.RECIPE, name=part, encoder=SMALL, words=4096 if kind == "words" else 0)
    raise ValueError(f"there is no part {part!r}")


def corpus_of(part: str) -> Corpus:
    if not part.startswith("greek"):
        return latin.corpus()
    return greek.corpus(literature=part != "greek-documents")


def load(part: str, folder: Path) -> System:
    """The model itself, of letters alone: it stands beside others that know no words; ``compare_words`` adds them."""
    if "pythia" in part:
        return SlotBySlot.from_pretrained(folder)
    loaded = Restorer.from_pretrained(folder)
    return Restorer(loaded.model, loaded.tokenizer, loaded.about)


# --- What is measured ---------------------------------------------------------------------------------------------


Measurements = dict[str, Callable[[System], dict[str, float]]]


def evaluations(part: str, most: int = TEXTS) -> Measurements:
    """The measurements of a part, by name, the most important first, each on at most so many texts."""
    match part.partition("-"):
        case "latin", _, _:
            return settings("edh_latin", most) | of_editors(latin_edited, most) | untold("edh_latin", most)
        case "try", _, _:
            return {"valid_single": lambda system: evaluate_rank(system, slots("edh_latin", "valid", None, most))}
    measured = settings("greek_documentary", most)
    measured["phi_ml"] = lambda system: excerpts(system, "phi_ml_test_excerpts.tsv", None if most == TEXTS else most)
    measured["papyri"] = lambda system: excerpts(system, "restoration_pap_text_ups.tsv", min(PAPYRI, most))
    if part != "greek":  # the others must be told how long a gap is, or are not asked
        return measured
    return measured | of_editors(greek_edited, most) | untold("greek_documentary", most)


def slots(corpus: str, split: str, ratio: float | None, most: int) -> list[Masked]:
    """The slots of the texts of a split, of which some are drawn."""
    texts = list(read_corpus(corpus, split))
    if corpus == "edh_latin":
        known = set(read_corpus(corpus, "train"))
        texts = [latin.repaired(text) for text in texts if text not in known]
    return slots_of_corpus(Random(SEED).sample(texts, min(most, len(texts))), ratio, SEED)


def settings(corpus: str, most: int) -> Measurements:
    """The paper's four."""
    measured: Measurements = {"single": lambda system: evaluate_rank(system, slots(corpus, "test", None, most))}
    for ratio in RATIOS:
        measured[f"{ratio:g}"] = lambda system, ratio=ratio: evaluate_fill(
            system, slots(corpus, "test", ratio, min(MULTIPLE, most))
        )
    return measured


def untold(corpus: str, most: int) -> Measurements:
    """A single slot whose length is not told, or within a range of half to one and a half times its length."""
    some = slots(corpus, "test", None, most)[: most // 2]
    return {
        "single, told": lambda system: evaluate_fill(system, some),
        "single, range": lambda system: evaluate_fill(system, some, (0.5, 1.5)),
        "single, unknown": lambda system: evaluate_fill(system, some, (0.0, 0.0)),
    }


def of_editors(edited: Callable[[], list[Masked]], most: int) -> Measurements:
    return {"editors": lambda system: editors(system, edited(), min(EDITED, most))}


def excerpts(system: System, split: str, most: int | None = None) -> dict[str, float]:
    """Published items: a gap of known length in an excerpt. Accents are stripped from the solutions too."""
    rows = [line.split("\t") for line in read_corpus("greek_documentary", split)][1:]
    rows = Random(SEED).sample(rows, min(most or len(rows), len(rows)))
    documents = [[left, Blank.exactly(len(target)), right] for _, left, target, right, *_ in rows]
    ranked = [gaps[0] for gaps in system.rank(documents)]
    truths = [fold(row[2]) for row in rows]
    measured = score_ranked(ranked, truths)
    if len(rows[0]) > 4:  # the prediction of another model stands in the file
        theirs = score_ranked([[Candidate(fold(row[4]), 0.0)] for row in rows], truths)
        measured |= {"charbert_cer": theirs["cer"], "charbert_top1": theirs["top1"]}
    return measured


def editors(system: System, edited: list[Masked], most: int) -> dict[str, float]:
    """What editors restored, from the text around it: CER of all, then by length."""
    some = Random(SEED).sample(edited, min(most, len(edited)))
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


def evaluate(
    part: str,
    system: System,
    result: dict[str, Any],
    save: Callable[[], None],
    most: int = TEXTS,
    only: Sequence[str] = (),
) -> None:
    """Put each measurement, or ``only`` some, into ``result``, which is saved as soon as it is there."""
    measurements = evaluations(part, most)
    if unknown := [name for name in only if name not in measurements]:
        raise BlankLMError(f"there is no measurement {unknown[0]!r} of {part}: choose {', '.join(measurements)}")
    for name in only or measurements:
        try:
            result[name] = measurements[name](system)
        except Exception as error:  # one measurement that fails must not lose the others
            result[name] = {"error": repr(error)}
        print(name, json.dumps(result[name]), flush=True)
        save()


def compare_words(part: str, restorer: Restorer, path: Path, most: int, only: Sequence[str]) -> None:
    """The same measurements by letters alone, and with the words that the corpus of a restorer attests."""
    letters = Restorer(restorer.model, restorer.tokenizer, restorer.about)
    found: dict[str, dict[str, Any]] = {"letters alone": {}, "and words": {}}
    for result, system in zip(found.values(), (letters, restorer), strict=True):
        evaluate(part, system, result, partial(write_json, path, found), most, only)


# --- All parts at once --------------------------------------------------------------------------------------------


def run_part(part: str, work: Path, share: Share, most: int = TEXTS) -> None:
    torch.set_float32_matmul_precision("high")
    if share.waits:
        os.nice(5)  # nor shall the others wait for a core
    folder, calibrated = work / part, min(CALIBRATED, most)
    result = recipe_of(part).make(folder, corpus_of(part), share.seconds, share.workers, share.compiles, calibrated)
    # What is bundled is what is measured: int8.
    save = partial(write_json, folder / "result.json", result)
    evaluate(part, load(part, folder / "model"), result, save, most)


def run_all(out: Path, work: Path, parts: dict[str, Share], most: int = TEXTS, limit: float = LIMIT) -> None:
    """Each measurement takes ``most`` texts; what is not done within ``limit`` seconds is ended."""
    began = time.monotonic()
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    running = {}
    for part, share in parts.items():
        given = json.dumps(asdict(share))
        command = [sys.executable, "-m", "blanklm.paper.tables.restoration", "part", part, str(work), given, str(most)]
        environment = os.environ | {
            "OMP_NUM_THREADS": "2",
            "CUDA_MPS_CLIENT_PRIORITY": str(int(share.waits)),
            "TORCHINDUCTOR_COMPILE_THREADS": "4",
            # Batches of ever new shapes would leave the memory of so many processes in pieces.
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        }
        with open(work / f"{part}.log", "w", encoding="utf-8") as log:  # the process keeps it open
            running[part] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
    while running:
        time.sleep(1)
        late = time.monotonic() - began > limit
        for part, process in list(running.items()):
            if late and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that prepare its batches
                process.wait()
            if process.poll() is not None:
                print(f"{part}: ended with {process.returncode} after {time.monotonic() - began:.0f} s", flush=True)
                del running[part]
                pack(out, work)
    print(summary(work, list(parts)))


def pack(out: Path, work: Path) -> None:
    """The results and logs of all parts in one file, and each model that is wanted in a file of its own."""
    with tarfile.open(out / "results.tar.gz", "w:gz") as archive:
        for path in sorted([*work.glob("*/result.json"), *work.glob("*/run/metrics.jsonl"), *work.glob("*.log")]):
            archive.add(path, path.relative_to(work))
    for part in ("greek", "latin", "greek-lblm"):
        folder = work / part / "half"
        if folder.exists():
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
        steps, speed = result["training"]["steps"], last_speed(work / part / "run" / "metrics.jsonl")
        lines.append(f"{part}: {steps} steps, {speed} at the end, loss {result['valid_bound']:.3f}, CER {cers}")
        lines += [f"    {name}: {value['error']}" for name, value in result.items() if "error" in str(value)]
    return "\n".join(lines)


def last_speed(metrics: Path) -> str:
    """Steps and characters a second between the last two lines of the log that tell."""
    records = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    logged = [record for record in records if "loss" in record]
    if len(logged) < 2:
        return "too few steps to tell the speed"
    before, last = logged[-2:]
    steps = (last["step"] - before["step"]) / max(1e-9, last["seconds"] - before["seconds"])
    return f"{steps:.1f} steps/s, {last['tokens_per_second']:,} characters/s"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["part", part, work, share, most]:
            run_part(part, Path(work), Share(**json.loads(share)), int(most))
        case ["smoke", out, work]:
            run_all(Path(out), Path(work), SMOKE, SMOKE_TEXTS, SMOKE_LIMIT)
        case ["evaluate", part, folder, path, *few]:
            most, only = int(few[0]) if few else TEXTS, few[1:]
            about = dict(checkpoint.read_config(Path(folder))["about"])
            evaluate(part, load(part, Path(folder)), about, partial(write_json, Path(path), about), most, only)
        case ["words", part, folder, path, most, *only]:
            compare_words(part, Restorer.from_pretrained(folder), Path(path), int(most), only)
        case [out, work, *parts]:
            run_all(Path(out), Path(work), {part: PARTS[part] for part in parts or PARTS})
