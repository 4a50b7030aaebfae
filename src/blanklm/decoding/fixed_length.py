"""Fill gaps of known length, position by position: greedy and beam search, batched over texts.

When every length is known, a draft is a text with open positions, and an action writes a character at one of them. The
next position is always the one whose best character is most probable: a deterministic rule, so every fill is reached in
one way and its probability is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.errors import BlankLMError

WORTH_READING_ONCE = 0.8  # a share of the texts above which it saves nothing to read the rest once
TOKENS_PER_PASS = {"cpu": 16_384, "cuda": 524_288}


class PositionScores(Protocol):
    text: Tensor  # [P]
    position: Tensor  # [P]
    log_p_place: Tensor  # [P]
    log_p_word: Tensor  # [P, V]


class PositionScorer(Protocol):
    @property
    def device(self) -> torch.device: ...

    def score_positions(self, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> PositionScores:
        """Every ``hidden`` [B, L] place of ``tokens`` [B, L]: is it written next, and with which character?"""
        ...


def _score(
    policy: PositionScorer, tokens: Tensor, lengths: Tensor, hidden: Tensor, temperature: float = 1.0
) -> PositionScores:
    """In half precision on a GPU."""
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=tokens.is_cuda):
        return _tempered(policy.score_positions(tokens, lengths, hidden), temperature)


def _tempered(scores: PositionScores, temperature: float) -> PositionScores:
    """p(w)^(1 / temperature): characters less sure, or surer, below 1; p(place) is as it was."""
    if temperature == 1:
        return scores
    return replace(scores, log_p_word=(scores.log_p_word / temperature).log_softmax(1))


@dataclass(frozen=True)
class Filled:
    """A text with its open places written, and log p: of the whole, and of each place when it was written."""

    ids: list[int]
    log_prob: float
    place_log_probs: dict[int, float]


def fill_greedily(
    policy: PositionScorer,
    texts: Sequence[Sequence[int]],
    gaps: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
) -> list[Filled]:
    """Each text, BLANK standing at its open places, filled most confident place first.

    With ``gaps``, a number for each position of each text, every gap of a text has its most confident place written in
    the same pass: as many passes as the longest gap has places.
    """
    results: list[Filled | None] = [None] * len(texts)
    for members in grouped([len(text) for text in texts], policy.device):
        tokens, lengths = (part.to(policy.device) for part in pad([texts[i] for i in members]))  # [B, L], [B]
        group = torch.zeros_like(tokens) if gaps is None else pad([gaps[i] for i in members])[0].to(policy.device)
        log_probs = torch.zeros(tokens.shape, device=policy.device)  # [B, L]
        opened = tokens == BLANK
        while (hidden := tokens == BLANK).any():
            scores = _score(policy, tokens, lengths, hidden, temperature)
            best, word = scores.log_p_word.max(1)  # [P] each
            of_gap = scores.text * (int(group.max()) + 1) + group[scores.text, scores.position]  # [P]
            chosen = first_best(best, of_gap)  # [one a gap]
            at = scores.text[chosen], scores.position[chosen]
            tokens[at], log_probs[at] = word[chosen], best[chosen]
        for i, ids, was_open, each in zip(members, *(p.tolist() for p in (tokens, opened, log_probs)), strict=True):
            places = {place: each[place] for place, is_open in enumerate(was_open) if is_open}
            results[i] = Filled(ids[: len(texts[i])], sum(places.values()), places)
    return results


def first_best(score: Tensor, group: Tensor) -> Tensor:
    """For each value of ``group`` [P], the index of its highest ``score`` [P], the first of equals."""
    order = score.argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]  # by group, best first
    first = torch.ones(len(order), dtype=torch.bool, device=score.device)
    first[1:] = group[order][1:] != group[order][:-1]
    return order[first]


def grouped(lengths: Sequence[int], device: torch.device, copies: int = 1) -> Iterator[list[int]]:
    """Indices of texts of like length whose passes, ``copies`` drafts a text, are within the budget."""
    budget = TOKENS_PER_PASS.get(device.type, 16_384)
    group: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * copies * max(1, lengths[i]) > budget:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def log_probs_of(
    policy: PositionScorer, texts: Sequence[Sequence[int]], positions: Sequence[Sequence[int]]
) -> list[float]:
    """For each text, the sum of log p of what stands at its ``positions``, all of them hidden, each by itself."""
    found = [0.0] * len(texts)
    for members in grouped([len(text) for text in texts], policy.device):
        tokens, lengths = (part.to(policy.device) for part in pad([texts[i] for i in members]))  # [B, L], [B]
        hidden = torch.zeros_like(tokens, dtype=torch.bool)
        for row, i in enumerate(members):
            hidden[row, list(positions[i])] = True
        if not hidden.any():
            continue
        scores = _score(policy, tokens, lengths, hidden)
        log_p = scores.log_p_word.gather(1, tokens[scores.text, scores.position][:, None]).squeeze(1)  # [P]
        total = log_p.new_zeros(len(members)).index_add(0, scores.text, log_p)  # [B]
        for i, log_prob in zip(members, total.tolist(), strict=True):
            found[i] = log_prob
    return found


# --- Beam search --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drafts:
    """The drafts of several texts, those of a text together and best first."""

    tokens: Tensor  # [R, L]
    log_prob: Tensor  # [R]
    text: Tensor  # [R]

    def __getitem__(self, rows: Tensor) -> Drafts:
        return Drafts(self.tokens[rows], self.log_prob[rows], self.text[rows])


def search_beams(
    policy: PositionScorer,
    texts: Sequence[Sequence[int]],
    beam: int = 20,
    within: float = float("inf"),
    temperature: float = 1.0,
    near: int | None = None,
) -> list[list[Filled]]:
    """The ``beam`` most probable fills of each text that the search finds, best first.

    Drafts less probable than the best of their text by more than ``within`` nats are dropped.

    ``near``: how far from the open places a draft is read anew on a CPU, by a policy that can ``read_around``; farther
    off, the text is read once. Without it every draft is read whole.
    """
    if beam < 1:
        raise BlankLMError(f"the beam must be at least 1, not {beam}")
    results: list[list[Filled]] = [[] for _ in texts]
    for members in grouped([len(text) for text in texts], policy.device, beam):
        tokens, lengths = (part.to(policy.device) for part in pad([texts[i] for i in members]))
        whose = torch.arange(len(members), device=policy.device)
        drafts = Drafts(tokens, torch.zeros(len(members), device=policy.device), whose)
        score = _scorer(policy, tokens, lengths, near)
        while (active := (drafts.tokens == BLANK).any(1)).any():
            expanded = drafts[active.nonzero().squeeze(1)]
            scores = _tempered(score(expanded), temperature)
            written = _expand(expanded, scores, len(members), beam, within)
            drafts = _joined(drafts[(~active).nonzero().squeeze(1)], written)
        for ids, log_prob, text in zip(*(part.tolist() for part in vars(drafts).values()), strict=True):
            i = members[text]
            results[i].append(Filled(ids[: len(texts[i])], log_prob, {}))
    return [sorted(found, key=lambda filled: -filled.log_prob) for found in results]


def _scorer(
    policy: PositionScorer, tokens: Tensor, lengths: Tensor, near: int | None
) -> Callable[[Drafts], PositionScores]:
    """How drafts of the texts ``tokens`` [B, L] are scored: read whole, or near their open places alone."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    opened = tokens == BLANK  # [B, L]
    if near is not None and hasattr(policy, "read_around") and not tokens.is_cuda:
        start = torch.where(opened, place, tokens.shape[1]).min(1).values - near  # [B]
        end = torch.where(opened, place, 0).max(1).values + 1 + near  # [B]
        start, end = start.clamp_min(0), torch.minimum(end, lengths)
        if int((end - start).sum()) < WORTH_READING_ONCE * int(lengths.sum()):
            around = policy.read_around(tokens, lengths, start, end)
            return lambda drafts: around.score_drafts(drafts.tokens, drafts.text)
    return lambda drafts: _score(policy, drafts.tokens, lengths[drafts.text], drafts.tokens == BLANK)


def _expand(drafts: Drafts, scores: PositionScores, texts: int, beam: int, within: float) -> Drafts:
    """The best drafts with one more place written."""
    place = first_best(scores.log_p_word.max(1).values, scores.text)  # [R] one per draft
    log_p = scores.log_p_word[place]  # [R, V]
    parent = scores.text[place]  # [Q] the draft that a row of candidates writes on
    total = drafts.log_prob[parent, None] + log_p  # [Q, V]
    whose = drafts.text[parent]  # [Q]
    # The candidates of each text side by side, so that one top-k serves all texts.
    by_text = whose.argsort(stable=True)
    count = torch.bincount(whose, minlength=texts)  # [B]
    rank = torch.arange(len(whose), device=whose.device) - (count.cumsum(0) - count)[whose[by_text]]  # [Q]
    table = total.new_full((texts, int(count.max()), total.shape[1]), -torch.inf)
    table[whose[by_text], rank] = total[by_text]
    row_of = torch.zeros(table.shape[:2], dtype=torch.long, device=whose.device)
    row_of[whose[by_text], rank] = by_text
    wanted = min(beam, table[0].numel())
    values, index = table.flatten(1).topk(wanted, dim=1)  # [B, wanted]
    keep = (values > -torch.inf) & (values >= values[:, :1] - within)  # [B, wanted]
    text, _ = keep.nonzero(as_tuple=True)  # [R']
    chosen = index[keep]  # [R']
    row, word = row_of[text, chosen // table.shape[2]], chosen % table.shape[2]
    tokens = drafts.tokens[parent[row]].clone()  # [R', L]
    tokens[torch.arange(len(row), device=row.device), scores.position[place[row]]] = word
    return Drafts(tokens, values[keep], text)


def _joined(first: Drafts, second: Drafts) -> Drafts:
    return Drafts(*(torch.cat((a, b)) for a, b in zip(vars(first).values(), vars(second).values(), strict=True)))
