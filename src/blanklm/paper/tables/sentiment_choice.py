"""The settings of the sentiment table, chosen on validation sentences, and the rows that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from blanklm.paper.provenance import write_result
from blanklm.paper.runner import Say, print_line
from blanklm.paper.tables.sentiment_pools import (
    DRAWINGS,
    TUNED,
    VALIDATION,
    WRITERS,
    Record,
    is_written,
    records_of,
    tuned_name,
)
from blanklm.paper.tasks.metrics import corpus_bleu
from blanklm.transfer.options import SAMPLES, Weights
from blanklm.transfer.transfer import StyleClassifier

CONTENT = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # weights of the frontier
CHOICE = [Weights(content, fluency) for content in CONTENT[:6] for fluency in (0.0, 0.1, 0.3)]
BY_CLASSIFIER = Weights(content=0.0, fluency=0.0, repetition=0.0)  # the paper's way
ACCURACY_MARGIN = 1.0  # points of the judge's accuracy on validation sentences, for the sake of what is kept

Pick = Callable[[Record], str]


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
        how = WRITERS[self.system]
        return asdict(self) | {"temperature": how.temperature, "contrast": how.contrast}

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Setting:
        return cls(saved["system"], saved["samples"], saved["fewer"], Weights(**saved["weights"]))


@dataclass
class ValidationScores:
    """What settings are chosen by: the accuracy by the judge and BLEU against the source, on validation sentences.

    These have no references. They are not the sentences that the judge is asked about in the end, and it ranks nothing:
    what is written for a sentence is chosen without it.
    """

    judge: StyleClassifier
    records: dict[str, list[Record]]  # of each system

    @classmethod
    def of(cls, out: Path, corpus: str, systems: Sequence[str]) -> ValidationScores:
        records = {system: records_of(out, corpus, system, "valid") for system in systems}
        return cls(StyleClassifier.from_pretrained(out / corpus / "judge" / "run"), records)

    def __post_init__(self) -> None:
        texts = {s[0] for records in self.records.values() for record in records for s in record["samples"]}
        self.finds = dict(zip(texts, self.judge.log_probs(list(texts)).argmax(1).tolist(), strict=True))

    def written(self, setting: Setting) -> list[str]:
        return [setting.best(record)[0] for record in self.records[setting.system]]

    def accuracy(self, texts: Sequence[str]) -> float:
        """The share in the right style: the first half was to be positive, the second negative."""
        targets = [1 - i * 2 // len(texts) for i in range(len(texts))]
        return 100 * float(np.mean([self.finds[text] == style for text, style in zip(texts, targets, strict=True)]))

    def self_bleu(self, setting: Setting, texts: Sequence[str]) -> float:
        return corpus_bleu(texts, [record["source"] for record in self.records[setting.system]])

    def choose(self, settings: Sequence[Setting], margin: float = ACCURACY_MARGIN) -> dict[str, Any]:
        """The setting that keeps most of the source, of those at most ``margin`` less accurate than the best."""
        written = {setting: self.written(setting) for setting in settings}
        accuracy = {setting: self.accuracy(texts) for setting, texts in written.items()}
        least = max(accuracy.values()) - margin
        kept = {s: self.self_bleu(s, written[s]) for s in settings if accuracy[s] >= least}
        best = max(kept, key=lambda setting: kept[setting])
        return {
            "setting": best.to_json(),
            "accuracy": accuracy[best],
            "self_bleu": kept[best],
            "most_accurate": max(accuracy.values()),
            "of": len(settings),
        }


def choose(out: Path, corpus: str, say: Say = print_line) -> dict[str, Any]:
    """Choose the settings of the table on validation sentences."""
    written = {name for name in WRITERS if is_written(out / corpus, name, "valid")}
    choice: dict[str, Any] = {"corpus": corpus, "sentences": 2 * VALIDATION, "may_cost": ACCURACY_MARGIN, "chosen": {}}
    if "two" in written:
        two = ValidationScores.of(out, corpus, ["two"])
        choice["chosen"]["two"] = {"ranking": two.choose(settings_of("two", SAMPLES, True))}
    for writer, (_, numbers) in TUNED.items():
        systems = {tuned_name(writer, *how): how for how in DRAWINGS}
        if not written.issuperset(systems):
            continue
        valid = ValidationScores.of(out, corpus, list(systems))
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
    write_result(out / corpus / "choice.json", choice)
    say(f"{corpus}: settings are chosen")
    return choice


def settings_of(system: str, samples: int, fewer: bool) -> list[Setting]:
    return [Setting(system, samples, fewer, weights) for weights in CHOICE]


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
    """How many samples of its masks each chosen writer needs, and whether of smaller masks too."""
    most: dict[str, tuple[int, bool]] = {}
    for chosen in (chosen for ways in choice["chosen"].values() for chosen in ways.values()):
        setting = Setting.of(chosen["setting"])
        samples, fewer = most.get(setting.system, (0, False))
        most[setting.system] = max(samples, setting.samples), fewer or setting.fewer
    return most
