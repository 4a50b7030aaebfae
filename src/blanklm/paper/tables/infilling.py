"""Tables 1 and 2 of the paper: every system on the same canvases of Yahoo Answers and Yelp, one scorer for all.

    blanklm reproduce infilling --out runs/infilling [--corpus yahoo] [--system blm] ...

Each system is trained, fills the masks of the test set and is scored; OUT/CORPUS/masks holds the canvases. Yahoo's
training file of 100K documents could not be had: all systems are trained on its validation file, less what is held
out, a tenth of the paper's documents.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from blanklm.core.canvas import Fill
from blanklm.core.template import Blank, Template
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import MaskedText
from blanklm.errors import BlankLMError
from blanklm.files import replacing
from blanklm.models.init import init_bias_from_frequencies
from blanklm.paper import runner
from blanklm.paper.baselines.systems import LanguageModel, load_system
from blanklm.paper.provenance import Row, read_json, write_json
from blanklm.paper.runner import Say
from blanklm.paper.tables.infilling_systems import CORPORA, JUDGE, PRETRAINED, SYSTEMS, Corpus, System, small
from blanklm.paper.tasks.fluency import perplexity
from blanklm.paper.tasks.infilling import fills_of, score
from blanklm.paper.tasks.masking import mask_corpus, no_infill, read_masks, write_masks
from blanklm.paper.tasks.metrics import corpus_bleu

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
SEED = 0  # of the masks
VALIDATION_TEXTS = 100  # on which a system's decoding is chosen, where it has several
SMALL_TEST_TEXTS = 20
FIGURE_5 = (  # the document of the paper's Figure 5 under its two masks, what is hidden in brackets
    "when time flies , [where] does it go ? [to] the center of the [universe] to be recycled [and] made into new "
    "time .",
    "when time [flies] , where [does it go] ? [to] the [center] of [the] universe to [be] recycled [and] made into "
    "[new time] .",
)


@dataclass(frozen=True, kw_only=True)
class Experiment(runner.Experiment):
    texts: int = 0  # of the test set that are filled, evenly spread over it; 0: all
    backbone: str | None = None

    @property
    def data(self) -> Corpus:
        return small(CORPORA[self.corpus]) if self.budget.small else CORPORA[self.corpus]

    @property
    def spec(self) -> System:
        return SYSTEMS[self.system]

    @property
    def has_model(self) -> bool:
        return not self.spec.model_of

    @property
    def run_folder(self) -> Path:
        return self.out / self.corpus / (self.spec.model_of or self.system) / "run"

    @property
    def measured_with(self) -> tuple[Experiment, ...]:
        names = (self.spec.model_of, JUDGE)
        return tuple(replace(self, system=name) for name in names if name and name != self.system)

    def train(self, say: Say) -> None:
        texts, held_out = self.data.train(), self.data.held_out()
        tokenizer = Tokenizer.train("word", texts, min_count=self.data.min_count)
        config = replace(self.data.training, **self.spec.training)
        if self.spec.make is None:
            raise BlankLMError(f"{self.system} has no model of its own: train {self.spec.model_of}")
        torch.manual_seed(config.seed)
        model = self.spec.make(self.data, tokenizer, self.backbone)
        train, valid = (
            TokenisedTexts.from_ids(tokenizer.encode_many(part), self.data.max_length) for part in (texts, held_out)
        )
        if self.spec.initial_tokens is not None:
            init_bias_from_frequencies(model, self.spec.initial_tokens(train))
        self.fit(model, tokenizer, train, valid, config, say, lambda: {"texts": len(texts)})

    # --- Filling ----------------------------------------------------------------------------------------------------

    def masks(self, split: str, ratio: float) -> list[MaskedText]:
        """The canvases that every system is given, from their file, which the first to ask writes."""
        path = self.out / self.corpus / "masks" / f"{split}-{ratio:g}.jsonl"
        if not path.exists():
            texts = self.data.test() if split == "test" else self.data.held_out()
            most = self.texts if split == "test" else min(VALIDATION_TEXTS, len(texts))
            masked = mask_corpus(_spread(texts, most), ratio, SEED)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                write_masks(temporary, masked)
        masked = read_masks(path)
        if split != "test" or len(masked) == self.texts:  # reading the corpus to compare takes a while
            return masked
        if len(masked) != len(_spread(self.data.test(), self.texts)):
            raise BlankLMError(f"{self.out} was begun with {len(masked):,} test texts: give --texts {len(masked)}")
        return masked

    def validation_bleu(self, choice: dict[str, Any], ratio: float) -> float:
        """BLEU on the validation canvases of one way to fill."""
        path = self.folder / f"validation-{_named(choice)}-{ratio:g}.json"
        if not path.exists():
            masked = self.masks("valid", ratio)
            fills = fills_of(load_system(self.run_folder), masked, **choice)
            write_json(path, corpus_bleu([fill.text for fill in fills], [m.text for m in masked]))
        return read_json(path)

    def choose(self) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
        """The way to fill with the highest mean BLEU on validation canvases, and the BLEU of each."""
        choices = self.spec.choices
        if len(choices) == 1:
            return choices[0], {}
        bleu = {_named(c): {f"{ratio:g}": self.validation_bleu(c, ratio) for ratio in RATIOS} for c in choices}
        return max(choices, key=lambda choice: sum(bleu[_named(choice)].values())), bleu

    def fills(self, ratio: float) -> tuple[list[Fill], float]:
        """The fills of the test canvases of one mask ratio, and the seconds they took; from their file if it exists."""
        path, masked = self.folder / f"fills-{ratio:g}.json", self.masks("test", ratio)
        if not path.exists():
            choice, _ = self.choose()
            system, started = load_system(self.run_folder), time.perf_counter()
            fills = fills_of(system, masked, **choice)
            write_json(path, {"seconds": time.perf_counter() - started, "fills": list(_packed(masked, fills))})
        saved = read_json(path)
        fills = [
            Fill(p.get("text") or m.template.render(p["spans"]), tuple(p["spans"]), p["log_prob"])
            for m, p in zip(masked, saved["fills"], strict=True)
        ]
        return fills, saved["seconds"]

    def figure_5(self) -> list[dict[str, Any]]:
        """The fills of the paper's example."""
        choice, _ = self.choose()
        masked = list(map(_bracketed, FIGURE_5))
        return list(_packed(masked, fills_of(load_system(self.run_folder), masked, **choice)))

    # --- Scoring ----------------------------------------------------------------------------------------------------

    def measure(self, say: Say) -> Row:
        judge = LanguageModel.from_pretrained(replace(self, system=JUDGE).run_folder)
        fills = self.system != JUDGE
        ratios = {}
        for ratio in RATIOS:
            ratios[f"{ratio:g}"] = self._filled(judge, ratio) if fills else self._not_filled(judge, ratio)
            say(f"{self.name}: {ratio:.0%} hidden, {'filled' if fills else 'judged'}")
        choice, bleu = self.choose() if fills else ({}, {})
        test = {"texts": len(self.masks("test", RATIOS[0])), "of": len(self.data.test()), "mask_seed": SEED}
        return {
            "corpus": self.corpus,
            "system": self.system,
            "label": self.spec.label,
            "trained_on": self.data.trained_on,
            "test": test,
            "decoding": choice,
            "validation_bleu": bleu,
            "figure_5": self.figure_5() if self.corpus == "yahoo" and fills else [],
            "ratios": ratios,
            "training": read_json(self.training_file),
        }

    def _filled(self, judge: LanguageModel, ratio: float) -> dict[str, Any]:
        fills, seconds = self.fills(ratio)
        words = sum(len(span.split()) for fill in fills for span in fill.spans)
        return score(self.masks("test", ratio), fills) | {
            "words_per_second": words / seconds,
            "perplexity": perplexity(judge, [fill.text for fill in fills]),
        }

    def _not_filled(self, judge: LanguageModel, ratio: float) -> dict[str, float]:
        """The texts with their blanks taken out, and the originals."""
        masked = self.masks("test", ratio)
        originals, bare = [m.text for m in masked], [no_infill(m) for m in masked]
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
    """Take ``count`` of the texts, evenly over all of them; 0: all."""
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


# --- The table --------------------------------------------------------------------------------------------------------


def experiments(
    out: Path, corpora: Sequence[str] | None = None, systems: Sequence[str] | None = None, **settings: Any
) -> list[Experiment]:
    """The experiments of the table, all or those named; with the small budget, those from scratch on few texts."""
    default: Iterable[str] = SYSTEMS
    if settings.get("budget", runner.WHOLE_RECIPE).small:
        settings.setdefault("texts", SMALL_TEST_TEXTS)
        default = [name for name in SYSTEMS if name not in PRETRAINED]
    return [
        Experiment(out=out, corpus=corpus, system=system, **settings)
        for corpus in runner.choose("corpus", corpora, CORPORA, CORPORA)
        for system in runner.choose("system", systems, SYSTEMS, default)
    ]


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
