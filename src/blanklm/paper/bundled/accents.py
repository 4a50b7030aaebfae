"""The list of accented Greek words that comes with the package, for ``blanklm.restoration.spelling``.

    BLANKLM_DATA=... python -m blanklm.paper.bundled.accents

It has the words that stand at least LEAST times in inscriptions and papyri whose licences are free, and nearly always
bear the same accents. An acute stands for a grave on the last syllable.
"""

from __future__ import annotations

import json
import lzma
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

from blanklm.data import read_corpus
from blanklm.files import write_whole
from blanklm.restoration.normalise import normalise
from blanklm.restoration.spelling import ACCENTS

SOURCES = ("isicily", "edh", "papygreek")  # CC BY 4.0 and CC BY-SA 4.0
LEAST = 2
SHARE = 0.95  # of the times that a word stands there, with these accents
_WORD = re.compile(r"[^\W\d_]+")
_GREEK = re.compile("[α-ω]{2,}")


def texts() -> Iterable[str]:
    for corpus in ("greek_documentary", "greek_more"):
        for line in read_corpus(corpus, "train.jsonl"):
            record = json.loads(line)
            if record["source"] in SOURCES:
                yield record["text"]


def accented_words(texts: Iterable[str]) -> dict[str, str]:
    """Return words without accents, and the one way in which nearly all texts accent them."""
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        whole = unicodedata.normalize("NFD", text.lower()).replace("\u0300", "\u0301").replace("\u0323", "")
        for match in _WORD.finditer(unicodedata.normalize("NFC", re.sub(r"[\[\]()<>{}]", "", whole))):
            word = match[0].replace("ς", "σ")
            if _GREEK.fullmatch(normalise(word)) and len(normalise(word)) == len(word):
                forms[normalise(word)][word] += 1
    chosen = {word: counts.most_common(1)[0] for word, counts in forms.items()}
    return {
        word: form
        for word, (form, count) in sorted(chosen.items())
        if count >= LEAST and count >= SHARE * sum(forms[word].values()) and form != word
    }


def main() -> None:
    found = accented_words(texts())
    rows = "".join(f"{word}\t{form}\n" for word, form in found.items())
    write_whole(ACCENTS / "greek.tsv.xz", lzma.compress(rows.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(found):,} words, {(ACCENTS / 'greek.tsv.xz').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
