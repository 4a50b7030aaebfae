"""The list of English words that ``repair`` proposes: how often each stands in the corpus, and how it is written.

BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.word_list OUT.tsv.xz
"""

from __future__ import annotations

import lzma
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from blanklm.data import read_corpus
from blanklm.files import replacing

PARTS = ("mix.0", "mix.1")
LEAST = 8  # times
OFTEN = 0.2  # of a word's occurrences
_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
_WITHIN = re.compile(r"[a-z,;] ")  # what stands before a word that does not begin a sentence


def counted(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Return the words that are common enough, the most common first, as they are written within sentences."""
    counts: Counter[str] = Counter()
    forms: dict[str, Counter[str]] = {}
    for text in texts:
        for found in _WORD.finditer(text):
            word = found[0].replace("’", "'")
            counts[word.lower()] += 1
            if _WITHIN.match(text, max(0, found.start() - 2)):
                forms.setdefault(word.lower(), Counter())[word] += 1
    words = [(low, count) for low, count in counts.items() if count >= LEAST]
    words.sort(key=lambda pair: (-pair[1], pair[0]))
    return [(_written(low, forms.get(low, Counter())), count) for low, count in words]


def _written(low: str, forms: Counter[str]) -> str:
    """Return a word in small letters if it is often written so, else in its commonest form."""
    if not forms or forms[low] >= OFTEN * forms.total():
        return low
    return max(forms.items(), key=lambda form: (form[1], form[0]))[0]


def write(path: Path, words: Iterable[tuple[str, int]]) -> None:
    lines = "".join(f"{word}\t{count}\n" for word, count in words)
    with replacing(path) as temporary:
        temporary.write_bytes(lzma.compress(lines.encode(), preset=9))


if __name__ == "__main__":
    write(Path(sys.argv[1]), counted(text for part in PARTS for text in read_corpus("english", part)))
