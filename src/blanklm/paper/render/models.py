"""The bundled models: how they were trained, and how their fills read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from blanklm.core.template import Template
from blanklm.paper.provenance import Row
from blanklm.paper.render.source import checkout, in_bold, lines, named, origin, result, table
from blanklm.paper.tasks.metrics import share_interval

NAMES = {
    "english": "english",
    "english-small": "english-small",
    "before": "english of 0.2.0",
    "most-probable": "english, the most probable fills",
}
WAYS = {  # of results/english/comparison
    "blanklm": "blanklm",
    "mask": "one word per blank, all at once (as fill-mask does)",
    "diffusion": "as many places, the surest first (as masked diffusion does)",
    "continued": "from left to right, without sight of what follows",
    "chosen": "from left to right, the best of 16 with what follows",
    "asked": "a chat model, asked",
}
CARDS = ("src/blanklm/pretrained", "tests/fixtures")  # where model folders with a card are


def english_spans(*systems: str) -> str:
    """Fills of spans as people leave them, for each system in results/english: lengths, fluency, variety."""
    headings = "words hidden | words written | length exact, % | BLEU | perplexity (of the originals) | echoes, %"
    template = "{name} | {written:.2f} ({intervals[written][0]:.2f} to {intervals[written][1]:.2f}) | {exact:.0%} | "
    template += "{shown} | {perplexity:.0f} ({original_perplexity:.0f}) | {echoes:.1%}"
    spans = {system: result(f"english/{system}")["spans"] for system in systems}
    shown = {  # the systems are compared on spans of the same kind
        kind: in_bold(
            [row[kind]["bleu"] for row in spans.values()], [r[kind]["intervals"]["bleu"] for r in spans.values()]
        )
        for kind in next(iter(spans.values()))
    }
    rows = []
    for number, (system, kinds) in enumerate(spans.items()):
        for kind, row in kinds.items():
            hidden = f"a sentence ({row['hidden']:.1f})" if kind == "sentence" else kind
            rows.append(row | {"name": f"{NAMES[system]}, {hidden}", "shown": shown[kind][number]})
    return table(headings, template, rows)


def english_canvases() -> str:
    """What readers who did not make the models think of the fills of a hundred canvases."""
    systems, counts = ("english", "most-probable", "before"), []
    for system in systems:
        path = checkout() / "results" / "english" / f"canvases-{system}.jsonl"
        counts.append(Counter(json.loads(line)["verdict"] for line in path.read_text(encoding="utf-8").splitlines()))
    intervals = [[100 * end for end in share_interval(count["natural"] / 100, 100)] for count in counts]
    natural = in_bold([count["natural"] for count in counts], intervals, "d")
    rows = [
        [NAMES[system], f"{shown} ({low:.0f} to {high:.0f})", f"{count['awkward']}", f"{count['broken']}"]
        for system, shown, (low, high), count in zip(systems, natural, intervals, counts, strict=True)
    ]
    return lines(["verdict on 100 fills", "natural (95 %)", "awkward", "broken"], rows)


def english_gallery(shown: int = 10) -> str:
    """Some fills of each verdict, with what was written in italics; all of the broken ones."""
    path = checkout() / "results" / "english" / "canvases-english.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = []
    for verdict in ("natural", "awkward", "broken"):
        found = [record for record in records if record["verdict"] == verdict]
        for record in found if verdict == "broken" else found[:shown]:
            text = _in_italics(record["text"], record["spans"])
            rows.append([text.replace("\n", "<br>"), verdict])
    return lines(["filled", "the reader's verdict"], rows)


def english_comparison() -> str:
    """Ten canvases, filled in the ways of other kinds of models; what was written in italics where it is known."""
    rows = []
    for record in result("english/comparison")["canvases"]:
        rows.append(["**canvas**", f"**{escape(record['canvas'])}**"])
        for way, said in WAYS.items():
            fill = record["fills"][way]
            rows.append(
                [said, _in_italics(record["canvas"], fill["spans"]) if "spans" in fill else escape(fill["text"])]
            )
    return lines(["", "text"], [[said, text.replace("\n", "<br>")] for said, text in rows])


def _in_italics(canvas: str, spans: Sequence[str]) -> str:
    """A filled canvas with what was written in italics."""
    written = [f"*{escape(span.strip())}*" if span.strip() else "" for span in spans]
    pieces = map(escape, Template.parse(canvas).pieces)
    return "".join(piece + span for piece, span in zip(pieces, (*written, ""), strict=True))


def escape(text: str) -> str:
    """Keep a text from being read as Markdown."""
    return "".join(f"\\{character}" if character in "\\*_|<>`[]#" else character for character in text)


def training_rows(model: str) -> list[Row]:
    """A row for each stage or part of a bundled model."""
    folder = next(parent / model for parent in map(checkout().joinpath, CARDS) if (parent / model).is_dir())
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name != "README.md") / 1e6
    if model == "sentiment":
        measured = result("sentiment-yelp")
        titles = {"blm-small": "sentiment, BLM", "classifier": "sentiment, classifier"}
        blm, classifier = (origin(measured) | part for part in named(measured["parts"], titles))
        return [blm | {"size": size}, classifier]
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
        for name in models or ("english", "english-small", "greek", "latin", "sentiment")
        for row in training_rows(name)
    ):
        encoder = row["model"].get("encoder")
        shape = f"{encoder['layers']} × {encoder['width']}" if encoder else None
        hardware = row["hardware"].replace("cpu", "two CPU cores")
        rows.append({"steps": row["training"]["steps"]} | row | {"shape": shape, "hardware": hardware})
    return table(f"{headings} | hardware | validation loss", template, rows)


TABLES = [english_spans, english_canvases, english_gallery, english_comparison, bundled_training]
