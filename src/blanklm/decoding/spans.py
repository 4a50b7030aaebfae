"""Fill spans as people leave them blank: choose how many words each holds, then write them from left to right.

The most probable fill of any length is too short: of all the clauses that would fit, each is less probable than the
best single word. So the length is chosen first, by p(n | canvas); the model is told it, and words are searched among
fills of that length. The blanks of a text are filled one after the other, each with all that is around it in sight.
Blanks that touch are filled as one, which is divided at the end.

The log-probability of a fill is that of its lengths and of its words given them, in this order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np
import torch
from torch import Tensor

from blanklm.core.policy import SIDES, SpanScorer, SpanScores
from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.budget import LONGEST_SPAN, NO_REPEAT_WITHIN, OpenBlank
from blanklm.decoding.constraint import Rule
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import vocabulary_masks
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.decoding.request import Request
from blanklm.decoding.sample import pick, truncate
from blanklm.decoding.scores import passes
from blanklm.errors import ConstraintError

UNTOLD = -1
ONE_WORD = 0.2  # a single word is written where it is this probable
QUANTILES = (0.3, 0.5, 0.7)  # else these quantiles of the longer lengths are tried
IMPROBABLE = 0.2  # to end a span, or not, at less than this is not considered
HYPOTHESES = 2  # at least: by one, a word that cannot be the last is noticed too late
SPARE = 2  # words by which a span may become longer than the length chosen
IN_A_ROW = 3  # so many tokens are not written twice in a row
EVEN = 0.8  # fills of different lengths are compared by log p / tokens^this: by 1, longer ones win, by 0, shorter ones
PARTS = 12  # tokens in a word, at most
LOOKED_AT = 16  # of the most probable words of a blank; more where rules refuse them
SPACE_AFTER = (",", ";", ":", "!", "?")
OPENING = ("$", "£", "€", "(", "[", "“", "‘")  # what a span does not end with
NEVER, STARTS, CONTINUES, SPACE = range(4)  # kinds of token: SPACE is a space before a word of other tokens


# --- What is to be written ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A blank to write, or several that touch; lengths are counted in words that begin inside."""

    rules: tuple[Rule, ...]  # of each of its blanks
    least: int
    most: float  # math.inf where there is no maximum
    starts_word: bool  # whether its first token begins a word; else it continues what stands before it

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> Span:
        starts = rules[0].lead_starts_word is not False
        least, most = sum(rule.min for rule in rules), sum(rule.max for rule in rules)
        return cls(tuple(rules), least - (not starts), most - (not starts), starts)


@dataclass(frozen=True)
class Task:
    """A request, with blanks that touch taken as one."""

    request: Request
    ids: tuple[int, ...]
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, request: Request) -> Task:
        rules = iter(request.rules.by_blank)
        ids: list[int] = []
        spans = []
        for is_blank, run in groupby(request.ids, lambda i: i == BLANK):
            if is_blank:
                spans.append(Span.of([next(rules) for _ in run]))
                ids.append(BLANK)
            else:
                ids += run
        return cls(request, tuple(ids), tuple(spans))

    def begin(self) -> Writing:
        return self.writing(Draft.begin(self.ids, ((),) * len(self.spans)))

    def writing(self, draft: Draft) -> Writing:
        """Go on with the leftmost blank of a draft; a length that its rules fix needs no choice."""
        if draft.finished:
            return Writing(draft)
        span, before = self.span(draft), (draft.steps, draft.log_prob)
        length = int(span.least) if span.least == span.most else UNTOLD
        return Writing(draft, length, length=length, before=before)

    def following(self, before: Writing, after: Writing) -> Writing:
        """What to go on with after a step: the next blank, if the step has filled the one before."""
        filled = after.draft.items.count(BLANK) < before.draft.items.count(BLANK)
        return self.writing(after.draft) if filled else after

    def span(self, draft: Draft) -> Span:
        return self.spans[draft.origins[draft.items.index(BLANK)]]

    def longest(self, draft: Draft) -> int:
        """How many words the leftmost blank may hold at most."""
        room = self.request.rules.max_length - len(draft.items) + 1
        span = self.span(draft)
        others = sum(max(1, span.least) for span in self.spans[draft.origins[draft.items.index(BLANK)] + 1 :])
        capped = LONGEST_SPAN if span.most == math.inf else span.most
        return int(max(span.least, min(capped, room - others + draft.items.count(BLANK) - 1)))

    def finish(self, writing: Writing) -> Draft:
        """The draft of the request that a finished writing stands for."""
        starts_word = self.request.rules.tokenizer.starts_word
        _, log_probs = writing.draft.actions()
        steps = iter(log_probs)
        draft = self.request.first_draft()
        for span, ids in zip(self.spans, writing.draft.spans(len(self.spans)), strict=True):
            for part in divide(ids, starts_word, span.rules):
                for i, token in enumerate(part, 1):
                    draft = draft.write(0, token, False, i < len(part), next(steps))
        return replace(draft, log_prob=writing.draft.log_prob, path_log_prob=writing.draft.log_prob)


@dataclass(frozen=True, slots=True)
class Writing:
    """A draft whose leftmost blank is being written."""

    draft: Draft
    words: int = UNTOLD  # that are still to begin in that blank; UNTOLD: its length is not chosen yet
    spare: int = 0  # by how many words it may become longer than that, if its last word cannot be the last
    parts: int = 0  # tokens of the word that was begun last
    after_space: bool = False  # that word is only a space so far
    length: int = UNTOLD  # the words that were chosen for the blank
    before: tuple[int, float] = (0, 0.0)  # steps and log-probability of the draft when the blank was begun

    @property
    def score(self) -> float:
        """How good the fill of the last blank is, beside others of other lengths."""
        steps, log_prob = self.before
        return (self.draft.log_prob - log_prob) / max(1, self.draft.steps - steps) ** EVEN


def divide(ids: Sequence[int], starts_word: np.ndarray, rules: Sequence[Rule]) -> list[Sequence[int]]:
    """Divide what was written over blanks that touch: whole words, as evenly as their lengths allow."""
    if len(rules) == 1:
        return [ids]
    starts = [i for i, token in enumerate(ids) if i == 0 or starts_word[token]]
    counts = [rule.min for rule in rules]
    for _ in range(len(starts) - sum(counts)):
        open_rules = [i for i, rule in enumerate(rules) if counts[i] < rule.max] or [len(rules) - 1]
        counts[min(open_rules, key=counts.__getitem__)] += 1
    ends = np.cumsum(counts)
    cuts = [0, *(starts[end] if end < len(starts) else len(ids) for end in ends[:-1]), len(ids)]
    return [ids[a:b] for a, b in pairwise(cuts)]


def can_write(request: Request) -> bool:
    """Whether nothing is required: required words may stand anywhere in a span, and are left to ``beam``."""
    rules = request.rules.by_blank
    touching = any(a == b == BLANK for a, b in zip(request.ids, request.ids[1:], strict=False))
    checked = any(rule.checks_words or rule.writable is not None for rule in rules)
    return not any(rule.required for rule in rules) and not (touching and checked)


# --- Searching ------------------------------------------------------------------------------------------------------


def write_spans(policy: SpanScorer, requests: Sequence[Request], options: FillOptions) -> list[list[Draft] | None]:
    """The best finished draft of each request and ``n - 1`` alternatives; none if it was given up.

    None in place of the list: its rules led this search into a dead end. The alternatives come of other lengths of the
    first blank, as far as there are others, and are ranked by probability per token.
    """
    tasks = [Task.of(request) for request in requests]
    begun = [(task, task.begin()) for task in tasks]
    tracks = [[_Track(task, writing, max(HYPOTHESES, options.beam, options.n))] for task, writing in begun]
    if options.n > 1:
        for view, own in zip(_views(policy, begun), tracks, strict=True):
            if view.writing.words == UNTOLD:
                own += [
                    _Track(view.task, start, max(HYPOTHESES, options.beam)) for start in view.with_lengths(options.n)
                ]
    while waiting := [track for own in tracks for track in own if track.goes_on()]:
        views = _views(policy, [(track.task, writing) for track in waiting for writing in track.active])
        for track in waiting:
            track.advance([next(views) for _ in track.active])
    return [_ranked(own, options.n) for own in tracks]


def _ranked(tracks: Sequence[_Track], n: int) -> list[Draft] | None:
    """The best of the first track; then the best of all by probability per token."""
    if any(track.given_up for track in tracks):
        return []
    if not tracks[0].finished:
        return None
    best, *rest = tracks[0].finished
    rest += [writing for track in tracks[1:] for writing in track.finished]
    rest.sort(key=lambda writing: -writing.draft.log_prob / max(1, writing.draft.steps))
    distinct = {writing.draft.items: writing for writing in reversed((best, *rest))}
    ordered = sorted(
        distinct.values(), key=lambda w: (w.draft.items != best.draft.items, -w.draft.log_prob / max(1, w.draft.steps))
    )
    return [tracks[0].task.finish(writing) for writing in ordered[:n]]


class _Track:
    """The search of one request, blank by blank: fills of a few lengths, of which the best goes on to the next."""

    def __init__(self, task: Task, start: Writing, beam: int) -> None:
        self.task, self.beam, self.given_up = task, beam, False
        self.active = [] if start.draft.finished else [start]
        self.closed: list[Writing] = []  # with the last blank filled
        self.finished = [start] if start.draft.finished else []  # best first

    def goes_on(self) -> bool:
        if self.active and self.task.request.given_up(lambda: self.active[0].draft):
            self.active, self.given_up = [], True
        return bool(self.active)

    def advance(self, views: Sequence[View]) -> None:
        """Take a step with every hypothesis; keep the most probable of each length."""
        blanks = self.active[0].draft.items.count(BLANK)
        reached = [following for view in views for following in view.best(self.beam)]
        reached.sort(key=lambda writing: -writing.draft.log_prob)
        kept: dict[int, list[Writing]] = {}
        for writing in reached:
            alike = kept.setdefault(writing.length, [])
            if len(alike) < self.beam:
                alike.append(writing)
        reached = [writing for alike in kept.values() for writing in alike]
        self.active = [writing for writing in reached if writing.draft.items.count(BLANK) == blanks]
        self.closed += [writing for writing in reached if writing.draft.items.count(BLANK) < blanks]
        if self.active or not self.closed:
            return
        self.closed.sort(key=lambda writing: -writing.score)
        if self.closed[0].draft.finished:
            self.finished = self.closed
        else:
            self.active, self.closed = [self.task.writing(self.closed[0].draft)], []


# --- Sampling -------------------------------------------------------------------------------------------------------


def sample_spans(
    policy: SpanScorer, requests: Sequence[Request], options: SampleOptions, numbers: Sequence[int]
) -> list[list[Draft]]:
    """Draw ``n`` samples of each request, lengths and then words, each from its own random stream."""
    n = options.n
    tasks = [Task.of(request) for request in requests for _ in range(n)]
    streams = [np.random.default_rng([options.seed, number, i]) for number in numbers for i in range(n)]
    writings = [task.begin() for task in tasks]
    given_up: set[int] = set()
    while True:
        waiting = [d for d, writing in enumerate(writings) if not writing.draft.finished and d // n not in given_up]
        given_up |= {d // n for d in waiting if tasks[d].request.given_up(lambda d=d: writings[d].draft)}  # type: ignore[misc]
        waiting = [d for d in waiting if d // n not in given_up]
        if not waiting:
            break
        for d, view in zip(waiting, _views(policy, [(tasks[d], writings[d]) for d in waiting]), strict=True):
            writings[d] = tasks[d].following(writings[d], view.draw(options, streams[d]))
    finished = [
        None if d // n in given_up else task.finish(writing)
        for d, (task, writing) in enumerate(zip(tasks, writings, strict=True))
    ]
    return [[draft for draft in finished[t * n : (t + 1) * n] if draft] for t in range(len(requests))]


# --- A pass ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def token_kinds(tokenizer: Tokenizer, device: torch.device) -> Tensor:
    """[V] the kind of each token."""
    starts, never = vocabulary_masks(tokenizer, device)
    for mark in (".", ")", *SPACE_AFTER):  # no space stands before them
        apart = tokenizer.backend.token_to_id(f"Ġ{mark}") if tokenizer.kind == "bpe" else None
        if apart is not None:
            never = never.index_fill(0, torch.tensor([apart], device=device), True)
    kinds = torch.where(never, NEVER, torch.where(starts, STARTS, CONTINUES))
    space = tokenizer.space
    if space is not None:
        kinds[space] = SPACE
    return kinds


def _views(policy: SpanScorer, members: Sequence[tuple[Task, Writing]]) -> Iterator[View]:
    """Score all writings, a pass of the policy at a time."""
    first = 0
    for group in passes([(task.request, writing.draft) for task, writing in members]):
        yield from _score(policy, members[first : first + len(group)])
        first += len(group)


@torch.inference_mode()
def _score(policy: SpanScorer, members: Sequence[tuple[Task, Writing]]) -> list[View]:
    ids, lengths = pad([writing.draft.items for _, writing in members])  # [R, L], [R]
    words = torch.full_like(ids, UNTOLD)  # [R, L]
    for r, (_, writing) in enumerate(members):
        words[r, writing.draft.items.index(BLANK)] = 1 if writing.words == 0 < writing.spare else writing.words
    device = policy.device
    scores = policy.score_spans(ids.to(device), lengths.to(device), ids.shape[1], words.to(device))
    blanks = (ids == BLANK).sum(1)  # [R]
    rows = (blanks.cumsum(0) - blanks).to(device)  # [R] of the leftmost blank of each
    tokenizer = members[0][0].request.rules.tokenizer
    log_p = scores.log_p_first[rows]  # [R, V]
    letters = torch.from_numpy(tokenizer.edges[:, 0] == 1).to(device)  # [V]
    allowed = torch.tensor([_kinds_allowed(*member, tokenizer) for member in members], device=device)  # [R, 4]
    log_p.masked_fill_(~allowed[:, token_kinds(tokenizer, device)], -math.inf)
    for r, (task, writing) in enumerate(members):
        log_p[r, _repeats(writing.draft, tokenizer)] = -math.inf
        if _after_mark(writing.draft, tokenizer):
            log_p[r, letters] = -math.inf
        writable = task.span(writing.draft).rules[0].writable
        if writable is not None:
            log_p[r, ~torch.from_numpy(writable).to(device)] = -math.inf
    log_p_length = scores.log_p_length[rows].double().cpu().numpy()  # [R, LENGTHS]
    return [View(*member, int(rows[r]), scores, log_p[r], log_p_length[r]) for r, member in enumerate(members)]


def _kinds_allowed(task: Task, writing: Writing, tokenizer: Tokenizer) -> list[bool]:
    """Which kinds of token may come next."""
    draft, span = writing.draft, task.span(writing.draft)
    at = draft.items.index(BLANK)
    leads = at == 0 or draft.origins[at - 1] != draft.origins[at]
    starts = bool(writing.words or writing.spare) and not writing.after_space and (not leads or span.starts_word)
    continues = writing.parts < PARTS and (not leads or not span.starts_word)
    return [False, starts, continues or not starts, starts]


def _after_mark(draft: Draft, tokenizer: Tokenizer) -> bool:
    """Whether the leftmost blank goes on right after a mark that a space follows: "door," is not "door,and"."""
    at = draft.items.index(BLANK)
    return at > 0 and tokenizer.token_text(int(draft.items[at - 1]))[-1:] in SPACE_AFTER


def _repeats(draft: Draft, tokenizer: Tokenizer) -> list[int]:
    """What is not written again into the leftmost blank: long words nearby, the word before, three tokens in a row."""
    if not tokenizer.words_have_parts:
        return []  # tokenised corpora repeat themselves, and their models are measured against them
    at = draft.items.index(BLANK)
    left = draft.items[:at]
    near = (*left[-NO_REPEAT_WITHIN:], *draft.items[at + 1 : at + 1 + NO_REPEAT_WITHIN])
    repeats = [token for token in near if tokenizer.long_words[token]]
    if left and tokenizer.starts_word[left[-1]]:
        repeats.append(left[-1])
    rows = (left[i : i + IN_A_ROW] for i in range(len(left) - IN_A_ROW + 1))
    repeats += [row[-1] for row in rows if row[:-1] == left[1 - IN_A_ROW :]]
    return repeats


@dataclass(frozen=True)
class View:
    """What may follow a writing, with its probability."""

    task: Task
    writing: Writing
    row: int  # of the scores
    scores: SpanScores
    log_p: Tensor  # [V] of the next token; -inf for what may not be written
    log_p_length: np.ndarray  # [LENGTHS]

    def best(self, need: int) -> list[Writing]:
        """The most probable successors; where the length is open, one for each that is worth a try."""
        return self.with_chosen_lengths() if self.writing.words == UNTOLD else self.with_words(need)

    def draw(self, options: SampleOptions, stream: np.random.Generator) -> Writing:
        """A random successor."""
        if self.writing.words == UNTOLD:
            words = self._lengths()
            return self._of_length(words[pick(self._log_p_of(words), options.temperature, stream)])
        log_p = self.log_p.double().cpu().numpy()
        while np.isfinite(log_p).any():
            token = pick(truncate(log_p, options), options.temperature, stream)
            actions = self._actions(token, self._log_p_more([token])[0])
            if actions:
                more = pick(np.array([log_p_side for _, log_p_side in actions]), options.temperature, stream)
                return self._after(token, actions[more][0], float(log_p[token]) + actions[more][1])
            log_p[token] = -math.inf
        raise ConstraintError("no sample was found that meets the constraints: relax them or change the seed")

    # --- Lengths ----------------------------------------------------------------------------------------------------

    def with_chosen_lengths(self) -> list[Writing]:
        """The writing with each of the lengths that are worth a try."""
        words = self._lengths()
        return [self._of_length(words[i]) for i in choose_lengths(np.exp(self._log_p_of(words)), words)]

    def with_lengths(self, need: int) -> list[Writing]:
        """The writing with its ``need`` most probable lengths."""
        words = self._lengths()
        best = np.argsort(-self._log_p_of(words), kind="stable")[:need]
        return [self._of_length(words[i]) for i in best]

    def _lengths(self) -> list[int]:
        """The lengths that are open, in words that begin inside."""
        span = self.task.span(self.writing.draft)
        return list(range(max(int(span.least), int(span.starts_word)), self.task.longest(self.writing.draft) + 1))

    def _log_p_of(self, words: Sequence[int]) -> np.ndarray:
        """Log p(n) of the lengths [n] among themselves; the last that the model tells apart stands for all longer."""
        last = len(self.log_p_length) - 1
        log_p = self.log_p_length[np.minimum(words, last)]
        if words[-1] > last:  # spread over them, falling by half from one to the next
            log_p = log_p - math.log(2) * np.maximum(0, np.asarray(words) - last + 1)
        return log_p - np.logaddexp.reduce(log_p)

    def _of_length(self, words: int) -> Writing:
        log_p = float(self._log_p_of(self._lengths())[self._lengths().index(words)])
        draft = self.writing.draft
        draft = replace(draft, log_prob=draft.log_prob + log_p, path_log_prob=draft.path_log_prob + log_p)
        room = self.task.longest(draft) - words
        return replace(self.writing, draft=draft, words=words, length=words, spare=max(0, min(SPARE, room)))

    # --- Words ------------------------------------------------------------------------------------------------------

    def with_words(self, need: int) -> list[Writing]:
        """The writings that follow by the ``need`` most probable actions."""
        vocabulary = len(self.log_p)
        looked_at = min(vocabulary, max(LOOKED_AT, 2 * need))
        while True:
            log_p, tokens = self.log_p.topk(looked_at)  # [k] each
            top = tokens.tolist()
            found = [
                (token, more, log_p_word + log_p_side)
                for token, log_p_word, log_p_sides in zip(top, log_p.tolist(), self._log_p_more(top), strict=True)
                if log_p_word > -math.inf
                for more, log_p_side in self._actions(token, log_p_sides)
            ]
            if len(found) >= need or looked_at == vocabulary or float(log_p[-1]) == -math.inf:
                break
            looked_at = min(vocabulary, 8 * looked_at)
        found.sort(key=lambda action: -action[2])
        return [self._after(*action) for action in found[:need]]

    @torch.inference_mode()
    def _log_p_more(self, tokens: list[int]) -> list[list[float]]:
        device = self.log_p.device
        rows = torch.full((len(tokens),), self.row, device=device)
        return self.scores.log_p_more(rows, torch.tensor(tokens, device=device)).double().tolist()

    def _actions(self, token: int, log_p_sides: Sequence[float]) -> list[tuple[bool, float]]:
        """Whether a blank may be left after a token, or may not, with log p of what is open."""
        draft, tokenizer = self.writing.draft, self.task.request.rules.tokenizer
        words, _, parts, is_space = self._counts_after(token)
        room = len(draft.items) < self.task.request.rules.max_length
        goes_on = tokenizer.words_have_parts and parts < PARTS
        sides = [
            more for more in (False, True) if (words == 0 or not room if not more else room and (words or goes_on))
        ]
        if room and (is_space or tokenizer.token_text(token)[-1:] in OPENING):
            sides = [True]
        if len(sides) == 2:  # a search would end early, for the sake of fewer tokens, where the model would not
            sides = [more for more in sides if log_p_sides[more] > math.log(IMPROBABLE)]
        return [(more, log_p_sides[more]) for more in sides if self._accepted(token, more)]

    def _accepted(self, token: int, more: bool) -> bool:
        """Whether the words that this spells are allowed."""
        draft, rules = self.writing.draft, self.task.request.rules
        if len(self.task.spans) != len(rules.by_blank):
            return True  # some blanks touch: no words are checked
        open_blank = OpenBlank(0, rules.by_blank[draft.origins[draft.items.index(BLANK)]], None, _any_sides)
        return rules.accepts(draft, open_blank, token, SIDES.index((False, more)))

    def _counts_after(self, token: int) -> tuple[int, int, int, bool]:
        """After a token: words still to begin and to spare, tokens of the last word, whether that is a mere space."""
        tokenizer, writing = self.task.request.rules.tokenizer, self.writing
        starts = bool(tokenizer.starts_word[token])
        more, spared = (0, 1) if starts and writing.words == 0 else (int(starts), 0)
        parts = 1 if starts else writing.parts + 1
        return writing.words - more, writing.spare - spared, parts, token == tokenizer.space

    def _after(self, token: int, more: bool, log_prob: float) -> Writing:
        words, spare, parts, after_space = self._counts_after(token)
        draft = self.writing.draft.write(0, token, False, more, log_prob)
        return replace(
            self.writing, draft=draft, words=words, spare=spare, parts=parts, after_space=more and after_space
        )


def _any_sides() -> np.ndarray:
    return np.ones((2, 4), dtype=bool)


def choose_lengths(p: np.ndarray, words: Sequence[int]) -> list[int]:
    """The places among ``words`` of the lengths worth a try, given their probabilities ``p`` [n].

    A single word if that is probable enough; else lengths about the median of the longer ones.
    """
    if len(words) == 1 or (words[0] <= 1 and p[0] >= ONE_WORD):
        return [0]
    longer = np.where(np.asarray(words) == words[0], 0.0 if words[0] <= 1 else p, p)
    places = np.searchsorted(np.cumsum(longer), np.asarray(QUANTILES) * longer.sum())
    return list(dict.fromkeys(places.tolist()))
