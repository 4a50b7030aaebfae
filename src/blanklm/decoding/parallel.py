"""Many blanks at once: every open blank that is confident enough takes its best word in one pass, so a text takes a few
passes, not n.

The blanks of one pass do not see each other's new words. They act in falling order of confidence, each on the
draft that the ones before it left, so budgets and constraints hold at every moment; a blank whose best action has
become impossible, or would repeat a long word that another one nearby has just written, waits for the next pass. At
least one blank acts in each pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from blanklm.core.policy import SIDES, Policy
from blanklm.decoding.beam import RETRY_BEAM, beam_search, views
from blanklm.decoding.constraint import NEAR, Text
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import fill_greedily, fits_in_parallel
from blanklm.errors import BlankLMError


def fill_in_parallel(policy: Policy, texts: Sequence[Text], threshold: float = 0.0) -> list[Draft]:
    """One finished draft a text, an unfinished one of a text that is given up.

    Blanks whose best action has less than the probability ``threshold`` wait.
    """
    if not 0 <= threshold <= 1:
        raise BlankLMError(f"the threshold is a probability, from 0 (all blanks at once) to 1, not {threshold}")
    quick = iter(fill_greedily(policy, [text for text in texts if fits_in_parallel(text)], "parallel", threshold))
    drafts = [next(quick) if fits_in_parallel(text) else None for text in texts]
    rest = iter(act_one_by_one(policy, [t for t, draft in zip(texts, drafts, strict=True) if draft is None], threshold))
    return [next(rest) if draft is None else draft for draft in drafts]


def act_one_by_one(policy: Policy, texts: Sequence[Text], threshold: float = 0.0) -> list[Draft]:
    """``fill_in_parallel`` for whatever constraints there are, a Python object for each draft."""
    log_threshold = math.log(threshold) if threshold else -math.inf
    drafts = [text.begin() for text in texts]
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
        (found,) = beam_search(policy, [texts[t]], beam=RETRY_BEAM)
        drafts[t] = found[0] if found else texts[t].begin()
    return drafts


def _act(text: Text, draft: Draft, candidates: list, log_threshold: float) -> Draft:
    """Apply each blank's action, most confident first, where it is still allowed."""
    number = {c.slot.blank: c.slot.blank for c in candidates}  # blank of the pass -> its number on the draft now
    places = draft.blanks
    written: dict[int, list[int]] = {}  # long words of this pass, and where on the canvas that it saw
    for rank, candidate in enumerate(sorted(candidates, key=lambda c: -c.log_prob)):
        if rank and candidate.log_prob < log_threshold:
            break
        now, place = number[candidate.slot.blank], places[candidate.slot.blank]
        keeps = text.constraints.keeps_from_repeating(candidate.slot.rule, candidate.token)
        slot = next((slot for slot in text.constraints.slots(draft) if slot.blank == now), None)
        starts_word = int(text.constraints.tokenizer.starts_word[candidate.token])
        if (
            slot is None
            or not slot.sides[starts_word, candidate.side]
            or (slot.words is not None and candidate.token not in slot.words)
            or not text.constraints.accepts(draft, slot, candidate.token, candidate.side)
            or (keeps and any(abs(place - other) <= NEAR for other in written.get(candidate.token, ())))
        ):
            continue
        if keeps:
            written.setdefault(candidate.token, []).append(place)
        draft = text.constraints.advance(draft, slot, candidate.token, candidate.side, candidate.log_prob)
        stay = sum(SIDES[candidate.side])
        number = {blank: place + (stay - 1) * (place > now) for blank, place in number.items()}
    return draft
