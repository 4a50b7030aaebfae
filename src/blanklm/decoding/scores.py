"""The scores of many drafts in one pass, with what their constraints forbid removed, and their best actions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from blanklm.core.policy import Scorer, Scores
from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.decoding.budget import OpenBlank
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import vocabulary_masks
from blanklm.decoding.request import Request

TOKENS_PER_PASS = 32_768
WORD_SCORES_PER_PASS = 2**26  # blanks times vocabulary: 256 MB
PAIRS_AT_ONCE = 2**15  # (blank, word) pairs whose left/right are scored together


@dataclass(frozen=True)
class Candidate:
    """An action on a draft, with its log-probability."""

    open_blank: OpenBlank
    token: int
    side: int
    log_prob: float


def best_candidates(
    policy: Scorer, drafts: Sequence[tuple[Request, Draft]], need: int, order: str
) -> Iterator[list[Candidate]]:
    """Find the ``need`` most probable actions of each draft, best first; fewer if there are no more."""
    for view in views(policy, drafts):
        chosen = view.choose(order)
        found = view.top_actions([row for rows in chosen for row in rows], need, with_blank=order == "model")
        for rows in chosen:
            candidates = [candidate for row in rows for candidate in found[row]]
            yield sorted(candidates, key=lambda c: -c.log_prob)[:need]


def passes(drafts: Sequence[tuple[Request, Draft]]) -> Iterator[Sequence[tuple[Request, Draft]]]:
    """Cut drafts into groups that fit one pass of the policy; results must come in order, so the order stays."""
    start, longest, blanks = 0, 0, 0
    vocabulary = len(drafts[0][0].rules.tokenizer) if drafts else 1
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


def views(policy: Scorer, drafts: Sequence[tuple[Request, Draft]]) -> Iterator[ScoredDrafts]:
    """The scores of all drafts, a pass of the policy at a time, in order."""
    for group in passes(drafts):
        yield ScoredDrafts(score(policy, [draft.items for _, draft in group]), group)


def score(policy: Scorer, canvases: Sequence[Sequence[int]]) -> Scores:
    """Score canvases given as lists of ids; equal ones, such as the first of all samples of a text, are read once."""
    read = {canvas: i for i, canvas in enumerate(dict.fromkeys(map(tuple, canvases)))}
    ids, lengths = pad(list(read))
    scores = policy.score(ids.to(policy.device), lengths.to(policy.device), ids.shape[1])
    if len(read) == len(canvases):
        return scores
    blanks = (ids == BLANK).sum(1).tolist()
    first = [0, *accumulate(blanks)]  # row of each that was read
    rows = [first[i] + k for i in (read[tuple(canvas)] for canvas in canvases) for k in range(blanks[i])]
    return DeduplicatedScores(scores, torch.tensor(rows, device=policy.device, dtype=torch.long))


class DeduplicatedScores:
    """Scores of blanks, some of them several times: row k is row ``of[k]`` of ``scores``."""

    def __init__(self, scores: Scores, of: Tensor) -> None:
        self.scores, self.of = scores, of  # of [K]
        self.log_p_blank, self.log_p_word = scores.log_p_blank[of], scores.log_p_word[of]  # [K], [K, V]

    def log_p_sides(self, rows: Tensor, words: Tensor) -> Tensor:
        return self.scores.log_p_sides(self.of[rows], words)


class ScoredDrafts:
    """The scores of a group of drafts in one pass, with what their constraints forbid taken out (in place)."""

    @torch.inference_mode()
    def __init__(self, scores: Scores, group: Sequence[tuple[Request, Draft]]) -> None:
        self.scores, self.group = scores, group
        tokenizer = group[0][0].rules.tokenizer
        self.log_p_word = scores.log_p_word  # [K, V]; what may not be written is set to -inf
        self.starts_word, never_written = vocabulary_masks(tokenizer, self.log_p_word.device)  # [V] each
        self.words_have_parts = tokenizer.words_have_parts
        plain: list[int] = []  # rows on which anything may be written that is ever written
        self.open_blanks: dict[int, OpenBlank] = {}  # by row of the scores
        self.owner: dict[int, int] = {}  # row -> index in the group
        self.rows: list[list[int]] = []  # for each draft, its rows
        repeats: list[tuple[int, int]] = []  # row and token
        first = 0
        for index, (text, draft) in enumerate(group):
            rows = []
            for open_blank in text.rules.open_blanks(draft):
                row = first + open_blank.blank
                self.open_blanks[row], self.owner[row] = open_blank, index
                rows.append(row)
                if open_blank.words is None and open_blank.rule.writable is None:
                    plain.append(row)
                    repeats += [(row, token) for token in text.rules.repeats(draft, draft.blanks[open_blank.blank])]
                else:
                    self._allow_only(row, open_blank)
                if self.words_have_parts:
                    self._forbid_kinds(row, open_blank)
            self.rows.append(rows)
            first += len(draft.blanks)
        if len(plain) == len(self.log_p_word):
            self.log_p_word.masked_fill_(never_written, -math.inf)
        else:
            self.log_p_word[plain] = self.log_p_word[plain].masked_fill(never_written, -math.inf)
        if repeats:
            rows_and_tokens = torch.tensor(repeats, device=self.log_p_word.device)  # [R, 2]
            self.log_p_word[rows_and_tokens[:, 0], rows_and_tokens[:, 1]] = -math.inf

    def _allow_only(self, row: int, open_blank: OpenBlank) -> None:
        log_p = self.log_p_word[row]
        if open_blank.words is not None:
            allowed = torch.zeros_like(log_p, dtype=torch.bool)
            allowed[list(open_blank.words)] = True
        else:
            allowed = torch.from_numpy(open_blank.rule.writable).to(log_p.device)
        log_p[~allowed] = -math.inf

    def _forbid_kinds(self, row: int, open_blank: OpenBlank) -> None:
        """Where no side is open to tokens that (do not) start a word, none of them may be written."""
        for starts_word in (False, True):
            if not open_blank.sides[int(starts_word)].any():
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
        tables = np.stack([self.open_blanks[row].sides for row in rows.tolist()])  # [R, 2, 4]
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
        open_blank, candidates = self.open_blanks[row], list[Candidate]()
        for log_prob, place in zip(ranked, places, strict=True):
            if log_prob == -math.inf or len(candidates) == need:
                break
            token, side = words[place // 4], place % 4
            if text.rules.accepts(draft, open_blank, token, side):
                candidates.append(Candidate(open_blank, token, side, log_prob))
        return candidates
