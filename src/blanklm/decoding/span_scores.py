"""Spans as a model scores them: by canvases that are read again for every word, or after a canvas read once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from blanklm.core.policy import SpanScorer, SpanScores, SpanWriter
from blanklm.core.special import BLANK, EOS
from blanklm.core.texts import pad
from blanklm.decoding.scores import passes
from blanklm.decoding.span_tasks import UNTOLD, Task, Writing
from blanklm.decoding.span_view import View, forbid

IMPROBABLE = 0.2  # to end a span, or not, at less than this is not considered
PAGES_AT_ONCE = 128  # that a word is written on


def begin(policy: SpanScorer | SpanWriter, tasks: Sequence[Task]) -> list[Writing]:
    """The first blank of each task, with nothing written."""
    if not isinstance(policy, SpanWriter):
        return [task.begin() for task in tasks]
    pages: list[Any] = []
    drafts = [task.begin().draft for task in tasks]
    for group in passes([(task.request, draft) for task, draft in zip(tasks, drafts, strict=True)]):
        ids, lengths = pad([draft.items for _, draft in group])  # [B, L], [B]
        pages += policy.open_pages(ids.to(policy.device), lengths.to(policy.device), ids.shape[1])
    return [task.begin(page) for task, page in zip(tasks, pages, strict=True)]


def views(policy: SpanScorer | SpanWriter, members: Sequence[tuple[Task, Writing]]) -> Iterator[View]:
    """Score all writings, a pass of the policy at a time."""
    if isinstance(policy, SpanWriter):
        for first in range(0, len(members), PAGES_AT_ONCE):
            yield from _write(policy, members[first : first + PAGES_AT_ONCE])
        return
    first = 0
    for group in passes([(task.request, writing.draft) for task, writing in members]):
        yield from _score(policy, members[first : first + len(group)])
        first += len(group)


# --- Canvases that are read again -------------------------------------------------------------------------------------


@torch.inference_mode()
def _score(policy: SpanScorer, members: Sequence[tuple[Task, Writing]]) -> list[View]:
    ids, lengths = pad([writing.draft.items for _, writing in members])  # [R, L], [R]
    words = torch.full_like(ids, UNTOLD)  # [R, L]
    for r, (_, writing) in enumerate(members):
        words[r, writing.draft.leftmost] = 1 if writing.words == 0 < writing.spare else writing.words
    device = policy.device
    scores = policy.score_spans(ids.to(device), lengths.to(device), ids.shape[1], words.to(device))
    blanks = (ids == BLANK).sum(1)  # [R]
    rows = (blanks.cumsum(0) - blanks).to(device)  # [R] of the leftmost blank of each
    log_p = scores.log_p_first[rows]  # [R, V]
    forbid(log_p, members)
    log_p_length = scores.log_p_length[rows].double().cpu().numpy()  # [R, LENGTHS]
    return [CanvasView(*member, log_p[r], log_p_length[r], scores, int(rows[r])) for r, member in enumerate(members)]


@dataclass(frozen=True)
class CanvasView(View):
    """A canvas with the blank that is written: a token comes with whether a blank is left after it."""

    scores: SpanScores
    row: int  # of the scores

    @torch.inference_mode()
    def following(self, tokens: Sequence[int]) -> list[list[Writing]]:
        device = self.log_p.device
        rows = torch.full((len(tokens),), self.row, device=device)
        words = torch.tensor(tokens, dtype=torch.long, device=device)
        log_p_more = self.scores.log_p_more(rows, words).double().tolist()
        log_p = self.log_p[words].tolist()
        return [
            [
                self.task.after(self.writing, token, more, log_p_token + log_p_side[more])
                for more in self._worth_a_try(self.mores(token), log_p_side)
                if self.accepts(token, more)
            ]
            for token, log_p_token, log_p_side in zip(tokens, log_p, log_p_more, strict=True)
        ]

    def _worth_a_try(self, mores: list[bool], log_p_side: Sequence[float]) -> list[bool]:
        if len(mores) == 1:
            return mores
        # A search would end early, for the sake of fewer tokens, where the model would not.
        return [more for more in mores if log_p_side[more] > math.log(IMPROBABLE)]


# --- Pages ------------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def _write(policy: SpanWriter, members: Sequence[tuple[Task, Writing]]) -> list[View]:
    """Write the last symbol of each writing on its page, and look what may follow."""
    pages, symbols, told = zip(*((writing.page, writing.symbol, writing.words) for _, writing in members), strict=True)
    scores = policy.write(pages, symbols, told)
    log_p, log_p_end = scores.log_p, scores.log_p[:, EOS].clone()  # [R, V], [R]
    forbid(log_p, members)
    for r, ((_, writing), end) in enumerate(zip(members, log_p_end.exp().tolist(), strict=True)):
        ends, goes_on = False in writing.mores, True in writing.mores
        if not goes_on or (ends and end > 1 - IMPROBABLE):
            log_p[r] = -math.inf
        if ends and (not goes_on or end > IMPROBABLE):
            log_p[r, EOS] = log_p_end[r]
    log_p_length = scores.log_p_length.double().cpu().numpy()  # [R, LENGTHS]
    return [PageView(*member, log_p[r], log_p_length[r], scores.pages[r]) for r, member in enumerate(members)]


@dataclass(frozen=True)
class PageView(View):
    """A page to write on: a token comes first, and whether the span ends after it is asked when it was written."""

    page: Any  # with all that was written

    def following(self, tokens: Sequence[int]) -> list[list[Writing]]:
        return [
            self._after(token, log_p) for token, log_p in zip(tokens, self.log_p[list(tokens)].tolist(), strict=True)
        ]

    def _after(self, token: int, log_p: float) -> list[Writing]:
        if token == EOS:
            return [replace(self.writing, draft=self.writing.draft.close(log_p), page=self.page)]
        mores = tuple(more for more in self.mores(token) if self.accepts(token, more))
        written = self.task.after(self.writing, token, True, log_p)
        written = replace(written, page=self.page, symbol=token, mores=mores)
        return [written] if mores else []
