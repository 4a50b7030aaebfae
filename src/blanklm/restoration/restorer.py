"""Restore damaged texts: text and gaps in, ranked restorations with probabilities out.

A text is a sequence of strings and gaps. The length of a gap is known (``Blank(5, 5)``), in a range (``Blank(3, 7)``)
or unknown (``Blank()``), and one text may have all three. Strings are given as their author wrote them; the model reads
them normalised (``normalise.py``), and answers in the alphabet it was trained on: lower case, no accents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from blanklm import pretrained
from blanklm.core.special import BLANK, UNK
from blanklm.core.template import Blank
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.lblm import CharacterModel
from blanklm.models.packed_linear import pack_linears
from blanklm.restoration.candidates import (
    Candidate,
    GapRestoration,
    Restoration,
    length_distribution,
    letter_distribution,
    letters_in,
    likely_lengths,
    places_of,
    raised,
    reranked,
    without_redundant_spaces,
)
from blanklm.restoration.draft import Draft, OpenGap, Part, Window, block_numbers, centred
from blanklm.restoration.guesses import FIT_WEIGHT, SEARCH_WINDOW, Guesses
from blanklm.restoration.lexicon import Lexicon
from blanklm.restoration.normalise import normalise_with_positions
from blanklm.restoration.notation.document import LONGEST_GAP
from blanklm.restoration.notation.language import CODES
from blanklm.restoration.options import DEFAULTS, RestoreOptions
from blanklm.restoration.proposals import Index, Proposal
from blanklm.restoration.search import Fills, Progress, Wanted, log_probs_of_fills, search_beams, unwatched
from blanklm.training import checkpoint

LONGEST_SEARCHED_GAP = 40  # characters; a longer gap gets one greedy guess instead of a beam search
BEAM_MARGIN = 9.0  # nats below the best at which a draft is dropped
MIN_RERANKED = 20  # candidates that are reranked, even if fewer are asked for
MIN_RIGHT = 1e-3  # at least so much of the probability is taken to have as many letters as the gap
LONGEST_PROPOSAL = 30  # characters
PROPOSING_CONTEXT = 80  # characters on either side of a gap in which formulae are looked up


class Restorer:
    """A character model that restores: a mixed L-BLM, or an L-BLM, which must know every length.

    ``about["temperature"]``, if there is one, calibrates its probabilities (``paper.tasks.restoration.calibrate``);
    a ``lexicon``, if there is one, reranks its candidates.
    """

    def __init__(
        self,
        model: CharacterModel,
        tokenizer: Tokenizer,
        about: dict[str, Any] | None = None,
        lexicon: Lexicon | None = None,
    ) -> None:
        self.model, self.tokenizer, self.about, self.lexicon = model.eval(), tokenizer, about or {}, lexicon
        self.temperature: float = self.about.get("temperature", 1.0)

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, device: str | None = None) -> Restorer:
        folder = pretrained.locate(name_or_folder)
        loaded = checkpoint.load(folder)
        if not isinstance(loaded.model, CharacterModel):
            raise BlankLMError(f"{name_or_folder} does not restore: give a model such as greek or latin")
        model = loaded.model.to(checkpoint.device_for(device))
        pack_linears(model)
        return cls(model, loaded.tokenizer, loaded.about, Lexicon.load(folder))

    @property
    def guesses(self) -> Guesses:
        return Guesses(self.model, self.temperature)

    @property
    def longest(self) -> int:
        """How many characters are read at once."""
        return self.model.config.max_length

    @property
    def parameters(self) -> int:
        return self.model.parameter_count

    @property
    def language(self) -> str:
        return self.about.get("language", "")

    @property
    def index(self) -> Index | None:
        """The formulae of its language, if it is one of the package's."""
        return Index.of(CODES[self.language]) if self.language in CODES else None

    def unknown(self, text: str) -> list[tuple[int, str]]:
        """Return (index, character) of each character of ``text`` that the model does not know: another script."""
        normalised, positions = normalise_with_positions(text)
        ids = self.tokenizer.encode(normalised)
        return [(positions[i], text[positions[i]]) for i, token in enumerate(ids) if token == UNK]

    def restore(
        self,
        parts: Sequence[Part],
        options: RestoreOptions = DEFAULTS,
        progress: Progress = unwatched,
        ready: Callable[[int, GapRestoration], None] = lambda number, gap: None,
    ) -> Restoration:
        """Restore the gaps of a text; ``progress`` is called with 1 after each gap, with 0 between passes.

        ``ready`` is called with the number of each gap, from 0, and its restoration, as soon as it is restored.
        A gap abstains where no candidate is as probable as ``options.abstain_below``; it has its candidates anyway.
        """
        draft = self._draft(parts, options.count == "letters" and self.model.predicts_lengths)
        (open_gaps,) = self._open_gaps([draft], progress)
        gaps: list[GapRestoration] = []
        for open_gap in open_gaps:  # one by one, so that each is shown when it is ready
            gaps += self._restore_gaps([open_gap], options.top, options.abstain_below, progress, self.index)
            ready(open_gap.number, gaps[-1])
            progress(1)
        return Restoration.of(gaps, options.top)

    def rank(self, documents: Sequence[Sequence[Part]], n: int = 20) -> list[list[list[Candidate]]]:
        """Return the ``n`` best candidates for each gap of each text; lengths are in characters."""
        texts = self._open_gaps([self._draft(parts) for parts in documents])
        restored = iter(self._restore_gaps([gap for gaps in texts for gap in gaps], n, 0.0))
        return [[list(next(restored).candidates) for _ in gaps] for gaps in texts]

    def fill(self, documents: Sequence[Sequence[Part]]) -> list[list[str]]:
        """Return the greedy guess for each gap of each text."""
        drafts = [self._draft(parts) for parts in documents]
        self.guesses.settle_lengths(drafts, unwatched, settles_all=True)
        return [[self.tokenizer.decode(ids) for ids in spans] for spans in self.guesses.fill(drafts, unwatched)]

    def _draft(self, parts: Sequence[Part], count_letters: bool = False) -> Draft:
        blanks = [part for part in parts if isinstance(part, Blank)]
        if not blanks:
            raise BlankLMError("there is no gap in the text: nothing to restore")
        for blank in blanks:
            if max(blank.min, blank.max or 0) > LONGEST_GAP:
                raise BlankLMError(f"a gap has 1 to {LONGEST_GAP:,} characters, not {blank.max or blank.min:,}")
        for one, other in pairwise(parts):
            if isinstance(one, Blank) and isinstance(other, Blank) and None in (one.length, other.length):
                raise BlankLMError("a gap touches a gap of unknown length: join the two")
        if not self.model.predicts_lengths and any(blank.length is None for blank in blanks):
            raise BlankLMError("this model must know the length of every gap: give exact lengths")
        return Draft.of(parts, self.tokenizer, count_letters)

    # --- Candidates for gaps ------------------------------------------------------------------------------------

    def _open_gaps(self, drafts: Sequence[Draft], progress: Progress = unwatched) -> list[list[OpenGap]]:
        """Return the gaps of each draft, with the best guess in all others."""
        posteriors = self.guesses.settle_lengths(drafts, progress)
        guesses = iter(self.guesses.fill([draft for draft in drafts if len(draft.gaps) > 1], progress))
        open_gaps = []
        for draft, by_gap in zip(drafts, posteriors, strict=True):
            spans = next(guesses) if len(draft.gaps) > 1 else draft.spans
            open_gaps.append([OpenGap(draft, spans, number, by_gap.get(number)) for number in range(len(draft.gaps))])
        return open_gaps

    def _restore_gaps(
        self,
        gaps: Sequence[OpenGap],
        top: int,
        abstain_below: float,
        progress: Progress = unwatched,
        index: Index | None = None,
    ) -> list[GapRestoration]:
        """Search, rerank and cut the candidates of gaps, those that the ``index`` of formulae proposes among them."""
        windows = [self._windows(gap) for gap in gaps]
        found = self._fills(gaps, windows, max(top, MIN_RERANKED), progress)
        proposals = [self._proposals(gap, index) if index else [] for gap in gaps]
        pools = [
            self._pool(gap, of_gap, fills, proposed, max(top, MIN_RERANKED), progress)
            for gap, of_gap, fills, proposed in zip(gaps, windows, found, proposals, strict=True)
        ]
        scores = self._rerank_scores(gaps, windows, pools, progress)
        restored = []
        for gap, of_gap, pool, gains, proposed in zip(gaps, windows, pools, scores, proposals, strict=True):
            lengths = {of_gap[0].length: 1.0} if gap.posterior is None else length_distribution(gap.posterior)
            ranked, lengths = reranked(pool, gains, lengths)
            ranked = raised(ranked, proposed) if proposed else ranked
            if gap.letters is not None:
                lengths = letter_distribution(ranked)
            reason = _reason_to_abstain(ranked[0], of_gap, abstain_below)
            # Candidates beyond the first ``top`` count for the probabilities of characters, too.
            restored.append(GapRestoration(tuple(ranked[:top]), places_of(ranked), lengths, reason))
        return restored

    def _pool(
        self,
        gap: OpenGap,
        windows: Sequence[Window],
        fills: Sequence[Fills],
        proposals: Sequence[Proposal],
        size: int,
        progress: Progress,
    ) -> list[Candidate]:
        """Return the best candidates for a gap, and the proposals that are not among them."""
        shares = [math.exp(window.log_p_length) * part.right for window, part in zip(windows, fills, strict=True)]
        right = math.log(max(sum(shares), MIN_RIGHT)) if gap.letters else 0.0  # log p of as many letters
        pool = [
            Candidate(self.tokenizer.decode(window.gap_of(fill.ids)), fill.log_prob - right)
            for window, part in zip(windows, fills, strict=True)
            for fill in part
        ]
        if gap.posterior is not None:
            pieces = gap.draft.pieces[gap.number : gap.number + 2]
            before, behind = (self.tokenizer.decode(piece) for piece in pieces)
            pool = without_redundant_spaces(pool, before, behind, gap.draft.gaps[gap.number].min)
        pool = sorted(pool, key=lambda c: -c.log_prob)[:size]
        for window in windows:
            known = {candidate.text for candidate in pool}
            texts = [p.text for p in proposals if len(p.text) == window.length and p.text not in known]
            if texts:
                ids = self.tokenizer.encode_many(texts)
                whole = [
                    [*window.ids[: window.start], *of_gap, *window.ids[window.start + window.length :]]
                    for of_gap in ids
                ]
                log_probs = log_probs_of_fills(self.model, window.ids, whole, self.temperature, SEARCH_WINDOW, progress)
                log_p = window.log_p_length - right
                pool += [Candidate(text, found + log_p) for text, found in zip(texts, log_probs, strict=True)]
        return pool

    def _proposals(self, gap: OpenGap, index: Index) -> list[Proposal]:
        """Return what formulae have in the place of a gap."""
        ids, start = gap.filled_with([])
        before = self.tokenizer.decode(ids[max(0, start - PROPOSING_CONTEXT) : start])
        behind = self.tokenizer.decode(ids[start : start + PROPOSING_CONTEXT])
        blank = gap.draft.gaps[gap.number]
        fewest, most = gap.letters or (1, LONGEST_GAP)
        lengths = blank.min, min(blank.max or LONGEST_PROPOSAL, LONGEST_PROPOSAL)
        return index.proposals(before, behind, lengths, lambda text: fewest <= letters_in(text) <= most)

    def _windows(self, gap: OpenGap) -> list[Window]:
        """Return a window for each length to try: those that can be searched, or, if there is none, all likely ones."""
        log_p_lengths = {len(gap.spans[gap.number]): 0.0}
        if gap.posterior is not None:
            log_p_lengths = {k: float(gap.posterior[k - 1]) for k in likely_lengths(gap.posterior)}
        searched = {k: log_p for k, log_p in log_p_lengths.items() if k <= LONGEST_SEARCHED_GAP}
        windows = []
        for k, log_p in (searched or log_p_lengths).items():
            ids, start = gap.filled_with([BLANK] * k)
            first, end = centred(len(ids), start, k, self.longest)
            windows.append(Window(ids[first:end], start - first, k, log_p))
        return windows

    def _fills(
        self, gaps: Sequence[OpenGap], windows: Sequence[Sequence[Window]], beam: int, progress: Progress
    ) -> list[list[Fills]]:
        """Search the short gaps; a long one has its greedy guess only. Return the fills of each window of each gap."""
        flat = [(number, window) for number, of_gap in enumerate(windows) for window in of_gap]
        short = [i for i, (_, window) in enumerate(flat) if window.length <= LONGEST_SEARCHED_GAP]
        beams = search_beams(
            self.model,
            [flat[i][1].ids for i in short],
            beam,
            within=BEAM_MARGIN,
            temperature=self.temperature,
            window=SEARCH_WINDOW,
            progress=progress,
            wanted=[Wanted(flat[i][0], gaps[flat[i][0]].letters, flat[i][1].log_p_length) for i in short],
        )
        long = [(i, window) for i, (_, window) in enumerate(flat) if window.length > LONGEST_SEARCHED_GAP]
        blocks = [block_numbers(len(window.ids), [(window.start, window.length)]) for _, window in long]
        guesses = self.guesses.guess([window.ids for _, window in long], blocks, progress)
        found = dict(zip(short, beams, strict=True))
        for (i, window), guess in zip(long, guesses, strict=True):
            found[i] = Fills([replace(guess, log_prob=guess.log_prob + window.log_p_length)])
        rest = iter(found[i] for i in range(len(flat)))
        return [[next(rest) for _ in of_gap] for of_gap in windows]

    def _rerank_scores(
        self,
        gaps: Sequence[OpenGap],
        windows: Sequence[Sequence[Window]],
        pools: Sequence[Sequence[Candidate]],
        progress: Progress,
    ) -> list[list[float]]:
        """Return the score of each candidate by the lexicon and, where the length is unknown, by the fit, in nats."""
        filled = [
            (*gap.filled_with(self.tokenizer.encode(candidate.text)), len(candidate.text))
            for gap, pool in zip(gaps, pools, strict=True)
            for candidate in pool
            if gap.is_fitted
        ]
        fits = iter(self.guesses.fit(filled, progress))
        scores = []
        for gap, of_gap, pool in zip(gaps, windows, pools, strict=True):
            window = of_gap[0]  # with other lengths, the text near the gap is the same
            before, behind = window.ids[: window.start], window.ids[window.start + window.length :]
            gains = [0.0] * len(pool)
            if self.lexicon is not None:
                left, right = self.tokenizer.decode(before), self.tokenizer.decode(behind)
                gains = [self.lexicon.score(left, candidate.text, right) for candidate in pool]
            if gap.is_fitted:
                gains = [gain + FIT_WEIGHT * next(fits) for gain in gains]
            scores.append(gains)
        return scores


def _reason_to_abstain(best: Candidate, windows: Sequence[Window], abstain_below: float) -> str | None:
    if windows[0].length > LONGEST_SEARCHED_GAP:
        return f"the gap has more than {LONGEST_SEARCHED_GAP} characters"
    if best.probability < abstain_below:
        return f"no restoration is as probable as {abstain_below:.0%}: the best has {best.probability:.2%}"
    return None
