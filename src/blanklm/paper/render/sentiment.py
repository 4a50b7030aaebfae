"""Table 4 of the paper: sentiment transfer."""

from __future__ import annotations

from blanklm.paper.render.source import numbers, result, table

CORPORA = "yelp", "amazon"
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
BUNDLED = {
    "bundled": "most probable fill of the mask, no contrast",
    "bundled + classifier": "best of ten samples by the classifier, as in the paper",
    "bundled, contrast": "most probable fill of the mask, with contrast",
    "bundled, chosen: contrast + classifier": "best of ten samples by the classifier, with contrast",
    "bundled, chosen: ranking, whole mask": "`blanklm transfer`",
    "bundled, chosen: ranking": "with the settings chosen among smaller masks and more samples too",
}
BOTH = "accuracy", "bleu"


def sentiment_table() -> str:
    paper = result("sentiment-paper")["rows"]
    yelp, amazon = (result(f"sentiment-{corpus}") for corpus in CORPORA)
    first = ["copy of the source", "human reference"]
    published = [name for name in dict.fromkeys((*yelp["known"], *amazon["known"])) if name not in first]
    rows = []
    for name in [*first, *published, *paper, *CHOSEN]:
        ours, theirs = ((r["known"] | r["ours"]).get(name) for r in (yelp, amazon))
        said = [" / ".join(numbers(paper.get(name, {}).get(corpus), *BOTH)).strip(" /") for corpus in CORPORA]
        say = f"{CHOSEN[name]} *" if name in CHOSEN else name
        rows.append([say, *numbers(ours, *BOTH, "bleu_all_references"), *numbers(theirs, *BOTH), *said])
    headings = ["", "Yelp ACC", "BLEU", "BLEU, 4 references", "Amazon ACC", "BLEU", "paper: Yelp", "Amazon"]
    return table(headings, rows)


def sentiment_ablations() -> str:
    both = [result(f"sentiment-{corpus}")["ours"] for corpus in CORPORA]
    rows = [
        [say, *(cell for ours in both for cell in numbers(ours.get(name), *BOTH))] for name, say in ABLATIONS.items()
    ]
    return table(["", "Yelp ACC", "BLEU", "Amazon ACC", "BLEU"], rows)


def sentiment_bundled() -> str:
    ours = result("sentiment-yelp")["ours"]
    return table(["", "accuracy", "BLEU"], [[say, *numbers(ours[name], *BOTH)] for name, say in BUNDLED.items()])


def sentiment_judges() -> str:
    """Accuracy of the two classifiers on the corpora's own sentences."""
    rows = []
    for corpus, paper in result("sentiment-paper")["judges"].items():
        parts = result(f"sentiment-{corpus}")["parts"]
        for part, say, published in (("judge", "judge", f"{paper}"), ("classifier", "masks and ranks", "")):
            rows.append(
                [f"{corpus.capitalize()}, {say}", *numbers(parts[part], "valid_accuracy", "test_accuracy"), published]
            )
    return table(["classifier, accuracy %", "validation", "test", "the paper's"], rows)


TABLES = [
    sentiment_table,
    sentiment_ablations,
    sentiment_bundled,
    sentiment_judges,
]
