"""Tables 1 and 2 of the paper: text infilling."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import cells, in_bold, lines, mark_of, marked, named, result, results, table

IN_THE_PAPER = ("insertion", "mlm", "bert-lm", "seq2seq-full", "seq2seq-fill", "blm")
PRETRAINED = ("blm-minilm", "blm-english")
SYSTEMS = (
    *IN_THE_PAPER,
    "blm-uniform",
    "blm-greedy",
    "blm-model",
    "blm-parallel",
    *PRETRAINED,
    "mlm-left-to-right",
    "mlm-one-shot",
)
CORPORA = {"yahoo": "Yahoo Answers", "yelp": "Yelp"}
JUDGE = "lm"  # its rows also have what needs no system: "no infill" and the originals
RATIOS = ("0.1", "0.2", "0.3", "0.4", "0.5")
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


def measured(corpus: str, systems: tuple[str, ...] = SYSTEMS) -> list[Row]:
    rows = results("infilling", (f"{corpus}-{name}" for name in systems))
    return [{**row, "title": CORPORA[corpus]} for row in rows.values()]


def bleu_rows(corpus: str, systems: tuple[str, ...]) -> list[list[str]]:
    """The BLEU of every system, in bold as ``in_bold`` says."""
    judge = result(f"infilling/{corpus}-{JUDGE}")
    rows = [marked("no infill | {ratios[@][no_infill_bleu]:.1f}", judge, RATIOS)]
    found = measured(corpus, systems)
    by_ratio = [[row["ratios"][ratio] for row in found] for ratio in RATIOS]
    columns = [in_bold([s["bleu"] for s in scores], [s.get("bleu_interval") for s in scores]) for scores in by_ratio]
    return rows + [[row["label"] + mark_of(row), *cells] for row, *cells in zip(found, *columns, strict=True)]


def infilling_bleu(corpus: str, systems: str = "all") -> str:
    rows = bleu_rows(corpus, SYSTEMS if systems == "all" else (*IN_THE_PAPER, *PRETRAINED))
    return lines(cells("BLEU, share of words hidden | @%", {}, RATIOS), rows)


def infilling_fluency() -> str:
    """BLEU and perplexity on Yahoo Answers."""
    judge = result(f"infilling/yahoo-{JUDGE}")
    fluency = [cells("{ratios[@][no_infill_perplexity]:.0f}", judge, RATIOS)]
    fluency += [cells("{ratios[@][perplexity]:.0f}", row, RATIOS) for row in measured("yahoo")]
    rows = [[*bleu, *perplexity] for bleu, perplexity in zip(bleu_rows("yahoo", SYSTEMS), fluency, strict=True)]
    rows.append(marked("original texts | {none[@]} | {ratios[@][original_perplexity]:.0f}", judge, RATIOS))
    return lines(cells("BLEU, then perplexity | @% | @%", {}, RATIOS), rows)


def paper_rows() -> list[Row]:
    """The numbers that the paper reports, under our names."""
    names = {row["system"]: row["label"] for row in measured("yahoo")}
    return [row | {"label": names.get(row["name"], row["name"])} for row in named(result("infilling/paper")["rows"])]


def infilling_paper() -> str:
    """Table 1 of the paper, both halves."""
    heading = "the paper's BLEU, then perplexity | @% | @%"
    return table(heading, "{label} | {bleu[@]:.1f} | {perplexity[@]:.1f}", paper_rows(), RATIOS)


def infilling_failures() -> str:
    """The systems that fail at all, each rate with its two parts."""
    rows = []
    for corpus in CORPORA:
        for row in measured(corpus, (*IN_THE_PAPER, "insertion-free", *SYSTEMS)):
            kinds = [
                [100 * r[k] for k in ("failure_rate", "lost_words", "wrong_blanks")] for r in row["ratios"].values()
            ]
            if any(rate for rate, *_ in kinds):
                failures = [f"{rate:.1f} ({lost:.1f} + {wrong:.1f})" for rate, lost, wrong in kinds]
                rows.append([f"{row['title']}, {row['label']}{mark_of(row)}", *failures])
    template = "the paper's {label} | {failures[@]:.1f}"
    rows += [cells(template, row, RATIOS) for row in paper_rows() if "failures" in row]
    return lines(cells("failures, % (words lost + blanks wrong) | @%", {}, RATIOS), rows)


def infilling_training() -> str:
    rows = [row for corpus in CORPORA for row in measured(corpus, (JUDGE, *IN_THE_PAPER, *PRETRAINED))]
    rows = [row | {"label": row["label"].removesuffix(", greedy")} for row in rows]
    template = "{title}, {label} | {training[parameters]:.1M} | {training[steps]:,} | {training[best_step]:,} | "
    template += "{training[epochs]:,} | {training[seconds]:.0f}"
    return table("system | parameters | steps | best at step | epochs | seconds", template, rows)


def figure_5() -> str:
    """The paper's example: what each system put into its blanks, in italics."""
    tables = []
    for number, (share, (mask, hidden)) in enumerate(FIGURE_5.items()):
        rows = [["blanked", mask.format(*[r"\_\_\_"] * len(hidden))]]
        for row in measured("yahoo"):
            if fills := row.get("figure_5"):
                fill = fills[number]
                spans = [f"*{span.replace('_', chr(92) + '_')}*" if span else "(nothing)" for span in fill["spans"]]
                rows.append(
                    [
                        row["label"] + mark_of(row),
                        "not a fill: " + fill["text"] if "text" in fill else mask.format(*spans),
                    ]
                )
        rows.append(["original", mask.format(*(f"**{span}**" for span in hidden))])
        tables.append(lines(["", f"{share} hidden"], rows).replace("| ---: |", "| --- |"))
    return "\n".join(tables)


TABLES = [infilling_bleu, infilling_paper, infilling_fluency, infilling_failures, infilling_training, figure_5]
