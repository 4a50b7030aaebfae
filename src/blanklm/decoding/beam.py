"""Beam search, and filling all blanks at once, with a Python object for each draft: whatever the constraints.

The search is exact about the best actions of a draft without scoring (l, r) for the whole vocabulary: words are
taken in falling order of p(w), and since p(w, l, r) <= p(w), no word below the best joint found so far can win.

All blanks at once: the blanks of one pass do not see each other's new words. They act in falling order of confidence,
each on the draft that the ones before it left, so budgets and constraints hold at every moment; a blank whose best
action has become impossible, or would repeat a long word that another one nearby has just written, waits for the next
pass. At least one blank acts in each pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush

import numpy as np

from blanklm.core.policy import SIDES, Scorer
from blanklm.decoding.budget import NO_REPEAT_WITHIN
from blanklm.decoding.draft import Draft
from blanklm.decoding.request import Request
from blanklm.decoding.scores import Candidate, best_candidates, views
from blanklm.errors import ConstraintError

RETRY_BEAM = 16  # how hard to look for a fill when constraints lead a narrower search into a dead end
DEEP_PASSES = 64  # over RETRY_BEAM drafts each, of the last resort


def search_beams(
    policy: Scorer, texts: Sequence[Request], beam: int, n: int, order: str, length_penalty: float = 0.0
) -> list[list[Draft]]:
    """The ``n`` best finished drafts of each text; a beam of 1 is greedy search.

    All drafts of a text have the same number of steps, so those that reach the same canvas are merged as they meet.
    """
    searches = [_Beam(text, beam, n, length_penalty) for text in texts]
    while waiting := [search for search in searches if search.goes_on()]:
        drafts = [(search.text, draft) for search in waiting for draft in search.active]
        expansions = iter(best_candidates(policy, drafts, beam, order))
        for search in waiting:
            search.advance([(draft, next(expansions)) for draft in search.active])
    stuck = [search for search in searches if search.stuck]
    if stuck and beam < RETRY_BEAM:
        retried = iter(search_beams(policy, [search.text for search in stuck], RETRY_BEAM, n, order, length_penalty))
        return [next(retried) if search.stuck else search.best() for search in searches]
    deeply = iter([_search_deeply(policy, search.text) for search in stuck])
    return [next(deeply) if search.stuck else search.best() for search in searches]


def _search_deeply(policy: Scorer, text: Request) -> list[Draft]:
    """A finished draft of a text whose every beam ends in a dead end: go back, and choose otherwise.

    Limited discrepancy search: drafts are taken by how often, and by how much, they did not take the most probable
    action; those that never did come first. So an early choice is soon taken back, whatever hangs on it.
    """
    first = text.first_draft()
    heap: list[tuple[int, int, int, Draft]] = [(0, 0, 0, first)]
    seen = {first.key}
    for _ in range(DEEP_PASSES):
        group = [heappop(heap) for _ in range(min(RETRY_BEAM, len(heap)))]
        if not group:
            break
        if text.given_up(lambda group=group: group[0][-1]):  # type: ignore[misc]  # bound now
            return []
        drafts = [(text, draft) for *_, draft in group]
        found = best_candidates(policy, drafts, RETRY_BEAM, "left-to-right")
        for (others, _, _, draft), candidates in zip(group, found, strict=True):
            for rank, c in enumerate(candidates):
                reached = text.rules.advance(draft, c.open_blank, c.token, c.side, c.log_prob)
                if reached.finished:
                    return [reached]
                if reached.key not in seen:
                    seen.add(reached.key)
                    heappush(heap, (others + rank, -reached.steps, len(seen), reached))
    raise ConstraintError("no fill was found that meets the constraints: relax them, or lengthen the blanks")


class _Beam:
    """The search of one text."""

    def __init__(self, text: Request, beam: int, n: int, length_penalty: float) -> None:
        self.text, self.beam, self.n, self.length_penalty = text, beam, n, length_penalty
        first = text.first_draft()
        self.finished: list[Draft] = [first] if first.finished else []
        self.active: list[Draft] = [] if first.finished else [first]
        self.given_up = False

    def goes_on(self) -> bool:
        """Is there a draft to work on, and is the text still wanted?"""
        if self.active and self.text.given_up(lambda: self.active[0]):
            self.active, self.finished, self.given_up = [], [], True
        return bool(self.active)

    @property
    def stuck(self) -> bool:
        return not self.finished and not self.given_up

    def advance(self, expansions: list[tuple[Draft, list[Candidate]]]) -> None:
        merged: dict[tuple, Draft] = {}
        for draft, candidates in expansions:
            for c in candidates:
                reached = self.text.rules.advance(draft, c.open_blank, c.token, c.side, c.log_prob)
                known = merged.get(reached.key)
                if known is not None:
                    reached = known.merged(reached)
                merged[reached.key] = reached
        kept = sorted(merged.values(), key=lambda draft: -draft.log_prob)[: self.beam]
        self.finished += [draft for draft in kept if draft.finished]
        self.active = [draft for draft in kept if not draft.finished]
        if self._decided():
            self.active = []

    def _decided(self) -> bool:
        """No draft can still enter the n best: together, all that are active have less probability than the n-th."""
        if self.length_penalty or len(self.finished) < self.n or not self.active:
            return False
        nth = sorted((draft.log_prob for draft in self.finished), reverse=True)[self.n - 1]
        return nth >= float(np.logaddexp.reduce([draft.log_prob for draft in self.active]))

    def best(self) -> list[Draft]:
        return sorted(self._distinct(), key=self._rank)[: self.n]

    def _distinct(self) -> list[Draft]:
        """One draft for each tuple of spans: BPE may spell the same words with different tokens."""
        tokenizer = self.text.rules.tokenizer
        if not tokenizer.words_have_parts:
            return self.finished
        spelt: dict[tuple[str, ...], Draft] = {}
        for draft in self.finished:
            spans = tuple(tokenizer.decode(span) for span in draft.spans(len(self.text.rules.by_blank)))
            known = spelt.get(spans)
            if known is not None:
                draft = known.merged(draft)
            spelt[spans] = draft
        return list(spelt.values())

    def _rank(self, draft: Draft) -> float:
        return -draft.log_prob / max(1, draft.steps) ** self.length_penalty


def fill_in_parallel_slowly(policy: Scorer, texts: Sequence[Request], threshold: float = 0.0) -> list[Draft]:
    """Fill all confident blanks at once, whatever the constraints: the reference for ``greedy``'s tensors."""
    log_threshold = math.log(threshold) if threshold else -math.inf
    drafts = [text.first_draft() for text in texts]
    stuck: set[int] = set()
    given_up: set[int] = set()
    while waiting := [t for t, draft in enumerate(drafts) if not draft.finished and t not in stuck | given_up]:
        given_up |= {t for t in waiting if texts[t].given_up(partial(drafts.__getitem__, t))}
        waiting = [t for t in waiting if t not in given_up]
        unseen = iter(waiting)
        for view in views(policy, [(texts[t], drafts[t]) for t in waiting]):
            found = view.top_actions([row for rows in view.rows for row in rows], need=1, with_blank=False)
            for rows, t in zip(view.rows, unseen, strict=False):  # rows first: it ends the zip
                candidates = [found[row][0] for row in rows if found[row]]
                if len(candidates) < len(rows) or not candidates:
                    stuck.add(t)
                    continue
                drafts[t] = _act(texts[t], drafts[t], candidates, log_threshold)
    for t in stuck:  # constraints led into a dead end: look further, one text at a time
        (ranked,) = search_beams(policy, [texts[t]], RETRY_BEAM, 1, "confident")
        drafts[t] = ranked[0] if ranked else texts[t].first_draft()
    return drafts


def _act(text: Request, draft: Draft, candidates: list, log_threshold: float) -> Draft:
    """Apply each blank's action, most confident first, where it is still allowed."""
    number = {
        c.open_blank.blank: c.open_blank.blank for c in candidates
    }  # blank of the pass -> its number on the draft now
    places = draft.blanks
    written: dict[int, list[int]] = {}  # long words of this pass, and where on the canvas that it saw
    for rank, candidate in enumerate(sorted(candidates, key=lambda c: -c.log_prob)):
        if rank and candidate.log_prob < log_threshold:
            break
        now, place = number[candidate.open_blank.blank], places[candidate.open_blank.blank]
        keeps = text.rules.keeps_from_repeating(candidate.open_blank.rule, candidate.token)
        open_blank = next((open_blank for open_blank in text.rules.open_blanks(draft) if open_blank.blank == now), None)
        starts_word = int(text.rules.tokenizer.starts_word[candidate.token])
        if (
            open_blank is None
            or not open_blank.sides[starts_word, candidate.side]
            or (open_blank.words is not None and candidate.token not in open_blank.words)
            or not text.rules.accepts(draft, open_blank, candidate.token, candidate.side)
            or (keeps and any(abs(place - other) <= NO_REPEAT_WITHIN for other in written.get(candidate.token, ())))
        ):
            continue
        if keeps:
            written.setdefault(candidate.token, []).append(place)
        draft = text.rules.advance(draft, open_blank, candidate.token, candidate.side, candidate.log_prob)
        stay = sum(SIDES[candidate.side])
        number = {blank: place + (stay - 1) * (place > now) for blank, place in number.items()}
    return draft
