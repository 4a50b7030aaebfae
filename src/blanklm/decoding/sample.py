"""Ancestral sampling, batched over texts and draws."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch

from blanklm.core.policy import Scorer
from blanklm.decoding.draft import Draft
from blanklm.decoding.options import SampleOptions
from blanklm.decoding.request import Request
from blanklm.decoding.scores import PAIRS_AT_ONCE, Candidate, ScoredDrafts, views
from blanklm.errors import ConstraintError

REDRAWS = 16  # how often a sample that ran into a dead end is begun again


def sample_actions(
    policy: Scorer, texts: Sequence[Request], options: SampleOptions, numbers: Sequence[int]
) -> list[list[Draft]]:
    """Draw samples as ``fill.sample`` does, one action (b, w, l, r) after the other.

    A draft's probability is that under the model, whatever the temperature.
    """
    n = options.n
    draws = [text for text in texts for _ in range(n)]
    streams = [np.random.default_rng([options.seed, number, i]) for number in numbers for i in range(n)]
    drafts = [text.first_draft() for text in draws]
    dead_ends = [0] * len(draws)
    given_up: set[int] = set()  # numbers of texts
    while waiting := [d for d, draft in enumerate(drafts) if not draft.finished and d // n not in given_up]:
        given_up |= {d // n for d in waiting if draws[d].given_up(partial(drafts.__getitem__, d))}
        waiting = [d for d in waiting if d // n not in given_up]
        unseen = iter(waiting)
        for view in views(policy, [(draws[d], drafts[d]) for d in waiting]):
            chosen = view.choose(options.order or "model")
            members = list(islice(unseen, len(chosen)))
            host = HostScores.of(view)
            drawing = [_draw(host, rows, options, streams[d]) for rows, d in zip(chosen, members, strict=True)]
            for d, c in zip(members, _in_step(view, drawing), strict=True):
                if c is None:  # constraints left nothing to draw from: begin this draw again
                    dead_ends[d] += 1
                    if dead_ends[d] > REDRAWS:
                        message = "no sample was found that meets the constraints: relax them or change the seed"
                        raise ConstraintError(message)
                    drafts[d] = draws[d].first_draft()
                    continue
                drafts[d] = draws[d].rules.advance(drafts[d], c.open_blank, c.token, c.side, c.log_prob)
    return [[] if t in given_up else drafts[t * n : (t + 1) * n] for t in range(len(texts))]


@dataclass(frozen=True)
class HostScores:
    """A view's scores as arrays: fetched from the device once, not at every draw."""

    view: ScoredDrafts
    log_p_word: np.ndarray  # [K, V]
    log_p_blank: np.ndarray  # [K]
    starts_word: np.ndarray  # [V]

    @classmethod
    def of(cls, view: ScoredDrafts) -> HostScores:
        arrays = (view.log_p_word, view.scores.log_p_blank.double(), view.starts_word)
        return cls(view, *(array.cpu().numpy() for array in arrays))


Drawing = Generator[tuple[int, int], np.ndarray | None, Candidate | None]


def _in_step(view: ScoredDrafts, drawing: Sequence[Drawing]) -> list[Candidate | None]:
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


def _draw(host: HostScores, rows: list[int], options: SampleOptions, stream: np.random.Generator) -> Drawing:
    """One action on a draft whose blanks have these rows; asks for log p(l, r) of the words it draws.

    The blank is drawn from p(b) for the order ``model``, and chosen by the rule for the others. None: a dead end.
    """
    alive = [row for row in rows if np.isfinite(host.log_p_word[row].max())]
    if not alive:
        return None
    row = alive[pick(host.log_p_blank[alive], options.temperature, stream)] if options.order == "model" else alive[0]
    text, draft = host.view.group[host.view.owner[row]]
    open_blank = host.view.open_blanks[row]
    log_p = host.log_p_word[row].astype(np.float64)  # [V], a copy
    while np.isfinite(log_p).any():
        word = pick(truncate(log_p, options), options.temperature, stream)
        log_sides = yield row, word  # [4]
        assert log_sides is not None
        kind = int(host.starts_word[word])
        open_sides = [
            s for s in range(4) if open_blank.sides[kind, s] and text.rules.accepts(draft, open_blank, word, s)
        ]
        if open_sides:
            masked = np.full(4, -math.inf)
            masked[open_sides] = log_sides[open_sides]
            side = pick(masked, options.temperature, stream)
            blank = float(host.log_p_blank[row]) if options.order == "model" else 0.0
            return Candidate(open_blank, word, side, float(log_p[word] + log_sides[side]) + blank)
        log_p[word] = -math.inf
    return None


def truncate(logits: np.ndarray, options: SampleOptions) -> np.ndarray:
    """Keep the top-k words, then the fewest of them that hold top-p of the probability."""
    if not options.top_k and options.top_p == 1.0:
        return logits
    ranked = np.argsort(-logits, kind="stable")
    if options.top_k:
        ranked = ranked[: options.top_k]
    p = np.exp((logits[ranked] - logits[ranked[0]]) / options.temperature)
    cumulative = np.cumsum(p / p.sum())
    ranked = ranked[: int(np.searchsorted(cumulative, options.top_p)) + 1]
    kept = np.full_like(logits, -math.inf)
    kept[ranked] = logits[ranked]
    return kept


def pick(logits: np.ndarray, temperature: float, stream: np.random.Generator) -> int:
    """An index drawn in proportion to exp(logits / temperature), by inverting the cumulative distribution."""
    with np.errstate(over="ignore"):  # at a very low temperature all but the best underflow to nothing
        p = np.exp((logits - logits.max()) / temperature)
    cumulative = np.cumsum(p)
    return int(np.searchsorted(cumulative, stream.random() * cumulative[-1], side="right"))
