"""Tables 5 and 6 of the paper: perplexity."""

from __future__ import annotations

from typing import Any

from blanklm.paper.render.source import numbers, result, results, table

CORPORA = {"ptb": "PTB", "wikitext2": "WikiText-2"}
SYSTEMS = "lm", "insertion", "blm", "lm-context", "blm-context"
START = "blm-128"  # trained for the BLM in context to start from; not estimated on the whole test set
TREND = "1", "3", "10", "30", "100", "300", "1000"


def measured(*systems: str) -> list[tuple[str, dict[str, Any]]]:
    """The rows there are, each with the title of its corpus."""
    return [
        (title, row)
        for corpus, title in CORPORA.items()
        for row in results(f"language-modelling/{corpus}-{name}" for name in systems or SYSTEMS).values()
    ]


def perplexity(row: dict[str, Any]) -> str:
    """On the whole test set, at the greatest m there is."""
    if "exact" in row:
        return f"{row['exact']['test']:.1f}"
    estimate = row["estimates"]["test"]
    return f"{estimate['at_all']:.1f} (m = {estimate['orders']})"


def lm_table() -> str:
    ours = {(title, row["label"]): perplexity(row) for title, row in measured()}
    paper = result("language-modelling/paper")["rows"]
    labels = dict.fromkeys([*paper, *(label for _, label in ours)])
    rows = [
        [label, *(ours.get((title, label), "") for title in CORPORA.values()), *numbers(paper.get(label), *CORPORA)]
        for label in labels
    ]
    return table(["perplexity a token", *CORPORA.values(), "paper: PTB", "WikiText-2"], rows)


def lm_orders() -> str:
    rows = []
    for title, row in measured():
        some = "what begins in ten chunks" if row.get("context") else "ten chunks"
        for name, say in (("test", "all"), ("seeded", some)):
            label = f"{title}, {row['label']}, {say}"
            if "exact" in row:
                rows.append([label, f"{row['exact'][name]:.2f}", *([""] * len(TREND)), "exact"])
            elif name in row["estimates"]:
                estimate = row["estimates"][name]
                found = [f"{estimate['perplexity'][m]:.2f}" if m in estimate["perplexity"] else "" for m in TREND]
                low, high = estimate["interval"]
                bound = f"{row['bounds']['test']:.2f}" if say == "all" else ""
                rows.append([label, bound, *found, f"{low:.2f} to {high:.2f}, m = {estimate['orders']}"])
    trend = result("language-modelling/paper")["wikitext103_by_orders"]
    rows.append(["WikiText-103 in the paper, BLM", "", *numbers(trend, *TREND), ""])
    return table(["perplexity", "bound", *(f"m = {m}" for m in TREND), "95 % interval at the greatest m"], rows)


def lm_setting() -> str:
    rows = []
    for title, row in measured("blm"):
        training, encoder = row["training"], row["training"]["model"]["encoder"]
        size = [f"{encoder['layers']} × {encoder['width']}", f"{training['model']['vocabulary']:,}"]
        rows.append([title, *size, f"{training['tokens']:,}", f"{row['test']['tokens']:,}", f"{row['chunk']}"])
    return table(["corpus", "layers × width", "vocabulary", "training tokens", "test tokens", "chunk"], rows)


def lm_training() -> str:
    found = measured(*SYSTEMS, START)
    labels = {row["system"]: row["label"] for _, row in found}
    rows = []
    for title, row in found:
        t = row["training"]
        counts = [f"{t[key]:,.0f}" for key in ("steps", "best_step", "epochs", "seconds")]
        bound = f"{row['bounds']['test']:.1f}" if "bounds" in row else ""
        start = labels.get(t.get("begins_with"), "scratch")
        cells = [start, f"{t['parameters'] / 1e6:.1f} M", *counts, f"{row.get('temperature', 1.0):g}", bound]
        rows.append([f"{title}, {row['label']}", *cells])
    headings = ["system", "starts from", "parameters", "steps", "best at step", "canvases per text", "seconds"]
    return table([*headings, "temperature", "test bound"], rows)


TABLES = [lm_table, lm_orders, lm_setting, lm_training]
