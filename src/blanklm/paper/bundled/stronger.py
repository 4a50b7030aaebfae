"""Stronger models to restore with than those that are bundled: all texts there are, larger, at 4 bits. Not trained yet.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.stronger greek|latin OUT [--seconds 1200] [--edcs] [--tiny]

Literature first, then documents. What stands in a validation or test text, and what stands twice, is left out by its
letters and counted. Of ``greek_more`` only what may be shared is read: not ``crete`` and ``igcyr``, which are
non-commercial, nor ``iospe``, whose texts state no licence. ``--edcs`` adds inscriptions whose licence is stated in
three ways: a model that reads them says so in NOTICE. ``--tiny`` tries it all out on a CPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blanklm.data import read_corpus
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.bundled import greek, latin
from blanklm.paper.bundled.characters import pieces_of, snippets, without_held_out
from blanklm.paper.bundled.restorer_recipe import CALIBRATION_TEXTS, Corpus, Recipe
from blanklm.paper.bundled.staged_run import Stage
from blanklm.restoration.lexicon import Lexicon

MAX_LENGTH = 768
FREE = ("papygreek",)  # of greek_more: CC BY-SA 4.0
LITERATURE = 0.7  # of the time
# 19 M parameters: at 4.5 bits each, with the scales of groups, two models take 22 MB.
ENCODER = EncoderConfig(layers=9, heads=13, width=416, feedforward=1664, dropout=0.1)
TINY = EncoderConfig(layers=1, heads=2, width=64, feedforward=128, dropout=0.0)
TINY_TEXTS = 400


def recipe(language: str, tiny: bool) -> Recipe:
    base = {"greek": greek.RECIPE, "latin": latin.RECIPE}[language]
    training = replace(base.training, tokens_per_batch=98_304, learning_rate=1.5e-3, bits=4, bits_from=0.7)
    if tiny:
        training = replace(training, tokens_per_batch=4096, warmup=1, log_every=1, evaluate_every=5)
    encoder, words = (TINY, 64) if tiny else (ENCODER, 8192)
    return replace(base, encoder=encoder, words=words, training=training, max_length=MAX_LENGTH)


def greek_texts() -> tuple[list[str], list[str]]:
    """Return literature and documents."""
    books = [text for part in ("perseus", "first1k") for text in read_corpus("greek_literature", part)]
    more = [json.loads(line) for line in read_corpus("greek_more", "train.jsonl")]
    free = [record["norm"].replace("[", "").replace("]", "") for record in more if record["source"] in FREE]
    return books, [*read_corpus("greek_documentary", "train"), *free]


def latin_texts(edcs: bool) -> tuple[list[str], list[str]]:
    documents = [*read_corpus("edh_latin", "train"), *(read_corpus("edcs_latin", "train") if edcs else [])]
    return list(read_corpus("latin_literature", "perseus")), [latin.repaired(text) for text in documents]


def corpus(language: str, edcs: bool = False, tiny: bool = False) -> Corpus:
    books, documents = greek_texts() if language == "greek" else latin_texts(edcs)
    if tiny:
        books, documents = books[:TINY_TEXTS], documents[:TINY_TEXTS]
    name = "greek_documentary" if language == "greek" else "edh_latin"
    valid, test = (list(read_corpus(name, split)) for split in ("valid", "test"))
    kept, kept_books = (without_held_out(texts, [*valid, *test]) for texts in (documents, books))
    dropped = len(documents) - len(kept) + len(books) - len(kept_books)
    first, second = pieces_of(kept_books, MAX_LENGTH), _documents(kept)
    stages = (Stage(0, len(first) + len(second), LITERATURE), Stage(len(first), len(first) + len(second), 1.0))
    validation = pieces_of(valid[: TINY_TEXTS // 20] if tiny else valid, MAX_LENGTH)
    least, pairs = (1, 3) if language == "greek" else (2, 10)
    return Corpus(first + second, stages, validation, Lexicon.of(kept, least, pairs), dropped)


def _documents(texts: Sequence[str]) -> list[str]:
    """Cut documents whole and at random."""
    return pieces_of(texts, MAX_LENGTH) + [piece for seed in greek.CUTS for piece in snippets(texts, 60, 400, seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=["greek", "latin"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=1200.0, help="of training (default: %(default)g)")
    parser.add_argument("--edcs", action="store_true", help="read EDCS, too (Latin)")
    parser.add_argument("--tiny", action="store_true", help="a small model on a few texts")
    options = parser.parse_args()
    made = recipe(options.language, options.tiny)
    texts = corpus(options.language, options.edcs, options.tiny)
    calibration = 10 if options.tiny else CALIBRATION_TEXTS
    result = made.make(options.out, texts, options.seconds, calibration)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
