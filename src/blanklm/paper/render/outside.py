"""Comparisons beside the paper's: BLiMP and the middles of stories."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import result, results, table
from blanklm.paper.tasks.metrics import share_interval

MODELS = ("english", "english-small")
STORIES = ("people", "english", "english-small", "before", "another")
CORPORA = {"anlg": "aNLG", "rocstories": "ROCStories"}


def blimp() -> str:
    published = result("blimp/published")["rows"]
    rows = [{"label": f"{name} (published)", "whole": f"{share:.1%}"} for name, share in published.items()]
    for name, row in results("blimp", (f"blimp-{model}" for model in MODELS)).items():
        rows.append(
            row
            | {"label": name.removeprefix("blimp-"), "whole": _share(row["whole"]), "place": _share(row["in_place"])}
        )
    headings = "of two sentences the grammatical one is the more probable | whole sentences | in place"
    return table(headings, "{label} | {whole} | {place}", rows)


def _share(row: Row) -> str:
    low, high = share_interval(row["accuracy"], row["questions"])
    return f"{row['accuracy']:.1%} ({low:.1%} to {high:.1%}), {row['questions']:,} pairs"


def middles() -> str:
    rows = [
        row | {"label": f"{title}, {row['label']}"}
        for corpus, title in CORPORA.items()
        for row in results("middles", (f"{corpus}-{system}" for system in STORIES)).values()
    ]
    template = "{label} | {items} | {bleu:.1f} ({bleu_interval[0]:.1f} to {bleu_interval[1]:.1f}) | "
    template += "{rouge_l:.1f} ({rouge_l_interval[0]:.1f} to {rouge_l_interval[1]:.1f}) | {words:.1f}"
    return table("the sentence between, written by | items | BLEU (95 %) | ROUGE-L (95 %) | words", template, rows)


TABLES = [blimp, middles]
