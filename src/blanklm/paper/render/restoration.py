"""Table 3 of the paper: restoration of damaged texts."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import cells, in_bold, lines, marked, named, origin, result, results, table

SYSTEMS = {
    "greek-pythia": "Pythia",
    "greek-pythia-word": "Pythia-Word",
    "greek-lblm": "L-BLM",
    "greek-documents": "mixed L-BLM, no literature",
    "greek": "mixed L-BLM",
    "latin": "mixed L-BLM, Latin",
}
SETTINGS = ("single", "0.25", "0.4", "0.5")
RANKED = {
    "single": "single slot of 1-10 characters",
    "phi_ml": "PHI-ML excerpts",
    "papyri": "papyri",
    "editors": "editors' restorations",
}
MEASURES = "{cer:.1f} | {top1:.1f} | {top20:.1f} | {ece:.1f}"
HEADINGS = "% | gaps | CER | top 1 | top 20 | ECE"
TEXTS = {
    "EDH, majority": "EDH: the same answer to every text",
    "EDH": "EDH",
    "EDH, restorations read": "EDH, restorations read, too",
    "EDH, under 20 letters": "EDH, under 20 preserved letters",
    "EDH, 20 to 99 letters": "EDH, 20 to 99",
    "EDH, 100 letters and more": "EDH, 100 and more",
    "EDCS, majority": "EDCS: the same answer to every text",
    "EDCS": "EDCS",
    "EDCS, restorations read": "EDCS, restorations read, too",
    "EDCS, under 20 letters": "EDCS, under 20 preserved letters",
    "EDCS, 20 to 99 letters": "EDCS, 20 to 99",
    "EDCS, 100 letters and more": "EDCS, 100 and more",
    "I.PHI, majority": "I.PHI: the same answer to every text",
    "I.PHI": "I.PHI",
    "papyri": "papyri",
}
PUBLISHED = "{name} | {placed} | {top1:.1f} | {top3:.1f} | {years:.1f}"
CHARBERT = "char-BERT: PHI-ML excerpts | {gaps:,} | {charbert_cer:.1f} | {charbert_top1:.1f} |  | "  # beside excerpts


def measured() -> list[Row]:
    """The systems that have been run, with their names."""
    return named(results("restoration", SYSTEMS), SYSTEMS)


def restoration() -> str:
    paper = result("restoration/paper")["rows"]
    rows = [
        {"name": f"{name} (the paper, PHI-ML)"} | {setting: {"shown": f"{cer:.1f}"} for setting, cer in row.items()}
        for name, row in paper.items()
    ]
    ours = measured()
    for setting in SETTINGS:  # those of one corpus are compared
        for latin in (False, True):
            same = [row for row in ours if setting in row and (row["name"] == SYSTEMS["latin"]) is latin]
            for row, shown in zip(same, _cer([row[setting] for row in same]), strict=True):
                row[setting] = row[setting] | {"shown": shown}
    return table("CER, % | single slot | 25% | 40% | 50%", "{name} | {@[shown]}", [*rows, *ours], SETTINGS)


def _cer(scores: list[Row]) -> list[str]:
    """Character error rates of the same gaps, in bold as ``in_bold`` says."""
    intervals = [[score["cer_low"], score["cer_high"]] if "cer_low" in score else None for score in scores]
    return in_bold([score["cer"] for score in scores], intervals, lowest=True)


def restoration_ranked() -> str:
    rows = [
        marked("{name} | {gaps:,} | " + MEASURES, row | row[setting] | {"name": f"{row['name']}: {title}"})
        for row in measured()
        for setting, title in RANKED.items()
        if "cer" in row.get(setting, {})
    ]
    excerpts = [row["phi_ml"] for row in measured() if "charbert_cer" in row.get("phi_ml", {})]
    return lines(HEADINGS.split(" | "), [*rows, cells(CHARBERT, max(excerpts, key=lambda m: m["gaps"]))])


def restoration_lengths() -> str:
    rows = [
        row | row[f"single, {told}"] | {"name": row["name"], "told": told}
        for row in measured()
        for told in ("told", "range", "unknown")
        if f"single, {told}" in row
    ]
    template = "{name}: length {told} | {gaps:,} | {cer:.1f} | {top1:.1f} | {length_right:.1f}"
    return table("one slot of 1-10 characters, % | gaps | CER | exact | length right", template, rows)


def restoration_words() -> str:
    """The bundled models with and without their lexicons, in the same gaps."""
    rows = []
    for name, setting in (("greek", "phi_ml"), ("latin", "single")):
        measured = result(f"restoration/{name}-words")
        found = {how: m[setting] for how, m in measured.items() if setting in m}
        template = f"{SYSTEMS[name]}: {RANKED[setting]}, {{name}} | {{gaps:,}} | {MEASURES}"
        rows += [marked(template, origin(measured) | row) for row in named(found)]
        rows += [cells(CHARBERT, row) for row in list(found.values())[:1] if "charbert_cer" in row]
    return lines(HEADINGS.split(" | "), rows)


def attribution(*languages: str) -> str:
    """Where and when: the bundled models of these languages, with the same answer to every text beside them."""
    rows = []
    for language in languages:
        scores = result(f"restoration/{language}-attribution")["scores"]
        found = {key: name for key, name in TEXTS.items() if key in scores}
        rows += [{**scores[key], "name": f"{language.capitalize()}, {name}"} for key, name in found.items()]
    headings = (
        "test texts | with a place | top 1, % | top 3, % | ECE, % | with a date | years off | range says, % | holds, %"
    )
    template = "{name} | {placed:,} | {top1:.1f} | {top3:.1f} | {ece:.1f} | {dated:,} | {years:.1f} | "
    template += "{claimed:.0f} | {held:.0f}"
    return table(headings, template, rows)


def attribution_published() -> str:
    rows = named(result("restoration/attribution-published")["rows"])
    return table("published | texts | top 1, % | top 3, % | years off", PUBLISHED, rows)


def attribution_training(*languages: str) -> str:
    rows = [result(f"restoration/{language}-attribution") for language in languages]
    headings = "model | parameters | n-grams | places | MB | texts | epochs | seconds | hardware"
    template = (
        "{recipe} | {parameters:,} | {model[ngrams]:,} | {places} | {megabytes:.1f} | {texts:,} | {schedule[epochs]} | "
    )
    known = [row | {"places": len(row["model"]["places"]), "megabytes": row["model_bytes"] / 1e6} for row in rows]
    return table(headings, template + "{seconds:.0f} | one core, {hardware}", known)


TABLES = [
    restoration,
    restoration_ranked,
    restoration_lengths,
    restoration_words,
    attribution,
    attribution_published,
    attribution_training,
]
