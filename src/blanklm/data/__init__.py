"""Text in: readers for your own files, and the corpora known by name.

``read_texts("mine.jsonl.gz")`` streams a file of yours, ``read_corpus("ptb", "test")`` a known corpus. Standard library
only: importing it is cheap.
"""

from blanklm.data.masking import MaskedText
from blanklm.data.readers import read_lines, read_texts
from blanklm.data.registry import Corpus, CorpusFile, FileStatus, corpora, data_root, find, read_corpus, verify

__all__ = [
    "Corpus",
    "CorpusFile",
    "FileStatus",
    "MaskedText",
    "corpora",
    "data_root",
    "find",
    "read_corpus",
    "read_lines",
    "read_texts",
    "verify",
]
