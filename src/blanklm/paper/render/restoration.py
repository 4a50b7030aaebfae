"""Table 3 of the paper: restoration of damaged texts."""

from __future__ import annotations

from typing import Any

from blanklm.paper.render.source import numbers, result, results, table

SYSTEMS = {  # the parts of recipes/restoration.py
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
MEASURES = "cer", "top1", "top20", "ece"


def measured() -> dict[str, dict[str, Any]]:
    """The systems that have been run, by their names."""
    return {SYSTEMS[part]: r for part, r in results(f"restoration/{part}" for part in SYSTEMS).items()}


def restoration() -> str:
    rows = [
        [f"{name} (the paper, PHI-ML)", *numbers(r, *SETTINGS)]
        for name, r in result("restoration/paper")["rows"].items()
    ]
    for name, r in measured().items():
        rows.append([name, *numbers({s: r[s]["cer"] for s in SETTINGS if s in r}, *SETTINGS)])
    return table(["CER, %", *SETTINGS.values()], rows)


def restoration_ranked() -> str:
    rows = [
        [f"{name}: {say}", f"{r[setting]['gaps']:,}", *numbers(r[setting], *MEASURES)]
        for name, r in measured().items()
        for setting, say in RANKED.items()
        if "cer" in r.get(setting, {})
    ]
    excerpts = [m for r in measured().values() if "charbert_cer" in (m := r.get("phi_ml", {}))]
    return table(
        ["%", "gaps", "CER", "top 1", "top 20", "ECE"], [*rows, charbert(max(excerpts, key=lambda m: m["gaps"]))]
    )


def charbert(excerpts: dict[str, Any]) -> list[str]:
    """The row of the published char-BERT, whose answers come with the excerpts."""
    return [
        "char-BERT: PHI-ML excerpts",
        f"{excerpts['gaps']:,}",
        *numbers(excerpts, "charbert_cer", "charbert_top1"),
        "",
        "",
    ]


def restoration_lengths() -> str:
    rows = [
        [f"{name}: length {told}", f"{m['gaps']:,}", *numbers(m, "cer", "top1", "length_right")]
        for name, r in measured().items()
        for told in ("told", "range", "unknown")
        if (m := r.get(f"single, {told}"))
    ]
    return table(["one slot of 1-10 characters, %", "gaps", "CER", "exact", "length right"], rows)


def restoration_words() -> str:
    """The bundled models with and without their lexicons, in the same gaps."""
    rows = []
    for part, setting in (("greek", "phi_ml"), ("latin", "single")):
        found = {how: m[setting] for how, m in result(f"restoration/{part}-words").items() if setting in m}
        for how, m in found.items():
            rows.append([f"{SYSTEMS[part]}: {RANKED[setting]}, {how}", f"{m['gaps']:,}", *numbers(m, *MEASURES)])
        rows += [charbert(m) for m in list(found.values())[:1] if "charbert_cer" in m]
    return table(["%", "gaps", "CER", "top 1", "top 20", "ECE"], rows)


def restoration_training() -> str:
    rows = [
        [
            name,
            f"{r['parameters'] / 1e6:.1f} M",
            f"{r['training']['steps']:,}",
            f"{r['training']['tokens_per_batch']:,}",
            f"{r['seconds']:.0f}",
            r["hardware"],
        ]
        for name, r in measured().items()
    ]
    return table(["system", "parameters", "steps", "characters per step", "seconds", "hardware"], rows)


def restorer(part: str) -> str:
    r = result(f"restoration/{part}")
    what = {
        "single": "single slot of 1-10 characters",
        "0.25": "slots over 25% of a text",
        "0.4": "slots over 40%",
        "0.5": "slots over 50%",
        "phi_ml": "PHI-ML excerpts",
        "papyri": "papyri",
        "editors": "editors' restorations, any length",
    }
    rows = [[say, *numbers(r[setting], *MEASURES)] for setting, say in what.items() if setting in r]
    short = numbers(r.get("editors"), *(f"short_{measure}" for measure in MEASURES))
    rows.append(["editors' restorations, texts with gaps of 1-10 alone", *short])
    rows += [
        [f"single slot, length {told}", *numbers(r[f"single, {told}"], "cer", "top1"), "", ""]
        for told in ("range", "unknown")
    ]
    return table(["test texts, %", "CER", "top 1", "top 20", "ECE"], rows)


TABLES = [restoration, restoration_ranked, restoration_lengths, restoration_words, restoration_training, restorer]
