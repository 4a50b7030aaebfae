"""Accuracy against BLEU of every system that rewrites the test sentences, from results/sentiment-*.json.

    python docs/plots/sentiment_frontier.py

Writes docs/plots/sentiment_frontier.svg.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

ROOT = Path(__file__).resolve().parent.parent.parent
TITLES = {"yelp": "Yelp", "amazon": "Amazon"}
COLOURS = {"published": "#6b7280", "copy": "#111827", "mlm": "#b3501b", "blm": "#1f6fb4", "ranked": "#1b7f5c"}
OURS = {  # names beside the points, and where: points to the right and up, and the side of the text that is there
    "M&I with MLM": ("MLM", 0, 7, "center"),
    "M&I with MLM + classifier": ("MLM + classifier", 4, 17, "right"),
    "M&I with BLM": ("BLM", -4, 5, "right"),
    "M&I with BLM + classifier": ("BLM + classifier", -6, -8, "right"),
    "M&I with BLM, one model, chosen: contrast + classifier": ("contrast + classifier", -6, -5, "right"),
}
CROWDED = 76  # per cent of accuracy, above which names stand to the left


def draw(axes, result: dict, title: str) -> None:
    """One corpus: published systems, ours as in the paper, and the line that ranking with content draws."""
    for name, row in result["known"].items():
        if "bleu" not in row:
            continue
        copied = name == "copy of the source"
        colour, marker = (COLOURS["copy"], "*") if copied else (COLOURS["published"], "o")
        axes.plot(row["accuracy"], row["bleu"], marker, ms=9 if copied else 4, color=colour)
        label = (
            name.replace(" et al.", "")
            .replace("Li 2018, ", "")
            .replace("Fu 2018, ", "Fu ")
            .removesuffix(" of the source")
        )
        side, right = ("right", -5) if row["accuracy"] > CROWDED else ("left", 5)
        axes.annotate(label, (row["accuracy"], row["bleu"]), xytext=(right, -3), textcoords="offset points", ha=side,
                      fontsize=6.5, color=COLOURS["published"])  # fmt: skip
    for name, (label, right, up, side) in OURS.items():
        if name in result["ours"]:
            row = result["ours"][name]
            colour = COLOURS["mlm" if "MLM" in name else "blm"]
            point = row["accuracy"], row["bleu"]
            axes.plot(*point, "s", ms=6, color=colour)
            axes.annotate(
                label, point, xytext=(right, up), textcoords="offset points", ha=side, fontsize=7.5, color=colour
            )
    ranked = result["ranked"].values()
    axes.plot([row["accuracy"] for row in ranked], [row["bleu"] for row in ranked], ".-", color=COLOURS["ranked"],
              label="BLM, contrast + ranking, weights of content")  # fmt: skip
    axes.set_xlim(right=103)
    axes.set_title(title)
    axes.set_xlabel("accuracy, % (judge)")
    axes.set_ylabel("BLEU, first reference")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", fontsize=7.5, frameon=False)


def main() -> None:
    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "blanklm", "font.size": 9}
    from matplotlib import pyplot

    figure, both = pyplot.subplots(1, len(TITLES), figsize=(10.5, 4.6))
    for axes, (corpus, title) in zip(both, TITLES.items(), strict=True):
        path = ROOT / "results" / f"sentiment-{corpus}.json"
        draw(axes, json.loads(path.read_text(encoding="utf-8")), title)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "plots" / "sentiment_frontier.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
