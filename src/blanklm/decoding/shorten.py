"""Fills without their last word, which is often idle: the length is chosen before the words are.

    he would be there today please  ->  he would be there today

A shorter fill is written as a search that had chosen its length would write it, so the two can be compared. Without a
word that is not idle ("he would be") it is much worse, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from blanklm.core.policy import SpanScorer
from blanklm.core.special import BLANK
from blanklm.decoding.rerank import core_end
from blanklm.decoding.span_scores import views
from blanklm.decoding.span_tasks import Task, Writing
from blanklm.decoding.span_view import View

WORSE = 0.25  # by so much its score may be below that of the longer one
LEAST, MOST = 2, 8  # words that are left: single words are sought where they are probable, and long fills cost much


def shorter(policy: SpanScorer, members: Sequence[tuple[Task, Writing]]) -> list[Writing | None]:
    """Of each writing whose last blank was filled, the one without the last word of that blank; None if there is none.

    The words are scored in one pass, each after those before it.
    """
    asked: list[tuple[Task, Writing]] = []
    plans: list[tuple[int, ...] | None] = []
    for task, writing in members:
        ids = _without_last_word(task, writing)
        plans.append(ids)
        if ids is not None:
            asked += _steps(task, _begun(writing), _words(task, ids), ids)
    reached = iter(list(views(policy, asked)))
    found: list[Writing | None] = []
    for (task, longer), ids in zip(members, plans, strict=True):
        if ids is None:
            found.append(None)
            continue
        start, *rest = [next(reached) for _ in range(len(ids) + 1)]
        one = _rewritten(start, rest, _words(task, ids), ids)
        found.append(one if one is not None and one.score > longer.score - WORSE else None)
    return found


def _without_last_word(task: Task, writing: Writing) -> tuple[int, ...] | None:
    """What is left of the span; the marks at its end stay there."""
    draft, number, tokenizer = writing.draft, _number(writing), task.request.rules.tokenizer
    span, ids = task.spans[number], draft.spans(len(task.spans))[number]
    starts = [i for i, token in enumerate(ids) if tokenizer.starts_word[token]]
    if not span.starts_word or span.least == span.most or not max(LEAST, span.least) < len(starts) <= MOST + 1:
        return None
    *_, before, last = starts
    kept, dropped = ids[before:last], ids[last:]
    core, ends = core_end(kept, tokenizer), core_end(dropped, tokenizer)
    return (*ids[:before], *kept[:core], *dropped[ends:]) if core else None


def _words(task: Task, ids: Sequence[int]) -> int:
    return sum(bool(task.request.rules.tokenizer.starts_word[token]) for token in ids)


def _number(writing: Writing) -> int:
    """Of the blank that was filled last."""
    draft = writing.draft
    return (max(draft.origins) + 1 if draft.finished else draft.origins[draft.leftmost]) - 1


def _begun(writing: Writing) -> Writing:
    """The writing before that blank was filled."""
    draft, (steps, log_prob), number = writing.draft, writing.before, _number(writing)
    history = draft.history
    for _ in range(draft.steps - steps):
        assert history is not None
        history = history[0]
    first, last = draft.origins.index(number), len(draft.origins) - 1 - draft.origins[::-1].index(number)
    draft = replace(
        draft,
        items=(*draft.items[:first], BLANK, *draft.items[last + 1 :]),
        origins=(*draft.origins[:first], number, *draft.origins[last + 1 :]),
        log_prob=log_prob,
        path_log_prob=log_prob,
        history=history,
        steps=steps,
    )
    return Writing(draft, before=writing.before)


def _steps(task: Task, start: Writing, length: int, ids: Sequence[int]) -> list[tuple[Task, Writing]]:
    """What must be scored: the blank before its length is chosen, and before each token."""
    steps = [start, task.of_length(start, length, 0.0)]
    for token in ids[:-1]:
        steps.append(task.after(steps[-1], token, True, 0.0))
    return [(task, writing) for writing in steps]


def _rewritten(start: View, views: Sequence[View], length: int, ids: Sequence[int]) -> Writing | None:
    writing, closed = start.of_words(length), len(ids) - 1
    for i, (view, token) in enumerate(zip(views, ids, strict=True)):
        (followers,) = view.following([token])
        blanks = view.writing.draft.items.count(BLANK)
        ended = [after.draft.items.count(BLANK) < blanks for after in followers]
        if (i == closed) not in ended:
            return None
        after = followers[ended.index(i == closed)]
        log_prob = after.draft.log_prob - view.writing.draft.log_prob
        if log_prob == -math.inf:
            return None
        writing = view.task.after(writing, token, i < closed, log_prob)
    return writing
