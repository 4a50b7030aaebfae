"""The bundled model ``greek``: restores damaged Greek inscriptions and papyri, a mixed L-BLM of characters.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.greek OUT [--seconds N]

It reads 53 M characters of literature (Perseus) with the documentary texts among them four times, once whole and three
times in snippets; then, for the last fifth of the time, the documentary texts and a little literature. Writes
OUT/run, OUT/model (int8, what is bundled), OUT/half (half precision) and OUT/result.json.
"""

from __future__ import annotations

from blanklm.data import read_corpus
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.bundled.characters import pieces_of, snippets
from blanklm.paper.bundled.restorer_recipe import Corpus, Recipe, main
from blanklm.paper.bundled.staged_run import Stage
from blanklm.restoration.lexicon import Lexicon
from blanklm.training.run import TrainingConfig

MAX_LENGTH = 1000
RECIPE = Recipe(
    name="greek",
    encoder=EncoderConfig(layers=8, heads=8, width=256, feedforward=1024, dropout=0.1),
    words=4096,
    training=TrainingConfig(
        steps=10**6, tokens_per_batch=98_304, learning_rate=2.5e-3, warmup=500, weight_decay=0.02, ema=0.999, skew=1.5,
        evaluate_every=500, save_every=10**9, log_every=50,
    ),
    about={
        "name": "greek",
        "summary": "Restores damaged Greek inscriptions and papyri, gaps of known and unknown length",
        "language": "grc",
        "licence": "CC BY-SA 4.0",
        "data": "5,646 inscriptions and papyri (I.PHI, papyri.info, EpiDoc sources), Greek literature of Perseus",
    },
)  # fmt: skip
CUTS = (1, 2, 3)  # seeds of further random cuts of the documentary texts
LAST_BOOKS = 20_000  # chunks of literature in the last stage
FIRST_STAGE = 0.8  # of the time


def corpus(literature: bool = True) -> Corpus:
    """Read the documentary texts, with the literature or without."""
    whole = list(read_corpus("greek_documentary", "train"))
    documents = pieces_of(whole, MAX_LENGTH) + [piece for seed in CUTS for piece in snippets(whole, 60, 400, seed)]
    books = list(read_corpus("greek_literature", "perseus")) if literature else []
    kept = len(books) - min(LAST_BOOKS, len(books) // 2)
    first, last = pieces_of(books[:kept], MAX_LENGTH), pieces_of(books[kept:], MAX_LENGTH)
    texts = first + documents + last
    stages = (Stage(0, len(texts), FIRST_STAGE), Stage(len(first), len(texts), 1.0))
    validation = pieces_of(list(read_corpus("greek_documentary", "valid")), MAX_LENGTH)
    return Corpus(texts, stages, validation, Lexicon.of(whole, least=1, least_pairs=3))


if __name__ == "__main__":
    main(RECIPE, corpus, 300.0)
