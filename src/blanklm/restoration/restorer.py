"""Restoration of damaged texts: text and gaps in, ranked restorations with probabilities out.

A document is a sequence of text pieces and gaps. A gap's length is known (``Gap(5, 5)``), lies in a range
(``Gap(3, 7)``) or is unknown (``Gap()``); one document may have all three. Text is given as its author wrote it; the
model reads it normalised (``normalise``), and answers in the alphabet it was trained on: lower case, no accents.
"""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blanklm import pretrained
from blanklm.core.special import BLANK, UNK
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.fixed_length import FilledText, fill_greedily, log_probs_of, search_beams
from blanklm.errors import BlankLMError
from blanklm.restoration.lexicon import Lexicon
from blanklm.training import checkpoint

LONGEST_GAP = 1000
LEAST_CONTEXT = 100  # characters around a gap that are read however long it is
LONGEST_SEARCHED = 40  # characters of a gap whose alternatives are searched; a longer one gets its best guess alone
BLOCK = 20  # characters of a gap of which one is written in each pass of a best guess
NEAR = 32  # characters on either side of a gap that are read anew for each draft of a search
WITHIN = 9.0  # nats below the best at which a draft is given up
LEAST_LENGTH_SHARE = 0.02  # of the length posterior: shorter shrift is not searched
MOST_LENGTHS = 8  # lengths of a gap of unknown length that are searched
FIT = 6  # characters on either side of a gap of unknown length that should fit what is restored
FIT_CONTEXT = 64  # characters on either side that are read to see it
FIT_WEIGHT = 0.25  # found on validation texts
WEIGHED = 20  # restorations that are weighed by that and by known words, however few are asked for


@dataclass(frozen=True)
class Gap:
    """Lost characters: ``minimum`` to ``maximum`` of them; None where it is not known."""

    minimum: int | None = None
    maximum: int | None = None

    def __post_init__(self) -> None:
        least = 1 if self.minimum is None else self.minimum
        most = LONGEST_GAP if self.maximum is None else self.maximum
        if not 1 <= least <= most <= LONGEST_GAP:
            raise BlankLMError(f"a gap has 1 to {LONGEST_GAP:,} characters, its least before its most: not {self}")

    @property
    def length(self) -> int | None:
        """The length, where it is known exactly."""
        return self.minimum if self.minimum == self.maximum else None

    @property
    def range(self) -> tuple[int, int]:
        """(least, most), or (0, 0) where nothing is known."""
        if self.minimum is None and self.maximum is None:
            return 0, 0
        return self.minimum or 1, self.maximum or LONGEST_GAP

    @property
    def is_narrow(self) -> bool:
        """Whether both ends are known and as near each other as those that models learn from (``draw_untold``)."""
        return None not in (self.minimum, self.maximum) and self.maximum <= 3 * self.minimum + 4

    def __str__(self) -> str:
        return f"{self.minimum or 1}-{self.maximum or ''}"


Part = str | Gap


@dataclass(frozen=True)
class Candidate:
    """One restoration of one gap.

    ``log_prob`` is the model's, weighed by known words; where the length was not told, also by how probable the length
    is and how well the text around fits.
    """

    text: str
    log_prob: float

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class GapRestoration:
    """What is known of one gap: candidates, best first, and what their probabilities say of each place."""

    candidates: tuple[Candidate, ...]
    places: tuple[dict[str, float], ...]  # for each place of the best: characters and their probabilities, best first
    lengths: dict[int, float]  # the length posterior; {k: 1.0} where the length was told
    abstained: bool = False
    reason: str | None = None  # why it abstained

    @property
    def best(self) -> str:
        return self.candidates[0].text

    @property
    def confidence(self) -> tuple[float, ...]:
        """For each character of the best candidate, its probability among the candidates of that length."""
        return tuple(place[character] for place, character in zip(self.places, self.best, strict=True))

    def to_json(self) -> dict[str, Any]:
        return {
            "candidates": [
                {"text": c.text, "log_prob": round(c.log_prob, 6), "probability": round(c.probability, 6)}
                for c in self.candidates
            ],
            "confidence": [round(p, 6) for p in self.confidence],
            "places": [{c: round(p, 6) for c, p in place.items()} for place in self.places],
            "lengths": {str(k): round(p, 6) for k, p in self.lengths.items()},
            "abstained": self.abstained,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Hypothesis:
    """A restoration of every gap of a document."""

    spans: tuple[str, ...]
    log_prob: float

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class Restoration:
    """``hypotheses`` of the whole document, best first, and each gap by itself.

    Gaps are searched one by one, the others holding their best guess; the probability of a hypothesis is the product
    of its gaps' probabilities. With one gap it is exact.
    """

    hypotheses: tuple[Hypothesis, ...]
    gaps: tuple[GapRestoration, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "hypotheses": [
                {"spans": list(h.spans), "log_prob": round(h.log_prob, 6), "probability": round(h.probability, 6)}
                for h in self.hypotheses
            ],
            "gaps": [gap.to_json() for gap in self.gaps],
        }


class Restorer:
    """A character model that restores: a mixed L-BLM, or an L-BLM, which must be told every length.

    ``about["temperature"]``, where it is there, makes its probabilities those of being right (``tasks.restoration``);
    ``attested`` words, where there are any, speak for candidates that are made of them.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: Tokenizer,
        about: dict[str, Any] | None = None,
        attested: Lexicon | None = None,
    ) -> None:
        self.model, self.tokenizer, self.about, self.attested = model.eval(), tokenizer, about or {}, attested
        self.temperature: float = self.about.get("temperature", 1.0)

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, device: str | None = None) -> Restorer:
        folder = pretrained.locate(name_or_folder)
        loaded = checkpoint.load(folder)
        if not hasattr(loaded.model, "score_positions"):
            raise BlankLMError(f"{name_or_folder} does not restore: give a model such as greek or latin")
        device = checkpoint.device_for(device)
        return cls(loaded.model.to(device), loaded.tokenizer, loaded.about, Lexicon.load(folder))

    @property
    def longest(self) -> int:
        """How many characters are read at once."""
        return self.model.config.max_length

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def language(self) -> str:
        return self.about.get("language", "")

    def normalise(self, text: str) -> str:
        """The text as the model reads it; see ``normalise``."""
        return normalise(text)

    def unknown(self, text: str) -> list[tuple[int, str]]:
        """(index, character) of each character of ``text`` that the model has never seen: letters of another script."""
        normalised, positions = normalise_with_positions(text)
        ids = self.tokenizer.encode(normalised)
        return [(positions[i], text[positions[i]]) for i, token in enumerate(ids) if token == UNK]

    # --- One document, with everything that is known of it ------------------------------------------------------

    def restore(
        self,
        parts: Sequence[Part],
        top: int = 20,
        abstain_below: float = 0.05,
        progress: Callable[[int], None] | None = None,
    ) -> Restoration:
        """The ``top`` best restorations of a document; ``progress`` is called after each gap with 1.

        A gap abstains where no candidate is as probable as ``abstain_below``: its candidates are there all the same.
        """
        if top < 1:
            raise BlankLMError(f"the number of restorations must be at least 1, not {top}")
        draft = Draft.of(self._checked(parts), self.tokenizer)
        (posteriors,) = self._tell_lengths([draft])
        (guessed,) = self._fill([draft])
        gaps = []
        for number in range(len(draft.gaps)):
            gaps.append(self._restore_gap(draft, guessed, number, posteriors.get(number), top, abstain_below))
            if progress:
                progress(1)
        return Restoration(tuple(best_combinations([gap.candidates for gap in gaps], top)), tuple(gaps))

    def _restore_gap(
        self,
        draft: Draft,
        guessed: list[list[int]],
        number: int,
        posterior: torch.Tensor | None,
        top: int,
        abstain_below: float,
    ) -> GapRestoration:
        lengths = {len(guessed[number]): 1.0}
        log_p_length = {len(guessed[number]): 0.0}
        if posterior is not None:
            by_share = posterior.argsort(descending=True)
            lengths = {int(k) + 1: float(posterior[k].exp()) for k in by_share if posterior[k].exp() >= 0.001}
            log_p_length = {k: float(posterior[k - 1]) for k in likely_lengths(posterior)}
        searched = {k: log_p for k, log_p in log_p_length.items() if k <= LONGEST_SEARCHED}
        texts, windows = [], []
        for k in searched or log_p_length:
            spans = [*guessed[:number], [BLANK] * k, *guessed[number + 1 :]]
            window, at = self._window(draft.with_spans(spans), number)
            texts.append(window)
            windows.append((k, at))
        if searched:
            found = self._search(texts, max(top, WEIGHED))
        else:
            groups = [in_blocks(len(ids), [(at, k)]) for ids, (k, at) in zip(texts, windows, strict=True)]
            found = [[filled] for filled in self._guess(texts, groups)]
        candidates = [
            Candidate(self._text(filled.ids[at : at + k]), filled.log_prob + log_p_length[k])
            for (k, at), fills in zip(windows, found, strict=True)
            for filled in fills
        ]
        if posterior is not None:
            before, behind = (self._text(piece) for piece in draft.pieces[number : number + 2])
            candidates = without_needless_spaces(candidates, before, behind, draft.gaps[number].range[0])
        candidates = sorted(candidates, key=lambda c: -c.log_prob)[: max(top, WEIGHED)]
        (k, at), ids = windows[0], texts[0]  # with other lengths, the text around is the same where it is near
        gains = self._supported(candidates, ids[:at], ids[at + k :])
        if posterior is not None:
            spans = [[*guessed[:number], self.tokenizer.encode(c.text), *guessed[number + 1 :]] for c in candidates]
            fits = self._fit([(*draft.with_spans(each), number, len(each[number])) for each in spans])
            gains = [gain + FIT_WEIGHT * fit for gain, fit in zip(gains, fits, strict=True)]
        candidates, lengths = weighed(candidates, gains, lengths)
        places, candidates = places_of(candidates), candidates[:top]  # of letters, also those not asked for speak
        best = candidates[0]
        reason = None
        if not searched:
            reason = f"the gap has more than {LONGEST_SEARCHED} characters"
        elif best.probability < abstain_below:
            reason = f"no restoration is as probable as {abstain_below:.0%}: the best has {best.probability:.2%}"
        return GapRestoration(tuple(candidates), places, lengths, reason is not None, reason)

    # --- Many documents, for evaluation -------------------------------------------------------------------------

    def fill(self, documents: Sequence[Sequence[Part]]) -> list[list[str]]:
        """The best guess for each gap of each document: every gap has its most confident character written in turn."""
        drafts = [Draft.of(self._checked(parts), self.tokenizer) for parts in documents]
        self._tell_lengths(drafts)
        return [[self._text(ids) for ids in spans] for spans in self._fill(drafts)]

    def rank(self, documents: Sequence[Sequence[Part]], n: int = 20) -> list[list[list[Candidate]]]:
        """The ``n`` best candidates for each gap of each document, whose lengths are told.

        The other gaps of a document hold their best guess; a gap too long to be searched has its best guess alone.
        """
        drafts = [Draft.of(self._checked(parts), self.tokenizer) for parts in documents]
        if any(gap.length is None for draft in drafts for gap in draft.gaps):
            raise BlankLMError("ranking takes gaps of known length: restore takes others")
        guessed = self._fill([draft for draft in drafts if len(draft.gaps) > 1])
        guesses = iter(guessed)
        ranked: list[list[list[Candidate]]] = []
        searched = []  # (document, gap, where it stands, the window)
        for i, draft in enumerate(drafts):
            spans = next(guesses) if len(draft.gaps) > 1 else draft.spans
            ranked.append([[] for _ in draft.gaps])
            for number, gap in enumerate(draft.gaps):
                window, at = self._window(
                    draft.with_spans([*spans[:number], [BLANK] * gap.length, *spans[number + 1 :]]), number
                )
                searched.append((i, number, at, gap.length, window))
        short = [job for job in searched if job[3] <= LONGEST_SEARCHED]
        long = [job for job in searched if job[3] > LONGEST_SEARCHED]
        found = self._search([job[4] for job in short], max(n, WEIGHED))
        groups = [in_blocks(len(ids), [(at, k)]) for _, _, at, k, ids in long]
        found += [[filled] for filled in self._guess([job[4] for job in long], groups)]
        for (i, number, at, k, ids), fills in zip(short + long, found, strict=True):
            candidates = [Candidate(self._text(f.ids[at : at + k]), f.log_prob) for f in fills]
            gains = self._supported(candidates, ids[:at], ids[at + k :])
            ranked[i][number] = weighed(candidates, gains, {k: 1.0})[0][:n]
        return ranked

    # --- Steps --------------------------------------------------------------------------------------------------

    def _checked(self, parts: Sequence[Part]) -> list[Part]:
        if not any(isinstance(part, Gap) for part in parts):
            raise BlankLMError("there is no gap in the document: nothing to restore")
        joined: list[Part] = []
        for part in parts:
            if (
                isinstance(part, Gap)
                and joined
                and isinstance(joined[-1], Gap)
                and None in (part.length, joined[-1].length)
            ):
                raise BlankLMError("a gap touches a gap of unknown length: write the two as one")
            if isinstance(part, str) and joined and isinstance(joined[-1], str):
                joined[-1] += part
            else:
                joined.append(part)
        mixed = hasattr(self.model, "score_lengths")
        if not mixed and any(isinstance(part, Gap) and part.length is None for part in joined):
            raise BlankLMError("this model must be told the length of every gap")
        return joined

    def _tell_lengths(self, drafts: Sequence[Draft]) -> list[dict[int, torch.Tensor]]:
        """Settle the lengths that are not told, leftmost first in each draft; the log-posterior of each, by its gap."""
        posteriors: list[dict[int, torch.Tensor]] = [{} for _ in drafts]
        for number in range(max(len(draft.gaps) for draft in drafts)):
            turn = [i for i, d in enumerate(drafts) if number < len(d.gaps) and d.gaps[number].length is None]
            for i in turn:
                posteriors[i][number] = self._length_posterior(drafts[i], number)
            lengths = self._best_lengths([drafts[i] for i in turn], number, [posteriors[i][number] for i in turn])
            for i, length in zip(turn, lengths, strict=True):
                drafts[i].spans[number] = [BLANK] * length
        return posteriors

    def _best_lengths(self, drafts: Sequence[Draft], number: int, posteriors: Sequence[torch.Tensor]) -> list[int]:
        """For a gap of each draft the length of its most probable restoration, weighed by how the text around fits.

        A length alone says little; what would stand there says more. The guess for each length is a greedy one.
        """
        texts, groups, tried = [], [], []  # tried: (draft, length, where the gap begins)
        for i, (draft, posterior) in enumerate(zip(drafts, posteriors, strict=True)):
            for k in likely_lengths(posterior):
                spans = [*draft.spans[:number], [BLANK] * k, *draft.spans[number + 1 :]]
                ids, starts = draft.with_spans(spans)
                start, end = around(len(ids), starts[number], k, FIT_CONTEXT)
                texts.append(ids[start:end])
                groups.append(in_blocks(len(ids), zip(starts, map(len, spans), strict=True))[start:end])
                tried.append((i, k, starts[number] - start))
        filled = self._guess(texts, groups)
        fits = self._fit([(f.ids, [at], 0, k) for f, (_, k, at) in zip(filled, tried, strict=True)])
        best: dict[int, tuple[float, int]] = {}
        for (i, k, at), guess, fit in zip(tried, filled, fits, strict=True):
            log_prob = sum(guess.place_log_probs[at + place] for place in range(k))
            score = float(posteriors[i][k - 1]) + log_prob + FIT_WEIGHT * fit
            best[i] = max(best.get(i, (-math.inf, k)), (score, k))
        return [best[i][1] for i in range(len(drafts))]

    def _fit(self, restored: Sequence[tuple[list[int], list[int], int, int]]) -> list[float]:
        """How well the text fits what was restored: log p of FIT characters on either side, each side hidden by itself.

        Of each document: its ids, where its gaps begin, which gap is meant, and how long its restoration is.
        """
        texts, positions = [], []
        for ids, starts, number, k in restored:
            start, end = around(len(ids), starts[number], k, FIT_CONTEXT)
            at = starts[number] - start
            for side in (range(max(0, at - FIT), at), range(at + k, min(end - start, at + k + FIT))):
                texts.append(ids[start:end])
                positions.append([p for p in side if self.model.writable[ids[start + p]]])
        each = log_probs_of(self.model, texts, positions)
        return [left + right for left, right in zip(each[::2], each[1::2], strict=True)]

    def _supported(self, candidates: Sequence[Candidate], before: Sequence[int], behind: Sequence[int]) -> list[float]:
        """What words of the corpus say for each candidate between the two."""
        if self.attested is None:
            return [0.0] * len(candidates)
        around = self._text(before), self._text(behind)
        return [self.attested.support(around[0], candidate.text, around[1]) for candidate in candidates]

    def _length_posterior(self, draft: Draft, number: int) -> torch.Tensor:
        """log p(k) [N] of a gap, the gaps after it being untold too."""
        ids, where = draft.symbols()
        start, end = self._around(len(ids), where[number], where[number] + 1)
        tokens = torch.tensor([ids[start:end]], device=self.model.device)  # [1, L]
        untold, least, most = (torch.zeros_like(tokens) for _ in range(3))
        for gap, at in zip(draft.gaps[number:], where[number:], strict=True):
            if gap.length is None and start <= at < end:
                untold[0, at - start] = 1
                if gap.is_narrow:  # else the model would take the middle of the range for a hint
                    least[0, at - start], most[0, at - start] = gap.range
        lengths = torch.tensor([tokens.shape[1]], device=tokens.device)
        hidden = tokens == BLANK
        log_p, _, position = self.model.score_lengths(tokens, lengths, hidden, untold.bool(), least, most)
        log_p = log_p[(position == where[number] - start).nonzero()[0, 0]].cpu()
        log_p = log_p[: max(self.model.config.max_length // 2, draft.gaps[number].range[0])]  # else no context is left
        k = torch.arange(1, len(log_p) + 1)  # [N]
        shortest, longest = draft.gaps[number].range
        return log_p.masked_fill((k < shortest) | ((longest > 0) & (k > longest)), -math.inf).log_softmax(0)

    def _fill(self, drafts: Sequence[Draft]) -> list[list[list[int]]]:
        """The best guess for the gaps of each draft, all lengths being settled: ids."""
        open_drafts = [[list(span) for span in draft.spans] for draft in drafts]
        while True:
            texts, groups, whose = [], [], []
            for i, (draft, spans) in enumerate(zip(drafts, open_drafts, strict=True)):
                number = next((n for n, span in enumerate(spans) if BLANK in span), None)
                if number is None:
                    continue
                ids, starts = draft.with_spans(spans)
                window, end = self._around(len(ids), starts[number], starts[number] + len(spans[number]))
                texts.append(ids[window:end])
                groups.append(in_blocks(len(ids), zip(starts, map(len, spans), strict=True))[window:end])
                whose.append((i, window, starts))
            if not texts:
                return open_drafts
            for (i, window, starts), filled in zip(whose, self._guess(texts, groups), strict=True):
                for n, at in enumerate(starts):
                    span = open_drafts[i][n]
                    for k in range(len(span)):
                        if window <= at + k < window + len(filled.ids):
                            span[k] = filled.ids[at + k - window]

    def _search(self, texts: Sequence[Sequence[int]], beam: int) -> list[list[FilledText]]:
        return search_beams(self.model, texts, beam, within=WITHIN, temperature=self.temperature, window=NEAR)

    def _guess(self, texts: Sequence[Sequence[int]], gaps: Sequence[Sequence[int]]) -> list[FilledText]:
        return fill_greedily(self.model, texts, gaps, self.temperature)

    def _window(self, laid: tuple[list[int], list[int]], number: int) -> tuple[list[int], int]:
        """The text around a gap that the model can read, and where the gap stands in it."""
        ids, starts = laid
        at = starts[number]
        length = next((k for k in range(len(ids) - at) if ids[at + k] != BLANK), len(ids) - at)
        start, end = self._around(len(ids), at, at + length)
        return ids[start:end], at - start

    def _around(self, total: int, gap_start: int, gap_end: int) -> tuple[int, int]:
        """A window of the model's length, from and to, with the gap in its middle; wider where the gap fills it."""
        longest = max(self.model.config.max_length, gap_end - gap_start + LEAST_CONTEXT)
        start = max(0, min((gap_start + gap_end - longest) // 2, total - longest))
        return start, min(total, start + longest)

    def _text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)


@dataclass
class Draft:
    """A document in ids: pieces[0] gap[0] pieces[1] ...; ``spans`` hold what stands in each gap, BLANK where open."""

    pieces: list[list[int]]
    gaps: list[Gap]
    spans: list[list[int]]  # of a gap whose length is not settled: one BLANK

    @classmethod
    def of(cls, parts: Sequence[Part], tokenizer: Tokenizer) -> Draft:
        pieces, gaps, piece = [], [], ""
        for part in parts:
            if isinstance(part, Gap):
                pieces.append(piece)
                gaps.append(part)
                piece = ""
            else:
                piece += part
        encoded = tokenizer.encode_many([normalise(text) for text in (*pieces, piece)])
        return cls(encoded, gaps, [[BLANK] * (gap.length or 1) for gap in gaps])

    def with_spans(self, spans: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """The document with these spans, and where each begins."""
        ids, starts = list(self.pieces[0]), []
        for span, piece in zip(spans, self.pieces[1:], strict=True):
            starts.append(len(ids))
            ids += [*span, *piece]
        return ids, starts

    def symbols(self) -> tuple[list[int], list[int]]:
        return self.with_spans(self.spans)


def likely_lengths(posterior: torch.Tensor) -> list[int]:
    """Of a log-posterior [N] over 1 ... N, the lengths worth a search, the most probable first."""
    best = posterior.argsort(descending=True)[:MOST_LENGTHS].tolist()
    return [k + 1 for k in best if k == best[0] or posterior[k].exp() >= LEAST_LENGTH_SHARE]


def around(total: int, at: int, length: int, context: int) -> tuple[int, int]:
    """From and to: ``context`` characters on either side of ``length`` that begin ``at``, as far as there are any."""
    return max(0, at - context), min(total, at + length + context)


def weighed(
    candidates: Sequence[Candidate], gains: Sequence[float], lengths: dict[int, float]
) -> tuple[list[Candidate], dict[int, float]]:
    """The candidates with their gains in nats, best first, together as probable as before; and so the lengths."""
    before = np.array([c.log_prob for c in candidates])
    after = before + np.array(gains)
    after += np.logaddexp.reduce(before) - np.logaddexp.reduce(after)
    order = sorted(range(len(candidates)), key=lambda i: -after[i])
    share = dict(lengths)
    for k in lengths:
        alike = [i for i, c in enumerate(candidates) if len(c.text) == k]
        if alike:
            share[k] *= math.exp(np.logaddexp.reduce(after[alike]) - np.logaddexp.reduce(before[alike]))
    scale = sum(lengths.values()) / sum(share.values())
    posterior = dict(sorted(((k, p * scale) for k, p in share.items()), key=lambda item: -item[1]))
    return [Candidate(candidates[i].text, min(0.0, float(after[i]))) for i in order], posterior


def in_blocks(total: int, gaps: Iterable[tuple[int, int]]) -> list[int]:
    """For each of ``total`` positions the block it stands in: gaps (where from, how long) in parts of BLOCK; else 0."""
    blocks, number = [0] * total, 0
    for at, length in gaps:
        for k in range(length):
            number += k % BLOCK == 0
            blocks[at + k] = number
    return blocks


def without_needless_spaces(candidates: Sequence[Candidate], before: str, behind: str, least: int) -> list[Candidate]:
    """Candidates of a gap of untold length without spaces at their ends where there is a space already, or no text.

    What is then the same has the probability of all; none becomes shorter than ``least`` characters, or empty.
    """
    merged: dict[str, float] = {}
    for candidate in candidates:
        text = candidate.text
        if before.endswith(" ") or not before:
            text = text.lstrip(" ")
        if behind.startswith(" ") or not behind:
            text = text.rstrip(" ")
        text = text if len(text) >= max(1, least) else candidate.text
        merged[text] = float(np.logaddexp(merged.get(text, -math.inf), candidate.log_prob))
    return [Candidate(text, log_prob) for text, log_prob in merged.items()]


def places_of(candidates: Sequence[Candidate]) -> tuple[dict[str, float], ...]:
    """For each place of the best candidate, the characters there and their share of the candidates of that length."""
    length = len(candidates[0].text)
    alike = [c for c in candidates if len(c.text) == length]
    total = sum(c.probability for c in alike)
    places = []
    for place in range(length):
        share: dict[str, float] = {}
        for candidate in alike:
            character = candidate.text[place]
            # Of candidates too improbable to be told from 0, the best stands for all.
            part = candidate.probability / total if total else float(candidate is candidates[0])
            share[character] = share.get(character, 0.0) + part
        places.append(dict(sorted(share.items(), key=lambda item: -item[1])))
    return tuple(places)


def best_combinations(choices: Sequence[Sequence[Candidate]], top: int) -> list[Hypothesis]:
    """The ``top`` most probable ways to take one candidate a gap, best first."""

    def hypothesis(chosen: tuple[int, ...]) -> Hypothesis:
        taken = [candidates[i] for candidates, i in zip(choices, chosen, strict=True)]
        return Hypothesis(tuple(c.text for c in taken), sum(c.log_prob for c in taken))

    first = (0,) * len(choices)
    queue, seen, best = [(-hypothesis(first).log_prob, first)], {first}, []
    while queue and len(best) < top:
        _, chosen = heapq.heappop(queue)
        best.append(hypothesis(chosen))
        for gap, i in enumerate(chosen):
            following = (*chosen[:gap], i + 1, *chosen[gap + 1 :])
            if i + 1 < len(choices[gap]) and following not in seen:
                seen.add(following)
                heapq.heappush(queue, (-hypothesis(following).log_prob, following))
    return best


# --- Text as the models read it -----------------------------------------------------------------------------------

_SAME = {"ς": "σ", "ϲ": "σ", "ϐ": "β", "ϑ": "θ", "ϕ": "φ", "ϖ": "π", "ϰ": "κ", "ϱ": "ρ", "ϝ": "ϛ", "ϙ": "ϟ", "j": "i"}
_LOST = {"–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-"}


def normalise(text: str) -> str:
    """Lower case, no accents or breathings, one kind of sigma, single spaces: what the corpora look like.

    One character becomes one character, except: combining marks and punctuation but the full stop vanish, and of
    several spaces, line breaks and digits (line numbers) one space stays. ``normalise_with_positions`` tells where each
    character came from.
    """
    return normalise_with_positions(text)[0]


def fold(text: str) -> str:
    """Each character in the form the models write it in, none added and none left out: to compare solutions."""
    return "".join(_folded(character) for character in text)


def _folded(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0].lower()[:1]
    return _LOST.get(base, _SAME.get(base, base))


def normalise_with_positions(text: str) -> tuple[str, list[int]]:
    """The normalised text, and for each of its characters the index in ``text`` that it came from."""
    characters, positions = [], []
    for index, character in enumerate(text):
        base = _folded(character)
        if base.isspace() or base.isdigit():
            base = " "
        elif base.isalpha() or base in "-#.":
            pass
        else:
            continue
        if base == " " and characters and characters[-1] == " ":
            continue
        characters.append(base)
        positions.append(index)
    return "".join(characters), positions
