"""BLEU and failure rate against the share of words hidden, for every system of the infilling table.

    python docs/plots/infilling.py

Reads results/infilling/*.json and writes docs/plots/infilling.svg.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent.parent
SYSTEMS = {  # as in the paper's table, with a colour each
    "blm": "#b3501b",
    "insertion": "#1f6fb4",
    "mlm": "#1b7f5c",
    "bert-lm": "#7a4fa3",
    "seq2seq-full": "#8a6d1d",
    "seq2seq-fill": "#a83a6b",
    "blm-minilm": "#d98a4f",
    "blm-english": "#e0b13f",
}
CORPORA = {"yahoo": "Yahoo Answers", "yelp": "Yelp"}  # those that have been run


def rows(corpus: str) -> dict[str, dict]:
    """The rows there are, by system."""
    paths = {name: ROOT / "results" / "infilling" / f"{corpus}-{name}.json" for name in ("lm", *SYSTEMS)}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def draw(path: Path) -> None:
    plt.rcParams.update(
        {"svg.hashsalt": "infilling", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    run = {corpus: found for corpus in CORPORA if "lm" in (found := rows(corpus))}
    figure, axes = plt.subplots(2, len(run), figsize=(1 + 4.4 * len(run), 6.4), sharex=True, squeeze=False)
    for column, (corpus, found) in enumerate(run.items()):
        title = CORPORA[corpus]
        bleu, failures = axes[:, column]
        bleu.set_title(title)
        for name, row in found.items():
            shares = [100 * float(ratio) for ratio in row["ratios"]]
            if name == "lm":
                values = [ratio["no_infill_bleu"] for ratio in row["ratios"].values()]
                bleu.plot(shares, values, color="#777777", linestyle=":", label="no infill")
                continue
            values = list(row["ratios"].values())
            style = {"color": SYSTEMS[name], "marker": "o", "markersize": 3, "label": row["label"]}
            bleu.plot(shares, [value["bleu"] for value in values], **style)
            failures.plot(shares, [100 * value["failure_rate"] for value in values], **style)
        bleu.set_ylabel("BLEU")
        failures.set_ylabel("failures, %")
        failures.set_ylim(-3, 103)
        failures.set_xlabel("words hidden, %")
    axes[0, 0].legend(frameon=False, fontsize=7.5)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
