"""Text input: the registry of corpora, readers for your own files, and the masking protocols of the paper.

``read_corpus("ptb", "test")`` streams a registered corpus, ``read_texts("mine.jsonl.gz")`` streams your own file,
``mask_corpus(texts, ratio=0.3, seed=1)`` hides words in them. Standard library only, so importing it is cheap.
"""

from blanklm.data.masking import (
    MaskedText,
    editors_restorations,
    many_slots,
    mask_corpus,
    mask_words,
    no_infill,
    read_masks,
    single_slot,
    slots_of_corpus,
    write_masks,
)
from blanklm.data.readers import read_lines, read_texts
from blanklm.data.registry import (
    Corpus,
    CorpusFile,
    FileStatus,
    corpora,
    data_root,
    find,
    read_corpus,
    verify,
)

__all__ = [
    "Corpus",
    "CorpusFile",
    "FileStatus",
    "MaskedText",
    "corpora",
    "data_root",
    "editors_restorations",
    "find",
    "many_slots",
    "mask_corpus",
    "mask_words",
    "no_infill",
    "read_corpus",
    "read_lines",
    "read_masks",
    "read_texts",
    "single_slot",
    "slots_of_corpus",
    "verify",
    "write_masks",
]
