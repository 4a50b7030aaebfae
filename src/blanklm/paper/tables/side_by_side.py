"""A page on which a person compares the fills of several systems without knowing whose they are.

    python -m blanklm.paper.tables.side_by_side OUT.html TEXTS NAME=MODEL NAME=MODEL ...

Hides words of fifty of the TEXTS (10 to 50 % of them), has each MODEL (bundled name, folder or Hub id) fill the blanks,
and writes the fills to OUT.json and the page, which needs no other file, to OUT.html. The columns are shuffled anew for
each text; a button reveals the names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from blanklm.core.canvas import Template
from blanklm.data import mask_words, read_texts
from blanklm.errors import BlankLMError
from blanklm.paper.baselines.systems import load_system
from blanklm.paper.tasks.infilling import Filler, fills_of

PAGE = Path(__file__).with_suffix(".html")
TEXTS = 50
WORDS = range(8, 61)  # of a text that is quickly read
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)  # in turn

Row = dict[str, Any]  # canvas: the text with blanks; original: their spans; fills: the spans of each system by name


def compare(systems: Mapping[str, Filler], texts: Iterable[str], seed: int = 0) -> list[Row]:
    """Each system's fills of the same blanks in texts drawn at random."""
    some = sorted({text for text in texts if len(text.split()) in WORDS})
    rng = Random(seed)
    drawn = rng.sample(some, min(TEXTS, len(some)))
    if not drawn:
        raise BlankLMError(f"there is no text of {WORDS.start} to {WORDS.stop - 1} words to compare fills of")
    masked = [mask_words(text, RATIOS[i % len(RATIOS)], rng) for i, text in enumerate(drawn)]
    fills = {name: fills_of(system, masked) for name, system in systems.items()}
    return [
        {
            "canvas": str(m.template),
            "original": list(m.spans),
            "fills": {name: list(found[i].spans) for name, found in fills.items()},
        }
        for i, m in enumerate(masked)
    ]


def page(rows: Sequence[Row], seed: int = 0) -> str:
    """The page of these rows. The names are in it, since it can reveal them, but not for the eye to read."""
    rng, shown, key = Random(seed), [], []
    for row in rows:
        names = list(row["fills"])
        rng.shuffle(names)
        pieces = Template.parse(row["canvas"]).pieces
        options = [row["fills"][name] for name in names]
        shown.append({"pieces": pieces, "options": options, "original": row["original"]})
        key.append(names)
    hidden = base64.b64encode(json.dumps(key).encode()).decode()
    digest = hashlib.sha256(json.dumps([shown, key]).encode()).hexdigest()[:16]
    data = json.dumps({"rows": shown, "key": hidden, "digest": digest}, ensure_ascii=False)
    # Inside a script element only "<" could end the data early.
    return PAGE.read_text(encoding="utf-8").replace("{{DATA}}", data.replace("<", "\\u003c"))


def main(out: Path, texts: Path, models: Mapping[str, str]) -> list[Row]:
    rows = compare({name: load_system(model) for name, model in models.items()}, read_texts(texts))
    out.with_suffix(".json").write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    out.write_text(page(rows), encoding="utf-8")
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), dict(argument.split("=", 1) for argument in sys.argv[3:]))
