"""Comparisons beside the paper's: sentence completion, BLiMP and the middles of stories."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import in_bold, result, results, table
from blanklm.paper.tasks.metrics import share_interval

MODELS = ("english", "english-small")
FROM_SCRATCH = ("blm", "blm-large")  # on the novels
READ_NOVELS = {
    "rnn": "word RNN on the challenge's novels",
    "bidirectional": "the same in both directions",
}
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


def choosing() -> str:
    """Sentence completion: published, from scratch on the challenge's novels, and the bundled models by ``choose``."""
    published = result("sentence-completion/published")["rows"]
    rows: list[Row] = [
        {"label": f"{READ_NOVELS[name]} (published)", "msr": f"{row['msr']:.1%}", "sat": f"{row['sat']:.1%}"}
        for name, row in published.items()
        if name in READ_NOVELS
    ]
    for row in results("sentence-completion", (f"novels-{name}" for name in FROM_SCRATCH)).values():
        rows.append(row | {test: _between(row[test]) for test in ("msr", "sat")})
    for name, row in results("choosing", MODELS).items():
        answers = {test: _between(row[test]["fitted"]) for test in ("msr", "sat")}
        seen = {part: "{accuracy:.1%} of {questions}".format(**row["msr"][part]) for part in ("seen", "unseen")}
        rows.append(row | answers | seen | {"label": name})
    headings = "sentence completion | MSR, % (95 %) | of it, answers seen in training | not seen | SAT, % (95 %)"
    return table(headings, "{label} | {msr} | {seen} | {unseen} | {sat}", rows)


def _between(row: Row) -> str:
    return "{:.1%} ({:.1%} to {:.1%})".format(row["accuracy"], *row["interval"])


def middles() -> str:
    rows: list[Row] = []
    for corpus, title in CORPORA.items():
        found = list(results("middles", (f"{corpus}-{system}" for system in STORIES)).values())
        for measure in ("bleu", "rouge_l"):
            shown = in_bold([row[measure] for row in found], [row[f"{measure}_interval"] for row in found])
            found = [row | {f"{measure}_shown": number} for row, number in zip(found, shown, strict=True)]
        rows += [row | {"label": f"{title}, {row['label']}"} for row in found]
    template = "{label} | {items} | {bleu_shown} ({bleu_interval[0]:.1f} to {bleu_interval[1]:.1f}) | "
    template += "{rouge_l_shown} ({rouge_l_interval[0]:.1f} to {rouge_l_interval[1]:.1f}) | {words:.1f}"
    return table("the sentence between, written by | items | BLEU (95 %) | ROUGE-L (95 %) | words", template, rows)


TABLES = [choosing, blimp, middles]
