"""What a model guesses of the gaps of a text before they are searched: lengths, greedy fills, what fits beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.core.special import BLANK
from blanklm.models.lblm import CharacterModel
from blanklm.models.mixed_lblm import MixedLBLM
from blanklm.restoration.candidates import likely_lengths
from blanklm.restoration.draft import Draft, around, block_numbers, centred, replaced
from blanklm.restoration.notation.document import LONGEST_GAP
from blanklm.restoration.search import FilledText, Progress, fill_greedily, log_probs_of

SEARCH_WINDOW = 12  # characters on either side of a gap that are encoded again for each draft of a search
FIT_SPAN = 6  # characters on either side of a gap of unknown length that should fit a candidate
FIT_CONTEXT = 64  # characters on either side that are read to score the fit
FIT_WEIGHT = 0.25  # tuned on validation texts


@dataclass(frozen=True)
class Guesses:
    model: CharacterModel
    temperature: float

    # --- Lengths ------------------------------------------------------------------------------------------------

    def settle_lengths(
        self, drafts: Sequence[Draft], progress: Progress, settles_all: bool = False
    ) -> list[dict[int, Tensor]]:
        """Choose the unknown lengths, leftmost first in each draft; return their log posteriors [N] by gap.

        What would stand there is asked only where another gap needs to know it, or ``settles_all``.
        """
        posteriors: list[dict[int, Tensor]] = [{} for _ in drafts]
        for number in range(max(len(draft.gaps) for draft in drafts)):
            turn = [i for i, d in enumerate(drafts) if number < len(d.gaps) and d.gaps[number].length is None]
            for i in turn:
                progress(0)
                posteriors[i][number] = self.length_posterior(drafts[i], number)
            for i in turn:  # the likeliest, which is good enough where letters are counted
                drafts[i].spans[number] = [BLANK] * (int(posteriors[i][number].argmax()) + 1)
            judged = [i for i in turn if (settles_all or len(drafts[i].gaps) > 1) and not drafts[i].letters[number]]
            of_turn = [posteriors[i][number] for i in judged]
            lengths = self.best_lengths([drafts[i] for i in judged], number, of_turn, progress)
            for i, length in zip(judged, lengths, strict=True):
                drafts[i].spans[number] = [BLANK] * length
        return posteriors

    def length_posterior(self, draft: Draft, number: int) -> Tensor:
        """Return log p(k) [N] of a gap, with the unknown lengths after it still unknown."""
        model, blank = self.model, draft.gaps[number]
        assert isinstance(model, MixedLBLM)  # _draft has refused unknown lengths for any other
        ids, starts = draft.with_spans(draft.spans)
        first, end = centred(len(ids), starts[number], 1, self.model.config.max_length)
        tokens = torch.tensor([ids[first:end]], device=model.device)  # [1, L]
        unknown, least, most = (torch.zeros_like(tokens) for _ in range(3))  # [1, L] each
        for gap, letters, start in zip(draft.gaps[number:], draft.letters[number:], starts[number:], strict=True):
            if gap.length is None and first <= start < end:
                unknown[0, start - first] = 1
                # The model takes the middle of a range as a hint. Ranges wider than those of training are left out,
                # and those with room for spaces, of which there may be none.
                if letters is None and gap.max is not None and gap.max <= 3 * gap.min + 4:
                    least[0, start - first], most[0, start - first] = gap.min, gap.max
        lengths = torch.tensor([tokens.shape[1]], device=tokens.device)  # [1]
        scored = model.score_lengths(tokens, lengths, tokens == BLANK, unknown.bool(), least, most)
        log_p, _, position = scored  # [G, N], [G], [G]
        log_p = log_p[(position == starts[number] - first).nonzero()[0, 0]].cpu()  # [N]
        log_p = log_p[: max(self.model.config.max_length // 2, blank.min)]  # longer gaps would leave no context
        k = torch.arange(1, len(log_p) + 1)  # [N]
        return log_p.masked_fill((k < blank.min) | (k > (blank.max or LONGEST_GAP)), -math.inf).log_softmax(0)

    def best_lengths(
        self, drafts: Sequence[Draft], number: int, posteriors: Sequence[Tensor], progress: Progress
    ) -> list[int]:
        """Return for a gap of each draft the length with the best sum of posterior, log p of its greedy guess, and fit.

        The posterior alone says little: what would stand there says more.
        """
        texts, blocks, tried = [], [], []  # tried: (draft, length, where the gap begins)
        for i, (draft, posterior) in enumerate(zip(drafts, posteriors, strict=True)):
            for k in likely_lengths(posterior):
                spans = replaced(draft.spans, number, [BLANK] * k)
                ids, starts = draft.with_spans(spans)
                first, end = around(len(ids), starts[number], k, FIT_CONTEXT)
                texts.append(ids[first:end])
                blocks.append(block_numbers(len(ids), zip(starts, map(len, spans), strict=True))[first:end])
                tried.append((i, k, starts[number] - first))
        guesses = self.guess(texts, blocks, progress)
        fits = self.fit([(guess.ids, start, k) for guess, (_, k, start) in zip(guesses, tried, strict=True)], progress)
        best: dict[int, tuple[float, int]] = {}
        for (i, k, start), guess, fit in zip(tried, guesses, fits, strict=True):
            log_prob = sum(guess.place_log_probs[start + place] for place in range(k))
            score = float(posteriors[i][k - 1]) + log_prob + FIT_WEIGHT * fit
            best[i] = max(best.get(i, (-math.inf, k)), (score, k))
        return [best[i][1] for i in range(len(drafts))]

    def fit(self, filled: Sequence[tuple[list[int], int, int]], progress: Progress) -> list[float]:
        """Return log p of FIT_SPAN characters on either side of what was restored, each side hidden by itself.

        ``filled``: the ids of each text, where its restoration begins, and how long it is.
        """
        texts, positions = [], []
        for ids, start, k in filled:
            first, end = around(len(ids), start, k, FIT_CONTEXT)
            at = start - first
            for side in (range(max(0, at - FIT_SPAN), at), range(at + k, min(end - first, at + k + FIT_SPAN))):
                texts.append(ids[first:end])
                positions.append([p for p in side if self.model.writable[ids[first + p]]])
        log_probs = log_probs_of(self.model, texts, positions, progress)
        return [left + right for left, right in zip(log_probs[::2], log_probs[1::2], strict=True)]

    # --- Greedy guesses -----------------------------------------------------------------------------------------

    def guess(self, texts: Sequence[list[int]], blocks: Sequence[list[int]], progress: Progress) -> list[FilledText]:
        return fill_greedily(self.model, texts, blocks, self.temperature, progress, SEARCH_WINDOW)

    def fill(self, drafts: Sequence[Draft], progress: Progress) -> list[list[list[int]]]:
        """Return the greedy guess for the gaps of each draft in ids, window by window; all lengths are settled."""
        filled = [[list(span) for span in draft.spans] for draft in drafts]
        while True:
            texts, blocks, windows = [], [], []
            for i, (draft, spans) in enumerate(zip(drafts, filled, strict=True)):
                number = next((n for n, span in enumerate(spans) if BLANK in span), None)
                if number is None:
                    continue
                ids, starts = draft.with_spans(spans)
                first, end = centred(len(ids), starts[number], len(spans[number]), self.model.config.max_length)
                texts.append(ids[first:end])
                blocks.append(block_numbers(len(ids), zip(starts, map(len, spans), strict=True))[first:end])
                windows.append((i, first, starts))
            if not texts:
                return filled
            guesses = self.guess(texts, blocks, progress)
            for (i, first, starts), guess in zip(windows, guesses, strict=True):
                for span, start in zip(filled[i], starts, strict=True):
                    for k in range(len(span)):
                        if first <= start + k < first + len(guess.ids):
                            span[k] = guess.ids[start + k - first]
