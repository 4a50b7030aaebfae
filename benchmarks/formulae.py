"""How often the missing word of a well-known formula is the first restoration, with the index of formulae and without.

    BLANKLM_DATA=<corpora> python benchmarks/formulae.py [--out results/benchmarks/formulae-cpu.json]

The formulae are common in handbooks; each stands here with the lost letters marked. Those that stand word for word in a
text that the index was made of are counted apart from the others.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from blanklm import restore
from blanklm.paper.provenance import hardware, write_result
from blanklm.restoration.normalise import normalise
from blanklm.restoration.parallels import records
from blanklm.restoration.restorer import Restorer

KNOWN = {
    "greek": [
        ("ἔδοξεν τῆι [......] καὶ τῶι δήμωι", "βουληι"),
        ("ἔδοξεν τῆι βουλῆι καὶ τῶι [.....]", "δημωι"),
        ("[.....]ι τύχηι· ἔδοξεν τῆι βουλῆι", "αγαθη"),
        ("ἀρετῆς [......] καὶ εὐνοίας τῆς εἰς τὸν δῆμον", "ενεκεν"),
        ("ἐπαινέσαι αὐτὸν καὶ στεφανῶσαι χρυσῶι [........]", "στεφανωι"),
        ("ἀναγράψαι δὲ τόδε τὸ [.......] ἐν στήληι λιθίνηι", "ψηφισμα"),
        ("ἐν στήληι [.......] καὶ στῆσαι ἐν τῶι ἱερῶι", "λιθινηι"),
        ("ἡ βουλὴ καὶ ὁ [.....] ἐτίμησεν", "δημοσ"),
        ("τῇ γλυκυτάτῃ γυναικὶ μνήμης [.....]", "χαριν"),
        ("θεοῖς [............]", "καταχθονιοισ"),
        ("αὐτοκράτορι [.......] Σεβαστῷ", "καισαρι"),
        ("ἐπὶ ἄρχοντος Διονυσίου, ἐπὶ τῆς Αἰαντίδος δεκάτης [..........]", "πρυτανειασ"),
        ("ὁ δεῖνα εἶπεν· [........] τῶι δήμωι", "δεδοχθαι"),
        ("ὅπως ἂν [...] πάντες εἰδῶσιν ὅτι ὁ δῆμος", "ουν"),
        ("καλεῖσθαι δὲ αὐτοὺς καὶ ἐπὶ ξένια εἰς τὸ [..........] εἰς αὔριον", "πρυτανειον"),
        ("τὸ δὲ ἀνάλωμα [......] τὸν ταμίαν τοῦ δήμου", "δουναι"),
    ],
    "latin": [
        ("Dis [.......] sacrum", "manibus"),
        ("Iovi [......] maximo", "optimo"),
        ("votum [......] libens merito", "solvit"),
        ("votum solvit [......] merito", "libens"),
        ("hic situs est sit tibi [.....] levis", "terra"),
        ("imperatori Caesari divi [......] filio Augusto", "nervae"),
        ("pontifici maximo tribunicia [.........]", "potestate"),
        ("locus datus [.......] decurionum", "decreto"),
        ("coniugi [..........] fecit", "carissimae"),
        ("qui vixit [.....] XX", "annis"),
        ("pater [.......] proconsul", "patriae"),
        ("in honorem [.....] divinae Iovi optimo maximo", "domus"),
        ("pro [......] imperatoris Caesaris", "salute"),
        ("libertis libertabusque [...........] eorum", "posterisque"),
        ("bene merenti [.....]", "fecit"),
        ("senatus [..........] Romanus", "populusque"),
    ],
}  # (a text with a gap, in letters; what stood there, as the models write)
_GAP = re.compile(r"\[\.+\]")


class Unaided(Restorer):
    """Restores without the index."""

    index = None


def first(text: str, restorer: Restorer) -> str:
    (gap,) = restore(text, model=restorer, parallels=0, abstain_below=0).lacunae
    return normalise(gap.candidates[0].text).strip(" .")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    report = {"benchmark": "formulae", "hardware": hardware("cpu")}
    for language, known in KNOWN.items():
        read = "\n".join(text for _, text in records(language))
        whole = [normalise(_GAP.sub(answer, text)) in read for text, answer in known]
        aided = Restorer.from_pretrained(language, device="cpu")
        unaided = Unaided(aided.model, aided.tokenizer, aided.about, aided.lexicon)
        counts = {"formulae": len(known), "word_for_word_in_the_source": sum(whole)}
        for say, restorer in (("with_the_index", aided), ("without", unaided)):
            right = [first(text, restorer) == answer for text, answer in known]
            counts[f"right_{say}"] = sum(right)
            counts[f"right_{say}_not_in_the_source"] = sum(r and not w for r, w in zip(right, whole, strict=True))
        report[language] = counts
        print(language, counts)
    if options.out:
        write_result(options.out, report)


if __name__ == "__main__":
    main()
