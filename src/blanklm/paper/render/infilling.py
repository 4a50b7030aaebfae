"""Tables 1 and 2 of the paper: text infilling."""

from __future__ import annotations

from typing import Any

from blanklm.paper.render.source import by_ratio, percentages, result, results, table

IN_THE_PAPER = "insertion", "mlm", "bert-lm", "seq2seq-full", "seq2seq-fill", "blm"
PRETRAINED = "blm-minilm", "blm-english"
SYSTEMS = (*IN_THE_PAPER, "blm-greedy", "blm-model", "blm-parallel", *PRETRAINED, "mlm-left-to-right", "mlm-one-shot")
CORPORA = {"yahoo": "Yahoo Answers", "yelp": "Yelp"}
JUDGE = "lm"  # its rows also have what needs no system: "no infill" and the originals
FIGURE_5 = {  # the paper's example under its two masks, and what they hide
    "10%": (
        "when time flies , {} does it go ? {} the center of the {} to be recycled {} made into new time .",
        ("where", "to", "universe", "and"),
    ),
    "50%": (
        "when time {} , where {} ? {} the {} of {} universe to {} recycled {} made into {} .",
        ("flies", "does it go", "to", "center", "the", "be", "and", "new time"),
    ),
}

Row = dict[str, Any]


def measured(corpus: str, systems: tuple[str, ...] = SYSTEMS) -> dict[str, Row]:
    rows = results(f"infilling/{corpus}-{name}" for name in systems)
    return {name.removeprefix(f"{corpus}-"): row for name, row in rows.items()}


def ratios(corpus: str) -> dict[str, Row]:
    return result(f"infilling/{corpus}-{JUDGE}")["ratios"]


def labels() -> dict[str, str]:
    return {name: row["label"] for name, row in measured("yahoo").items()}


def bleu_rows(corpus: str, systems: tuple[str, ...]) -> list[list[str]]:
    """BLEU, the best of each column in bold; masked models, which are told the lengths, do not compete."""
    found = measured(corpus, systems)
    scores = {name: [round(r["bleu"], 1) for r in row["ratios"].values()] for name, row in found.items()}
    best = [max(column) for column in zip(*(s for name, s in scores.items() if "mlm" not in name), strict=True)]
    rows = [["no infill", *(f"{r['no_infill_bleu']:.1f}" for r in ratios(corpus).values())]]
    for name, row in found.items():
        bold = ["**" if s == top and "mlm" not in name else "" for s, top in zip(scores[name], best, strict=True)]
        rows.append([row["label"], *(f"{b}{s:.1f}{b}" for s, b in zip(scores[name], bold, strict=True))])
    return rows


def infilling_bleu(corpus: str, systems: str = "all") -> str:
    rows = bleu_rows(corpus, SYSTEMS if systems == "all" else (*IN_THE_PAPER, *PRETRAINED))
    return by_ratio("BLEU, share of words hidden", ratios(corpus), rows)


def infilling_fluency() -> str:
    """BLEU and perplexity on Yahoo Answers."""
    judged, shares = ratios("yahoo").values(), percentages(ratios("yahoo"))
    fluency = [[f"{r['no_infill_perplexity']:.0f}" for r in judged]]
    fluency += [[f"{r['perplexity']:.0f}" for r in row["ratios"].values()] for row in measured("yahoo").values()]
    rows = [[*row, *cells] for row, cells in zip(bleu_rows("yahoo", SYSTEMS), fluency, strict=True)]
    rows.append(["original texts", *("" for _ in shares), *(f"{r['original_perplexity']:.0f}" for r in judged)])
    return table(["BLEU, then perplexity", *shares, *shares], rows)


def infilling_paper() -> str:
    """Table 1 of the paper, both halves."""
    shares, names = percentages(ratios("yahoo")), labels()
    rows = [
        [names.get(name, name), *(f"{v:.1f}" for half in ("bleu", "perplexity") for v in row[half].values())]
        for name, row in result("infilling/paper")["rows"].items()
    ]
    return table(["the paper's BLEU, then perplexity", *shares, *shares], rows)


def infilling_failures() -> str:
    """The systems that fail at all, each rate with its two parts."""
    rows = []
    for corpus, title in CORPORA.items():
        for row in measured(corpus, (*IN_THE_PAPER, "insertion-free", *SYSTEMS)).values():
            kinds = [
                [100 * r[kind] for kind in ("failure_rate", "lost_words", "wrong_blanks")]
                for r in row["ratios"].values()
            ]
            if any(rate for rate, *_ in kinds):
                rows.append([f"{title}, {row['label']}", *(f"{rate:.1f} ({a:.1f} + {b:.1f})" for rate, a, b in kinds)])
    for name, row in result("infilling/paper")["rows"].items():
        if "failures" in row:
            rows.append([f"the paper's {labels()[name]}", *(f"{v:.1f}" for v in row["failures"].values())])
    return by_ratio("failures, % (words lost + blanks wrong)", ratios("yahoo"), rows)


def infilling_setting() -> str:
    rows = []
    for corpus, title in CORPORA.items():
        row = result(f"infilling/{corpus}-blm")
        test, model = row["test"], row["training"]["model"]
        encoder = model["encoder"]
        size = f"{encoder['layers']} × {encoder['width']}"
        shown = f"{test['texts']:,} of {test['of']:,}"
        rows.append([title, row["trained_on"], shown, size, f"{model['vocabulary']:,}"])
    return table(["corpus", "trained on", "test texts", "layers × width", "vocabulary"], rows)


def infilling_training() -> str:
    rows = []
    for corpus, title in CORPORA.items():
        for row in measured(corpus, (JUDGE, *IN_THE_PAPER, *PRETRAINED)).values():
            t = row["training"]
            counts = [f"{t[key]:,}" for key in ("steps", "best_step", "epochs")]
            name = f"{title}, {row['label'].removesuffix(', greedy')}"
            rows.append([name, f"{t['parameters'] / 1e6:.1f} M", *counts, f"{t['seconds']:.0f}"])
    return table(["system", "parameters", "steps", "best at step", "epochs", "seconds"], rows)


def infilling_speed() -> str:
    r = result("infilling/yahoo-speed")
    names = {"confident": "one word at a time", "parallel": "all blanks at once"}
    rows = [
        [say, *(f"{x['words_per_second']:,.0f}" for x in r["orders"][order].values())] for order, say in names.items()
    ]
    return by_ratio(f"words/s, {r['texts']:,} documents, one {r['hardware']}", r["orders"]["parallel"], rows)


def figure_5() -> str:
    """The paper's example: what each system put into its blanks, in italics."""
    tables = []
    for number, (share, (mask, hidden)) in enumerate(FIGURE_5.items()):
        rows = [["blanked", mask.format(*[r"\_\_\_"] * len(hidden))]]
        for row in measured("yahoo").values():
            if fills := row.get("figure_5"):
                fill = fills[number]
                spans = [f"*{span.replace('_', chr(92) + '_')}*" if span else "(nothing)" for span in fill["spans"]]
                rows.append([row["label"], "not a fill: " + fill["text"] if "text" in fill else mask.format(*spans)])
        rows.append(["original", mask.format(*(f"**{span}**" for span in hidden))])
        tables.append(table(["", f"{share} hidden"], rows).replace("| ---: |", "| --- |"))
    return "\n".join(tables)


TABLES = [infilling_bleu, infilling_paper, infilling_fluency, infilling_failures, infilling_setting]
TABLES += [infilling_training, infilling_speed, figure_5]
