"""Table 3 of the paper: restoration of damaged texts, on the corpora that could be had, beside the paper's numbers.

    blanklm reproduce restoration --out runs/restoration [--system greek] [--seconds 400] [--texts 1000]

Trains each system for its seconds and measures it; OUT/CORPUS/SYSTEM/model is the model in int8, half that in half
precision. With --model FOLDER a model that exists already is measured instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from blanklm.core.template import Blank
from blanklm.data import MaskedText, read_corpus
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.paper import runner
from blanklm.paper.baselines.systems import SlotBySlot
from blanklm.paper.bundled import greek, latin
from blanklm.paper.bundled.restorer_recipe import CALIBRATION_TEXTS, Corpus, Kind, Recipe
from blanklm.paper.provenance import Row, read_json, write_json
from blanklm.paper.runner import Say
from blanklm.paper.tasks import restoration as task
from blanklm.paper.tasks.masking import editors_restorations, slots_of_corpus
from blanklm.paper.tasks.restoration import evaluate_fill, evaluate_rank, score_ranked, without_repeats
from blanklm.restoration.candidates import Candidate
from blanklm.restoration.draft import Part
from blanklm.restoration.normalise import fold
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint

TEXTS, MULTIPLE, PAPYRI, EDITED = 1000, 300, 400, 300  # of the test sets; MULTIPLE: texts of many slots
SMALL_TEXTS, SMALL_SECONDS = 4, 10.0
SEED = 1
CORPORA = {"greek": "greek_documentary", "latin": "edh_latin"}

Measured = dict[str, float]
Measurements = dict[str, Callable[[task.System], Measured]]


@dataclass(frozen=True)
class System:
    corpus: str
    seconds: float = 0.0  # of training, where none are given
    kind: Kind = "mixed"
    literature: bool = True
    lexicon_of: str = ""  # the system whose model is measured with and without its lexicon, by ``by_lexicon``
    by_lexicon: tuple[str, ...] = ()


SYSTEMS = {
    "greek": System("greek", 410),
    "latin": System("latin", 385),
    "greek-lblm": System("greek", 240, "lblm"),
    "greek-pythia": System("greek", 225, "pythia"),
    "greek-pythia-word": System("greek", 225, "pythia-word"),
    "greek-documents": System("greek", 225, literature=False),
    "greek-words": System("greek", lexicon_of="greek", by_lexicon=("phi_ml",)),
    "latin-words": System("latin", lexicon_of="latin", by_lexicon=("single",)),
}


@dataclass(frozen=True, kw_only=True)
class Experiment(runner.Experiment):
    texts: int = TEXTS  # at most, of each measurement
    model: Path | None = None  # measured instead of training one

    @property
    def spec(self) -> System:
        return SYSTEMS[self.system]

    @property
    def has_model(self) -> bool:
        return self.model is None and not self.spec.lexicon_of

    @property
    def measured_with(self) -> tuple[Experiment, ...]:
        return (replace(self, system=self.spec.lexicon_of),) if self.spec.lexicon_of and not self.model else ()

    @property
    def folder(self) -> Path:
        return self.out / self.system

    @property
    def row_file(self) -> Path:
        return self.out / "results" / f"{self.system}.json"

    @property
    def recipe(self) -> Recipe:
        recipe = latin.RECIPE if self.spec.corpus == "latin" else greek.RECIPE
        if self.budget.small:
            training = replace(recipe.training, tokens_per_batch=runner.SMALL_BATCH, warmup=5)
            recipe = replace(recipe, encoder=EncoderConfig.of_size("tiny"), training=training)
        return replace(recipe, name=self.system, kind=self.spec.kind)

    def texts_of_corpus(self) -> Corpus:
        literature = self.spec.literature and not self.budget.small  # it takes a while to read
        return latin.corpus() if self.spec.corpus == "latin" else greek.corpus(literature)

    def train(self, say: Say) -> None:
        calibration = min(CALIBRATION_TEXTS, self.texts)
        seconds = self.seconds or (SMALL_SECONDS if self.budget.small else self.spec.seconds)
        result = self.recipe.make(self.folder, self.texts_of_corpus(), seconds, calibration, say)
        write_json(self.training_file, result)

    def measure(self, say: Say) -> Row:
        folder = self.model or (self.out / (self.spec.lexicon_of or self.system) / "model")  # int8: as bundled
        names = {"corpus": self.corpus, "system": self.system}
        if self.spec.lexicon_of:
            systems = {"letters alone": self._load(folder), "and words": Restorer.from_pretrained(folder)}
            return names | {
                how: self._measured(system, how, self.spec.by_lexicon, say) for how, system in systems.items()
            }
        trained = dict(checkpoint.read_config(folder)["about"]) if self.model else read_json(self.training_file)
        measured = self._measured(self._load(folder), "", tuple(self.measurements()), say)
        return names | trained | measured

    def _load(self, folder: Path) -> task.System:
        """Load the model without its lexicon: it stands beside others that have none."""
        if self.spec.kind.startswith("pythia"):
            return SlotBySlot.from_pretrained(folder)
        loaded = Restorer.from_pretrained(folder)
        return Restorer(loaded.model, loaded.tokenizer, loaded.about)

    def _measured(self, system: task.System, how: str, names: Sequence[str], say: Say) -> dict[str, Measured]:
        """Each measurement, from its file where it has been made before."""
        measurements, results = self.measurements(), {}
        for name in names:
            path = self.folder / "measured" / f"{how or self.system}-{name}-{self.texts}.json"
            if not path.exists():
                write_json(path, measurements[name](system))
            results[name] = read_json(path)
            say(f"{self.system}, {' '.join((name, how))}: CER {results[name]['cer']:.1f} %")
        return results

    # --- What is measured -------------------------------------------------------------------------------------------

    def measurements(self) -> Measurements:
        """The measurements of a system by name, the most important first."""
        corpus, most = CORPORA[self.spec.corpus], self.texts
        measured: Measurements = {"single": lambda system: evaluate_rank(system, slots(corpus, None, most))}
        for ratio in task.RATIOS:
            measured[f"{ratio:g}"] = partial(many_slots, corpus, ratio, min(MULTIPLE, most))
        if corpus == "greek_documentary":
            measured["phi_ml"] = partial(excerpts, "phi_ml_test_excerpts.tsv", None if most == TEXTS else most)
            measured["papyri"] = partial(excerpts, "restoration_pap_text_ups.tsv", min(PAPYRI, most))
        if self.spec.kind != "mixed" or not self.spec.literature:  # others need to know how long a gap is
            return measured
        edited = greek_edited if corpus == "greek_documentary" else latin_edited
        measured["editors"] = lambda system: editors(edited(), min(EDITED, most), system)
        for name, told in {"told": (1.0, 1.0), "range": (0.5, 1.5), "unknown": (0.0, 0.0)}.items():
            measured[f"single, {name}"] = partial(lengths, corpus, most, told)
        return measured


def slots(corpus: str, ratio: float | None, most: int) -> list[MaskedText]:
    """Draw test texts and hide slots in them; a ``ratio`` of None hides a single slot."""
    texts = list(read_corpus(corpus, "test"))
    if corpus == "edh_latin":
        known = set(read_corpus(corpus, "train"))
        texts = [latin.repaired(text) for text in texts if text not in known]
    return slots_of_corpus(Random(SEED).sample(texts, min(most, len(texts))), ratio, SEED)


def many_slots(corpus: str, ratio: float, most: int, system: task.System) -> Measured:
    return evaluate_fill(system, slots(corpus, ratio, most))


def lengths(corpus: str, most: int, told: tuple[float, float], system: task.System) -> Measured:
    """A single slot of which the length is ``told`` (as multiples of it), or not at all (0)."""
    return evaluate_fill(system, slots(corpus, None, most)[: most // 2], told)


def excerpts(split: str, most: int | None, system: task.System) -> Measured:
    """Published items: a gap of known length in an excerpt. Accents are stripped from the solutions too."""
    rows = [line.split("\t") for line in read_corpus("greek_documentary", split)][1:]
    rows = Random(SEED).sample(rows, min(most or len(rows), len(rows)))
    documents: list[list[Part]] = [[left, Blank.exactly(len(target)), right] for _, left, target, right, *_ in rows]
    ranked = [gaps[0] for gaps in system.rank(documents)]
    truths = [fold(row[2]) for row in rows]
    measured = score_ranked(ranked, truths)
    if len(rows[0]) > 4:  # the prediction of another model stands in the file
        theirs = score_ranked([[Candidate(fold(row[4]), 0.0)] for row in rows], truths)
        measured |= {"charbert_cer": theirs["cer"], "charbert_top1": theirs["top1"]}
    return measured


def editors(edited: list[MaskedText], most: int, system: task.System) -> Measured:
    """What editors restored, from the text around it: of all, then of texts with short gaps alone."""
    chosen = Random(SEED).sample(edited, min(most, len(edited)))
    short = [m for m in chosen if all(len(span) <= 10 for span in m.spans)]
    measured = evaluate_rank(system, chosen)
    return measured | {f"short_{name}": value for name, value in evaluate_rank(system, short).items()}


def latin_edited() -> list[MaskedText]:
    known = {latin.repaired(text) for text in read_corpus("edh_latin", "train")}
    edited = (editors_restorations(latin.repaired(line)) for line in read_corpus("edh_latin", "test.marked"))
    return without_repeats([m for m in edited if m], known)


def greek_edited() -> list[MaskedText]:
    records = (json.loads(line) for line in read_corpus("greek_documentary", "test.jsonl"))
    return [m for record in records if "[" in record["norm"] and (m := editors_restorations(record["norm"]))]


# --- The table ------------------------------------------------------------------------------------------------------


def experiments(
    out: Path,
    corpora: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    texts: int = 0,
    seconds: float = 0.0,
    model: Path | None = None,
    budget: runner.Budget = runner.WHOLE_RECIPE,
) -> list[Experiment]:
    """The experiments of the table, all or those named; a training takes its time, whatever it reads in it."""
    if budget.tokens and not budget.small:
        raise BlankLMError("the models of restoration are trained by the clock: give all the same --seconds")
    texts = texts or (SMALL_TEXTS if budget.small else TEXTS)
    if model and len(systems or ()) != 1:
        raise BlankLMError("--model measures one model: say with --system as which it is to be measured")
    chosen = runner.choose("corpus", corpora, CORPORA, CORPORA)
    return [
        Experiment(
            out=out,
            corpus=SYSTEMS[name].corpus,
            system=name,
            seconds=seconds,
            texts=texts,
            model=model,
            budget=budget,
        )
        for name in runner.choose("system", systems, SYSTEMS, SYSTEMS)
        if SYSTEMS[name].corpus in chosen
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal: character error rates."""
    return "\n".join(f"{row['system']}: {_error_rates(row)}" for row in rows)


def _error_rates(row: Row) -> str:
    measured = {name: value for name, value in row.items() if isinstance(value, dict)}
    nested = {f"{how}, {name}": m for how, part in measured.items() for name, m in part.items() if isinstance(m, dict)}
    rates = {name: m["cer"] for name, m in (measured | nested).items() if "cer" in m}
    return ", ".join(f"{name} {rate:.1f} %" for name, rate in rates.items())
