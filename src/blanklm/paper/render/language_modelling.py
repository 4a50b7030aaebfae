"""Tables 5 and 6 of the paper: perplexity."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import mark_of, origin, result, results, table

CORPORA = {"ptb": "PTB", "wikitext2": "WikiText-2"}
SYSTEMS = ("lm", "insertion", "blm", "lm-context", "blm-context")
START = "blm-128"  # the BLM in context starts from it; not estimated on the whole test set
TREND = ("1", "3", "10", "30", "100", "300", "1000")


def measured(*systems: str) -> list[Row]:
    """The rows there are, each with the title of its corpus."""
    return [
        {**row, "title": title}
        for corpus, title in CORPORA.items()
        for row in results("language-modelling", (f"{corpus}-{name}" for name in systems or SYSTEMS)).values()
    ]


def perplexity(row: Row) -> str:
    """On the whole test set, at the greatest m there is."""
    if "exact" in row:
        return f"{row['exact']['test']:.1f}"
    estimate = row["estimates"]["test"]
    return f"{estimate['at_all']:.1f} (m = {estimate['orders']})"


def lm_table() -> str:
    paper = result("language-modelling/paper")["rows"]
    rows: dict[str, Row] = {label: {"label": label, "paper": numbers} for label, numbers in paper.items()}
    for row in measured():
        rows.setdefault(row["label"], {"label": row["label"]})[row["title"]] = perplexity(row) + mark_of(row)
    template = "{label} | {PTB} | {WikiText-2} | {paper[@]:.1f}"
    headings = "perplexity per token | PTB | WikiText-2 | paper: PTB | WikiText-2"
    return table(headings, template, rows.values(), tuple(CORPORA))


def lm_orders() -> str:
    rows = []
    for row in measured():
        few = "what begins in ten chunks" if row.get("context") else "ten chunks"
        for name, chunks in (("test", "all"), ("seeded", few)):
            label = f"{row['title']}, {row['label']}, {chunks}"
            if "exact" in row:
                rows.append(origin(row) | {"label": label, "bound": row["exact"][name], "interval": "exact"})
            elif estimate := row["estimates"].get(name):
                interval = "{:.2f} to {:.2f}, m = {}".format(*estimate["interval"], estimate["orders"])
                trend = {m: f"{value:.2f}" for m, value in estimate["perplexity"].items()}
                bound = row["bounds"]["test"] if name == "test" else None
                rows.append(origin(row) | {"label": label, "bound": bound, "interval": interval} | trend)
    paper = result("language-modelling/paper")["wikitext103_by_orders"]
    trend = {m: f"{value:.1f}" for m, value in paper.items()}
    rows.append({"label": "WikiText-103 in the paper, BLM", "interval": ""} | trend)
    headings = "perplexity | bound | m = @ | 95 % interval at the greatest m"
    return table(headings, "{label} | {bound:.2f} | {@} | {interval}", rows, TREND)


def lm_training() -> str:
    rows = measured(*SYSTEMS, START)
    labels = {row["system"]: row["label"] for row in rows}
    rows = [row | {"start": labels.get(row["training"].get("begins_with"), "scratch")} for row in rows]
    rows = [{"temperature": 1.0} | row for row in rows]
    template = "{title}, {label} | {start} | {training[parameters]:.1M} | {training[@]:,.0f} | {temperature:g} | "
    headings = "system | starts from | parameters | steps | best at step | canvases per text | seconds | temperature | "
    counts = ("steps", "best_step", "epochs", "seconds")
    return table(headings + "test bound", template + "{bounds[test]:.1f}", rows, counts)


TABLES = [lm_table, lm_orders, lm_training]
