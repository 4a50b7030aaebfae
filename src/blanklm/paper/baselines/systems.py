"""The baselines with their tokenizers: text in, text or numbers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from blanklm import pretrained
from blanklm.api import BlankLM
from blanklm.core.canvas import Fill
from blanklm.core.special import BLANK, UNK
from blanklm.core.template import Blank, Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models import registry
from blanklm.paper.baselines.predictor import FIRST, FIRST_WITH_SPACE, CanvasIds, WrittenSpans
from blanklm.restoration.candidates import Candidate
from blanklm.restoration.draft import Draft, Part
from blanklm.training import checkpoint

TEXTS_AT_ONCE = {"cpu": 64, "cuda": 512}  # texts filled together
SLOTS_AT_ONCE = 512  # slots of as many texts that Pythia restores together


class Baseline:
    does: str  # what its model must be able to do
    model: Any  # has the method ``does``
    on_gpu = torch.float32  # how exact it is there

    def __init__(self, model: nn.Module, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str | None = None) -> Self:
        loaded = checkpoint.load(pretrained.locate(folder))
        if not hasattr(loaded.model, cls.does):
            raise BlankLMError(f"the model in {folder} is of another kind: it has no {cls.does}()")
        device = checkpoint.device_for(device)
        return cls(loaded.model.to(device, cls.on_gpu if device.startswith("cuda") else None), loaded.tokenizer)


class LanguageModel(Baseline):
    """A left-to-right model that judges whole texts."""

    does = "log_prob"

    def log_prob(self, texts: Sequence[str]) -> list[float]:
        """log p of each text, its end included."""
        return self.model.log_prob(self.tokenizer.encode_many(texts))


class Infiller(Baseline):
    """A baseline that fills. A masked model must be told what is ``hidden``: it uses its length alone.

    A seq2seq model may answer with a text that does not fill the canvas: words lost, or blanks counted wrong. Then the
    fill's text is what was written, and it is not what its spans make of the canvas.
    """

    does = "write"
    on_gpu = torch.bfloat16

    @property
    def oracle(self) -> bool:
        return getattr(self.model, "oracle", False)

    @property
    def longest(self) -> int:
        """How many tokens a text may have."""
        return self.model.config.max_length

    def fill(
        self,
        texts: Sequence[str],
        hidden: Sequence[Sequence[str]] | None = None,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> list[Fill]:
        """One fill of each canvas text; ``progress`` is called with the number of texts just done."""
        if self.oracle != (hidden is not None):
            wants = "must be told what was hidden" if self.oracle else "is not told what was hidden"
            raise BlankLMError(f"this model {wants}")
        templates = [Template.parse(text) for text in texts]
        canvases = [self._unfilled(t, None if hidden is None else hidden[i]) for i, t in enumerate(templates)]
        bans = not_writable(self.tokenizer).to(self.model.device)
        by_length = sorted(range(len(texts)), key=lambda i: len(canvases[i].ids))
        fills: list[Any] = [None] * len(texts)
        at_once = TEXTS_AT_ONCE.get(self.model.device.type, 64)
        for start in range(0, len(texts), at_once):
            members = by_length[start : start + at_once]
            written = self.model.write([canvases[i] for i in members], bans, **options)
            for i, found in zip(members, written, strict=True):
                fills[i] = self._to_fill(templates[i], canvases[i], found)
            if progress:
                progress(len(members))
        return fills

    def _to_fill(self, template: Template, canvas: CanvasIds, found: WrittenSpans) -> Fill:
        if found.whole is not None:
            words = self._words(found.whole, template)
            spans = fitting_spans(template, words)
            if spans is None:
                return Fill(" ".join(words), ("",) * len(template.blanks), found.log_prob)
            return Fill(self.tokenizer.render(template, spans), tuple(spans), found.log_prob)
        blanks = len(canvas.spaces)
        given, beyond = found.spans[:blanks], found.spans[blanks:]
        given = given + [[]] * (blanks - len(given))
        spans = [self.tokenizer.span_text(ids, space) for ids, space in zip(given, canvas.spaces, strict=True)]
        text = " ".join((self.tokenizer.render(template, spans), *map(self.tokenizer.decode, beyond)))
        return Fill(text, tuple(spans), found.log_prob)

    def _words(self, ids: Sequence[int], template: Template) -> list[str]:
        """The words of a whole text; those unknown to the model are, in their order, the unknown ones of the canvas."""
        if self.tokenizer.kind != "word":
            return self.tokenizer.decode(ids).split()
        given = (word for piece in template.pieces for word in piece.split())
        unknown = iter([word for word in given if self.tokenizer.encode(word) == [UNK]])
        return [next(unknown, self.tokenizer.token(UNK)) if i == UNK else self.tokenizer.token(i) for i in ids]

    def _unfilled(self, template: Template, hidden: Sequence[str] | None) -> CanvasIds:
        if not template.blanks:
            raise BlankLMError("there is no blank in the text: write ___ where words are missing")
        if any(blank != Blank() for blank in template.blanks):
            raise BlankLMError("this model fills blanks of unknown length only: write ___")
        ids, spaces = self.tokenizer.encode_template(template)
        lengths = None
        if hidden is not None:
            spelt = [" " * space + span for span, space in zip(hidden, spaces, strict=True)]
            lengths = [len(tokens) for tokens in self.tokenizer.encode_many(spelt)]
        total = len(ids) if lengths is None else len(ids) + sum(lengths) - len(lengths)
        if total > self.longest:
            raise BlankLMError(f"the text takes {total:,} tokens, and this model at most {self.longest:,}")
        return CanvasIds(ids, spaces, lengths)


def load_system(model: str | Path = pretrained.DEFAULT, device: str | None = None) -> BlankLM | Infiller:
    """Load whatever fills blanks: a BLM, or a baseline."""
    folder = pretrained.locate(model)
    found = registry.find(checkpoint.read_config(folder)["kind"])
    is_baseline = found is not None and hasattr(found[0], Infiller.does)
    return Infiller.from_pretrained(folder, device) if is_baseline else BlankLM.from_pretrained(folder, device)


def fitting_spans(template: Template, words: Sequence[str]) -> list[str] | None:
    """What each blank holds if ``words`` are a fill of the template, at least a word for each; None if they are not.

    Every run of given words is sought from left to right, as early as it can be: a later place never fits better.
    """
    pieces = [piece.split() for piece in template.pieces]
    first, *between, last = pieces
    end = len(words) - len(last)
    if list(words[: len(first)]) != first or end < len(first) or list(words[end:]) != last:
        return None
    spans, start = [], len(first)
    for piece in between:
        found = start + 1
        while found + len(piece) <= end and list(words[found : found + len(piece)]) != piece:
            found += 1
        if found + len(piece) > end:
            return None
        spans.append(" ".join(words[start:found]))
        start = found + len(piece)
    return [*spans, " ".join(words[start:end])] if start < end else None


def not_writable(tokenizer: Tokenizer) -> Tensor:
    """[3, V] of 0 and -inf: what the models' ``write`` must not write (predictor.py says where)."""
    never = torch.from_numpy(tokenizer.never_written)
    banned = never.repeat(3, 1)  # [3, V]
    if tokenizer.words_have_parts:
        starts_word = torch.from_numpy(tokenizer.starts_word)
        banned[FIRST] |= starts_word
        banned[FIRST_WITH_SPACE] |= ~starts_word
    return torch.zeros(banned.shape).masked_fill(banned, -torch.inf)


class SlotBySlot(Baseline):
    """Pythia on documents of gaps: one slot after another from the left, the others open until their turn comes."""

    does = "restore_slots"
    beam = 20

    def fill(self, documents: Sequence[Sequence[Part]]) -> list[list[str]]:
        """The best guess for each gap of each document."""
        drafts = [Draft.of(parts, self.tokenizer) for parts in documents]
        for number in range(max(len(draft.gaps) for draft in drafts)):
            turn = [draft for draft in drafts if number < len(draft.gaps)]
            for draft, found in zip(turn, self._restore([(draft, number) for draft in turn]), strict=True):
                draft.spans[number] = found[0][0]
        return [[self.tokenizer.decode(span) for span in draft.spans] for draft in drafts]

    def rank(self, documents: Sequence[Sequence[Part]], n: int = 20) -> list[list[list[Candidate]]]:
        """The ``n`` best candidates for each gap of each document, the other gaps holding their best guess."""
        drafts = [Draft.of(parts, self.tokenizer) for parts in documents]
        several = [i for i, draft in enumerate(drafts) if len(draft.gaps) > 1]
        if several:
            for i, spans in zip(several, self.fill([documents[i] for i in several]), strict=True):
                drafts[i].spans = self.tokenizer.encode_many(spans)
        jobs = [(draft, number) for draft in drafts for number in range(len(draft.gaps))]
        found = iter(self._restore(jobs))
        return [
            [[Candidate(self.tokenizer.decode(ids), log_p) for ids, log_p in next(found)[:n]] for _ in draft.gaps]
            for draft in drafts
        ]

    def _restore(self, jobs: Sequence[tuple[Draft, int]]) -> list[list[tuple[list[int], float]]]:
        """The best answers for gaps of documents, each read in as much text as the model takes."""
        windows = []
        for draft, number in jobs:
            k = len(draft.spans[number])
            spans = [*draft.spans[:number], [BLANK] * k, *draft.spans[number + 1 :]]
            ids, starts = draft.with_spans(spans)
            longest = self.model.config.max_length
            first = max(0, min(starts[number] + k // 2 - longest // 2, len(ids) - longest))
            windows.append((ids[first : first + longest], starts[number] - first, k))
        found: list[Any] = [None] * len(jobs)
        by_length = sorted(range(len(jobs)), key=lambda i: len(windows[i][0]))
        for start in range(0, len(jobs), SLOTS_AT_ONCE):
            members = by_length[start : start + SLOTS_AT_ONCE]
            answered = self.model.restore_slots(*zip(*(windows[i] for i in members), strict=True), self.beam)
            for i, answers in zip(members, answered, strict=True):
                found[i] = answers
        return found
