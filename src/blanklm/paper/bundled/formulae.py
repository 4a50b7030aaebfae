"""The index of formulae that comes with the package, for ``blanklm.restoration.parallels``.

    BLANKLM_DATA=... python -m blanklm.paper.bundled.formulae

For each language: every run of two to seven words that stands in at least LEAST of its training texts, the number of
those texts, and the names of the first three. A run is left out where a longer one stands in just as many texts.
"""

from __future__ import annotations

import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from blanklm.files import write_whole
from blanklm.restoration.lexicon import NOT_LETTERS
from blanklm.restoration.parallels import CORPORA, LONGEST_FORMULA, records
from blanklm.restoration.proposals import FORMULAE

LEAST = 3
_BREAK = re.compile(rf"\S*[{re.escape(NOT_LETTERS)}]\S*")


def runs(text: str) -> Iterator[str]:
    """Every run of two to seven whole words."""
    for stretch in _BREAK.split(text):
        words = stretch.split()
        for length in range(2, LONGEST_FORMULA + 1):
            for start in range(len(words) - length + 1):
                yield " ".join(words[start : start + length])


def formulae(texts: Iterable[tuple[str, str]]) -> dict[str, tuple[int, list[str]]]:
    texts = list(texts)
    counts = Counter(run for _, text in texts for run in set(runs(text)))
    kept = {run: count for run, count in counts.items() if count >= LEAST}
    for run, count in list(kept.items()):
        for shorter in (run.partition(" ")[2], run.rpartition(" ")[0]):
            if kept.get(shorter) == count:
                del kept[shorter]
    names: dict[str, list[str]] = {run: [] for run in kept}
    for name, text in texts:
        for run in dict.fromkeys(runs(text)):
            if run in names and len(names[run]) < 3 and name not in names[run]:
                names[run].append(name)
    return {run: (kept[run], names[run]) for run in sorted(kept)}


def main(folder: Path = FORMULAE) -> None:
    folder.mkdir(exist_ok=True)
    for language in CORPORA:
        found = formulae(records(language))
        rows = "".join(f"{run}\t{texts}\t{'|'.join(names)}\n" for run, (texts, names) in found.items())
        write_whole(folder / f"{language}.tsv.xz", lzma.compress(rows.encode(), preset=9 | lzma.PRESET_EXTREME))
        print(f"{language}: {len(found):,} formulae, {(folder / f'{language}.tsv.xz').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
