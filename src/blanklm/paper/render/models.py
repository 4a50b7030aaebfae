"""The bundled models: how they were trained, and how their fills read."""

from __future__ import annotations

from collections import Counter

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import checkout, lines, named, result, table

CARDS = ("src/blanklm/pretrained", "tests/fixtures")  # where model folders with a card are


def english_read() -> str:
    """What a reader made of the fills of everyday sentences."""
    rows = result("models/english-read")["rows"]
    now, before = Counter(row["verdict"] for row in rows), Counter(row["first_stage"]["verdict"] for row in rows)
    counts = [[verdict, f"{count}", f"{before[verdict]}"] for verdict, count in now.most_common()]
    return lines([f"verdict on {len(rows)} fills", "bundled model", "after the first stage"], counts)


def training_rows(model: str) -> list[Row]:
    """A row for each stage or part of a bundled model."""
    folder = next(parent / model for parent in map(checkout().joinpath, CARDS) if (parent / model).is_dir())
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name != "README.md") / 1e6
    if model == "sentiment":
        parts = named(
            result("sentiment-yelp")["parts"], {"blm-small": "sentiment, BLM", "classifier": "sentiment, classifier"}
        )
        return [parts[0] | {"size": size}, parts[1]]
    last = result(f"{'restoration' if model in ('greek', 'latin') else 'models'}/{model}")
    stages = [*last.get("before", ()), last]
    names = [f"{model}, stage {number}" for number in range(1, len(stages) + 1)] if len(stages) > 1 else [model]
    return [stage | {"name": name, "size": size} for name, stage in zip(names, stages, strict=True)]


def bundled_training(*models: str) -> str:
    headings = "model | parameters | layers × width | vocabulary | MB | steps | tokens per step | seconds"
    template = "{name} | {parameters:,} | {shape} | {model[vocabulary]:,} | {size:.1f} | {steps:,} | "
    template += "{training[tokens_per_batch]:,} | {seconds:.0f} | {hardware} | {valid_bound:.3f}"
    rows = []
    for row in (row for name in models or ("english", "greek", "latin", "sentiment") for row in training_rows(name)):
        encoder = row["model"].get("encoder")
        shape = f"{encoder['layers']} × {encoder['width']}" if encoder else None
        hardware = row["hardware"].replace("cpu", "two CPU cores")
        rows.append({"steps": row["training"]["steps"]} | row | {"shape": shape, "hardware": hardware})
    return table(f"{headings} | hardware | validation loss", template, rows)


TABLES = [english_read, bundled_training]
