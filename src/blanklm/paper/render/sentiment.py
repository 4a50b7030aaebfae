"""Table 4 of the paper: sentiment transfer."""

from __future__ import annotations

import json
from collections import Counter

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import checkout, in_bold, lines, named, origin, result, table
from blanklm.paper.tasks.metrics import share_interval

VERDICTS = ("good", "awkward", "wrong")  # of a reader
CORPORA = ("yelp", "amazon")
CHOSEN = {  # rows whose settings were chosen on validation sentences
    "M&I with BLM, chosen: ranking": "M&I with BLM + ranking",
    "M&I with BLM, one model, chosen: classifier": "M&I with BLM, one model + classifier",
    "M&I with BLM, one model, chosen: contrast + classifier": "M&I with BLM, one model, contrast + classifier",
    "M&I with BLM, one model, chosen: ranking": "M&I with BLM, one model, contrast + ranking",
    "bundled, chosen: contrast + classifier": "M&I with the bundled BLM, contrast + classifier",
    "bundled, chosen: ranking": "M&I with the bundled BLM, contrast + ranking",
}
ABLATIONS = {
    "M&I with BLM": "two models, attention masks; no classifier",
    "M&I with BLM + classifier": "+ classifier (the paper's way)",
    "M&I with BLM, chosen: ranking": "+ ranking, smaller masks too *",
    "M&I with BLM, one model": "one model for both; no classifier",
    "M&I with BLM, one model + classifier": "+ classifier",
    "M&I with BLM, one model, chosen: classifier": "+ classifier, temperature chosen *",
    "M&I with BLM, one model, contrast": "+ contrast; no classifier",
    "M&I with BLM, one model, chosen: contrast + classifier": "+ contrast + classifier *",
    "M&I with BLM, one model, chosen: ranking, whole mask": "+ contrast + ranking, the whole mask *",
    "M&I with BLM, one model, chosen: ranking": "+ contrast + ranking, smaller masks too *",
    "M&I with BLM, frequency masks": "two models, frequency masks; no classifier",
    "M&I with BLM, frequency masks + classifier": "+ classifier",
    "M&I with BLM, frequency masks, same ranking": "+ ranking, smaller masks too",
}


def sentiment_table() -> str:
    paper = result("sentiment-paper")["rows"]
    every = {corpus: result(f"sentiment-{corpus}") for corpus in CORPORA}
    measured = {corpus: r["known"] | r["ours"] for corpus, r in every.items()}
    first = ["copy of the source", "human reference"]
    published = [name for r in every.values() for name in r["known"] if name not in first]
    rows = []
    for name in dict.fromkeys([*first, *published, *paper, *CHOSEN]):
        row = {corpus: found.get(name) for corpus, found in measured.items()}
        reported = {f"paper {c}": "{accuracy:.1f} / {bleu:.1f}".format(**n) for c, n in paper.get(name, {}).items()}
        rows.append(
            origin(*every.values()) | row | reported | {"name": f"{CHOSEN[name]} *" if name in CHOSEN else name}
        )
    _show(rows)
    headings = " | Yelp ACC | BLEU | BLEU, 4 references | Amazon ACC | BLEU | paper: Yelp | Amazon"
    template = "{name} | {yelp accuracy} | {yelp bleu} | {yelp[bleu_all_references]:.1f} | "
    return table(headings, template + "{amazon accuracy} | {amazon bleu} | {paper @}", rows, CORPORA)


def _show(rows: list[Row]) -> None:
    """Write the accuracies and BLEU of both corpora into the rows, in bold as ``in_bold`` says."""
    for corpus in CORPORA:
        scores: list[Row] = [row.get(corpus) or {} for row in rows]
        of_accuracy = [share_interval(s["accuracy"] / 100, s["texts"]) if "texts" in s else None for s in scores]
        intervals = {"accuracy": of_accuracy, "bleu": [score.get("bleu_interval") for score in scores]}
        for measure in ("accuracy", "bleu"):
            found = [score.get(measure) for score in scores]
            for row, shown in zip(rows, in_bold(found, intervals[measure]), strict=True):
                row[f"{corpus} {measure}"] = shown


def sentiment_ablations() -> str:
    every = {corpus: result(f"sentiment-{corpus}") for corpus in CORPORA}
    rows = [
        origin(*every.values()) | {"name": say} | {corpus: r["ours"].get(name) for corpus, r in every.items()}
        for name, say in ABLATIONS.items()
    ]
    _show(rows)
    template = "{name} | {yelp accuracy} | {yelp bleu} | {amazon accuracy} | {amazon bleu}"
    return table(" | Yelp ACC | BLEU | Amazon ACC | BLEU", template, rows)


def sentiment_judges() -> str:
    """Accuracy of the two classifiers on the corpora's own sentences."""
    rows = []
    for corpus, paper in result("sentiment-paper")["judges"].items():
        measured = result(f"sentiment-{corpus}")
        judge, marker = named(measured["parts"], {"judge": "judge", "classifier": "masks and ranks"})
        row = origin(measured) | {"corpus": corpus.capitalize()}
        rows += [row | {"paper": paper} | judge, row | marker]
    template = "{corpus}, {name} | {valid_accuracy:.1f} | {test_accuracy:.1f} | {paper}"
    return table("classifier, accuracy % | validation | test | the paper's", template, rows)


def everyday_transfers() -> str:
    """What a reader who did not make the models thinks of their rewrites of everyday sentences."""
    rows = []
    for system in ("tone", "sentiment"):
        counts = Counter(record["verdict"] for record in everyday(system))
        rows.append([system, *(f"{counts[verdict]}" for verdict in VERDICTS)])
    return lines([f"verdict on {sum(counts.values())} rewrites", *VERDICTS], rows)


def everyday_rewrites() -> str:
    """The sentences and their rewrites by ``tone``."""
    rows = [[r["text"], r["rewrite"], r["verdict"]] for r in everyday("tone")]
    return lines(["sentence", "rewritten", "the reader's verdict"], rows)


def everyday(system: str) -> list[Row]:
    path = checkout() / "results" / "transfer" / f"everyday-{system}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


TABLES = [everyday_transfers, everyday_rewrites, sentiment_table, sentiment_ablations, sentiment_judges]
