"""The bundled models: how they were trained, and BLEU of those that fill natural text."""

from __future__ import annotations

from collections import Counter

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import cells, checkout, columns, lines, named, percentages, result, table


def yelp_words() -> str:
    bleu = result("models/yelp-words")["valid_bleu"]
    ratios = list(bleu["no infill"])
    heading = f"BLEU, share of words hidden | {percentages(ratios)}"
    return table(heading, "{name} | " + columns("{@:.1f}", ratios), named(bleu))


def english() -> str:
    bleu = result("models/english")["valid_bleu"]
    first = next(iter(bleu.values()))
    rows = [cells("no infill | " + columns("{@[no_infill_bleu]:.1f}", first), first)]
    rows += [cells("{name} | " + columns("{@[bleu]:.1f}", first), row) for row in named(bleu)]
    return lines(["BLEU, share of words hidden", *percentages(first).split(" | ")], rows)


def english_precision() -> str:
    """BLEU of the bundled int8 weights and of the half-precision weights they were rounded from."""
    r = result("models/english")
    half = r["half_precision_bleu"]
    rows = named({"int8 (bundled)": r["valid_bleu"]["all blanks at once"], "half precision": half})
    heading = f"BLEU, all blanks at once | {percentages(half)}"
    return table(heading, "{name} | " + columns("{@[bleu]:.2f}", half), rows)


def english_judged() -> str:
    """The bundled model, decoded and trained in other ways, and the one that it replaced, with the same judge."""
    models = result("models/english-judged")["models"]
    ratios = models["english"]
    template = f"{{name}} | {columns('{@[bleu]:.1f}', ratios)} | {columns('{@[perplexity]:.0f}', ratios)}"
    return table(f"BLEU, then perplexity | {percentages(ratios)} | {percentages(ratios)}", template, named(models))


def english_read() -> str:
    """What a reader made of the fills of everyday sentences."""
    rows = result("models/english-read")["rows"]
    now, before = Counter(row["verdict"] for row in rows), Counter(row["first_stage"]["verdict"] for row in rows)
    counts = [[verdict, f"{count}", f"{before[verdict]}"] for verdict, count in now.most_common()]
    return lines([f"verdict on {len(rows)} fills", "bundled model", "after the first stage"], counts)


def training_rows(model: str) -> list[Row]:
    """A row for each stage or part of a bundled model."""
    files = [path for path in (checkout() / "src/blanklm/pretrained" / model).iterdir() if path.name != "README.md"]
    size = sum(path.stat().st_size for path in files) / 1e6
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
    for row in (
        row
        for name in models or ("english", "greek", "latin", "sentiment", "yelp-words")
        for row in training_rows(name)
    ):
        encoder = row["model"].get("encoder")
        shape = f"{encoder['layers']} × {encoder['width']}" if encoder else None
        hardware = row["hardware"].replace("cpu", "two CPU cores")
        rows.append({"steps": row["training"]["steps"]} | row | {"shape": shape, "hardware": hardware})
    return table(f"{headings} | hardware | validation loss", template, rows)


TABLES = [yelp_words, english, english_precision, english_judged, english_read, bundled_training]
