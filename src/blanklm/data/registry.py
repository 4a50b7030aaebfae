"""The registry of corpora: what each is, where it comes from, its licence, and the checksum of every file.

The package contains no text. A corpus is a folder of the data root (``data_root()``), and a *split* is one of its
files, named without ``.txt`` and ``.xz``: ``train``, ``valid.0`` (negative; 1 is positive),
``reference.0.0``, ``train.marked``, ``train.jsonl``, ``baseline_outputs/DualRL.test.0.tsf``.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from blanklm.data.readers import DAMAGE, open_bytes, read_lines
from blanklm.errors import DataError


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus. ``text_sha256`` is the checksum of the text inside, however it is compressed."""

    path: str  # relative to the data root
    sha256: str
    lines: int
    text_sha256: str


@dataclass(frozen=True)
class Corpus:
    """A corpus and its files by split; ``sources`` lists the origins of a corpus compiled from several."""

    name: str
    summary: str
    origin: str
    licence: str
    files: dict[str, CorpusFile] = field(default_factory=dict, repr=False)
    sources: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class FileStatus:
    split: str
    path: Path
    status: Literal["ok", "missing", "differs"]


def corpora() -> list[Corpus]:
    """Return every registered corpus, whether its text is on this machine or not."""
    return list(CORPORA.values())


def data_root() -> Path:
    """Return $BLANKLM_DATA; else ./data if it holds a registered corpus; else the user's cache folder."""
    if chosen := os.environ.get("BLANKLM_DATA"):
        return Path(chosen).expanduser()
    # Many projects have a ./data folder; one without any registered corpus must not hide the cache folder.
    beside = Path.cwd() / "data"
    if any((beside / name).is_dir() for name in CORPORA):
        return beside
    return Path.home() / ".cache" / "blanklm" / "data"


def find(name: str, split: str) -> Path:
    """Return the path of a split's file, compressed or plain; if it is missing, DataError says what to do."""
    corpus = _corpus(name)
    if not corpus.files:
        beside = [data_root() / name / f"{split}{ending}" for ending in (".txt", ".txt.xz")]
        if present := [path for path in beside if path.is_file()]:
            return present[0]
        raise DataError(
            f"{name} is not distributed here: get it from {corpus.origin} and put {split}.txt into "
            f"{data_root() / name}, or pass the path of your text file instead of the name"
        )
    if split not in corpus.files:
        splits = ", ".join(known for known in corpus.files if "/" not in known)
        raise DataError(f"{name} has no split {split!r}: choose {splits}")
    path = _path_of(corpus.files[split])
    if path is None:
        expected = data_root() / corpus.files[split].path
        raise DataError(
            f"{name}/{split} is not here: looked for {expected} (or without .xz); set BLANKLM_DATA to the folder "
            f"that holds {name}/, or put the text there; it comes from {corpus.origin}"
        )
    return path


def read_corpus(name: str, split: str) -> Iterator[str]:
    """Yield the lines of a split unchanged: texts or, for some splits, JSON or tab-separated records."""
    return read_lines(find(name, split))


def verify(name: str) -> list[FileStatus]:
    """Check for each file of a corpus that it exists and that its text has the registered checksum."""
    statuses = []
    for split, file in _corpus(name).files.items():
        path = _path_of(file)
        if path is None:
            statuses.append(FileStatus(split, data_root() / file.path, "missing"))
        else:
            statuses.append(FileStatus(split, path, "ok" if _is_intact(path, file) else "differs"))
    return statuses


def _corpus(name: str) -> Corpus:
    if name not in CORPORA:
        raise DataError(f"there is no corpus {name!r}: choose {', '.join(CORPORA)}")
    return CORPORA[name]


def _path_of(file: CorpusFile) -> Path | None:
    path = data_root() / file.path
    plain = path.with_name(path.name.removesuffix(".xz"))  # as the origins publish it
    return next((candidate for candidate in (path, plain) if candidate.is_file()), None)


def _is_intact(path: Path, file: CorpusFile) -> bool:
    try:
        with open(path, "rb") as stream:
            if _sha256(stream) == file.sha256:
                return True
        # The same text compressed elsewhere has other bytes: compare the text inside.
        with open_bytes(path) as stream:
            return _sha256(stream) == file.text_sha256
    except DAMAGE:
        return False


def _sha256(stream: io.BufferedReader) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


# --- The table -------------------------------------------------------------------------------------------

_ENGLISH_SOURCES = (
    "chinapedia/wikipedia.abstract.en@4f3e897da088: Wikipedia about 2019, CC BY-SA 3.0",
    "Vibhas-hs-edu/WikiTasks@52b1f163137b: Wikipedia articles begun 2018-2021, CC BY-SA 3.0",
    "thechangelog/transcripts@44a0e16c5919: podcast transcripts, CC BY-SA 4.0",
    "openstax/osbooks-*: 26 college textbooks, each at its last commit under CC BY 4.0",
    "Helsinki-NLP/Tatoeba-Challenge@d34a89ac102f: everyday sentences (test and dev sets), CC BY 2.0 FR",
    "standardebooks/*: fiction of 1890-1963 from 42 repositories, CC0 and US public domain",
    "google-research-datasets/dstc8-schema-guided-dialogue@e852981ae349: task dialogue, CC BY-SA 4.0",
    "abachaa/MedQuAD@577bd37b96c0: consumer health answers of the NIH, CC BY 4.0",
    "BYU-PCCL/chitchat-dataset 0.9.0 (PyPI): student chat, MIT",
    "gucorpling/amalgum@a2dbd33e757f: news, interviews, travel, biography, academic; CC BY and CC BY-SA",
    "Yale-LILY/QMSum@83d7768c1f2b: meeting transcripts, MIT",
    "GSA/digitalgov.gov@4979583206d9: government web pages, US public domain",
    "18F/18f.gsa.gov@0a55c75e6d9b: government blog, CC0 1.0",
    "department-of-veterans-affairs/vagov-content@5d2beb694824: government web pages, US public domain",
    "alexa/Topical-Chat@7c939229cbcf: open-domain chat, CDLA-Sharing 1.0",
    "uberspot/OpenTriviaQA@dd31530bfbb1: trivia questions, CC BY-SA 4.0",
    "kevswanberg/beer_tentrr@9573647bff33: Stack Exchange on beer, CC BY-SA",
    "Yoav-Shafir/Elasticsearch-Coffee-Search-Engine-JS@97e93c92aaa3: Stack Exchange on coffee, CC BY-SA",
    "sasiddiqui/confucius@893604f757d3: Stack Exchange on artificial intelligence, CC BY-SA",
    "common-voice/common-voice@bc2cc85e101d: sentences to read aloud, CC0 1.0",
    "RasaHQ/STAR@3058975092cd: task dialogue, MIT",
    "UniversalDependencies/UD_English-EWT@15d613d8447b: web English, CC BY-SA 4.0",
    "google-research-datasets/Taskmaster@d92cb6af3005: task dialogue, CC BY 4.0",
    "global-asp/asp-source@99e022369a98 and pb-source@9ea530dfb001: children's stories, CC BY 3.0 and 4.0",
    "factbook/factbook.json@8662a8b17a78: country profiles, public domain",
    "LukeSmithxyz/based.cooking@2d8642ec41cc: recipes, Unlicense",
)

_KNOWN = (
    Corpus(
        name="ptb",
        summary="Penn Treebank for language modelling (Mikolov's version), complete: 10,000 types with <eos>, "
        "rare words <unk>, numbers N; every line begins and ends with a space.",
        origin="github.com/timbmg/RNNLM, data/ptb.zip",
        licence="none stated there; the underlying newspaper text is distributed by the LDC",
    ),
    Corpus(
        name="wikitext2",
        summary="WikiText-2 at word level, complete: one paragraph per line, with blank lines and headings "
        "( = Title = ), rare words <unk>.",
        origin="github.com/nodiff-229/deeplearning_hw2, data/wikitext2.zip (train, valid) and "
        "github.com/pytorch/examples, word_language_model/data/wikitext-2 (test)",
        licence="CC BY-SA 3.0 (Wikipedia)",
    ),
    Corpus(
        name="wikitext103",
        summary="WikiText-103 at word level: fifty times the training text of WikiText-2.",
        origin="huggingface.co/datasets/Salesforce/wikitext, configuration wikitext-103-v1",
        licence="CC BY-SA 3.0 and GFDL (Wikipedia)",
    ),
    Corpus(
        name="yahoo",
        summary="Yahoo Answers documents of at most 200 words (Yang et al. 2017): the exact valid and test, "
        "10,000 each, without train: train on valid, report on test. Lower case, unknown words _UNK, in topic order.",
        origin="github.com/harvardnlp/DeepLatentNLP, data/yahoo (git blobs 4f7681b, fc5b20a); the vocabulary "
        "from github.com/OpenVLG/DELLA, data/yahoo/vocab.txt",
        licence="none stated for the text (Yahoo Webscope); the repository is MIT",
    ),
    Corpus(
        name="yelp",
        summary="Yelp sentences by sentiment, 0 negative and 1 positive (Shen et al. 2017, split of Li et al. 2018): "
        "exact valid and test, four human references, outputs of published systems. The train files are assembled "
        "from published samples of the original, without any valid or test sentence: 421,900 of 443,259 lines.",
        origin="github.com/lijuncen/Sentiment-and-Style-Transfer@14a48fa, data/yelp (valid, test); "
        "github.com/luofuli/DualRL@f412d90, outputs/yelp (references, outputs); train from "
        "github.com/shentianxiao/language-style-transfer@f078a9d and four published samples",
        licence="CC BY-SA 4.0 (valid, test); Apache-2.0 repository for Shen's files; else none stated",
    ),
    Corpus(
        name="amazon",
        summary="Amazon review sentences by sentiment, 0 negative and 1 positive (Li et al. 2018): exact valid and "
        "test, one human reference in test order, outputs of published systems. The train files are a part, 144,299 "
        "of 555K lines, some selected because they have a near neighbour of the other sentiment.",
        origin="github.com/lijuncen/Sentiment-and-Style-Transfer@14a48fa, data/amazon; train from "
        "github.com/AkshayaRaju/text_style_transfer_via_feature_transforms and "
        "github.com/FayeXXX/A-Benchmark-of-Text-Style-Transfer",
        licence="CC BY-SA 4.0 (valid, test, references); none stated for the train parts",
    ),
    Corpus(
        name="edh_latin",
        summary="59,042 Latin inscriptions of the Epigraphic Database Heidelberg. In .marked and .jsonl splits, [x] "
        "was lost and restored by the editor; - is one lost letter, # a loss of unknown length. Formulaic texts "
        "recur across splits.",
        origin="github.com/epigraphic-database-heidelberg/data, the EpiDoc files under inscriptions",
        licence="CC BY-SA 4.0",
    ),
    Corpus(
        name="greek_documentary",
        summary="7,846 ancient Greek inscriptions and papyri without accents, and two sets of restoration items with "
        "their solutions; - is one lost letter, # a loss of unknown length. Texts that overlap a published test "
        "item are all in test.",
        origin="github.com/ericu9500/PapyriAndInscriptions, eval/test_data; "
        "github.com/brennannicholson/ancient-greek-char-bert (excerpts of PHI-ML); EpiDoc files of "
        "github.com/epigraphic-database-heidelberg/data, ISicily/ISicily, Brown-University-Library/iip-texts and "
        "usep-data, Aphrodisias/upgrade-epidoc",
        licence="mixed: CC BY-SA 4.0 (Heidelberg), CC BY 4.0 (ISicily), CC BY 3.0 (papyri.info), Apache-2.0 (the "
        "excerpts); none stated for the rest",
    ),
    Corpus(
        name="greek_literature",
        summary="170 million characters of ancient Greek literature in chunks of 400 to 1,000, in the spelling "
        "of greek_documentary: for pre-training.",
        origin="github.com/PerseusDL/canonical-greekLit@a065c35 (perseus) and "
        "github.com/OpenGreekAndLatin/First1KGreek@6812dab (first1k)",
        licence="CC BY-SA 4.0",
    ),
    Corpus(
        name="english",
        summary="Natural English as written, one sentence or paragraph per line: a balanced mix of 36 million words "
        "(mix.0-2), 20 million more (more.0-1) and 2,000 held-out lines (valid).",
        origin="26 public sources (encyclopaedia, talk, textbooks, fiction, dialogue, web), listed with their commits "
        "in Corpus.sources",
        licence="CC BY-SA 4.0 compatible as a whole, with attribution; Topical-Chat lines CDLA-Sharing 1.0",
        sources=_ENGLISH_SOURCES,
    ),
)


def _with_files() -> dict[str, Corpus]:
    """Return each corpus with its rows of files.tsv (path, lines, sha256, text_sha256)."""
    table = {corpus.name: corpus for corpus in _KNOWN}
    files: dict[str, dict[str, CorpusFile]] = {name: {} for name in table}
    _, *rows = Path(__file__).with_name("files.tsv").read_text(encoding="utf-8").splitlines()
    for row in rows:
        path, lines, sha256, text_sha256 = row.split("\t")
        name, _, file_name = path.partition("/")
        split = file_name.removesuffix(".xz").removesuffix(".txt")
        files[name][split] = CorpusFile(path, sha256, int(lines), text_sha256)
    return {name: replace(corpus, files=files[name]) for name, corpus in table.items()}


CORPORA: dict[str, Corpus] = _with_files()
