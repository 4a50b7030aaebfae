"""Table 3 of the paper: restoration of damaged texts."""

from __future__ import annotations

from blanklm.paper.provenance import Row
from blanklm.paper.render.source import cells, columns, lines, named, result, results, table

SYSTEMS = {
    "greek-pythia": "Pythia",
    "greek-pythia-word": "Pythia-Word",
    "greek-lblm": "L-BLM",
    "greek-documents": "mixed L-BLM, no literature",
    "greek": "mixed L-BLM",
    "latin": "mixed L-BLM, Latin",
}
SETTINGS = {"single": "single slot", "0.25": "25%", "0.4": "40%", "0.5": "50%"}
RANKED = {
    "single": "single slot of 1-10 characters",
    "phi_ml": "PHI-ML excerpts",
    "papyri": "papyri",
    "editors": "editors' restorations",
}
MEASURES = "{cer:.1f} | {top1:.1f} | {top20:.1f} | {ece:.1f}"
HEADINGS = "% | gaps | CER | top 1 | top 20 | ECE"
CHARBERT = "char-BERT: PHI-ML excerpts | {gaps:,} | {charbert_cer:.1f} | {charbert_top1:.1f} |  | "  # beside excerpts
RESTORER = {
    "single": "single slot of 1-10 characters",
    "0.25": "slots over 25% of a text",
    "0.4": "slots over 40%",
    "0.5": "slots over 50%",
    "phi_ml": "PHI-ML excerpts",
    "papyri": "papyri",
    "editors": "editors' restorations, any length",
    "short": "editors' restorations, texts with gaps of 1-10 alone",
    "single, range": "single slot, length range",
    "single, unknown": "single slot, length unknown",
}


def measured() -> list[Row]:
    """The systems that have been run, with their names."""
    return named(results("restoration", SYSTEMS), SYSTEMS)


def restoration() -> str:
    paper = result("restoration/paper")["rows"]
    rows = [
        {"name": f"{name} (the paper, PHI-ML)"} | {setting: {"cer": cer} for setting, cer in row.items()}
        for name, row in paper.items()
    ]
    template = "{name} | " + columns("{@[cer]:.1f}", SETTINGS)
    return table(f"CER, % | {' | '.join(SETTINGS.values())}", template, [*rows, *measured()])


def restoration_ranked() -> str:
    rows = [
        cells("{name} | {gaps:,} | " + MEASURES, row[setting] | {"name": f"{row['name']}: {title}"})
        for row in measured()
        for setting, title in RANKED.items()
        if "cer" in row.get(setting, {})
    ]
    excerpts = [row["phi_ml"] for row in measured() if "charbert_cer" in row.get("phi_ml", {})]
    return lines(HEADINGS.split(" | "), [*rows, cells(CHARBERT, max(excerpts, key=lambda m: m["gaps"]))])


def restoration_lengths() -> str:
    rows = [
        row[f"single, {told}"] | {"name": row["name"], "told": told}
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
        found = {how: m[setting] for how, m in result(f"restoration/{name}-words").items() if setting in m}
        template = f"{SYSTEMS[name]}: {RANKED[setting]}, {{name}} | {{gaps:,}} | {MEASURES}"
        rows += [cells(template, row) for row in named(found)]
        rows += [cells(CHARBERT, row) for row in list(found.values())[:1] if "charbert_cer" in row]
    return lines(HEADINGS.split(" | "), rows)


def restoration_training() -> str:
    template = "{name} | {parameters:.1M} | {training[steps]:,} | {training[tokens_per_batch]:,} | {seconds:.0f} | "
    headings = "system | parameters | steps | characters per step | seconds | hardware"
    return table(headings, template + "{hardware}", measured())


def restorer(system: str) -> str:
    row = result(f"restoration/{system}")
    short = {key: value for key, value in row["editors"].items() if key.startswith("short_")}
    row["short"] = {key.removeprefix("short_"): value for key, value in short.items()}
    return table("test texts, % | CER | top 1 | top 20 | ECE", "{name} | " + MEASURES, named(row, RESTORER))


TABLES = [restoration, restoration_ranked, restoration_lengths, restoration_words, restoration_training, restorer]
