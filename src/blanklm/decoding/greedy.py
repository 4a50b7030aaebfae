"""Greedy filling of many texts as tensors: the same fills as ``search`` and ``parallel`` give, without their Python.

``search`` keeps a Python object for each draft and blank, which constraints of every kind need. Most texts have nothing
but lengths to keep; their drafts fit into a few tensors, and a pass over all of them is a fixed number of tensor
operations, however many texts there are. On a GPU that is all the difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor

from blanklm.core.policy import SIDES, Scorer, Scores
from blanklm.core.special import BLANK, PAD
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.budget import NO_REPEAT_WITHIN
from blanklm.decoding.constraint import Rule
from blanklm.decoding.draft import Draft, History
from blanklm.decoding.request import Request

WORD_SCORES_AT_ONCE = {"cpu": 2**25, "cuda": 2**30}  # blanks times vocabulary
FIRST_WORDS = 8  # how many of a blank's best words are looked at before more are
NO_MAXIMUM = 2**31


def fits(text: Request) -> bool:
    """Whether a text's blanks have nothing to keep but lengths: any, or in words or characters that are tokens."""
    return all(_only_lengths(rule) for rule in text.rules.by_blank)


def fits_in_parallel(text: Request) -> bool:
    """The same for filling all blanks at once, where blanks must not share a length either."""
    return fits(text) and not any(rule.counts for rule in text.rules.by_blank)


def _only_lengths(rule: Rule) -> bool:
    tokens_are_units = rule.lead_starts_word is None
    plain = rule.writable is None and not (rule.required or rule.banned or rule.only)
    return plain and (tokens_are_units or not rule.counts)


@torch.inference_mode()
def fill_greedily(
    policy: Scorer, texts: Sequence[Request], order: str = "confident", threshold: float = 0.0
) -> list[Draft | None]:
    """Return a finished draft for each text, an unfinished one if it was given up, None if lengths led to a dead end.

    ``order`` is one of ``search.ORDERS``, or "parallel": then every blank whose best action has a probability of at
    least ``threshold`` acts in a pass, and the most confident one in any case.
    """
    drafts: list[Draft | None] = []
    for group in _groups(texts, policy):
        drafts += _Drafts(group, policy).fill(order, math.log(threshold) if threshold else -math.inf)
    return drafts


def _groups(texts: Sequence[Request], policy: Scorer) -> Iterator[Sequence[Request]]:
    """Neighbours whose blanks' word scores fit into memory; a pass may have twice the blanks of the first."""
    budget = WORD_SCORES_AT_ONCE.get(policy.device.type, 2**25)
    start, scores = 0, 0
    for end, text in enumerate(texts):
        more = 2 * len(text.rules.by_blank) * len(text.rules.tokenizer)
        if end > start and scores + more > budget:
            yield texts[start:end]
            start, scores = end, 0
        scores += more
    if start < len(texts):
        yield texts[start:]


@lru_cache(maxsize=16)
def vocabulary_masks(tokenizer: Tokenizer, device: torch.device) -> tuple[Tensor, Tensor]:
    """[V] each: which tokens start a word, and which are never written."""
    starts_word, never_written = tokenizer.starts_word, tokenizer.never_written
    return torch.from_numpy(starts_word).to(device), torch.from_numpy(never_written).to(device)


@lru_cache(maxsize=16)
def _tables(tokenizer: Tokenizer, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """[V] which tokens start a word, are never written, are long; [2, 4] left and right of each class of SIDES."""
    starts_word, never_written = vocabulary_masks(tokenizer, device)
    long_words = torch.from_numpy(tokenizer.long_words).to(device)
    return starts_word.long(), never_written, long_words, torch.tensor(SIDES).T.to(device)


@dataclass(frozen=True)
class _Actions:
    """One action on each of R blanks."""

    row: Tensor  # [R] of the scores
    token: Tensor  # [R]
    side: Tensor  # [R]
    log_prob: Tensor  # [R] -inf where nothing is allowed


class _Drafts:
    """The drafts of N unfinished texts, as tensors."""

    def __init__(self, texts: Sequence[Request], policy: Scorer) -> None:
        self.policy, self.texts, device = policy, texts, policy.device
        constraints = texts[0].rules
        longest_spans = [text.rules.longest_span for text in texts]
        self.longest_span = torch.tensor(longest_spans, device=device)[:, None]  # [N, 1]
        self.max_length, self.bpe = constraints.max_length, constraints.tokenizer.words_have_parts
        self.space = constraints.tokenizer.space
        self.starts_word, self.never_written, self.long_words, self.sides = _tables(constraints.tokenizer, device)
        near = [*range(-NO_REPEAT_WITHIN, 0), *range(1, NO_REPEAT_WITHIN + 1)]
        self.near = torch.tensor(near, device=device)  # [2 R], R = NO_REPEAT_WITHIN
        begun = [text.first_draft() for text in texts]
        self.items, self.lengths = (part.to(device) for part in pad([draft.items for draft in begun]))  # [N, L], [N]
        self.origins = pad([draft.origins for draft in begun])[0].to(device)  # [N, L]
        rules = [text.rules.by_blank for text in texts]
        self.counts = any(rule.counts for each in rules for rule in each)
        self.least = pad([[rule.min for rule in each] for each in rules])[0].to(device)  # [N, O]
        most = [[NO_MAXIMUM if rule.max == math.inf else int(rule.max) for rule in each] for each in rules]
        self.most = pad(most)[0].to(device)  # [N, O]
        lead_space = [[bool(rule.lead_starts_word) for rule in each] for each in rules]
        self.lead_space = pad(lead_space)[0].to(device)  # [N, O]
        self.text = torch.arange(len(texts), device=device)  # [N] which of the texts a draft is of
        self.written: list[Tensor] = []  # [5, R] of each pass: text, blank, token, left, right
        self.log_probs: list[Tensor] = []  # [R] of each pass
        self.finished: dict[int, tuple[list[int], list[int]]] = {}  # items and origins of finished texts
        self.stuck: set[int] = set()

    # --- A pass ----------------------------------------------------------------------------------------------------

    def fill(self, order: str, log_threshold: float) -> list[Draft | None]:
        self._put_away(dead_ends=self.text[:0])
        while self._still_wanted():
            self.longest = self.items.shape[1]
            self.is_blank = self.items == BLANK  # [N, L]
            self.draft, self.place = self.is_blank.nonzero(as_tuple=True)  # [K] each: the blanks, draft by draft
            self.origin = self.origins[self.draft, self.place]  # [K]
            self.number = (self.is_blank.cumsum(1) - 1)[self.draft, self.place]  # [K] a blank's number on its draft
            scores = self.policy.score(self.items, self.lengths, self.longest)
            self.open_sides = self._open_sides()  # [K, 2, 4]
            log_p_word = scores.log_p_word.masked_fill_(self.never_written, -math.inf)  # [K, V]
            if self.bpe:
                closed = ~self.open_sides.any(2)  # [K, 2]
                log_p_word.masked_fill_(closed[:, self.starts_word], -math.inf)
                log_p_word.scatter_(1, self._repeats(), -math.inf)
            actions = self._choose(scores, log_p_word, order, log_threshold)
            dead_ends = self.draft[actions.row[actions.log_prob == -math.inf]]
            self._record(actions)
            self._apply(actions)
            self._put_away(dead_ends)
        return self._to_drafts()

    def _choose(self, scores: Scores, log_p_word: Tensor, order: str, log_threshold: float) -> _Actions:
        """The actions of this pass."""
        every = torch.arange(len(self.draft), device=log_p_word.device)  # [K]
        if order == "left-to-right":
            return self._best_actions(scores, log_p_word, every[self.number == 0])
        if order == "confident":
            return self._best_actions(scores, log_p_word, self._best_of_each_draft(log_p_word.max(1).values))
        actions = self._best_actions(scores, log_p_word, every)
        if order == "model":
            joint = actions.log_prob + scores.log_p_blank
            chosen = self._best_of_each_draft(joint)
            return _Actions(chosen, actions.token[chosen], actions.side[chosen], joint[chosen])
        alone = torch.zeros_like(every, dtype=torch.bool)  # [K] the most confident of each draft
        alone[self._best_of_each_draft(actions.log_prob)] = True
        acts = alone | (actions.log_prob >= log_threshold)  # [K]
        grows = self.sides[:, actions.side].sum(0) * acts  # [K] by how many symbols
        by_span = torch.zeros_like(self.least).index_put_((self.draft, self.origin), grows, accumulate=True)  # [N, O]
        too_long = (by_span > 0) & (self._tally(self.items != PAD) + by_span > self.longest_span)  # [N, O]
        no_room = too_long.any(1) | (self.lengths + by_span.sum(1) > self.max_length)  # [N] for all: one at a time
        acts = torch.where(no_room[self.draft], alone, acts)
        if self.bpe:
            acts[self._colliding(actions, acts)] = False
        return _Actions(every[acts], actions.token[acts], actions.side[acts], actions.log_prob[acts])

    def _repeats(self) -> Tensor:
        """[K, 2 R] what a blank may not write again (``Rules.repeats``), R = NO_REPEAT_WITHIN, filled up with PAD."""
        place = self.place[:, None] + self.near  # [K, 2 R]
        inside = (place >= 0) & (place < self.longest)
        near = self.items[self.draft[:, None], place.clamp(0, self.longest - 1)]  # [K, 2 R]
        return torch.where(inside & self.long_words[near], near, PAD)

    def _colliding(self, actions: _Actions, acts: Tensor) -> list[int]:
        """The blanks that would write the same long word as a more confident one nearby; most passes have none."""
        which = (acts & self.long_words[actions.token]).nonzero().squeeze(1)  # [R]
        word = self.draft[which] * len(self.long_words) + actions.token[which]  # [R] of a draft
        which = which[word.argsort(stable=True)]  # those of a word together, from left to right
        same = (self.draft[which][1:] == self.draft[which][:-1]) & (
            actions.token[which][1:] == actions.token[which][:-1]
        )
        close = same & (self.place[which][1:] - self.place[which][:-1] <= NO_REPEAT_WITHIN)  # [R - 1]
        if not close.any():
            return []
        places: dict[tuple[int, int], list[int]] = {}  # by draft and word: where it is written in this pass
        waiting = []
        parts = (which, actions.log_prob[which], self.draft[which], actions.token[which], self.place[which])
        for row, _, draft, token, place in sorted(zip(*(p.tolist() for p in parts), strict=True), key=lambda a: -a[1]):
            written = places.setdefault((draft, token), [])
            if any(abs(place - other) <= NO_REPEAT_WITHIN for other in written):
                waiting.append(row)
            else:
                written.append(place)
        return waiting

    def _best_of_each_draft(self, value: Tensor) -> Tensor:
        """[N] for each draft, the row of its blank with the highest value [K]; the first of equals."""
        table = value.new_full(self.items.shape, -math.inf)  # [N, L]
        table[self.draft, self.place] = value.clamp_min(torch.finfo(value.dtype).min)
        row = self.is_blank.flatten().cumsum(0).view_as(self.is_blank) - 1  # [N, L]
        return row.gather(1, table.argmax(1, keepdim=True)).squeeze(1)

    def _best_actions(self, scores: Scores, log_p_word: Tensor, rows: Tensor) -> _Actions:
        """The most probable (w, l, r) of each row, exactly: p(w, l, r) <= p(w), so words are taken in falling order."""
        vocabulary = log_p_word.shape[1]
        token, side = torch.zeros_like(rows), torch.zeros_like(rows)
        log_prob = log_p_word.new_full(rows.shape, -math.inf)
        asked = torch.arange(len(rows), device=rows.device)  # which of the rows are not settled
        k = min(FIRST_WORDS, vocabulary)
        while True:
            row = rows[asked]
            log_p, words = log_p_word[row].topk(k)  # [R, k] each
            log_sides = scores.log_p_sides(row.repeat_interleave(k), words.flatten()).view(len(row), k, 4)
            allowed = self.open_sides[row[:, None], self.starts_word[words]]  # [R, k, 4]
            if self.space is not None:  # what begins with a mere space stands to its right
                allowed = allowed & (self.sides[1] | (words != self.space)[:, :, None])
            joint = (log_p[:, :, None] + log_sides).masked_fill(~allowed, -math.inf).flatten(1)  # [R, 4 k]
            log_prob[asked], place = joint.max(1)  # [R] each
            token[asked] = words.gather(1, place[:, None] // 4).squeeze(1)
            side[asked] = place % 4
            asked = asked[(log_prob[asked] < log_p[:, -1])]  # a word further down may be better
            if k == vocabulary or not len(asked):
                return _Actions(rows, token, side, log_prob)
            k = min(vocabulary, 8 * k)

    # --- What lengths leave open -------------------------------------------------------------------------------------

    def _open_sides(self) -> Tensor:
        """[K, 2, 4] which sides are open to tokens that do not / do start a word, as ``OpenBlank.sides`` says it."""
        left, right = self.sides  # [4] each
        more = left.long() + right.long()  # [4] blanks that stay
        room = (self.max_length - self.lengths)[self.draft, None]  # [K, 1]
        of_blank = self.draft, self.origin
        span_room = (self.longest_span - self._tally(self.items != PAD)).clamp_min(0)[of_blank][:, None]  # [K, 1]
        if not self.counts:
            sides = more <= torch.minimum(room, span_room)  # [K, 4]
        else:
            units, blanks = self._tally(~self.is_blank), self._tally(self.is_blank)  # [N, O] each
            growth = (self.least - units - blanks).clamp_min(0)  # [N, O]
            room = room + (growth[of_blank] - growth.sum(1)[self.draft])[:, None]
            least, most = self.least[of_blank][:, None], self.most[of_blank][:, None]  # [K, 1]
            units, blanks = units[of_blank][:, None] + 1, blanks[of_blank][:, None] - 1 + more  # [K, 1], [K, 4]
            fits = (least - units - blanks).clamp_min(0) <= room - more
            sides = (units + blanks <= most) & fits & ((blanks > 0) | (units >= least))  # [K, 4]
            any_length = (least == 1) & (most == NO_MAXIMUM)  # [K, 1]
            sides &= (more <= span_room) | ~any_length
        sides = sides[:, None].repeat(1, 2, 1)  # [K, 2, 4]
        if self.bpe:  # the first token of a span carries the user's space, or does not, as the user wrote it
            before = self.origins[self.draft, (self.place - 1).clamp_min(0)]  # [K]
            leads = (self.place == 0) | (before != self.origin)  # [K]
            wrong = 1 - self.lead_space[self.draft, self.origin]  # [K] the kind that may only stand further right
            here = torch.arange(len(wrong), device=wrong.device)
            sides[here, wrong] &= left | ~leads[:, None]
        return sides

    def _tally(self, which: Tensor) -> Tensor:
        """[N, O] how many of the symbols ``which`` [N, L] belong to each blank of the first canvas."""
        ours = which & (self.origins >= 0) & (self.items != PAD)
        tally = torch.zeros_like(self.least)
        return tally.scatter_add_(1, self.origins.clamp_min(0), ours.long())

    # --- Writing -----------------------------------------------------------------------------------------------------

    def _record(self, actions: _Actions) -> None:
        row, (left, right) = actions.row, self.sides[:, actions.side]
        draft = self.draft[row]
        # Several actions on one draft are taken from left to right: those before have changed the number of blanks.
        change = left.long() + right.long() - 1  # [R]
        before = change.cumsum(0) - change  # [R] on all drafts so far
        number = self.number[row] + before - before[torch.searchsorted(draft, draft)]  # less those of other drafts
        self.written.append(torch.stack((self.text[draft], number, actions.token, left.long(), right.long())))  # [5, R]
        self.log_probs.append(actions.log_prob)

    def _apply(self, actions: _Actions) -> None:
        """Write the tokens: each acting blank becomes one to three symbols, and what follows moves to the right."""
        column = torch.arange(self.longest, device=self.items.device)
        inside = column < self.lengths[:, None]  # [N, L]
        size = inside.long()  # [N, L] symbols that come of each
        left, right = self.sides[:, actions.side].long()  # [R] each
        where = self.draft[actions.row], self.place[actions.row]
        size[where] += left + right
        end = size.cumsum(1)  # [N, L]
        self.lengths = end[:, -1]
        start = end - size  # [N, L] where each symbol's successors begin
        width = int(self.lengths.max())
        # Which old symbol a new place comes from: mark where each begins, and count.
        marks = torch.zeros(len(start), width + 1, dtype=torch.long, device=start.device)
        marks.scatter_add_(1, torch.where(inside, start, width), inside.long())
        source = marks[:, :width].cumsum(1) - 1  # [N, W]
        inside = torch.arange(width, device=source.device) < self.lengths[:, None]  # [N, W]
        items, origins = self.items.gather(1, source), self.origins.gather(1, source)
        items[where[0], start[where] + left] = actions.token
        self.items = torch.where(inside, items, PAD)
        self.origins = torch.where(inside, origins, -1)

    # --- Coming to an end --------------------------------------------------------------------------------------------

    def _still_wanted(self) -> bool:
        """Drop the texts that their watch gives up; return whether any is left."""
        if any(text.watch is not None for text in self.texts):
            numbered = enumerate(self.text.tolist())
            given_up = [n for n, text in numbered if self.texts[text].given_up(partial(self._so_far, n))]
            self._put_away(self.text[:0], torch.tensor(given_up, dtype=torch.long, device=self.text.device))
        return len(self.text) > 0

    def _put_away(self, dead_ends: Tensor, given_up: Tensor | None = None) -> None:
        """Set aside the drafts that are finished, stuck or given up."""
        done = ~(self.items == BLANK).any(1)  # [N]
        done[dead_ends] = True
        if given_up is not None:
            done[given_up] = True
        if not bool(done.any()):
            return
        self.stuck.update(self.text[dead_ends].tolist())
        ended = [part[done].tolist() for part in (self.text, self.lengths, self.items, self.origins)]
        for text, length, items, origins in zip(*ended, strict=True):
            self.finished[text] = items[:length], origins[:length]
        going_on = ~done
        for name in ("text", "lengths", "items", "origins", "least", "most", "lead_space", "longest_span"):
            setattr(self, name, getattr(self, name)[going_on])
        if len(self.text):
            width = int(self.lengths.max())
            self.items, self.origins = self.items[:, :width], self.origins[:, :width]

    def _to_drafts(self) -> list[Draft | None]:
        """Assemble the draft of each text from the records of all passes."""
        actions: list[list[tuple]] = [[] for _ in self.texts]
        for record, log_probs in zip(self.written, self.log_probs, strict=True):
            for text, *action in zip(*record.tolist(), log_probs.tolist(), strict=True):
                actions[text].append(action)
        return [
            None if t in self.stuck else _draft(text, *self.finished[t], actions[t])
            for t, text in enumerate(self.texts)
        ]

    def _so_far(self, n: int) -> Draft:
        """The n-th of the drafts that are being filled."""
        text, length = int(self.text[n]), int(self.lengths[n])
        actions: list[tuple] = []
        if self.written:
            written, log_probs = torch.cat(self.written, 1), torch.cat(self.log_probs)  # [5, A], [A]
            ours = written[0] == text  # [A]
            actions = list(zip(*written[1:, ours].tolist(), log_probs[ours].tolist(), strict=True))
        return _draft(self.texts[text], self.items[n, :length].tolist(), self.origins[n, :length].tolist(), actions)


def _draft(text: Request, items: Sequence[int], origins: Sequence[int], actions: Sequence[Sequence]) -> Draft:
    """Build a draft from its items and the actions that led there: (blank, token, left, right, log-probability)."""
    history: History | None = None
    total = 0.0
    for blank, token, left, right, log_prob in actions:
        history = (history, blank, token, bool(left), bool(right), log_prob)
        total += log_prob
    missing = text.rules.start_of_required
    return Draft(tuple(items), tuple(origins), missing, None, total, total, history, len(actions))
