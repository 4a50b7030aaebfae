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
SHORT = {  # names beside the points
    "copy of the source": "copy",
    "M&I with MLM + classifier": "MLM + classifier",
    "M&I with MLM": "MLM",
    "M&I with BLM + classifier": "BLM + classifier",
    "M&I with BLM": "BLM",
    "M&I with BLM + ranking, fluency 0, 20 samples": "20 samples",
}


def draw(axes, result: dict, title: str) -> None:
    """One corpus: published systems, ours as in the paper, and the line that ranking with content draws."""
    for name, row in result["known"].items():
        if "bleu" not in row:
            continue
        copied = name == "copy of the source"
        colour, marker = (COLOURS["copy"], "*") if copied else (COLOURS["published"], "o")
        axes.plot(row["accuracy"], row["bleu"], marker, ms=9 if copied else 4, color=colour)
        label = SHORT.get(name, name.replace(" et al.", "").replace("Li 2018, ", "").replace("Fu 2018, ", "Fu "))
        axes.annotate(label, (row["accuracy"], row["bleu"]), xytext=(4, 3), textcoords="offset points", fontsize=6.5,
                      color=COLOURS["published"])  # fmt: skip
    for name, label in SHORT.items():
        if name in result["ours"]:
            row = result["ours"][name]
            colour = COLOURS["mlm" if "MLM" in name else "blm"]
            axes.plot(row["accuracy"], row["bleu"], "s", ms=6, color=colour)
            point = row["accuracy"], row["bleu"]
            axes.annotate(label, point, xytext=(5, -9), textcoords="offset points", fontsize=7.5, color=colour)
    ranked = result["ranked"].values()
    axes.plot([row["accuracy"] for row in ranked], [row["bleu"] for row in ranked], ".-", color=COLOURS["ranked"],
              label="BLM, ranked with content and fluency")  # fmt: skip
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
