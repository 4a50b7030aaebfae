"""Fill spans as people leave them blank: choose how many words each holds, then write them from left to right.

The most probable fill of any length is too short: of all the clauses that would fit, each is less probable than the
best single word. So the length is chosen first, by p(n | canvas); the model is told it, and words are searched among
fills of that length. The blanks of a text are filled one after the other, each with all that is around it in sight.
Blanks that touch are filled as one, which is divided at the end. Of the fills of a blank that the search finds, the one
is taken in which every word fits its place best (``decoding/rerank.py``).

The log-probability of a fill is that of its lengths and of its words given them, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from blanklm.core.policy import SpanScorer, SpanWriter
from blanklm.core.special import BLANK
from blanklm.decoding.draft import Draft
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.decoding.request import Request
from blanklm.decoding.rerank import LeftOut, canvases_near, fit_in_place
from blanklm.decoding.shorten import shorter
from blanklm.decoding.span_scores import begin, views
from blanklm.decoding.span_tasks import UNTOLD, Task, Writing
from blanklm.decoding.span_view import View

SHORTENED = 2  # so many of the best fills of a blank are tried without their last word, too
HYPOTHESES = 2  # of each length, at least: by one, a word that cannot be the last is noticed too late


def write_spans(
    policy: SpanScorer | SpanWriter, requests: Sequence[Request], options: FillOptions
) -> list[list[Draft] | None]:
    """The best finished draft of each request and ``n - 1`` alternatives; none if it was given up.

    None in place of the list: its rules led this search into a dead end. The alternatives come of other lengths of the
    first blank, as far as there are others, and are ranked by probability per token.
    """
    tasks = [Task.of(request) for request in requests]
    begun = list(zip(tasks, begin(policy, tasks), strict=True))
    beam = max(HYPOTHESES, options.beam)
    tracks = [[_Track(task, writing, beam, options.rerank, leads=True)] for task, writing in begun]
    if options.n > 1:
        for view, own in zip(views(policy, begun), tracks, strict=True):
            if view.writing.words == UNTOLD:
                own += [_Track(view.task, start, beam, options.rerank) for start in view.with_lengths(options.n)]
            else:
                own.append(_Track(view.task, view.writing, max(beam, options.n), options.rerank))
    while waiting := [track for own in tracks for track in own if track.goes_on()]:
        reached = views(policy, [(track.task, writing) for track in waiting for writing in track.active])
        for track in waiting:
            track.advance([next(reached) for _ in track.active])
        _decide(policy, [track for track in waiting if track.candidates])
    return [_ranked(own, options.n) for own in tracks]


def _decide(policy: SpanScorer | SpanWriter, tracks: Sequence[_Track]) -> None:
    """Choose among the candidates of each track, whose blank has been filled in several ways."""
    if isinstance(policy, SpanWriter):
        fits = [0.0] * sum(len(track.candidates) for track in tracks)
    else:
        leading = [track for track in tracks if track.leads and track.rerank > 1]
        tried = [track.candidates[:SHORTENED] for track in leading]
        found = iter(shorter(policy, [(t.task, one) for t, own in zip(leading, tried, strict=True) for one in own]))
        for track, own in zip(leading, tried, strict=True):
            track.add([next(found) for _ in own])
        fits = fit_in_place(policy, [canvases for track in tracks for canvases in track.left_out()])
    rest = iter(fits)
    for track in tracks:
        track.decide([next(rest) for _ in track.candidates])


def _ranked(tracks: Sequence[_Track], n: int) -> list[Draft] | None:
    """The best of the first track; then the best of all by probability per token."""
    if any(track.given_up for track in tracks):
        return []
    if not tracks[0].finished:
        return None
    best, *rest = tracks[0].finished
    rest += [writing for track in tracks[1:] for writing in track.finished]
    rest.sort(key=lambda writing: -writing.draft.log_prob / max(1, writing.draft.steps))
    distinct: dict[tuple[int, ...], Writing] = {}
    for writing in (best, *rest):
        distinct.setdefault(writing.draft.items, writing)
    return [tracks[0].task.finish(writing) for writing in list(distinct.values())[:n]]


class _Track:
    """The search of one request, blank by blank: fills of a few lengths, of which the best goes on to the next."""

    def __init__(self, task: Task, start: Writing, beam: int, rerank: int, leads: bool = False) -> None:
        self.task, self.beam, self.given_up = task, beam, False
        self.rerank = rerank  # so many fills of a blank, to take the one that fits its place best
        self.leads = leads  # its best fill is the answer: what can no longer be more probable is given up
        self.active = [] if start.draft.finished else [start]
        self.closed: list[Writing] = []  # with the leftmost blank filled
        self.candidates: list[Writing] = []  # the best of them, when nothing is active any more
        self.finished = [start] if start.draft.finished else []  # best first

    def goes_on(self) -> bool:
        if self.active and self.task.request.given_up(lambda: self.task.finish(self.active[0])):
            self.active, self.given_up = [], True
        return bool(self.active)

    def left_out(self) -> list[list[LeftOut]]:
        """What each candidate is looked at on: words in and near the blank that was filled.

        Nothing where their order does not matter: of one candidate, and of finished alternatives, which are ranked
        otherwise.
        """
        draft = self.candidates[0].draft
        if len(self.candidates) == 1 or (draft.finished and not self.leads):
            return [[] for _ in self.candidates]
        filled = len(self.task.spans) - draft.items.count(BLANK) - 1
        tokenizer = self.task.request.rules.tokenizer
        return [canvases_near(writing.draft, filled, tokenizer) for writing in self.candidates]

    def _width(self, writing: Writing) -> int:
        """How many writings like this are kept: of single words more, since they cost nothing more."""
        return max(self.beam, self.rerank) if writing.length == 1 else self.beam

    def advance(self, views: Sequence[View]) -> None:
        """Take a step with every hypothesis; keep the most probable of each length."""
        blanks = self.active[0].draft.items.count(BLANK)
        reached = [following for view in views for following in view.best(self._width(view.writing))]
        reached.sort(key=lambda writing: -writing.draft.log_prob)
        kept: dict[int, list[Writing]] = {}
        for writing in reached:
            alike = kept.setdefault(writing.length, [])
            if len(alike) < self._width(writing):
                alike.append(writing)
        reached = [writing for alike in kept.values() for writing in alike]
        self.active = [writing for writing in reached if writing.draft.items.count(BLANK) == blanks]
        self.closed += [writing for writing in reached if writing.draft.items.count(BLANK) < blanks]
        self.closed.sort(key=lambda writing: -writing.score)
        if self.leads and self.closed:
            best = self.closed[0].score
            self.active = [writing for writing in self.active if writing.hope > best]
        if not self.active:
            self.candidates = self.closed[: self.rerank]

    def add(self, found: Sequence[Writing | None]) -> None:
        """Let fills that another length would have found compete with the candidates."""
        known = {writing.draft.items for writing in self.closed}
        new = {one.draft.items: one for one in found if one is not None and one.draft.items not in known}
        self.closed = sorted((*self.closed, *new.values()), key=lambda writing: -writing.score)
        self.candidates = self.closed[: self.rerank]

    def decide(self, fits: Sequence[float]) -> None:
        """Take the best of the candidates by how well each fits, and go on with the next blank."""
        order = sorted(range(len(fits)), key=lambda i: -fits[i])
        best, *others = [self.candidates[i] for i in order]
        if best.draft.finished:
            self.finished = [best, *others, *self.closed[self.rerank :]]
        else:
            self.active, self.closed = [self.task.writing(best.draft, best.page)], []
        self.candidates = []


def sample_spans(
    policy: SpanScorer | SpanWriter, requests: Sequence[Request], options: SampleOptions, numbers: Sequence[int]
) -> list[list[Draft]]:
    """Draw ``n`` samples of each request, lengths and then words, each from its own random stream."""
    n = options.n
    tasks = [Task.of(request) for request in requests for _ in range(n)]
    streams = [np.random.default_rng([options.seed, number, i]) for number in numbers for i in range(n)]
    writings = begin(policy, tasks)
    given_up: set[int] = set()
    while True:
        waiting = [d for d, writing in enumerate(writings) if not writing.draft.finished and d // n not in given_up]
        given_up |= {d // n for d in waiting if tasks[d].request.given_up(partial(tasks[d].finish, writings[d]))}
        waiting = [d for d in waiting if d // n not in given_up]
        if not waiting:
            break
        for d, view in zip(waiting, views(policy, [(tasks[d], writings[d]) for d in waiting]), strict=True):
            writings[d] = tasks[d].following(writings[d], view.draw(options, streams[d]))
    finished = [
        None if d // n in given_up else task.finish(writing)
        for d, (task, writing) in enumerate(zip(tasks, writings, strict=True))
    ]
    return [[draft for draft in finished[t * n : (t + 1) * n] if draft] for t in range(len(requests))]
