"""Repair a text, round by round: find suspicious words, propose, and keep what makes the whole more probable."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

from blanklm.core.in_place import Check, Policy, exact, words_of
from blanklm.core.special import BLANK
from blanklm.core.tokenizer import Tokenizer
from blanklm.repairing.lexicon import Lexicon
from blanklm.repairing.options import RepairOptions
from blanklm.repairing.proposals import Proposal, Proposer, is_spelt
from blanklm.repairing.surprise import WordScore, expected_words, leave_one_out
from blanklm.repairing.units import Unit, Window, units_of

SUSPICIOUS = 2.5  # nats by which the most probable word is above the one that stands there
FITS_A_GAP = 4  # words that are tried between two
MOST_STATES = 256  # of an alternative: longer words and spans are left as they are


@dataclass(frozen=True)
class Edit:
    """A change: the text from ``start`` to ``end`` of the original becomes ``new``."""

    start: int
    end: int
    old: str
    new: str
    gain: float  # nats that the text gained, less what the change costs
    rule: str

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"gain": round(self.gain, 4)}


@dataclass(frozen=True)
class Repair:
    """A text and its repair; the edits have offsets in the original, and do not overlap."""

    original: str
    text: str
    edits: tuple[Edit, ...]

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Show the text in a notebook, with what was taken out and put in."""
        shown, at = "", 0
        for edit in self.edits:
            old, new = (html.escape(part) for part in (edit.old, edit.new))
            shown += f"{html.escape(self.original[at : edit.start])}<del>{old}</del><ins>{new}</ins>"
            at = edit.end
        return f"<p>{shown}{html.escape(self.original[at:])}</p>"

    @property
    def changed(self) -> bool:
        return bool(self.edits)

    def to_json(self) -> dict[str, Any]:
        return {"input": self.original, "text": self.text, "edits": [edit.to_json() for edit in self.edits]}


@dataclass(frozen=True)
class _Weighed:
    proposal: Proposal
    gain: float


class Repairer:
    """A model with its words; it finds one text's repair at a time."""

    def __init__(
        self, policy: Policy, tokenizer: Tokenizer, lexicon: Lexicon | None, options: RepairOptions, check: Check | None
    ) -> None:
        self.policy, self.tokenizer, self.lexicon = policy, tokenizer, lexicon
        self.options, self.check = options, check

    def repair(self, original: str) -> Repair:
        text, log = original, list[tuple[str, _Weighed]]()
        allowed = math.ceil(self.options.most * sum(unit.is_word for unit in units_of(original)))
        for _ in range(self.options.rounds):
            units = units_of(text)
            chosen = self._best(text, units)[: allowed - len(log)]
            if not chosen:
                break
            for weighed in sorted(chosen, key=lambda weighed: -weighed.proposal.first):
                start, end = units[weighed.proposal.first].start, units[weighed.proposal.last].end
                log.append((text[start:end], weighed))
                text = text[:start] + weighed.proposal.text + text[end:]
            if len(log) >= allowed:
                break
        return Repair(original, text, edits_between(original, text, log))

    def _best(self, text: str, units: list[Unit]) -> list[_Weighed]:
        """Changes that gain more than the margin, the best first, with two units between any two of them."""
        scores = leave_one_out(self.policy, self.tokenizer, text, units, self.check)
        suspicious = [i for i in range(len(units)) if self._is_suspicious(units, i, scores[i])]
        proposer = Proposer(text, units, self.lexicon, locked(text, units, self.options.keep))
        gaps = self._gap_words(text, units, suspicious)
        proposals = dict.fromkeys(
            proposal for i, around in zip(suspicious, gaps, strict=True) for proposal in proposer.around(i, around)
        )
        margin = self.options.margin or 0.0
        weighed = [one for one in self._weigh(text, units, list(proposals)) if one.gain > margin]
        weighed.sort(key=lambda one: -one.gain)
        kept: list[_Weighed] = []
        for one in weighed:
            if all(_apart(one.proposal, other.proposal) for other in kept):
                kept.append(one)
        return kept

    def _is_suspicious(self, units: list[Unit], i: int, score: WordScore) -> bool:
        word = units[i].text
        if not units[i].is_word:
            return False
        doubled = i > 0 and units[i - 1].text.lower() == word.lower()
        unknown = self.lexicon is not None and is_spelt(word) and self.lexicon.misspelt(word)
        return doubled or unknown or score.surprise > SUSPICIOUS

    def _gap_words(self, text: str, units: list[Unit], suspicious: Sequence[int]) -> list[list[list[str]]]:
        """The short words that fit best before and after each suspicious unit."""
        canvases: dict[int, tuple[int, ...]] = {}
        for at in sorted({gap for i in suspicious for gap in (i, i + 1)}):
            if 0 < at < len(units) and text[units[at - 1].end : units[at].start].isspace():
                window = Window.over(text, units, at, at)
                before = self.tokenizer.encode(window.before[:-1] if self.tokenizer.kind == "bpe" else window.before)
                space = " " if self.tokenizer.kind == "bpe" else ""
                rest = self.tokenizer.encode(space + units[at].text + window.after)
                canvases[at] = (*before, BLANK, *rest)
        expected = expected_words(self.policy, self.tokenizer, list(canvases.values()), self.check)
        fits = {at: [word for word, _ in expected[canvas][:FITS_A_GAP]] for at, canvas in canvases.items()}
        return [[fits.get(i, []), fits.get(i + 1, [])] for i in suspicious]

    def _weigh(self, text: str, units: list[Unit], proposals: Sequence[Proposal]) -> list[_Weighed]:
        """What the text gains by each proposal: log p of the span in place, above that of what stands there."""
        windows = {(p.first, p.last): Window.over(text, units, p.first, p.last) for p in proposals}
        spans = [(window, text[window.start : window.end]) for window in windows.values()]
        spans += [(windows[p.first, p.last], p.text) for p in proposals]
        words = words_of(self.policy, [window.with_text(span, self.tokenizer) for window, span in spans])
        fitting = [n for n, each in enumerate(words) if each.states <= MOST_STATES]
        log_p = dict(zip(fitting, exact(self.policy, [words[n] for n in fitting], self.check), strict=True))
        stands = {key: log_p.get(n) for n, key in enumerate(windows)}
        weighed = []
        for n, proposal in enumerate(proposals, len(windows)):
            here = stands[proposal.first, proposal.last]
            if here is not None and n in log_p:
                weighed.append(_Weighed(proposal, float(log_p[n] - here) - proposal.cost))
        return weighed


def _apart(one: Proposal, other: Proposal) -> bool:
    return one.first > other.last + 2 or other.first > one.last + 2


def locked(text: str, units: Sequence[Unit], keep: Sequence[str]) -> list[bool]:
    """Which units belong to a word or phrase that is kept, however it is capitalised."""
    low, changes = _lower(text), [0] * (len(text) + 1)  # of how many phrases cover a character
    for phrase in dict.fromkeys(map(_lower, keep)):
        at = low.find(phrase) if phrase.strip() else -1
        while at >= 0:
            changes[at] += 1
            changes[at + len(phrase)] -= 1
            at = low.find(phrase, at + 1)
    covered = [0, *accumulate(number > 0 for number in accumulate(changes))]  # characters before each place
    return [covered[unit.end] > covered[unit.start] for unit in units]


def _lower(text: str) -> str:
    """Small letters, each in the place of its capital: some of Unicode would take two."""
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def edits_between(original: str, text: str, log: Sequence[tuple[str, _Weighed]]) -> tuple[Edit, ...]:
    """The differences word by word, with offsets in the original; a gain is that of the changes that made it."""
    old, new = units_of(original), units_of(text)
    matcher = SequenceMatcher(None, [unit.text for unit in old], [unit.text for unit in new], autojunk=False)
    edits = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        start, end, written = _span(original, old, a, b, text, new, c, d)
        touching = [weighed for _, weighed in log if set(weighed.proposal.text.split()) & set(written.split())]
        touching = touching or [weighed for before, weighed in log if original[start:end].strip() in before]
        gain = sum(weighed.gain for weighed in touching[:1])
        rule = touching[0].proposal.rule if touching else "word"
        edits.append(Edit(start, end, original[start:end], written, gain, rule))
    return tuple(edits)


def _span(
    original: str, old: list[Unit], a: int, b: int, text: str, new: list[Unit], c: int, d: int
) -> tuple[int, int, str]:
    """Where units ``a`` to ``b`` stood and what stands there now, so that the rest comes together again."""
    if a == b:  # insertion: with the space that follows it in the new text, or the one before it
        at = old[a].start if a < len(old) else len(original)
        stop = new[d].start if d < len(new) else len(text)
        return at, at, text[new[c].start : stop]
    if c == d:  # deletion: with the space after it, or before it at the end
        stop = old[b].start if b < len(old) else old[b - 1].end
        start = old[a].start if b < len(old) or a == 0 else old[a - 1].end
        if b < len(old) and not original[old[b - 1].end : old[b].start] and a > 0:
            start, stop = old[a - 1].end, old[b - 1].end
        return start, stop, ""
    return old[a].start, old[b - 1].end, text[new[c].start : new[d - 1].end]


def apply(original: str, edits: Sequence[Edit]) -> str:
    """The text with some of its edits."""
    for edit in sorted(edits, key=lambda edit: -edit.start):
        original = original[: edit.start] + edit.new + original[edit.end :]
    return original
