"""The recipe of a model of where and when: n-grams chosen, vectors learnt, probabilities calibrated, all measured."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.attribution import (
    KINDS,
    AttributionConfig,
    AttributionModel,
    Bags,
    Inscriptions,
    Labelled,
    kinds_of,
    ngrams,
)
from blanklm.paper.provenance import hardware, write_result
from blanklm.paper.tasks.attribution import Inscription, majority, measure_attributor
from blanklm.restoration.attribution import Attributor, readable
from blanklm.training import checkpoint

Kind = int | str  # of an n-gram: its size, word or pair
LEAST: Mapping[Kind, int] = {2: 5, 3: 10, 4: 12, 5: 15, "word": 3, "pair": 4}  # texts that have an n-gram, by its kind
AT_ONCE = 256  # texts whose n-grams are found together
BITS = 4  # of the vectors, when stored
TEMPERATURES = [round(0.5 + 0.05 * step, 2) for step in range(31)]
FEWEST = 10  # training texts of a place that is learnt


@dataclass(frozen=True)
class Schedule:
    epochs: int = 5
    texts: int = 128  # at a step
    learning_rate: float = 0.01  # at first; falls to nothing
    weight_decay: float = 0.01
    thinned: float = 0.15  # of the texts show a random share of their n-grams, as little text does
    seed: int = 0


@dataclass(frozen=True)
class Corpus:
    train: Sequence[Inscription]
    validation: Sequence[Inscription]
    test: Sequence[Inscription]
    parts: Callable[[Sequence[Inscription]], Mapping[str, Sequence[Inscription]]]  # of the test, to be measured apart
    sample: Sequence[Inscription]  # of the test texts: those that the package's own tests read
    held_out: Sequence[Inscription] = ()  # of the training texts: a first model leaves them out, to be calibrated on


@dataclass(frozen=True)
class Recipe:
    """How a model of where and when is made."""

    name: str
    bc: int
    years: int
    bins: int
    about: dict[str, Any]
    width: int = 64
    dropout: float = 0.4
    schedule: Schedule = Schedule()
    least: Mapping[Kind, int] = field(default_factory=lambda: LEAST)

    def make(self, out: Path, corpus: Corpus, say: Callable[[str], None] = print) -> dict[str, Any]:
        """Train, calibrate and measure; write OUT/model, OUT/sample.jsonl and OUT/result.json."""
        started = time.perf_counter()
        model, tokenizer = self.learn(corpus.train, say)
        heated = self.temperatures(model, tokenizer, corpus, say)
        calibrate(model, heated)
        checkpoint.save(out / "model", model, tokenizer, self.about, word_bits=BITS)
        took = time.perf_counter() - started
        lines = (json.dumps(asdict(inscription), ensure_ascii=False) for inscription in corpus.sample)
        (out / "sample.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return write_result(
            out / "result.json",
            {
                "recipe": self.name,
                "schedule": asdict(self.schedule),
                "least": {str(kind): number for kind, number in self.least.items()},
                "model": asdict(model.config),
                "parameters": model.parameter_count,
                "model_bytes": sum(path.stat().st_size for path in (out / "model").iterdir()),
                "hardware": hardware("cpu"),
                "seconds": round(took, 1),
                "texts": len(corpus.train),
                "temperatures": heated,
                "scores": scores(Attributor.from_pretrained(out / "model"), corpus),
            },
        )

    def learn(self, known: Sequence[Inscription], say: Callable[[str], None]) -> tuple[AttributionModel, Tokenizer]:
        """Learn inscriptions, each with and without its restorations."""
        torch.manual_seed(self.schedule.seed)
        views = [as_shown(known), as_preserved(known)]
        model, tokenizer = self.begin(views, known)
        say(f"{model.config.ngrams:,} n-grams, {len(model.config.places)} places")
        train(model, [labelled(model, tokenizer, view, known) for view in views], self.schedule, say)
        return model, tokenizer

    def temperatures(
        self, model: AttributionModel, tokenizer: Tokenizer, corpus: Corpus, say: Callable[[str], None]
    ) -> dict[str, float]:
        """Find temperatures on validation texts and on those held out, which then another model has not read."""
        if corpus.held_out:
            names = {one.name for one in corpus.held_out}
            model, tokenizer = self.learn([one for one in corpus.train if one.name not in names], say)
        unseen = [*corpus.validation, *corpus.held_out]
        return temperatures_of(model, labelled(model, tokenizer, as_preserved(unseen), unseen))

    def begin(self, views: Sequence[list[str]], known: Sequence[Inscription]) -> tuple[AttributionModel, Tokenizer]:
        """Choose alphabet, n-grams and places, and set the biases to what is frequent."""
        tokenizer = Tokenizer.train("character", (re.sub("[^a-zα-ωϛϟϡ ]", "", text) for text in views[0]))
        (space,) = tokenizer.encode(" ")
        keys = chosen_keys(tokenizer, views[0], space, self.least)
        names = [inscription.place for inscription in known if inscription.place]
        places = tuple(sorted(place for place in set(names) if names.count(place) >= FEWEST))
        config = AttributionConfig(
            len(tokenizer), space, len(keys), places, self.bc, self.years, self.bins, self.width, self.dropout
        )
        model = AttributionModel(config)
        model.keys.copy_(torch.from_numpy(keys))
        counts = torch.tensor([float(names.count(place)) for place in places])  # [P]
        dates = torch.stack([model.target(*inscription.years) for inscription in known if inscription.years]).sum(0)
        with torch.no_grad():
            model.embedding.weight.normal_(std=0.02)
            model.place.bias.copy_((counts / counts.sum()).log())
            model.date.bias.copy_((dates / dates.sum() + 1e-5).log())
        return model, tokenizer


def scores(attributor: Attributor, corpus: Corpus) -> dict[str, dict[str, float]]:
    """Measure a model on the test texts and parts of them, and the same answer to every text beside it."""
    test = without_repeats(corpus.test, corpus.train)
    found = {
        "validation": measure_attributor(attributor, as_preserved(corpus.validation), corpus.validation),
        "test": measure_attributor(attributor, as_preserved(test), test),
        "test, restorations read": measure_attributor(attributor, as_shown(test), test),
        "majority": majority(corpus.train, test),
    }
    known = corpus.parts(corpus.train)
    for title, some in {**corpus.parts(test), "sample": corpus.sample}.items():
        if some:
            found[title] = measure_attributor(attributor, as_preserved(some), some)
            found[f"{title}, restorations read"] = measure_attributor(attributor, as_shown(some), some)
            found[f"{title}, majority"] = majority(known.get(title) or corpus.train, some)
    return found


# --- Texts ------------------------------------------------------------------------------------------------------------


def as_shown(inscriptions: Sequence[Inscription]) -> list[str]:
    """Return the texts with what their editors restored."""
    return [readable(re.sub(r"[\[\]]", "", inscription.text)) for inscription in inscriptions]


def as_preserved(inscriptions: Sequence[Inscription]) -> list[str]:
    """Return the texts with what their editors restored as lost."""
    return [readable(re.sub(r"\[[^\]]*\]", "#", inscription.text)) for inscription in inscriptions]


def without_repeats(inscriptions: Sequence[Inscription], known: Sequence[Inscription]) -> list[Inscription]:
    """Leave out those whose letters are those of a known one."""
    letters = {re.sub("[# ]", "", text) for text in as_shown(known)}
    texts = as_shown(inscriptions)
    return [one for one, text in zip(inscriptions, texts, strict=True) if re.sub("[# ]", "", text) not in letters]


def by_length(inscriptions: Sequence[Inscription]) -> dict[str, list[Inscription]]:
    """Part inscriptions by how many letters are preserved."""
    titles = ("under 20 letters", "20 to 99 letters", "100 letters and more")
    parts: dict[str, list[Inscription]] = {title: [] for title in titles}
    for inscription, text in zip(inscriptions, as_preserved(inscriptions), strict=True):
        letters = sum(map(str.isalpha, text))
        parts[titles[(letters >= 20) + (letters >= 100)]].append(inscription)
    return parts


# --- N-grams ----------------------------------------------------------------------------------------------------------


def in_parts(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Tensor]:
    """Yield the tokens of a few texts at a time [B, L]."""
    for start in range(0, len(texts), AT_ONCE):
        yield pad(tokenizer.encode_many(texts[start : start + AT_ONCE]))[0]


def chosen_keys(tokenizer: Tokenizer, texts: Sequence[str], space: int, at_least: Mapping[Kind, int]) -> np.ndarray:
    """Return the keys [V] of the n-grams that enough texts have, in order."""
    found = np.concatenate([ngrams(tokens.numpy(), space)[1] for tokens in in_parts(tokenizer, texts)])  # [N]
    keys, counts = np.unique(found, return_counts=True)
    least = np.array([at_least[kind] for kind in KINDS])  # [6]
    return keys[counts >= least[kinds_of(keys)]]


def labelled(
    model: AttributionModel, tokenizer: Tokenizer, texts: Sequence[str], inscriptions: Sequence[Inscription]
) -> Labelled:
    """Return the n-grams of texts with what is known of them."""
    number = {place: i for i, place in enumerate(model.config.places)}
    places = [number.get(inscription.place or "", -1) for inscription in inscriptions]
    years = [inscription.years or (1, 0) for inscription in inscriptions]
    parts = []
    for part, tokens in enumerate(in_parts(tokenizer, texts)):
        some = slice(part * AT_ONCE, (part + 1) * AT_ONCE)
        parts.append(model.prepare(Inscriptions(tokens, torch.tensor(places[some]), torch.tensor(years[some]))))
    sizes = [0, *(len(part.bags.entries) for part in parts)]
    starts = [part.bags.starts + before for part, before in zip(parts, np.cumsum(sizes), strict=False)]
    bags = Bags(torch.cat([part.bags.entries for part in parts]), torch.cat(starts))
    return Labelled(bags, torch.tensor(places), torch.cat([part.dates for part in parts]))


def some_of(texts: Labelled, rows: Tensor, keep: Tensor) -> Labelled:
    """Return the texts of these rows [B], each with about a share ``keep`` [B] of its n-grams."""
    ends = torch.cat((texts.bags.starts[1:], torch.tensor([len(texts.bags.entries)])))
    lengths = ends[rows] - texts.bags.starts[rows]  # [B]
    owners = torch.repeat_interleave(torch.arange(len(rows)), lengths)  # [N]
    first = lengths.cumsum(0) - lengths  # [B] where each begins
    places = torch.arange(len(owners)) - first[owners] + texts.bags.starts[rows][owners]  # [N]
    kept = torch.rand(len(owners)) < keep[owners]  # [N]
    counts = torch.bincount(owners[kept], minlength=len(rows))  # [B]
    bags = Bags(texts.bags.entries[places[kept]], counts.cumsum(0) - counts)
    return Labelled(bags, texts.places[rows], texts.dates[rows])


# --- Training ---------------------------------------------------------------------------------------------------------


def train(model: AttributionModel, views: Sequence[Labelled], schedule: Schedule, say: Callable[[str], None]) -> None:
    """Learn from views of the same texts, one of them at each step."""
    model.train()
    vectors = torch.optim.SparseAdam([model.embedding.weight], lr=schedule.learning_rate)
    rest = [p for name, p in model.named_parameters() if name != "embedding.weight"]
    dense = torch.optim.AdamW(rest, lr=schedule.learning_rate, weight_decay=schedule.weight_decay)
    texts = len(views[0].places)
    steps = schedule.epochs * (texts // schedule.texts or 1)
    for epoch in range(schedule.epochs):
        order, losses = torch.randperm(texts), []  # [N]
        for step, rows in enumerate(order.split(schedule.texts)[: steps // schedule.epochs]):
            rate = schedule.learning_rate * (1 - (epoch * steps // schedule.epochs + step) / steps)
            for group in (*vectors.param_groups, *dense.param_groups):
                group["lr"] = rate
            thinned = torch.rand(len(rows)) < schedule.thinned  # [B]
            keep = torch.where(thinned, torch.rand(len(rows)), 1.0)  # [B]
            loss = model.loss(some_of(views[int(torch.randint(len(views), ()))], rows, keep)).mean()
            vectors.zero_grad()
            dense.zero_grad()
            loss.backward()
            vectors.step()
            dense.step()
            losses.append(loss.item())
        say(f"epoch {epoch + 1} of {schedule.epochs}: loss {np.mean(losses):.3f}")
    model.eval()


@torch.no_grad()
def temperatures_of(model: AttributionModel, texts: Labelled) -> dict[str, float]:
    """Return the temperatures at which these texts are most probable."""
    places, dates = model.logits(texts.bags)
    known = texts.places >= 0

    def cost_of_places(temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(places[known] / temperature, texts.places[known]))

    def cost_of_dates(temperature: float) -> float:
        return float(-(texts.dates * (dates / temperature).log_softmax(1)).sum())

    return {"place": min(TEMPERATURES, key=cost_of_places), "date": min(TEMPERATURES, key=cost_of_dates)}


@torch.no_grad()
def calibrate(model: AttributionModel, temperatures: Mapping[str, float]) -> None:
    """Divide the last layers by these temperatures."""
    for layer, temperature in ((model.place, temperatures["place"]), (model.date, temperatures["date"])):
        layer.weight.div_(temperature)
        layer.bias.div_(temperature)
