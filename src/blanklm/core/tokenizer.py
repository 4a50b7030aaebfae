"""Text to ids and back: words, characters or byte-level BPE, each a `tokenizers` JSON file.

A template (text with blanks) becomes a canvas of ids; spans of ids become text. Only the model sees tokens:
what the user wrote outside the blanks is kept as text and never passes through here on its way out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from blanklm.core import tokenizer_file
from blanklm.core.characters import check_text
from blanklm.core.special import BLANK, PAD, SPECIAL_TOKENS, UNK
from blanklm.core.template import Template
from blanklm.errors import BlankLMError, CheckpointError


def _kind(character: str) -> int:
    if character.isspace():
        return 0
    if character.isalpha() or character == "�":
        return 1
    return 2 if character.isdigit() else 3


KINDS = ("word", "character", "bpe")  # that can be trained; "wordpiece" comes with a pretrained backbone
# What stands apart where marks do: parts that English writes together, and marks that do not join what is around them.
_APART = r"n['’]t\b|['’](?:s|ve|m|ll|re|d)\b|\.\.\.|[.,:](?!\w)|[!?;()\"“”]"
_WORD = re.compile(r"[\S\x1c-\x1f]+")  # what `tokenizers` splits at; str.split() splits at four control characters more
_PRE_TOKENIZER_OF = {
    "word": ("WhitespaceSplit", "Sequence"),
    "character": ("Split",),
    "bpe": ("ByteLevel",),
    "wordpiece": ("BertPreTokenizer",),
}
LONG_WORD = 4  # letters: most words that a sentence needs more than once have fewer
_CONTINUES = "##"  # WordPiece: what a token that continues a word begins with
# WordPiece loses the spaces of a text; these are where English has none.
_NO_SPACE = re.compile(r" (?=[.,;:!?%)\]}])|(?<=[(\[{$#]) |(?<=\w) (?=['’] \w)|(?<=\w ['’]) (?=\w)")


def _name_of(pre_tokenizer: dict[str, Any], steps: Sequence[dict[str, Any]]) -> str | None:
    """The step of a pre-tokenizer that decides what a token is: the last, if it turns text into bytes."""
    return "ByteLevel" if steps[-1].get("type") == "ByteLevel" else pre_tokenizer.get("type")


class Tokenizer:
    """``kind`` is "word" (whitespace-separated, pre-tokenised text), "character", "bpe" (byte-level) or "wordpiece"."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.backend.encode_special_tokens = True  # "<blank>" typed by a user is text, not a blank
        parts = json.loads(backend.to_str())
        tokenizer_file.check(parts)  # so that what is made here can be loaded again
        pre_tokenizer = parts.get("pre_tokenizer") or {}
        steps = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
        name = _name_of(pre_tokenizer, steps)
        kinds = [kind for kind, names in _PRE_TOKENIZER_OF.items() if name in names]
        if not kinds or [backend.id_to_token(i) for i in range(len(SPECIAL_TOKENS))] != list(SPECIAL_TOKENS):
            raise CheckpointError("this tokenizer was not made by blanklm: train one with Tokenizer.train")
        self.kind = kinds[0]
        self.digits_apart = any(step.get("individual_digits") for step in steps)  # each digit is a token

    @classmethod
    def train(
        cls,
        kind: str,
        texts: Iterable[str],
        vocabulary: int = 30_000,
        min_count: int = 1,
        lowercase: bool = False,
        marks_apart: bool = False,
    ) -> Tokenizer:
        """Learn a vocabulary of at most ``vocabulary`` tokens, each seen at least ``min_count`` times.

        ``marks_apart`` (words): read "isn't it?" as the four words that tokenised corpora write, "is n't it ?".
        """
        if kind not in KINDS:
            raise BlankLMError(f"there is no tokenizer kind {kind!r}: choose {', '.join(KINDS)}")
        least = len(SPECIAL_TOKENS) + (256 if kind == "bpe" else 1)
        if vocabulary < least:
            raise BlankLMError(f"a {kind} vocabulary has at least {least} tokens, not {vocabulary}")
        normalizer = normalizers.Lowercase() if lowercase else None
        texts = map(check_text, texts)
        if kind == "bpe":
            backend = Backend(models.BPE())
            backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            backend.decoder = decoders.ByteLevel()
            trainer = trainers.BpeTrainer(
                vocab_size=vocabulary,
                min_frequency=min_count,
                special_tokens=list(SPECIAL_TOKENS),
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            )
            if normalizer:
                backend.normalizer = normalizer
            backend.train_from_iterator(texts, trainer)
            return cls(backend)
        pre_tokenizer: pre_tokenizers.PreTokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        if kind == "word":
            pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if kind == "word" and marks_apart:
            pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizer, pre_tokenizers.Split(Regex(_APART), "isolated")])
        # The library's trainer of word vocabularies counts a corpus's own "<unk>" as a second word; so count here.
        counts: Counter[str] = Counter()
        for text in texts:
            text = normalizer.normalize_str(text) if normalizer else text
            if marks_apart:
                counts.update(word for word, _ in pre_tokenizer.pre_tokenize_str(text))
            else:
                counts.update(_WORD.findall(text) if kind == "word" else text)
        by_count = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        words = [word for _, word in by_count if word not in SPECIAL_TOKENS][: vocabulary - len(SPECIAL_TOKENS)]
        vocabulary_ids = {word: i for i, word in enumerate((*SPECIAL_TOKENS, *words))}
        backend = Backend(models.WordLevel(vocabulary_ids, unk_token=SPECIAL_TOKENS[UNK]))
        backend.pre_tokenizer = pre_tokenizer
        if normalizer:
            backend.normalizer = normalizer
        return cls(backend)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a file that somebody else may have written: the library sees it only if it holds what is known."""
        try:
            written = path.read_text(encoding="utf-8")
            tokenizer_file.check(json.loads(written))
            return cls(Backend.from_str(written))
        except Exception as error:  # the library raises plain Exception for a damaged file
            reason = (str(error).splitlines() or ["nested too deeply"])[0][:300]
            raise CheckpointError(f"{path} is not a readable tokenizer file ({reason})") from None

    def save(self, path: Path) -> None:
        path.write_text(self.backend.to_str(), encoding="utf-8")

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def words_have_parts(self) -> bool:
        """Whether a word may be several tokens, which are known by ``starts_word``."""
        return self.kind in ("bpe", "wordpiece")

    # --- Texts ----------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self.backend.encode_batch_fast([check_text(text) for text in texts], add_special_tokens=False)
        # A text may hold the very words "<pad>" or "<blank>"; to the model they are unknown words.
        return [[UNK if i in (PAD, BLANK) else i for i in encoding.ids] for encoding in encodings]

    def places(self, text: str) -> list[tuple[int, int]]:
        """Where in the text each of its tokens begins and ends."""
        return self.backend.encode(check_text(text), add_special_tokens=False).offsets

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids: exact for characters and BPE, words joined by single spaces for words and WordPiece."""
        tokens = [self.token(i) for i in ids]
        if self.kind == "bpe":
            return self.backend.decoder.decode(tokens)
        if self.kind == "wordpiece":
            joined = " ".join(tokens).replace(f" {_CONTINUES}", "").removeprefix(_CONTINUES)
            return _NO_SPACE.sub("", joined)
        return ("" if self.kind == "character" else " ").join(tokens)

    def token(self, i: int) -> str:
        return self.backend.id_to_token(i) or ""

    def token_text(self, i: int) -> str:
        """A token as a person reads it."""
        return self.decode([i])

    @cached_property
    def token_texts(self) -> list[str]:
        """``token_text`` of each token."""
        return [self.token_text(i) for i in range(len(self))]

    def unknown_words(self, text: str) -> list[str]:
        """The words (or characters) of a text that the vocabulary does not hold, each once, in order."""
        if self.kind == "bpe":
            return []
        parts = list(text) if self.kind == "character" else _WORD.findall(text)
        return [part for part in dict.fromkeys(parts) if UNK in self.encode(part)]

    # --- Templates ------------------------------------------------------------------------------------------

    def encode_template(self, template: Template) -> tuple[list[int], list[bool]]:
        """The canvas of ids, and for each blank whether its fill carries the space the user wrote before it.

        BPE tokens carry the space before a word. So the space before a blank goes to the fill, where the model
        expects it, and comes off again when the span is put back after the user's own space. WordPiece tokens are
        taken to carry one unless they continue a word.
        """
        pieces = list(template.pieces)
        if self.kind == "wordpiece":
            first, *rest = self.encode_many(pieces)
            starts = [not piece[-1:].isalnum() for piece in pieces[:-1]]
            return list(chain(first, *([BLANK, *ids] for ids in rest))), starts
        spaces = [self.kind == "bpe" and piece.endswith(" ") for piece in pieces[:-1]]
        pieces[:-1] = [piece[:-1] if space else piece for piece, space in zip(pieces[:-1], spaces, strict=True)]
        first, *rest = self.encode_many(pieces)
        return list(chain(first, *([BLANK, *ids] for ids in rest))), spaces

    def span_text(self, ids: Sequence[int], carries_space: bool) -> str:
        """What is put in a blank; without the space that stands before the blank already."""
        text = self.decode(ids)
        return text.removeprefix(" ") if carries_space else text

    def render(self, template: Template, spans: Sequence[str]) -> str:
        """The finished text. Two blanks that touch get a space between their words where tokens carry none."""
        if self.kind in ("word", "wordpiece"):
            touching = [k > 0 and template.pieces[k] == "" for k in range(len(spans))]
            spans = [" " + span if touches else span for span, touches in zip(spans, touching, strict=True)]
        return template.render(spans)

    # --- What may be written into a blank --------------------------------------------------------------------

    @cached_property
    def starts_word(self) -> np.ndarray:
        """[V] whether a token begins a new word (or is one character, the unit of a character model)."""
        if not self.words_have_parts:
            return np.ones(len(self), dtype=bool)
        tokens = [self.token(i) for i in range(len(self))]
        if self.kind == "wordpiece":
            return np.array([not token.startswith(_CONTINUES) for token in tokens])
        return np.array([token.startswith("Ġ") for token in tokens])

    @cached_property
    def edges(self) -> np.ndarray:
        """[V, 2] what a token begins and ends with: 0 a space, 1 a letter or part of one, 2 a digit, 3 another mark.

        A unit of text begins where a token begins with a space, or with another kind than the token before it ends
        with: "hotel" and "," are two units, though no space stands between them.
        """
        edges = np.array([[_kind(text[:1]), _kind(text[-1:])] for text in self.token_texts])
        if self.kind == "wordpiece":
            edges[self.starts_word, 0] = 0
        return edges

    @cached_property
    def long_words(self) -> np.ndarray:
        """[V] tokens of natural text (BPE) that begin with a space and have four letters or more, and nothing else."""
        if self.kind != "bpe":
            return np.zeros(len(self), dtype=bool)
        texts = self.token_texts
        return np.array([text[:1] == " " and text[1:].isalpha() and len(text) > LONG_WORD for text in texts])

    @cached_property
    def marks(self) -> np.ndarray:
        """[V] int8: 1 for tokens of marks alone, 2 for those that end a clause, 3 for those that end a sentence."""
        marks = np.zeros(len(self), dtype=np.int8)
        for i in range(len(SPECIAL_TOKENS), len(self)):
            text = self.token_texts[i].strip()
            if text and not any(character.isalnum() or character == "�" for character in text):
                marks[i] = 3 if set(text) & set(".!?…") else 2 if set(text) & set(",;:—–") else 1
        return marks

    @cached_property
    def space(self) -> int | None:
        """The token of a mere space where words may begin with one: where digits are apart, numbers do."""
        return self.backend.token_to_id("Ġ") if self.kind == "bpe" and self.digits_apart else None

    @cached_property
    def never_written(self) -> np.ndarray:
        """[V] special tokens, and part-of-word tokens that are white space, control or a broken part of a character.

        Not the ``space`` that a number begins with.
        """
        never = np.zeros(len(self), dtype=bool)
        never[: len(SPECIAL_TOKENS)] = True
        if self.words_have_parts:
            texts = self.token_texts
            never |= np.array([not text.strip() or "�" in text or not text.isprintable() for text in texts])
        if self.space is not None:
            never[self.space] = False
        return never
