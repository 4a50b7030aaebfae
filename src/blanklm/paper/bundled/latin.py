"""The bundled model ``latin``: restores damaged Latin inscriptions, a mixed L-BLM of characters.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.latin OUT [--seconds N]

Writes OUT/run, OUT/model (int8, what is bundled), OUT/half (half precision) and OUT/result.json.
"""

from __future__ import annotations

import re

from blanklm.data import read_corpus
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.bundled.characters import pieces_of, snippets
from blanklm.paper.bundled.restorer_recipe import Corpus, Recipe, main
from blanklm.paper.bundled.staged_run import Stage
from blanklm.restoration.lexicon import Lexicon
from blanklm.training.run import TrainingConfig

MAX_LENGTH = 1000
RECIPE = Recipe(
    name="latin",
    encoder=EncoderConfig(layers=6, heads=6, width=192, feedforward=768, dropout=0.1),
    words=4096,
    training=TrainingConfig(
        steps=10**6, tokens_per_batch=65_536, learning_rate=2.5e-3, warmup=500, weight_decay=0.05, ema=0.999, skew=1.5,
        evaluate_every=1000, save_every=10**9, log_every=50,
    ),
    about={
        "name": "latin",
        "summary": "Restores damaged Latin inscriptions, gaps of known and unknown length",
        "language": "la",
        "licence": "CC BY-SA 4.0",
        "data": "47,210 inscriptions of the Epigraphic Database Heidelberg",
    },
)  # fmt: skip
_HEADLESS = re.compile(r"\bnn(os|orum|is)\b")


def repaired(text: str) -> str:
    """The corpus lost the first letter of annos, annorum and annis in some 2,700 places of train: nnos. Put it back."""
    return _HEADLESS.sub(r"ann\1", text)


def corpus() -> Corpus:
    whole = [repaired(text) for text in read_corpus("edh_latin", "train")]
    texts = pieces_of(whole, MAX_LENGTH) + snippets(whole, 60, 400, seed=1)
    validation = pieces_of([repaired(text) for text in read_corpus("edh_latin", "valid")], MAX_LENGTH)
    return Corpus(texts, (Stage(0, len(texts), 1.0),), validation, Lexicon.of(whole, least=2, least_pairs=10))


if __name__ == "__main__":
    main(RECIPE, corpus, 150.0)
