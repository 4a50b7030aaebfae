"""Greedy filling, beam search and ancestral sampling, batched over texts and drafts.

Which blank comes next (``order``):
  confident       the blank whose best word is most probable; a deterministic rule, so p(b) plays no part
  left-to-right   the leftmost blank; likewise
  model           the paper's joint search over (b, w, l, r), with p(b)

The search is exact about the best actions of a draft without scoring (l, r) for the whole vocabulary: words are
taken in falling order of p(w), and since p(w, l, r) <= p(w), no word below the best joint found so far can win.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice

import numpy as np
import torch
from torch import Tensor

from blanklm.core.policy import Policy, Scores
from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.decoding.constraint import Slot, Text
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import fill_greedily, fits, vocabulary_masks
from blanklm.errors import BlankLMError, ConstraintError

ORDERS = ("confident", "left-to-right", "model")
TOKENS_PER_PASS = 32_768
WORD_SCORES_PER_PASS = 2**26  # blanks times vocabulary: 256 MB
PAIRS_AT_ONCE = 2**15  # (blank, word) pairs whose left/right are scored together
REDRAWS = 16  # how often a sample that ran into a dead end is begun again
RETRY_BEAM = 16  # how hard to look for a fill when constraints lead a narrower search into a dead end


@dataclass(frozen=True)
class Candidate:
    """An action on a draft, with its log-probability."""

    slot: Slot
    token: int
    side: int
    log_prob: float


# --- Beam search ------------------------------------------------------------------------------------------------


def beam_search(
    policy: Policy,
    texts: Sequence[Text],
    beam: int = 1,
    n: int = 1,
    order: str = "confident",
    length_penalty: float = 0.0,
) -> list[list[Draft]]:
    """The ``n`` most probable finished drafts of each text that the search finds, best first.

    A beam of 1 is greedy search. All drafts of a text have the same number of steps, so those that reach the same
    canvas by different orders are merged and their probabilities added. Finished drafts are ranked by
    log p / steps^length_penalty. A text that is given up has none.
    """
    if order not in ORDERS:
        raise BlankLMError(f"there is no order {order!r}: choose {', '.join(ORDERS)} or parallel")
    if beam < 1 or n < 1:
        raise BlankLMError(f"the {'beam' if beam < 1 else 'number of fills'} must be at least 1")
    if not math.isfinite(length_penalty):
        raise BlankLMError(f"the length penalty must be a number, not {length_penalty}")
    if max(beam, n) == 1 and any(map(fits, texts)):
        quick = iter(fill_greedily(policy, [text for text in texts if fits(text)], order))
        drafts = [next(quick) if fits(text) else None for text in texts]
        left = [text for text, draft in zip(texts, drafts, strict=True) if draft is None]
        rest = iter(search_beams(policy, left, 1, 1, order))
        found = [[draft] if draft is not None else next(rest) for draft in drafts]
        return [ranked if ranked and ranked[0].finished else [] for ranked in found]
    return search_beams(policy, texts, max(beam, n), n, order, length_penalty)


def search_beams(
    policy: Policy, texts: Sequence[Text], beam: int, n: int, order: str, length_penalty: float = 0.0
) -> list[list[Draft]]:
    """``beam_search`` for whatever constraints there are, a Python object for each draft."""
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
    if stuck:
        raise ConstraintError("no fill was found that meets the constraints: relax them, or search with a wider beam")
    return [search.best() for search in searches]


class _Beam:
    """The search of one text."""

    def __init__(self, text: Text, beam: int, n: int, length_penalty: float) -> None:
        self.text, self.beam, self.n, self.length_penalty = text, beam, n, length_penalty
        first = text.begin()
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
                reached = self.text.constraints.advance(draft, c.slot, c.token, c.side, c.log_prob)
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
        tokenizer = self.text.constraints.tokenizer
        if not tokenizer.words_have_parts:
            return self.finished
        spelt: dict[tuple[str, ...], Draft] = {}
        for draft in self.finished:
            spans = tuple(tokenizer.decode(span) for span in draft.spans(len(self.text.constraints.rules)))
            known = spelt.get(spans)
            if known is not None:
                draft = known.merged(draft)
            spelt[spans] = draft
        return list(spelt.values())

    def _rank(self, draft: Draft) -> float:
        return -draft.log_prob / max(1, draft.steps) ** self.length_penalty


# --- The best actions of drafts ---------------------------------------------------------------------------------


def best_candidates(
    policy: Policy, drafts: Sequence[tuple[Text, Draft]], need: int, order: str
) -> Iterator[list[Candidate]]:
    """For each draft, its ``need`` most probable actions (fewer where there are no more), best first."""
    for view in views(policy, drafts):
        chosen = view.choose(order)
        found = view.top_actions([row for rows in chosen for row in rows], need, with_blank=order == "model")
        for rows in chosen:
            candidates = [candidate for row in rows for candidate in found[row]]
            yield sorted(candidates, key=lambda c: -c.log_prob)[:need]


def passes(drafts: Sequence[tuple[Text, Draft]]) -> Iterator[Sequence[tuple[Text, Draft]]]:
    """Cut drafts into groups that fit one pass of the policy; results must come in order, so the order stays."""
    start, longest, blanks = 0, 0, 0
    vocabulary = len(drafts[0][0].constraints.tokenizer) if drafts else 1
    for end, (_, draft) in enumerate(drafts):
        more = len(draft.blanks)
        wider = max(longest, len(draft.items))
        too_much = (end + 1 - start) * wider > TOKENS_PER_PASS or (blanks + more) * vocabulary > WORD_SCORES_PER_PASS
        if end > start and too_much:
            yield drafts[start:end]
            start, wider, blanks = end, len(draft.items), 0
        longest, blanks = wider, blanks + more
    if start < len(drafts):
        yield drafts[start:]


def views(policy: Policy, drafts: Sequence[tuple[Text, Draft]]) -> Iterator[View]:
    """The scores of all drafts, a pass of the policy at a time, in order."""
    for group in passes(drafts):
        yield View(score(policy, [draft.items for _, draft in group]), group)


def score(policy: Policy, canvases: Sequence[Sequence[int]]) -> Scores:
    """The policy's scores of canvases given as lists of ids; those that are alike, as the first of all samples are of
    a text, are read once."""
    read = {canvas: i for i, canvas in enumerate(dict.fromkeys(map(tuple, canvases)))}
    ids, lengths = pad(list(read))
    scores = policy.score(ids.to(policy.device), lengths.to(policy.device), ids.shape[1])
    if len(read) == len(canvases):
        return scores
    blanks = (ids == BLANK).sum(1).tolist()
    first = [0, *accumulate(blanks)]  # row of each that was read
    rows = [first[i] + k for i in (read[tuple(canvas)] for canvas in canvases) for k in range(blanks[i])]
    return Repeated(scores, torch.tensor(rows, device=policy.device, dtype=torch.long))


class Repeated:
    """Scores of blanks, some of them several times: row k is row ``of[k]`` of ``scores``."""

    def __init__(self, scores: Scores, of: Tensor) -> None:
        self.scores, self.of = scores, of  # of [K]
        self.log_p_blank, self.log_p_word = scores.log_p_blank[of], scores.log_p_word[of]  # [K], [K, V]

    def log_p_sides(self, rows: Tensor, words: Tensor) -> Tensor:
        return self.scores.log_p_sides(self.of[rows], words)


class View:
    """The scores of a group of drafts in one pass, with what their constraints forbid taken out (in place)."""

    @torch.inference_mode()
    def __init__(self, scores: Scores, group: Sequence[tuple[Text, Draft]]) -> None:
        self.scores, self.group = scores, group
        tokenizer = group[0][0].constraints.tokenizer
        self.log_p_word = scores.log_p_word  # [K, V]; what may not be written is set to -inf
        self.starts_word, never_written = vocabulary_masks(tokenizer, self.log_p_word.device)  # [V] each
        self.words_have_parts = tokenizer.words_have_parts
        plain: list[int] = []  # rows on which anything may be written that is ever written
        self.slots: dict[int, Slot] = {}  # by row of the scores
        self.owner: dict[int, int] = {}  # row -> index in the group
        self.rows: list[list[int]] = []  # for each draft, its rows
        repeats: list[tuple[int, int]] = []  # row and token
        first = 0
        for index, (text, draft) in enumerate(group):
            rows = []
            for slot in text.constraints.slots(draft):
                row = first + slot.blank
                self.slots[row], self.owner[row] = slot, index
                rows.append(row)
                if slot.words is None and slot.rule.writable is None:
                    plain.append(row)
                    repeats += [(row, token) for token in text.constraints.repeats(draft, draft.blanks[slot.blank])]
                else:
                    self._allow_only(row, slot)
                if self.words_have_parts:
                    self._forbid_kinds(row, slot)
            self.rows.append(rows)
            first += len(draft.blanks)
        if len(plain) == len(self.log_p_word):
            self.log_p_word.masked_fill_(never_written, -math.inf)
        else:
            self.log_p_word[plain] = self.log_p_word[plain].masked_fill(never_written, -math.inf)
        if repeats:
            rows_and_tokens = torch.tensor(repeats, device=self.log_p_word.device)  # [R, 2]
            self.log_p_word[rows_and_tokens[:, 0], rows_and_tokens[:, 1]] = -math.inf

    def _allow_only(self, row: int, slot: Slot) -> None:
        log_p = self.log_p_word[row]
        if slot.words is not None:
            allowed = torch.zeros_like(log_p, dtype=torch.bool)
            allowed[list(slot.words)] = True
        else:
            allowed = torch.from_numpy(slot.rule.writable).to(log_p.device)
        log_p[~allowed] = -math.inf

    def _forbid_kinds(self, row: int, slot: Slot) -> None:
        """Where no side is open to tokens that (do not) start a word, none of them may be written."""
        for starts_word in (False, True):
            if not slot.sides[int(starts_word)].any():
                self.log_p_word[row, self.starts_word == starts_word] = -math.inf

    def choose(self, order: str) -> list[list[int]]:
        """For each draft, the rows of the blanks that its next action may be on."""
        if order == "model":
            return self.rows
        if order == "left-to-right":
            return [rows[:1] for rows in self.rows]
        best = self.log_p_word.max(1).values.tolist()  # [K]
        return [[max(rows, key=lambda row: best[row])] if rows else [] for rows in self.rows]

    def allowed_sides(self, rows: Tensor, words: Tensor) -> Tensor:
        """[R, k, 4] which sides are open to each word [R, k] of the rows [R]."""
        tables = np.stack([self.slots[row].sides for row in rows.tolist()])  # [R, 2, 4]
        kind = self.starts_word[words].long()  # [R, k]
        return torch.from_numpy(tables).to(words.device)[torch.arange(len(rows), device=words.device)[:, None], kind]

    def top_actions(self, rows: list[int], need: int, with_blank: bool) -> dict[int, list[Candidate]]:
        """The exact ``need`` best (w, l, r) of each row."""
        found: dict[int, list[Candidate]] = {}
        vocabulary = self.log_p_word.shape[1]
        k = min(vocabulary, max(8, 2 * need))
        looked_at = max(16, 4 * need)  # of the ranked (word, sides), before looking at more words
        while rows:
            row = torch.tensor(rows, device=self.log_p_word.device)
            log_p, words = self.log_p_word[row].topk(k)  # [R, k] each
            pairs = zip(
                row.repeat_interleave(k).split(PAIRS_AT_ONCE), words.flatten().split(PAIRS_AT_ONCE), strict=True
            )
            log_sides = torch.cat([self.scores.log_p_sides(*pair) for pair in pairs]).view(len(rows), k, 4)
            joint = (log_p[:, :, None] + log_sides).masked_fill(~self.allowed_sides(row, words), -math.inf)
            ranked, place = joint.flatten(1).topk(min(4 * k, looked_at) if k < vocabulary else 4 * k)  # [R, .]
            unseen = log_p[:, -1].tolist()  # no action on a word further down is more probable than this
            ranked_list, place_list, word_list = ranked.tolist(), place.tolist(), words.tolist()
            again = []
            for r, number in enumerate(rows):
                candidates = self._accepted(number, ranked_list[r], place_list[r], word_list[r], need)
                settled = sum(candidate.log_prob >= unseen[r] for candidate in candidates)
                if k < vocabulary and settled < need and unseen[r] > -math.inf:
                    again.append(number)
                    continue
                blank = float(self.scores.log_p_blank[number]) if with_blank else 0.0
                found[number] = [replace(c, log_prob=c.log_prob + blank) for c in candidates] if blank else candidates
            rows, k, looked_at = again, min(vocabulary, 4 * k), 4 * looked_at
        return found

    def _accepted(
        self, row: int, ranked: list[float], places: list[int], words: list[int], need: int
    ) -> list[Candidate]:
        text, draft = self.group[self.owner[row]]
        slot, candidates = self.slots[row], []
        for log_prob, place in zip(ranked, places, strict=True):
            if log_prob == -math.inf or len(candidates) == need:
                break
            token, side = words[place // 4], place % 4
            if text.constraints.accepts(draft, slot, token, side):
                candidates.append(Candidate(slot, token, side, log_prob))
        return candidates


# --- Sampling ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampling:
    """How to draw. Temperature applies to every choice, top-k and top-p to words."""

    temperature: float = 1.0
    top_k: int = 0  # 0: all words
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise BlankLMError(
                f"the temperature must be above 0, not {self.temperature}: to take the best words, use fill"
            )
        if self.top_k < 0:
            raise BlankLMError(f"top-k must be 0 (all words) or more, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise BlankLMError(f"top-p must be above 0 and at most 1, not {self.top_p}")
        if self.seed < 0:
            raise BlankLMError(f"a seed is 0 or more, not {self.seed}")


def sample(
    policy: Policy,
    texts: Sequence[Text],
    n: int = 1,
    order: str = "confident",
    sampling: Sampling | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Draft]]:
    """``n`` independent draws for each text, in the order drawn; none for a text that is given up.

    Each draw has a random stream of its own, seeded by (seed, number of the text, number of the draw), so it does
    not depend on what else is in the batch. ``numbers`` are those of the texts, 0, 1, ... by default.
    A draft's probability is that under the model, whatever the temperature.
    """
    sampling = sampling or Sampling()
    if order not in ORDERS:
        raise BlankLMError(f"there is no order {order!r}: choose {', '.join(ORDERS)}")
    numbers = range(len(texts)) if numbers is None else numbers
    draws = [text for text in texts for _ in range(n)]
    streams = [np.random.default_rng([sampling.seed, number, i]) for number in numbers for i in range(n)]
    drafts = [text.begin() for text in draws]
    dead_ends = [0] * len(draws)
    given_up: set[int] = set()  # numbers of texts
    while waiting := [d for d, draft in enumerate(drafts) if not draft.finished and d // n not in given_up]:
        given_up |= {d // n for d in waiting if draws[d].given_up(partial(drafts.__getitem__, d))}
        waiting = [d for d in waiting if d // n not in given_up]
        unseen = iter(waiting)
        for view in views(policy, [(draws[d], drafts[d]) for d in waiting]):
            chosen = view.choose(order)
            members = list(islice(unseen, len(chosen)))
            host = OnHost.of(view)
            drawing = [_draw(host, rows, order, sampling, streams[d]) for rows, d in zip(chosen, members, strict=True)]
            for d, c in zip(members, _in_step(view, drawing), strict=True):
                if c is None:  # constraints left nothing to draw from: begin this draw again
                    dead_ends[d] += 1
                    if dead_ends[d] > REDRAWS:
                        message = "no sample was found that meets the constraints: relax them or change the seed"
                        raise ConstraintError(message)
                    drafts[d] = draws[d].begin()
                    continue
                drafts[d] = draws[d].constraints.advance(drafts[d], c.slot, c.token, c.side, c.log_prob)
    return [[] if t in given_up else drafts[t * n : (t + 1) * n] for t in range(len(texts))]


@dataclass(frozen=True)
class OnHost:
    """A view's scores as arrays: fetched from the device once, not at every draw."""

    view: View
    log_p_word: np.ndarray  # [K, V]
    log_p_blank: np.ndarray  # [K]
    starts_word: np.ndarray  # [V]

    @classmethod
    def of(cls, view: View) -> OnHost:
        arrays = (view.log_p_word, view.scores.log_p_blank.double(), view.starts_word)
        return cls(view, *(array.cpu().numpy() for array in arrays))


Drawing = Generator[tuple[int, int], np.ndarray, Candidate | None]


def _in_step(view: View, drawing: Sequence[Drawing]) -> list[Candidate | None]:
    """What each draw ends in. They go on together: the sides of the words they have drawn are scored in one go."""
    ends: list[Candidate | None] = [None] * len(drawing)
    answers: dict[int, np.ndarray | None] = dict.fromkeys(range(len(drawing)))
    while answers:
        asked: dict[int, tuple[int, int]] = {}
        for i, answer in answers.items():
            try:
                asked[i] = drawing[i].send(answer)
            except StopIteration as end:
                ends[i] = end.value
        if not asked:
            break
        rows, words = torch.tensor(list(asked.values()), device=view.log_p_word.device).T  # [M] each
        pairs = zip(rows.split(PAIRS_AT_ONCE), words.split(PAIRS_AT_ONCE), strict=True)
        log_sides = torch.cat([view.scores.log_p_sides(*pair) for pair in pairs]).double().cpu().numpy()  # [M, 4]
        answers = dict(zip(asked, log_sides, strict=True))
    return ends


def _draw(host: OnHost, rows: list[int], order: str, sampling: Sampling, stream: np.random.Generator) -> Drawing:
    """One action on a draft whose blanks have these rows; asks for log p(l, r) of the words it draws.

    The blank is drawn from p(b) for the order ``model``, and chosen by the rule for the others. None: a dead end.
    """
    alive = [row for row in rows if np.isfinite(host.log_p_word[row].max())]
    if not alive:
        return None
    row = alive[_pick(host.log_p_blank[alive], sampling.temperature, stream)] if order == "model" else alive[0]
    text, draft = host.view.group[host.view.owner[row]]
    slot = host.view.slots[row]
    log_p = host.log_p_word[row].astype(np.float64)  # [V], a copy
    while np.isfinite(log_p).any():
        word = _pick(_truncate(log_p, sampling), sampling.temperature, stream)
        log_sides = yield row, word  # [4]
        kind = int(host.starts_word[word])
        open_sides = [s for s in range(4) if slot.sides[kind, s] and text.constraints.accepts(draft, slot, word, s)]
        if open_sides:
            masked = np.full(4, -math.inf)
            masked[open_sides] = log_sides[open_sides]
            side = _pick(masked, sampling.temperature, stream)
            blank = float(host.log_p_blank[row]) if order == "model" else 0.0
            return Candidate(slot, word, side, float(log_p[word] + log_sides[side]) + blank)
        log_p[word] = -math.inf
    return None


def _truncate(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Keep the top-k words, then the fewest of them that hold top-p of the probability."""
    if not sampling.top_k and sampling.top_p == 1.0:
        return logits
    ranked = np.argsort(-logits, kind="stable")
    if sampling.top_k:
        ranked = ranked[: sampling.top_k]
    p = np.exp((logits[ranked] - logits[ranked[0]]) / sampling.temperature)
    cumulative = np.cumsum(p / p.sum())
    ranked = ranked[: int(np.searchsorted(cumulative, sampling.top_p)) + 1]
    kept = np.full_like(logits, -math.inf)
    kept[ranked] = logits[ranked]
    return kept


def _pick(logits: np.ndarray, temperature: float, stream: np.random.Generator) -> int:
    """An index drawn in proportion to exp(logits / temperature), by inverting the cumulative distribution."""
    with np.errstate(over="ignore"):  # at a very low temperature all but the best underflow to nothing
        p = np.exp((logits - logits.max()) / temperature)
    cumulative = np.cumsum(p)
    return int(np.searchsorted(cumulative, stream.random() * cumulative[-1], side="right"))
