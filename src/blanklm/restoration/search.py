"""Fill gaps of known length, position by position: greedy and beam search, batched over texts.

When every length is known, a draft is a text with open positions, and an action writes a character at one of them. The
next position is always the one whose best character is most probable: a deterministic rule, so every fill is reached in
one way and its probability is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.errors import BlankLMError
from blanklm.models.lblm import CharacterModel, LBLMScores
from blanklm.models.mixed_lblm import MixedLBLM
from blanklm.training.epochs import split_by_budget

LARGEST_WINDOW_SHARE = 0.8  # of the texts: encoding the rest only once saves nothing when the windows are larger
TOKENS_PER_PASS = {"cpu": 16_384, "cuda": 524_288}


Progress = Callable[[int], None]  # called with 1 after each gap, with 0 between passes; it may raise to stop


def unwatched(done: int) -> None:
    """Let the work go on."""


@dataclass(frozen=True)
class FilledText:
    """A text with its open positions filled, its log p, and the log p of each position when it was written."""

    ids: list[int]
    log_prob: float
    place_log_probs: dict[int, float]


def fill_greedily(
    model: CharacterModel,
    texts: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    progress: Progress = unwatched,
) -> list[FilledText]:
    """Fill the BLANKs of each text, most confident position first.

    ``groups`` numbers the positions of each text by gap: in each pass, every gap has its most confident position
    written, so that there are as many passes as the longest gap has positions.
    """
    results: dict[int, FilledText] = {}
    for members, tokens, lengths in _batches(texts, model.device):
        group = torch.zeros_like(tokens)  # [B, L]
        if groups is not None:
            group = pad([groups[i] for i in members])[0].to(model.device)
        log_probs = torch.zeros(tokens.shape, device=model.device)  # [B, L]
        opened = tokens == BLANK  # [B, L]
        while (hidden := tokens == BLANK).any():
            progress(0)
            scores = _score(model, tokens, lengths, hidden)
            best, word = _tempered(scores.log_p_word, temperature).max(1)  # [P] each
            gap = scores.text * (int(group.max()) + 1) + group[scores.text, scores.position]  # [P]
            chosen = first_best(best, gap)  # [one per gap]
            at = scores.text[chosen], scores.position[chosen]
            tokens[at], log_probs[at] = word[chosen], best[chosen]
        for i, ids, was_open, log_p in zip(members, *(p.tolist() for p in (tokens, opened, log_probs)), strict=True):
            places = {place: log_p[place] for place, is_open in enumerate(was_open) if is_open}
            results[i] = FilledText(ids[: len(texts[i])], sum(places.values()), places)
    return [results[i] for i in range(len(texts))]


def log_probs_of(
    model: CharacterModel,
    texts: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    progress: Progress = unwatched,
) -> list[float]:
    """Return for each text the sum of log p of its tokens at ``positions``, all of which are hidden at once."""
    results = [0.0] * len(texts)
    for members, tokens, lengths in _batches(texts, model.device):
        hidden = torch.zeros_like(tokens, dtype=torch.bool)  # [B, L]
        for row, i in enumerate(members):
            hidden[row, list(positions[i])] = True
        if not hidden.any():
            continue
        progress(0)
        scores = _score(model, tokens, lengths, hidden)
        log_p = scores.log_p_word.gather(1, tokens[scores.text, scores.position][:, None]).squeeze(1)  # [P]
        total = log_p.new_zeros(len(members)).index_add(0, scores.text, log_p)  # [B]
        for i, log_prob in zip(members, total.tolist(), strict=True):
            results[i] = log_prob
    return results


def _score(model: CharacterModel, tokens: Tensor, lengths: Tensor, hidden: Tensor) -> LBLMScores:
    """Score in bfloat16 on a GPU."""
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=tokens.is_cuda):
        return model.score_positions(tokens, lengths, hidden)


def _tempered(log_p_word: Tensor, temperature: float) -> Tensor:
    """Return log p(w)^(1 / temperature), normalised [P, V]."""
    return log_p_word if temperature == 1 else (log_p_word / temperature).log_softmax(1)


def first_best(score: Tensor, group: Tensor) -> Tensor:
    """Return for each value of ``group`` [P] the index of its highest ``score`` [P], the first of equals."""
    order = score.argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]  # by group, best first
    first = torch.ones(len(order), dtype=torch.bool, device=score.device)
    first[1:] = group[order][1:] != group[order][:-1]
    return order[first]


def _batches(
    texts: Sequence[Sequence[int]], device: torch.device, copies: int = 1
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield texts of similar length that fit in one pass with ``copies`` drafts of each: indices, [B, L] and [B]."""
    sizes = np.array([max(1, len(text)) for text in texts], dtype=int)
    by_length = sizes.argsort(kind="stable")
    for run in split_by_budget(sizes[by_length], TOKENS_PER_PASS.get(device.type, 16_384) // copies):
        members = by_length[run].tolist()
        tokens, lengths = pad([texts[i] for i in members])
        yield members, tokens.to(device), lengths.to(device)


# --- Beam search --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drafts:
    """The R drafts of several texts, those of one text together and best first."""

    tokens: Tensor  # [R, L]
    log_prob: Tensor  # [R]
    text: Tensor  # [R]

    def __getitem__(self, rows: Tensor) -> Drafts:
        return Drafts(self.tokens[rows], self.log_prob[rows], self.text[rows])

    def joined(self, others: Drafts) -> Drafts:
        return Drafts(*(torch.cat(pair) for pair in zip(vars(self).values(), vars(others).values(), strict=True)))


def search_beams(
    model: CharacterModel,
    texts: Sequence[Sequence[int]],
    beam: int = 20,
    within: float = float("inf"),
    temperature: float = 1.0,
    window: int | None = None,
    progress: Progress = unwatched,
) -> list[list[FilledText]]:
    """Return the ``beam`` most probable fills of each text that the search finds, best first.

    Drafts less probable than the best of their text by more than ``within`` nats are dropped.

    ``window``: on a CPU, a mixed L-BLM encodes only so many tokens on either side of the open positions of each
    draft, and the rest of the text once. By default every draft is encoded whole.
    """
    if beam < 1:
        raise BlankLMError(f"`beam` must be at least 1, not {beam}")
    results: list[list[FilledText]] = [[] for _ in texts]
    for members, tokens, lengths in _batches(texts, model.device, beam):
        text = torch.arange(len(members), device=model.device)  # [B]
        drafts = Drafts(tokens, torch.zeros(len(members), device=model.device), text)
        score = _draft_scorer(model, tokens, lengths, window)
        while (active := (drafts.tokens == BLANK).any(1)).any():
            progress(0)
            expanded = drafts[active.nonzero().squeeze(1)]
            scores = score(expanded)
            log_p_word = _tempered(scores.log_p_word, temperature)  # [P, V]
            written = _expand(expanded, scores, log_p_word, len(members), beam, within)
            drafts = drafts[(~active).nonzero().squeeze(1)].joined(written)
        for ids, log_prob, row in zip(*(part.tolist() for part in vars(drafts).values()), strict=True):
            i = members[row]
            results[i].append(FilledText(ids[: len(texts[i])], log_prob, {}))
    return [sorted(fills, key=lambda fill: -fill.log_prob) for fills in results]


def _draft_scorer(
    model: CharacterModel, tokens: Tensor, lengths: Tensor, window: int | None
) -> Callable[[Drafts], LBLMScores]:
    """Return what scores drafts of the texts ``tokens`` [B, L]: whole, or in windows around their open positions."""
    place = torch.arange(tokens.shape[1], device=tokens.device)  # [L]
    opened = tokens == BLANK  # [B, L]
    if window is not None and isinstance(model, MixedLBLM) and not tokens.is_cuda:
        start = torch.where(opened, place, tokens.shape[1]).min(1, True).values - window  # [B, 1]
        end = torch.where(opened, place, 0).max(1, True).values + 1 + window  # [B, 1]
        inside = (place >= start) & (place < torch.minimum(end, lengths[:, None]))  # [B, L]
        if int(inside.sum()) < LARGEST_WINDOW_SHARE * int(lengths.sum()):
            windows = model.read_around(tokens, lengths, inside)
            return lambda drafts: windows.score_drafts(drafts.tokens, drafts.text)
    return lambda drafts: _score(model, drafts.tokens, lengths[drafts.text], drafts.tokens == BLANK)


def _expand(drafts: Drafts, scores: LBLMScores, log_p_word: Tensor, texts: int, beam: int, within: float) -> Drafts:
    """Write one more position of each draft, and keep the best drafts of each text."""
    place = first_best(log_p_word.max(1).values, scores.text)  # [Q] one per draft
    parent = scores.text[place]  # [Q] the draft that a row of candidates continues
    total = drafts.log_prob[parent, None] + log_p_word[place]  # [Q, V]
    text_of = drafts.text[parent]  # [Q]
    # The candidates of each text side by side, so that one top-k serves all texts.
    by_text = text_of.argsort(stable=True)  # [Q]
    count = torch.bincount(text_of, minlength=texts)  # [B]
    rank = torch.arange(len(text_of), device=text_of.device) - (count.cumsum(0) - count)[text_of[by_text]]  # [Q]
    table = total.new_full((texts, int(count.max()), total.shape[1]), -torch.inf)  # [B, most drafts, V]
    table[text_of[by_text], rank] = total[by_text]
    row_of = torch.zeros(table.shape[:2], dtype=torch.long, device=text_of.device)  # [B, most drafts]
    row_of[text_of[by_text], rank] = by_text
    values, index = table.flatten(1).topk(min(beam, table[0].numel()), dim=1)  # [B, beam] each
    keep = (values > -torch.inf) & (values >= values[:, :1] - within)  # [B, beam]
    text, _ = keep.nonzero(as_tuple=True)  # [R']
    chosen = index[keep]  # [R']
    row, word = row_of[text, chosen // table.shape[2]], chosen % table.shape[2]  # [R'] each
    tokens = drafts.tokens[parent[row]].clone()  # [R', L]
    tokens[torch.arange(len(row), device=row.device), scores.position[place[row]]] = word
    return Drafts(tokens, values[keep], text)
