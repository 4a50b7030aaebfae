"""Table 3 of the paper: restoration of damaged texts."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import cells, lines, marked, named, origin, result, results, table

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
CHARBERT = "char-BERT: PHI-ML excerpts | {gaps:,} | {charbert_cer:.1f} | {charbert_top1:.1f} |  | "  # beside excerpts


def measured() -> list[Row]:
    """The systems that have been run, with their names."""
    return named(results("restoration", SYSTEMS), SYSTEMS)


def restoration() -> str:
    paper = result("restoration/paper")["rows"]
    rows = [
        {"name": f"{name} (the paper, PHI-ML)"} | {setting: {"cer": cer} for setting, cer in row.items()}
        for name, row in paper.items()
    ]
    headings = "CER, % | single slot | 25% | 40% | 50%"
    return table(headings, "{name} | {@[cer]:.1f}", [*rows, *measured()], SETTINGS)


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


TABLES = [restoration, restoration_ranked, restoration_lengths, restoration_words]
