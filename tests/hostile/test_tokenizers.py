"""Tokenizer files that somebody made to do harm: each loads and reads texts, or is refused in one line.

They are read in another process with little memory, so that one that takes it down is found.
"""

import json
import subprocess
import sys
import time
from random import Random

import pytest

from blanklm.core.tokenizer import KINDS, Tokenizer
from blanklm.core.tokenizer_file import is_quick
from blanklm.errors import CheckpointError

LINES = ["the food was really good .", "they also have ice cream", "a b c d e f 1 2 3"]
TEXTS = ["the food", "a b ﷺ ﷺ é", "", "x" * 2000, "<blank> \x00 \u202e 🙂", "1 2 \n\t"]
LOADER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
from pathlib import Path
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
texts = eval(sys.argv[1])
for line in sys.stdin:
    try:
        tokenizer = Tokenizer.load(Path(line.rstrip("\\n")))
        for text in texts:
            ids = tokenizer.encode(text)
            assert all(0 <= i < len(tokenizer) for i in ids)
            tokenizer.decode(ids), tokenizer.unknown_words(text)
        len(tokenizer.token_texts), tokenizer.starts_word, tokenizer.edges, tokenizer.never_written, tokenizer.marks
        print("loaded", flush=True)
    except BlankLMError as error:
        print("refused", str(error).replace("\\n", "NEWLINE"), flush=True)
"""


class Loader:
    """A process that loads tokenizer files one after the other."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", LOADER, repr(TEXTS)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def load(self, path) -> str:
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the process ended with {self.process.wait()}: {path.read_text()[:2000]}"
        assert "NEWLINE" not in answer and len(answer) < 1000
        return answer


@pytest.fixture(scope="module")
def loader():
    loader = Loader()
    yield loader
    loader.process.stdin.close()
    loader.process.wait(30)
    loader.process.stdout.close()


def written(kind: str) -> dict:
    return json.loads(Tokenizer.train(kind, LINES, vocabulary=300, lowercase=kind == "word").backend.to_str())


def repeated(part: dict, times: int, inside: str) -> dict:
    return {"type": "Sequence", inside: [part] * times}


PADDING = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
PADDING["pad_to_multiple_of"] = None
DOUBLING = {"type": "Replace", "pattern": {"Regex": "."}, "content": "aaaaaaaaaaaaaaaa"}
BOMBS = {
    "padding": {"padding": PADDING},
    "truncation": {"truncation": {"max_length": 0, "stride": 9, "strategy": "LongestFirst", "direction": "Right"}},
    "doubling": {"normalizer": repeated(DOUBLING, 12, "normalizers")},
    "one doubling": {"normalizer": DOUBLING},
    "prepending": {"normalizer": {"type": "Prepend", "prepend": "x" * 10**6}},
    "a map of garbage": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAgGFhYWFhYWFh"}},
    "a short map": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}},
    "a slow pattern": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
    },
    "no pattern": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
    },
    "metaspace": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}},
    "a template": {"post_processor": {"type": "RobertaProcessing", "sep": ["x", 10**9], "cls": ["y", 2**31]}},
    "an expanding decoder": {
        "decoder": repeated({"type": "Replace", "pattern": {"String": ""}, "content": "aa"}, 30, "decoders")
    },
    "ids twice": {
        "model": {
            "type": "WordLevel",
            "vocab": {"<pad>": 0, "<blank>": 1, "<unk>": 2, "<eos>": 3, "a": 3},
            "unk_token": "<unk>",
        }
    },
    "a huge id": {
        "model": {
            "type": "WordLevel",
            "vocab": {"<pad>": 0, "<blank>": 1, "<unk>": 2, "<eos>": 3, "a": 2**32 - 1},
            "unk_token": "<unk>",
        }
    },
    "a unigram": {"model": {"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]], "byte_fallback": True}},
    "dropout": {"model": written("bpe")["model"] | {"dropout": 0.5}},
    "a merge of what is not there": {"model": written("bpe")["model"] | {"merges": [["q", "zzz"]]}},
    "an added token far away": {
        "added_tokens": [
            {
                "id": 2**31,
                "content": "x",
                "single_word": False,
                "lstrip": True,
                "rstrip": True,
                "normalized": True,
                "special": False,
            }
        ]
    },
    "no added token": {"added_tokens": [{"id": 0, "content": ""}]},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_one_line(name, loader, tmp_path):
    path = tmp_path / "tokenizer.json"
    for kind in KINDS:
        path.write_text(json.dumps(written(kind) | BOMBS[name]))
        assert loader.load(path).startswith("refused")
    with pytest.raises(CheckpointError, match="not a readable tokenizer file"):
        Tokenizer.load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_here_is_read(kind, loader, tmp_path):
    for settings in ({}, {"lowercase": True}, {"marks_apart": True} if kind == "word" else {}):
        Tokenizer.train(kind, LINES, vocabulary=300, **settings).save(tmp_path / "tokenizer.json")
        assert loader.load(tmp_path / "tokenizer.json") == "loaded\n"


ANYTHING = [
    None,
    True,
    0,
    -1,
    2**31,
    2**64,
    1e308,
    "",
    "a",
    "<unk>",
    "\ud800",
    "a" * 5000,
    [],
    {},
    [[]],
    [0],
    {"type": "x"},
]
ANYTHING += [
    {"type": "x"},
    DOUBLING,
    PADDING,
    {"type": "Lowercase"},
    {"type": "NFKD"},
    {"type": "ByteLevel"},
    {"type": "Digits"},
]


def places_in(value, path=()):
    """Yield the path to every part of a value of JSON."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places_in(part, (*path, key))


def changed(value, path, random):
    """Replace, remove or double what is at a path."""
    if not path:
        return random.choice(ANYTHING)
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest or random.random() < 0.6:
        copy[key] = changed(value[key], rest, random)
    elif random.random() < 0.5:
        del copy[key]
    elif isinstance(copy, list):
        copy += [copy[key]] * random.choice([1, 10])
    else:
        copy[random.choice([str(key) + "x", "type", "pattern", "vocab"])] = copy[key]
    return copy


@pytest.mark.slow
def test_whatever_is_changed_in_a_tokenizer_it_is_read_or_refused(loader, tmp_path, seconds):
    random, path, until, counts = Random(0), tmp_path / "tokenizer.json", time.monotonic() + seconds, {}
    while time.monotonic() < until or not counts:
        parts = written(random.choice(KINDS))
        for _ in range(random.choice([1, 1, 2, 4])):
            places = [place for place in places_in(parts) if place]
            shallow = [place for place in places if len(place) < 3 or place[0] != "model"]
            parts = changed(parts, random.choice(shallow if random.random() < 0.6 else places), random)
            if not isinstance(parts, dict):
                break
        content = json.dumps(parts)
        if random.random() < 0.1:  # and no JSON at all
            content = content[: random.randrange(len(content) + 1)] + random.choice(["", "[" * 100_000, "\0", "}"])
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        answer = loader.load(path).split()[0]
        counts[answer] = counts.get(answer, 0) + 1
    assert counts.keys() <= {"loaded", "refused"}


@pytest.mark.parametrize("pattern", [r"[\s\S]", r"\p{L}+|\s+(?!\S)", "(?i:'s|'t)|[^(+)*]+", r"a\)+"])
def test_quick_patterns_are_taken(pattern):
    assert is_quick(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|b)*", "(?:a){9,}", "a*a*a*a*b", "", "a" * 2000, 3, "[a", "(?<x>a)"])
def test_patterns_that_may_take_long_are_not(pattern):
    assert not is_quick(pattern)
