"""Perplexity against the number of orders m: Table 5 of the paper, for every system and corpus that has been run.

    python docs/plots/language_modelling.py

Reads results/language-modelling/*.json and writes docs/plots/language_modelling.svg.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import ScalarFormatter

ROOT = Path(__file__).resolve().parent.parent.parent
SYSTEMS = {
    "blm": "#b3501b",
    "insertion": "#1f6fb4",
    "lm": "#777777",
    "blm-context": "#d98b5f",
    "lm-context": "#b5b5b5",
}
CORPORA = {"ptb": "PTB", "wikitext2": "WikiText-2"}
SETS = {"test": ("whole test set", "-"), "seeded": ("ten chunks", "--")}


def rows(corpus: str) -> dict[str, dict]:
    """The rows there are, by system."""
    paths = {name: ROOT / "results" / "language-modelling" / f"{corpus}-{name}.json" for name in SYSTEMS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def draw(path: Path) -> None:
    plt.rcParams.update(
        {"svg.hashsalt": "language modelling", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    run = {corpus: found for corpus in CORPORA if (found := rows(corpus))}
    figure, axes = plt.subplots(1, len(run), figsize=(1 + 4.4 * len(run), 3.8), squeeze=False)
    for axis, (corpus, found) in zip(axes[0], run.items(), strict=True):
        axis.set_title(CORPORA[corpus])
        for name, row in found.items():
            for part, (say, line) in SETS.items():
                style = {"color": SYSTEMS[name], "linestyle": line, "label": f"{row['label']}, {say}"}
                if "exact" in row:
                    axis.axhline(row["exact"][part], linewidth=1, **style)
                elif part in row["estimates"]:
                    trend = row["estimates"][part]["perplexity"]
                    axis.plot([int(m) for m in trend], list(trend.values()), marker="o", markersize=3, **style)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.set_xlabel("orders m")
        axis.set_ylabel("perplexity")
        axis.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
