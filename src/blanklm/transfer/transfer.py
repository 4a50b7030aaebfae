"""Rewrite a text in another style (Section 4.3): mask what carries its style, fill the blanks, choose.

The classifier's attention says which words are masked; the BLM of the wanted style fills the blanks a number of times;
the classifier, what is kept of the text and the BLM's own probabilities rank what it wrote.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from blanklm import pretrained
from blanklm.api import BlankLM, Request
from blanklm.core.canvas import Fill
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import MaskedText, blank_out
from blanklm.decoding.constraint import Constraint
from blanklm.errors import BlankLMError
from blanklm.models.classifier import Classifier
from blanklm.models.rewriter import Rewriter
from blanklm.training import checkpoint
from blanklm.training.epochs import split_by_budget

DEFAULT = "sentiment"  # the bundled model
TOKENS_AT_ONCE = 16_384  # that a classifier reads together
SAMPLES = 10  # fills of each mask that are chosen from
MASKS = 4  # masks of a text at most
TEMPERATURE = 0.7  # these two as chosen for the bundled model on validation sentences (docs/results.md)
CONTRAST = 1.0
MOST_CONTRAST = 10
SHORTEST_TO_REPEAT = 4  # letters of a word that is noticed when it comes again

Mask = Sequence[str | int]  # words and phrases of a text, or numbers of its words

_JOINED = re.compile(r" (?=(?:n['’]t|['’](?:s|ve|m|ll|re|d))\b|[.,:;!?)](?!\w))|(?<=\() ")  # no space in print
_ARTICLE = re.compile(r"\b[Aa]n?(?= $)")
_TAKES_NOT = re.compile(
    r"do|does|did|is|are|was|were|ca|wo|could|would|should|has|have|had|might|must|need|ai", re.IGNORECASE
)
_SHORT_OF = {"ca": "can", "wo": "will"}  # what they are before n't
_PLACEHOLDER = re.compile(r"_\w+_")  # what stands for a number or a name in a research corpus


class StyleClassifier:
    """A classifier with its tokenizer: texts in, numbers out."""

    def __init__(self, model: Classifier, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str | None = None) -> Self:
        loaded = checkpoint.load(pretrained.locate(folder))
        if not isinstance(loaded.model, Classifier):
            raise BlankLMError(f"the model in {folder} is no classifier of styles")
        return cls(loaded.model.to(checkpoint.device_for(device)), loaded.tokenizer)

    def log_probs(self, texts: Sequence[str]) -> np.ndarray:
        """log p(style | text) [texts, styles]."""
        found = self._read(texts, lambda tokens, lengths: self.model.logits(tokens, lengths).log_softmax(1))
        return np.array(found).reshape(len(texts), -1)

    def attention(self, texts: Sequence[str]) -> list[list[float]]:
        """The weight of each word of each text."""
        weights = self._read(texts, self.model.attention)
        return [row[: len(self.tokenizer.places(text))] for row, text in zip(weights, texts, strict=True)]

    @torch.inference_mode()
    def _read(self, texts: Sequence[str], ask: Callable) -> list[list[float]]:
        """What ``ask(tokens, lengths)`` says of each text; one without words is read as padding."""
        ids = self.tokenizer.encode_many(texts)
        lengths = np.array([max(1, len(text)) for text in ids])
        by_length = np.argsort(lengths, kind="stable")
        answers: list[list[float]] = [[] for _ in texts]
        for group in split_by_budget(lengths[by_length], TOKENS_AT_ONCE):
            members = by_length[group]
            tokens, sizes = (part.to(self.model.device) for part in pad([ids[i] for i in members]))
            for i, answer in zip(members, ask(tokens, sizes.clamp_min(1)).tolist(), strict=True):
                answers[i] = answer
        return answers


@dataclass(frozen=True)
class Word:
    text: str
    start: int  # place in the text
    end: int
    weight: float  # how much of the style it carries; 1 in all
    masked: bool


@dataclass(frozen=True)
class Marked:
    """A text with the words that are to be written anew."""

    text: str
    words: tuple[Word, ...]
    by_user: bool = False  # who said which

    @classmethod
    def of(
        cls,
        text: str,
        places: Sequence[tuple[int, int]],
        weights: Sequence[float],
        chosen: Set[int],
        by_user: bool = False,
    ) -> Marked:
        words = (
            Word(text[start:end], start, end, weight, i in chosen)
            for i, ((start, end), weight) in enumerate(zip(places, weights, strict=True))
        )
        return cls(text, tuple(words), by_user)

    @property
    def masked(self) -> MaskedText:
        return self.with_only(len(self.words))

    @property
    def canvas(self) -> str:
        return str(self.masked.template)

    def with_only(self, most: int) -> MaskedText:
        """The text with at most so many of its marked words blanked, those of the greatest weight."""
        marked = [i for i, word in enumerate(self.words) if word.masked]
        chosen = sorted(marked, key=lambda i: -self.words[i].weight)[:most]
        return blank_out(self.text, [(word.start, word.end) for word in self.words], set(chosen))

    def nested(self) -> list[MaskedText]:
        """Masks from the one word of the greatest weight to all that are marked; a user's own mask is not cut down."""
        marked = sum(word.masked for word in self.words)
        sizes = [marked] if self.by_user else sorted({min(size, marked) for size in (*range(1, MASKS), marked)})
        return [self.with_only(size) for size in sizes]

    def to_json(self) -> dict[str, Any]:
        words = [{"text": w.text, "weight": round(w.weight, 4), "masked": w.masked} for w in self.words]
        return {"canvas": self.canvas, "words": words}


@dataclass(frozen=True)
class Weights:
    """What a rewritten text is ranked by.

    log p(style) + content * words kept + fluency * log p a word written - repetition * words written again. With all at
    0 the classifier alone decides, as in the paper.
    """

    content: float = 0.5
    fluency: float = 0.0
    repetition: float = 1.0

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not 0 <= weight < math.inf:
                raise BlankLMError(f"the weight of {name} is 0 or more, not {weight:g}")

    def score(self, log_p_style: float, content: float, fluency: float, again: int) -> float:
        return log_p_style + self.content * content + self.fluency * fluency - self.repetition * again


@dataclass(frozen=True)
class Rewrite:
    parts: tuple[str, ...]  # what was kept and what was written, in turn: the first and the last are kept
    canvas: str
    style: float  # p(the wanted style), by the classifier that ranks
    content: float  # of the words of both texts, the share that they have in common
    fluency: float  # log p a word written
    score: float

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def to_json(self) -> dict[str, Any]:
        numbers = {key: round(getattr(self, key), 4) for key in ("style", "content", "fluency", "score")}
        return {"text": self.text, "parts": list(self.parts), "canvas": self.canvas, **numbers}


@dataclass(frozen=True)
class Rewritten:
    """A text, what it reads as, what was masked, and the texts it became, best first."""

    marked: Marked
    to: str
    reads_as: str
    reads_as_p: float
    rewrites: tuple[Rewrite, ...]
    unknown: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.rewrites[0].text

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.marked.text,
            "to": self.to,
            "reads_as": {"style": self.reads_as, "p": round(self.reads_as_p, 4)},
            **self.marked.to_json(),
            "unknown": list(self.unknown),
            "rewrites": [rewrite.to_json() for rewrite in self.rewrites],
        }


class Transfer:
    """A classifier, and for each style the BLM that writes in it."""

    def __init__(
        self,
        classifier: StyleClassifier,
        writers: Sequence[BlankLM],
        styles: Sequence[str],
        about: dict[str, Any] | None = None,
    ) -> None:
        self.classifier, self.writers, self.styles, self.about = classifier, list(writers), list(styles), about or {}

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path = DEFAULT, device: str | None = None, contrast: float = CONTRAST
    ) -> Transfer:
        """A bundled model by name, a folder, or a model of the Hugging Face Hub by its id.

        ``contrast``: how far the writer goes out of the way of words that other styles have too (models/styled_blm.py).
        """
        if not 0 <= contrast <= MOST_CONTRAST:
            raise BlankLMError(f"the contrast of styles is from 0 to {MOST_CONTRAST}, not {contrast:g}")
        loaded = checkpoint.load(pretrained.locate(name_or_path))
        if not isinstance(loaded.model, Rewriter):
            raise BlankLMError(f"{name_or_path} does not rewrite texts: train such a model with train --task transfer")
        device = checkpoint.device_for(device)
        model = loaded.model.to(device)
        if model.writer.device.type == "cuda":
            model.writer.to(torch.bfloat16)
        styles = range(len(model.config.styles))
        writers = [BlankLM(model.writer.in_style(style, contrast), loaded.tokenizer) for style in styles]
        return cls(StyleClassifier(model.classifier, loaded.tokenizer), writers, model.config.styles, loaded.about)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.classifier.tokenizer

    @property
    def parameters(self) -> int:
        """How many numbers its models have learnt, each model counted once."""
        models = (self.classifier.model, *(writer.model for writer in self.writers))
        return sum({id(p): p.numel() for model in models for p in model.parameters()}.values())

    def number_of(self, style: str) -> int:
        if style not in self.styles:
            raise BlankLMError(f"there is no style {style!r}: this model knows {' and '.join(self.styles)}")
        return self.styles.index(style)

    # --- Masking --------------------------------------------------------------------------------------------------

    def mark(self, text: str, mask: Mask | None = None) -> Marked:
        """Mark the words whose attention is above average, or those of ``mask``.

        A mask has words and phrases, meant wherever they stand, and numbers of words, counted from 0.
        """
        return self.mark_all([text], [mask])[0]

    def mark_all(self, texts: Sequence[str], masks: Sequence[Mask | None] | None = None) -> list[Marked]:
        masks = masks or [None] * len(texts)
        places = [self.tokenizer.places(text) for text in texts]
        for text, words in zip(texts, places, strict=True):
            check_text(text, [text[start:end] for start, end in words], self.longest)
        every = self.classifier.attention(texts) if texts else []
        return [self._marked(*each) for each in zip(texts, places, every, masks, strict=True)]

    @property
    def longest(self) -> int:
        return min(self.classifier.model.config.max_length, *(w.model.config.max_length for w in self.writers))

    def _marked(self, text: str, places: list[tuple[int, int]], weights: list[float], mask: Mask | None) -> Marked:
        if mask:
            chosen = places_of(text, places, mask)
        else:
            chosen = {i for i, weight in enumerate(weights) if weight > 1 / len(weights)}
        chosen |= {i + shift for i, shift in product(chosen, (-1, 1)) if is_negated(text, places, i + min(0, shift))}
        if not chosen:
            raise BlankLMError(f"no word of {text!r} stands out: say which to replace with a mask")
        if len(chosen) == len(places):
            raise BlankLMError(
                f"the mask covers all of {text!r}, so nothing of it would be kept: leave a word out of it"
            )
        return Marked.of(text, places, weights, chosen, by_user=bool(mask))

    # --- Writing and choosing -------------------------------------------------------------------------------------

    def rewrite(
        self,
        texts: str | Marked | Sequence[str | Marked],
        to: str,
        mask: Mask | None = None,
        n: int = 1,
        samples: int = SAMPLES,
        weights: Weights | None = None,
        temperature: float = TEMPERATURE,
        seed: int = 0,
        fewer: bool = False,
        progress: Callable[[int], None] | None = None,
        numbers: Sequence[int] | None = None,
        wanted: Sequence[Callable[[], bool]] | None = None,
    ) -> Rewritten | list[Rewritten | None]:
        """Each text in the style ``to``, in at most ``n`` ways, best first.

        ``mask``: words or phrases to replace, in place of those the classifier marks. ``fewer``: also try smaller
        masks, down to the one word that carries most of the style. Each mask is filled ``samples`` times.
        A text's samples depend on ``seed`` and on its number: its place in the list, unless ``numbers`` says otherwise.
        ``wanted`` is asked now and then whether a text is still wanted; one that is not is given up, and None.
        """
        style = self.number_of(to)
        if n < 1 or samples < 1:
            raise BlankLMError("the number of rewritten texts, and of samples, is at least 1")
        single = isinstance(texts, str | Marked)
        given = [texts] if single else list(texts)
        fresh = iter(self.mark_all(plain := [t for t in given if isinstance(t, str)], [mask] * len(plain)))
        marked = [next(fresh) if isinstance(text, str) else text for text in given]
        pools = self.candidates(marked, style, samples, temperature, seed, fewer, progress, numbers, wanted)
        reads = self.classifier.log_probs([m.text for m in marked])
        answers: list[Rewritten | None] = []
        for m, pool, read in zip(marked, pools, reads, strict=True):
            ranked = tuple(self.ranked(m.text, pool, style, weights or Weights())[:n])
            found, unknown = int(read.argmax()), tuple(self.tokenizer.unknown_words(m.text))
            answer = Rewritten(m, to, self.styles[found], float(np.exp(read[found])), ranked, unknown)
            answers.append(answer if ranked else None)
        return answers[0] if single else answers

    def candidates(
        self,
        marked: Sequence[Marked],
        style: int,
        samples: int = SAMPLES,
        temperature: float = TEMPERATURE,
        seed: int = 0,
        fewer: bool = False,
        progress: Callable[[int], None] | None = None,
        numbers: Sequence[int] | None = None,
        wanted: Sequence[Callable[[], bool]] | None = None,
    ) -> list[list[tuple[MaskedText, Fill]]]:
        """For each text, what was written into each of its masks, smaller masks first."""
        writer = self.writers[style]
        masks = [m.nested() if fewer else [m.masked] for m in marked]
        wanted = wanted or [None] * len(marked)
        requests = [self._request(writer, mask, ask) for each, ask in zip(masks, wanted, strict=True) for mask in each]
        places = range(len(marked)) if numbers is None else numbers
        own = [place * MASKS + k for place, each in zip(places, masks, strict=True) for k in range(len(each))]
        drawn = writer.sample(requests, n=samples, temperature=temperature, seed=seed, progress=progress, numbers=own)
        written = iter(drawn)
        return [[(mask, fill) for mask in each for fill in next(written)] for each in masks]

    def _request(self, writer: BlankLM, mask: MaskedText, wanted: Callable[[], bool] | None = None) -> Request:
        """Placeholders of the corpus are words in its own texts only."""
        constraint = None if self.is_tokenised(mask.text) else Constraint(ban=self.placeholders)
        return writer.prepare(str(mask.template), constraint, wanted and (lambda so_far: wanted()))

    @cached_property
    def placeholders(self) -> tuple[str, ...]:
        words = self.tokenizer.backend.get_vocab()
        return tuple(sorted(word for word in words if _PLACEHOLDER.fullmatch(word)))

    def ranked(
        self, source: str, pool: Sequence[tuple[MaskedText, Fill]], style: int, weights: Weights
    ) -> list[Rewrite]:
        """What was written for a text, best first; the same text only once, as the first of its masks has it."""
        pool = list({fill.text: (mask, fill) for mask, fill in reversed(pool)}.values())
        texts = [fill.text for _, fill in pool]
        log_p = self.classifier.log_probs(texts)[:, style] if pool else ()
        own, *others = self.tokenizer.encode_many([source, *texts])
        raw = not (self.is_tokenised(source) and _JOINED.search(source))
        rewrites = []
        for (mask, fill), other, log_style in zip(pool, others, log_p, strict=True):
            content = overlap(own, other)
            fluency = fill.log_prob / max(1, sum(len(span.split()) for span in fill.spans))
            again = written_again(*(self._words(text) for text in (source, fill.text)))
            score = weights.score(float(log_style), content, fluency, again)
            parts = in_print(mask, fill.spans) if raw else in_turn(mask.template.pieces, fill.spans)
            rewrites.append(Rewrite(parts, str(mask.template), float(np.exp(log_style)), content, fluency, score))
        return sorted(rewrites, key=lambda rewrite: -rewrite.score)

    def _words(self, text: str) -> list[str]:
        return [text[start:end].lower() for start, end in self.tokenizer.places(text)]

    def is_tokenised(self, text: str) -> bool:
        """Whether a text is written as research corpora are: lower case, a space between any two words and marks."""
        return text == text.lower() and text.split() == [text[a:b] for a, b in self.tokenizer.places(text)]


def check_text(text: str, words: Sequence[str], longest: int) -> None:
    if not words:
        raise BlankLMError("the text is empty: there is nothing to rewrite")
    if len(words) > longest:
        raise BlankLMError(
            f"the text has {len(words):,} words and marks, and this model takes at most {longest:,}: split it"
        )
    if any("___" in word for word in words):
        raise BlankLMError(f"{text!r} has a blank: write the whole text, and say with a mask what to replace")
    letters = sum(any(map(str.isalnum, word)) for word in words)
    if letters < 2:
        what = "one word alone" if letters else "no word"
        raise BlankLMError(f"there is {what} in {text!r}, so nothing of it could be kept: write a sentence")


def places_of(text: str, words: Sequence[tuple[int, int]], mask: Mask) -> set[int]:
    """The numbers of the words that a mask covers; its phrases wherever they stand, whatever their capitals."""
    chosen: set[int] = set()
    for phrase in mask:
        if isinstance(phrase, int):
            if not 0 <= phrase < len(words):
                raise BlankLMError(f"there is no word {phrase} in {text!r}: its words are 0 to {len(words) - 1}")
            chosen.add(phrase)
            continue
        if not phrase.strip():
            raise BlankLMError("a mask is a word or a phrase of the text, not nothing")
        pattern = r"\s+".join(re.escape(part) for part in phrase.split())
        found = [match.span() for match in re.finditer(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE)]
        if not found:
            raise BlankLMError(f"there is no {phrase!r} in {text!r}: a mask is a word or phrase of the text")
        chosen |= {i for i, (a, b) in enumerate(words) if any(a < end and start < b for start, end in found)}
    return chosen


def is_negated(text: str, places: Sequence[tuple[int, int]], i: int) -> bool:
    """Whether word ``i`` and the next one are written as one with n't: neither can be replaced without the other."""
    if not 0 <= i < len(places) - 1:
        return False
    (_, end), (start, last) = places[i], places[i + 1]
    return end == start and text[start:last].lower() in ("n't", "n’t")


def overlap(first: Sequence[int], second: Sequence[int]) -> float:
    """Of the tokens of both, the share that they have in common (Dice)."""
    common = sum((Counter(first) & Counter(second)).values())
    return 2 * common / max(1, len(first) + len(second))


def written_again(source: Sequence[str], written: Sequence[str]) -> int:
    """How often a word of a rewritten text stands there once more, other than in the source: "rude and rude".

    Short words come again by right, as "the" and "was" do.
    """
    before = Counter(source)
    return sum(
        max(0, times - max(1, before[word]))
        for word, times in Counter(written).items()
        if len(word) >= SHORTEST_TO_REPEAT
    )


def in_turn(pieces: Sequence[str], spans: Sequence[str]) -> tuple[str, ...]:
    return (pieces[0], *chain.from_iterable(zip(spans, pieces[1:], strict=True)))


def in_print(mask: MaskedText, spans: Sequence[str]) -> tuple[str, ...]:
    """Pieces and spans in turn, written as in print: "do n't" is "don't", and words have the capitals they had."""
    pieces, written = list(mask.template.pieces), []
    for k, (old, span) in enumerate(zip(mask.spans, spans, strict=True)):
        joined = _JOINED.sub("", " " + re.sub(r"\bi\b", "I", _in_full(span, pieces[k])))
        new = joined.removeprefix(" ")
        if len(old) > 1 and old.isupper():
            new = new.upper()
        elif old[:1].isupper() and not "".join((*pieces[: k + 1], *written)).strip():
            new = new[:1].upper() + new[1:]
        if new == joined:  # a mark or an 's belongs to the word before
            pieces[k] = pieces[k].rstrip()
        elif pieces[k][-1:].isalnum():  # where an 's stood, a word needs a space
            pieces[k] += " "
        if new[:1].isalpha():
            pieces[k] = _ARTICLE.sub(lambda a, word=new: _article(a[0], word), pieces[k])
        written.append(new)
    return in_turn(pieces, written)


def _in_full(span: str, before: str) -> str:
    """ "not" for an "n't" that no word before it takes, and "will" and "can" for a "wo" and "ca" without one."""
    words = span.split()
    for i, word in enumerate(words):
        host = words[i - 1] if i else (before.split() or [""])[-1]
        if word in ("n't", "n’t") and not _TAKES_NOT.fullmatch(host):
            words[i] = "not"
    for i, word in enumerate(words):
        if word in _SHORT_OF and words[i + 1 : i + 2] not in (["n't"], ["n’t"]):
            words[i] = _SHORT_OF[word]
    return " ".join(words)


def _article(article: str, word: str) -> str:
    """ "a" or "an", as the word after it wants; by its letters, but for a few."""
    wants_n = bool(re.match(r"(?!one\b|once\b|un[ai]|us[eu]|eu)[aeiou]|hour|hono|honest", word, re.IGNORECASE))
    return article[0] + ("n" if wants_n else "")
