"""Sentiment transfer (Section 4.3, Table 4): rewrite each test sentence in the other sentiment, and score.

Accuracy: of the rewritten sentences, the share that a judge finds in the wanted sentiment; the judge has no part in the
writing. BLEU: corpus BLEU on whitespace tokens against the first human reference, the paper's scale; where there are
four, also against all. Copying scores high in BLEU, so the two always stand together, beside the copied sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from blanklm.data import read_corpus
from blanklm.data.registry import corpus_named
from blanklm.errors import DataError
from blanklm.paper.tasks.metrics import bleu_interval, corpus_bleu

STYLES = ("negative", "positive")  # 0 and 1 in the names of files
PUBLISHED = {  # file of system outputs -> who wrote it
    "yelp": {
        "CrossAlignment_Shen": "Shen et al. 2017",
        "StyleEmbedding_Fu": "Fu et al. 2018, style embedding",
        "Multidecoder_Fu": "Fu et al. 2018, multi-decoder",
        "BackTranslation_Pr": "Prabhumoye et al. 2018",
        "TemplateBase_Li": "Li et al. 2018, template",
        "RetrieveOnly_Li": "Li et al. 2018, retrieve only",
        "DeleteOnly_Li": "Li et al. 2018, delete only",
        "DeleteRetrieve_Li": "Li et al. 2018, delete and retrieve",
        "UnsuperMT_Zhang": "Zhang et al. 2018",
        "UnpairedRL_Xu": "Xu et al. 2018",
        "DualRL": "Luo et al. 2019 (DualRL)",
    },
    # All from the repository of Li et al. 2018, under the names that the files have there.
    "amazon": {
        name: f"Li et al. 2018, file {name!r}"
        for name in ("mit", "fader", "multi_decoder", "retrieval", "rule_base", "label", "orgin")
    },
}


class Judge(Protocol):
    def log_probs(self, texts: Sequence[str]) -> np.ndarray:
        """log p(style | text) [texts, styles]."""
        ...


@dataclass(frozen=True)
class TestSet:
    """Sentences of both sentiments, each with the number of the wanted one, and human references."""

    sources: list[str]
    targets: list[int]
    references: list[list[str]]  # each a reference for every source

    __test__ = False  # no test case of pytest's

    @classmethod
    def load(cls, corpus: str) -> TestSet:
        splits = corpus_named(corpus).files
        numbers = [k for k in range(4) if f"reference.0.{k}" in splits]
        by_style = [list(read_corpus(corpus, f"test.{style}")) for style in (0, 1)]
        targets = [1 - style for style in (0, 1) for _ in by_style[style]]
        references = [[line for s in (0, 1) for line in read_corpus(corpus, f"reference.{s}.{k}")] for k in numbers]
        return cls(by_style[0] + by_style[1], targets, references)

    def among(self, places: Sequence[int]) -> TestSet:
        """Return the test set of the sentences at these places alone."""
        references = [[reference[i] for i in places] for reference in self.references]
        return TestSet([self.sources[i] for i in places], [self.targets[i] for i in places], references)


def published(corpus: str, test: TestSet) -> dict[str, dict[int, str]]:
    """The outputs of each published system, by the number of their source in the test set.

    The Yelp files are in test order. The Amazon files have a source, an output and a label in each line, and are
    placed by their source: one system left out a sentence of each sentiment and is out of order.
    """
    file = "{name}.test.{style}.tsf" if corpus == "yelp" else "sentiment.test.{style}.{name}"
    outputs = {}
    for name, who in PUBLISHED[corpus].items():
        files = [f"baseline_outputs/{file.format(name=name, style=style)}" for style in (0, 1)]
        lines = [line for file_name in files for line in read_corpus(corpus, file_name)]
        outputs[who] = dict(enumerate(lines)) if corpus == "yelp" else placed_by_source(lines, test.sources)
    return outputs


def placed_by_source(lines: Sequence[str], sources: Sequence[str]) -> dict[int, str]:
    """``source <tab> output <tab> ...`` lines by the number of their source; only white space may differ in it."""
    place = {" ".join(source.split()): i for i, source in enumerate(sources)}
    placed = {}
    for line in lines:
        source, output, *_ = line.split("\t")
        key = " ".join(source.split())
        if key not in place:
            raise DataError(f"{source!r} is not in the test set: the outputs are of another one, so leave them out")
        placed[place[key]] = " ".join(output.split())
    return placed


def score(test: TestSet, outputs: Sequence[str], judge: Judge) -> dict[str, Any]:
    """Accuracy and BLEU of one output for each source of the test set; percentages."""
    found = judge.log_probs(outputs).argmax(1)
    scores = {
        "accuracy": 100 * float(np.mean(found == np.array(test.targets))),
        "bleu": corpus_bleu(outputs, test.references[0]),
        "bleu_interval": bleu_interval(outputs, test.references[0]),
        "self_bleu": corpus_bleu(outputs, test.sources),
        "texts": len(outputs),
    }
    if len(test.references) > 1:
        scores["bleu_all_references"] = corpus_bleu(outputs, *test.references)
    return scores


def score_known(corpus: str, judge: Judge) -> dict[str, dict[str, Any]]:
    """What needs no model of ours: the sources as they are, the first reference, and every published system."""
    test = TestSet.load(corpus)
    rows = {"copy of the source": score(test, test.sources, judge)}
    rows["human reference"] = {
        "accuracy": score(test, test.references[0], judge)["accuracy"],
        "texts": len(test.sources),
    }
    for who, outputs in published(corpus, test).items():
        places = sorted(outputs)
        rows[who] = score(test.among(places), [outputs[i] for i in places], judge)
    return rows


class Salience:
    """How much more often an n-gram stands in one sentiment than in the other (Li et al. 2018): the other way to mask.

    salience(u, v) = (count of u in v + smoothing) / (count of u in the other + smoothing); n-grams of up to 4 words.
    """

    LONGEST = 4

    def __init__(self, corpora: Sequence[Sequence[str]], smoothing: float = 1.0) -> None:
        self.smoothing = smoothing
        self.counts = [Counter(gram for text in texts for _, gram in self.grams(text.split())) for texts in corpora]

    def grams(self, words: Sequence[str]) -> list[tuple[range, tuple[str, ...]]]:
        """Every n-gram of up to four words, with the places it covers."""
        return [
            (range(start, start + size), tuple(words[start : start + size]))
            for size in range(1, self.LONGEST + 1)
            for start in range(len(words) - size + 1)
        ]

    def of_words(self, text: str, style: int) -> list[float]:
        """For each word, the highest salience of an n-gram that it is part of."""
        words = text.split()
        highest = [0.0] * len(words)
        for places, gram in self.grams(words):
            own, other = self.counts[style][gram], self.counts[1 - style][gram]
            salience = (own + self.smoothing) / (other + self.smoothing)
            for place in places:
                highest[place] = max(highest[place], salience)
        return highest

    def marked(self, text: str, style: int, least: float) -> set[int]:
        """The words of a salience of at least ``least``; where there are none, the most salient one."""
        salience = self.of_words(text, style)
        return {i for i, s in enumerate(salience) if s >= least} or {
            max(range(len(salience)), key=salience.__getitem__)
        }
