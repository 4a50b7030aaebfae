"""What a tokenizer's JSON may hold: the parts that blanklm's own tokenizers and its backbones' are made of.

The tokenizers library takes a file at its word: one that pads to a billion tokens, doubles each letter forty times or
names a part that panics takes the process down. So a file is checked before the library sees it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from blanklm.errors import CheckpointError

LARGEST_VOCABULARY = 2**21  # tokens
LONGEST_TOKEN = 10_000  # characters
LONGEST_PATTERN = 1000  # characters
MOST_REPEATS = 3  # of any number, in one alternative of a pattern: its time is a polynomial of that degree
MOST_STEPS = 8
MODELS: dict[str, dict[str, tuple[Any, ...]]] = {  # settings and the values that they may have
    "WordLevel": {"unk_token": ("<unk>",)},
    "BPE": {
        "dropout": (None,),
        "unk_token": (None,),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
        "fuse_unk": (False,),
        "byte_fallback": (False,),
        "ignore_merges": (False, True),
    },
    "WordPiece": {"unk_token": ("<unk>",), "continuing_subword_prefix": ("##",)},
}
NORMALIZERS = {"Sequence", "Lowercase", "BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Strip"}
PRE_TOKENIZERS = {"Sequence", "WhitespaceSplit", "Split", "ByteLevel", "BertPreTokenizer", "Digits"}
DECODERS = {"ByteLevel", "WordPiece"}
BEHAVIOURS = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}
_CLASS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)  # an escaped character, or a class of characters
_GROUP_REPEATED = re.compile(r"\)(?:[*+]|\{\d*,?\d*\})")
_REPEAT = re.compile(r"[*+]|\{\d+,\}")


def check(parts: Any) -> None:
    """Refuse the JSON of a tokenizer that holds anything else; the message says what."""
    if not isinstance(parts, dict) or not isinstance(parts.get("model"), dict):
        raise _refusal("there is no model in it")
    for name in ("truncation", "padding", "post_processor"):
        if parts.get(name) is not None:
            raise _refusal(f"it has {name.replace('_', ' ')}")
    _check_steps(parts.get("normalizer"), NORMALIZERS, "normalizers", "normalizer")
    _check_steps(parts.get("pre_tokenizer"), PRE_TOKENIZERS, "pretokenizers", "pre-tokenizer")
    _check_steps(parts.get("decoder"), DECODERS, "decoders", "decoder")
    words = _check_model(parts["model"])
    _check_together(parts)
    _check_added(parts.get("added_tokens") or [], words)


def _check_together(parts: dict[str, Any]) -> None:
    """Check that the model, what cuts texts for it, and what joins its tokens belong together."""
    model, cut, joined = (parts.get(name) or {} for name in ("model", "pre_tokenizer", "decoder"))
    last = (cut.get("pretokenizers") or [cut])[-1].get("type")
    expected = {"ByteLevel": "BPE", "BertPreTokenizer": "WordPiece"}.get(last, "WordLevel")
    if model["type"] != expected or (expected == "BPE") != (joined.get("type") == "ByteLevel"):
        raise _refusal(f"it cuts by {last!r} for a model of {model['type']!r}, and joins by {joined.get('type')!r}")


def _refusal(reason: str) -> CheckpointError:
    return CheckpointError(f"{reason}: no tokenizer of blanklm does")


def _check_steps(part: Any, known: set[str], inside: str, what: str, depth: int = 0) -> None:
    """Check a part that may be a sequence of others."""
    if part is None:
        return
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in known or depth > 1:
        raise _refusal(f"it has the {what} {str(kind)[:40]!r}")
    if kind == "Sequence":
        steps = part.get(inside)
        if not isinstance(steps, list) or not 0 < len(steps) <= MOST_STEPS:
            raise _refusal(f"it has a sequence of {what}s without steps or with too many")
        for step in steps:
            _check_steps(step, known, inside, what, depth + 1)
    if kind == "Split":
        _check_split(part)


def _check_split(part: dict[str, Any]) -> None:
    pattern = part.get("pattern")
    if not isinstance(pattern, dict) or list(pattern) != ["Regex"] or part.get("behavior") not in BEHAVIOURS:
        raise _refusal("it splits by something else than a pattern")
    if not is_quick(pattern["Regex"]):
        raise _refusal("it splits by a pattern that may take very long")


def is_quick(pattern: Any) -> bool:
    """Tell whether a regular expression takes a bounded time on any text: no group of it is repeated."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= LONGEST_PATTERN:
        return False
    bare = _CLASS.sub("x", pattern)
    if "[" in bare or _GROUP_REPEATED.search(bare) or "(?<" in bare.replace("(?<=", "").replace("(?<!", ""):
        return False
    return all(len(_REPEAT.findall(part)) <= MOST_REPEATS for part in bare.split("|"))


def _check_model(model: dict[str, Any]) -> dict[str, int]:
    """Check the model and return its vocabulary, whose ids are 0, 1, 2, ... without a hole."""
    kind = model.get("type")
    if kind not in MODELS:
        raise _refusal(f"its model is {str(kind)[:40]!r}")
    for name, allowed in MODELS[kind].items():
        if model.get(name, allowed[0]) not in allowed:
            raise _refusal(f"its {name.replace('_', ' ')} is {str(model[name])[:40]!r}")
    if unknown := model.keys() - MODELS[kind].keys() - {"type", "vocab", "merges", "max_input_chars_per_word"}:
        raise _refusal(f"its model has {str(min(unknown))[:40]!r}")
    longest_word = model.get("max_input_chars_per_word", 100)
    if type(longest_word) is not int or not 0 < longest_word <= LONGEST_TOKEN:
        raise _refusal("its longest word has no length")
    words = model.get("vocab")
    if not isinstance(words, dict) or not 0 < len(words) <= LARGEST_VOCABULARY:
        raise _refusal("it has no vocabulary, or too large a one")
    if any(type(i) is not int for i in words.values()) or sorted(words.values()) != list(range(len(words))):
        raise _refusal("the ids of its tokens are not 0, 1, 2, ... each once")
    if max(map(len, words)) > LONGEST_TOKEN:
        raise _refusal(f"it has a token of more than {LONGEST_TOKEN:,} characters")
    _check_merges(model.get("merges", []), words)
    return words


def _check_merges(merges: Any, words: dict[str, int]) -> None:
    if not isinstance(merges, list):
        raise _refusal("its merges are no list")
    for merge in merges:
        pair: Sequence[Any] = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise _refusal("a merge is not of two tokens")
        if not (pair[0] in words and pair[1] in words and "".join(pair) in words):
            raise _refusal("it merges tokens that it does not have")


def _check_added(added: Any, words: dict[str, int]) -> None:
    """Check the tokens that are found before all others: each is one of the vocabulary."""
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise _refusal("its added tokens are no list of tokens")
    for token in added:
        content = token.get("content")
        if not isinstance(content, str) or not content or words.get(content, -1) != token.get("id"):
            raise _refusal("it adds tokens that are not in its vocabulary")
