"""A lexicon of the training corpus, which reranks candidates: a character model may spell words that do not exist.

The folder of a restorer may have a ``words.tsv.xz``: the words of its training texts (in Latin, those of at least two
texts), and pairs of adjacent words that occur in several of them (Greek: three, Latin: ten). Candidates for a gap are
reranked by both (``Lexicon.score``).
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
from blanklm.training import sums
from blanklm.training.checkpoint import LEXICON

MAX_BYTES = 2**26  # of the unpacked file: a larger one may be a decompression bomb
MAX_MEMORY = 2**27  # bytes to unpack it with: a file may ask for gigabytes
NOT_LETTERS = "-#."  # lost letters and the end of a sentence: words with them are not evidence
UNKNOWN_WORD_COST = 3.0  # nats
PAIR_WEIGHT = 0.1  # of log (1 + texts with the pair); both are tuned on validation texts


@dataclass(frozen=True)
class Lexicon:
    """The ``words`` of a corpus, and for each of the ``pairs`` ("one two") the number of texts that have it."""

    words: frozenset[str]
    pairs: dict[str, int]

    @classmethod
    def of(cls, texts: Iterable[str], least: int, least_pairs: int) -> Lexicon:
        """Collect the words of at least ``least`` texts, and the pairs of at least ``least_pairs``."""
        words: Counter[str] = Counter()
        pairs: Counter[str] = Counter()
        for text in texts:
            in_text = text.split()
            words.update({word for word in in_text if readable(word)})
            adjacent = itertools.pairwise(in_text)
            pairs.update({f"{one} {two}" for one, two in adjacent if readable(one) and readable(two)})
        return cls(
            frozenset(word for word, count in words.items() if count >= least),
            {pair: count for pair, count in pairs.items() if count >= least_pairs},
        )

    @classmethod
    def load(cls, folder: Path) -> Lexicon | None:
        """Load the lexicon in a model's folder; None if there is none."""
        path = folder / LEXICON
        if not path.exists():
            return None
        sums.check_file(folder, LEXICON)
        try:
            packed = lzma.LZMADecompressor(memlimit=MAX_MEMORY)
            lines = packed.decompress(path.read_bytes(), MAX_BYTES).decode("utf-8").splitlines()
            if not packed.eof:
                raise ValueError(f"cut off, or more than {MAX_BYTES:,} bytes")
            rows = [line.partition("\t") for line in lines]
            pairs = {entry: int(texts) for entry, _, texts in rows if texts}
            if min(pairs.values(), default=1) < 1:
                raise ValueError("a pair has no text")
            return cls(frozenset(entry for entry, _, texts in rows if not texts), pairs)
        except (lzma.LZMAError, ValueError) as error:
            raise CheckpointError(
                f"{path} is damaged ({error}): remove it, or download or train the model again"
            ) from None

    def save(self, folder: Path) -> None:
        """Write one word per line, then one pair per line with its number of texts."""
        lines = [*sorted(self.words), *(f"{pair}\t{texts}" for pair, texts in sorted(self.pairs.items()))]
        with replacing(folder / LEXICON) as path:
            path.write_bytes(lzma.compress("\n".join(lines).encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))

    def score(self, before: str, restored: str, behind: str) -> float:
        """Score ``restored`` between the two, in nats: known pairs of words gain, unknown words lose.

        These are the words that overlap or touch the gap. A word at the edge of the text may be cut, so it is not
        looked up.
        """
        text = f"{before}{restored}{behind}"
        start = text.rfind(" ", 0, len(before)) + 1
        end = text.find(" ", len(before) + len(restored))
        end = len(text) if end < 0 else end
        words = text[start:end].split()
        cut_left = start == 0 and not text.startswith(" ")
        cut_right = end == len(text) and not text.endswith(" ")
        whole = (word.strip(".") for word in words[cut_left : len(words) - cut_right])
        unknown = sum(readable(word) and word not in self.words for word in whole if word)
        sequence = [text[:start].rstrip().rpartition(" ")[2], *words, text[end:].lstrip().partition(" ")[0]]
        pairs = sum(math.log1p(self.pairs.get(f"{one} {two}", 0)) for one, two in itertools.pairwise(sequence))
        return PAIR_WEIGHT * pairs - UNKNOWN_WORD_COST * unknown


def readable(word: str) -> bool:
    """Return whether no letter of one or more words is lost."""
    return not any(sign in word for sign in NOT_LETTERS)
