"""Words that a corpus attests: a model of letters knows how words are spelt, and not whether there is such a word.

A model that restores may have ``words.tsv.xz`` in its folder: the words of its training texts (of Latin, those that
two have at least), and pairs of words that stand side by side in several of them (in three, of Latin in ten).
Candidates for a gap are weighed by both (``Lexicon.support``).
"""

from __future__ import annotations

import itertools
import lzma
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from blanklm.errors import CheckpointError
from blanklm.files import replacing
from blanklm.training.checkpoint import LEXICON

GREATEST_SIZE = 2**26  # bytes of it unpacked; a file beyond is not ours
NOT_LETTERS = "-#."  # lost letters, and the end of a sentence: words with them are no evidence
UNATTESTED = 3.0  # nats that a word costs which is not among them
PAIRED = 0.1  # weight of a pair's log (1 + texts); both found on validation texts


@dataclass(frozen=True)
class Lexicon:
    """``words`` of the corpus, and in how many of its texts each of the ``pairs`` ("one two") stands."""

    words: frozenset[str]
    pairs: dict[str, int]

    @classmethod
    def of(cls, texts: Iterable[str], least: int, least_pairs: int) -> Lexicon:
        """What stands in at least that many texts."""
        words: Counter[str] = Counter()
        pairs: Counter[str] = Counter()
        for text in texts:
            stretch = text.split()
            words.update({word for word in stretch if readable(word)})
            side_by_side = itertools.pairwise(stretch)
            pairs.update({f"{one} {two}" for one, two in side_by_side if readable(one) and readable(two)})
        return cls(
            frozenset(word for word, count in words.items() if count >= least),
            {pair: count for pair, count in pairs.items() if count >= least_pairs},
        )

    @classmethod
    def load(cls, folder: Path) -> Lexicon | None:
        """What lies in a model's folder; None where nothing does."""
        path = folder / LEXICON
        if not path.exists():
            return None
        try:
            packed = lzma.LZMADecompressor()
            lines = packed.decompress(path.read_bytes(), GREATEST_SIZE).decode("utf-8").splitlines()
            if not packed.eof:
                raise ValueError(f"cut off, or more than {GREATEST_SIZE:,} bytes")
            rows = [line.partition("\t") for line in lines]
            pairs = {entry: int(texts) for entry, _, texts in rows if texts}
            if min(pairs.values(), default=1) < 1:
                raise ValueError("a pair stands in no text")
            return cls(frozenset(entry for entry, _, texts in rows if not texts), pairs)
        except (lzma.LZMAError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged ({error}): take it away, or make the model again") from None

    def save(self, folder: Path) -> None:
        """A word a line, then a pair and in how many texts it stands."""
        lines = [*sorted(self.words), *(f"{pair}\t{texts}" for pair, texts in sorted(self.pairs.items()))]
        with replacing(folder / LEXICON) as path:
            path.write_bytes(lzma.compress("\n".join(lines).encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))

    def support(self, before: str, restored: str, behind: str) -> float:
        """What speaks for ``restored`` between the two, in nats: known words, and known pairs of words.

        The words are those that reach into the gap or up to it; at the edges of a text a word may be cut, so it is not
        asked for.
        """
        text = f"{before}{restored}{behind}"
        start = text.rfind(" ", 0, len(before)) + 1
        end = text.find(" ", len(before) + len(restored))
        end = len(text) if end < 0 else end
        touched = text[start:end].split()
        cut_left = start == 0 and not text.startswith(" ")
        cut_right = end == len(text) and not text.endswith(" ")
        whole = (word.strip(".") for word in touched[cut_left : len(touched) - cut_right])
        unknown = sum(readable(word) and word not in self.words for word in whole if word)
        row = [text[:start].rstrip().rpartition(" ")[2], *touched, text[end:].lstrip().partition(" ")[0]]
        paired = sum(math.log1p(self.pairs.get(f"{one} {two}", 0)) for one, two in itertools.pairwise(row))
        return PAIRED * paired - UNATTESTED * unknown


def readable(word: str) -> bool:
    """Whether nothing of a word, or of several, is lost."""
    return not any(sign in word for sign in NOT_LETTERS)
