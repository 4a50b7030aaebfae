"""The bundled models: how they were trained, and BLEU of the two that fill natural text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from blanklm.paper.render.source import by_ratio, checkout, percentages, result, table

Row = dict[str, Any]


def yelp_words() -> str:
    bleu = result("models/yelp-words")["valid_bleu"]
    ratios = list(bleu["no infill"])
    rows = [[name, *(f"{scores[ratio]:.1f}" for ratio in ratios)] for name, scores in bleu.items()]
    return by_ratio("BLEU, share of words hidden", ratios, rows)


def english() -> str:
    bleu = result("models/english")["valid_bleu"]
    first = next(iter(bleu.values()))
    rows = [["no infill", *(f"{row['no_infill_bleu']:.1f}" for row in first.values())]]
    rows += [[name, *(f"{row['bleu']:.1f}" for row in scores.values())] for name, scores in bleu.items()]
    return by_ratio("BLEU, share of words hidden", first, rows)


def english_precision() -> str:
    """BLEU of the bundled int8 weights and of the half-precision weights they were rounded from."""
    r = result("models/english")
    half = r["half_precision_bleu"]
    weights = {"int8 (bundled)": r["valid_bleu"]["all blanks at once"], "half precision": half}
    rows = [[name, *(f"{scores[ratio]['bleu']:.2f}" for ratio in half)] for name, scores in weights.items()]
    return by_ratio("BLEU, all blanks at once", half, rows)


def english_judged() -> str:
    """The bundled model, decoded and trained in other ways, and the one that it replaced, with the same judge."""
    models = result("models/english-judged")["models"]
    shown = percentages(models["english"])
    rows = [
        [name, *(f"{s['bleu']:.1f}" for s in scores.values()), *(f"{s['perplexity']:.0f}" for s in scores.values())]
        for name, scores in models.items()
    ]
    return table(["BLEU, then perplexity", *shown, *shown], rows)


def english_read() -> str:
    """What a reader made of the fills of everyday sentences."""
    rows = result("models/english-read")["rows"]
    now, before = Counter(row["verdict"] for row in rows), Counter(row["first_stage"]["verdict"] for row in rows)
    counts = [[verdict, f"{count}", f"{before[verdict]}"] for verdict, count in now.most_common()]
    return table([f"verdict on {len(rows)} fills", "bundled model", "after the first stage"], counts)


def megabytes(model: str) -> str:
    """The size of a model's folder, without its card."""
    folders = (checkout() / "src" / "blanklm" / "pretrained" / model, checkout() / "tests" / "fixtures" / model)
    files = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.name != "README.md"]
    return f"{sum(path.stat().st_size for path in files) / 1e6:.1f}"


def training_row(name: str, size: str, r: Row) -> list[str]:
    encoder, training = r["model"].get("encoder"), r["training"]
    return [
        name,
        f"{r['parameters']:,}",
        f"{encoder['layers']} × {encoder['width']}" if encoder else "",
        f"{r['model']['vocabulary']:,}",
        size,
        f"{r.get('steps', training['steps']):,}",
        f"{training['tokens_per_batch']:,}",
        f"{r['seconds']:.0f}",
        r["hardware"].replace("cpu", "two CPU cores"),
        f"{r['valid_bound']:.3f}",
    ]


def training_rows(model: str) -> list[list[str]]:
    """A row for each stage or part of a bundled model."""
    size = megabytes(model)
    if model == "sentiment":
        parts = result("sentiment-yelp")["parts"]
        return [
            training_row("sentiment, BLM", size, parts["blm-small"]),
            training_row("sentiment, classifier", "", parts["classifier"]),
        ]
    folder = "restoration" if model in ("greek", "latin") else "models"
    last = result(f"{folder}/{model}")
    stages = [*last.get("before", ()), last]
    names = [f"{model}, stage {number}" for number in range(1, len(stages) + 1)] if len(stages) > 1 else [model]
    return [training_row(name, size, stage) for name, stage in zip(names, stages, strict=True)]


def bundled_training(*models: str) -> str:
    headings = ["model", "parameters", "layers × width", "vocabulary", "MB", "steps", "tokens per step", "seconds"]
    headings += ["hardware", "validation loss"]
    names = models or ("english", "greek", "latin", "sentiment")
    return table(headings, [row for name in names for row in training_rows(name)])


TABLES = [yelp_words, english, english_precision, english_judged, english_read, bundled_training]
