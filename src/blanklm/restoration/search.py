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
from torch.nn import functional as F

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
class Wanted:
    """What a search is to find in a text: fills with so many ``letters`` of a ``gap``, which other texts may have, too.

    ``log_prob`` is that of the text itself, such as of the length of its gap.
    """

    gap: int
    letters: tuple[int, int] | None = None  # at least and at most; spaces and full stops do not count
    log_prob: float = 0.0


@dataclass(frozen=True)
class FilledText:
    """A text with its open positions filled, its log p, and the log p of each position when it was written."""

    ids: list[int]
    log_prob: float
    place_log_probs: dict[int, float]


class Fills(list[FilledText]):
    """Fills of a text, best first; ``right`` is about the probability that a fill has as many letters as are wanted."""

    right: float = 1.0


def fill_greedily(
    model: CharacterModel,
    texts: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    progress: Progress = unwatched,
    window: int | None = None,
) -> list[FilledText]:
    """Fill the BLANKs of each text, most confident position first; ``window`` as in ``search_beams``.

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
        score, every = _draft_scorer(model, tokens, lengths, window), torch.arange(len(members), device=model.device)
        while (tokens == BLANK).any():
            progress(0)
            scores = score(tokens, every)
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


def log_probs_of_fills(
    model: CharacterModel,
    text: Sequence[int],
    fills: Sequence[Sequence[int]],
    temperature: float = 1.0,
    window: int | None = None,
    progress: Progress = unwatched,
) -> list[float]:
    """Return log p of fills of the BLANKs of a text, as a search that finds them would give it.

    ``fills`` are the text with its BLANKs filled.
    """
    tokens, lengths = (part.to(model.device) for part in pad([text]))
    score, full = _draft_scorer(model, tokens, lengths, window), torch.tensor(fills, device=model.device)  # [R, L]
    drafts, of = tokens.repeat(len(full), 1), torch.zeros(len(full), dtype=torch.long, device=model.device)
    log_prob = torch.zeros(len(full), device=model.device)  # [R]
    while (drafts == BLANK).any():
        progress(0)
        scores = score(drafts, of)
        log_p_word = _tempered(scores.log_p_word, temperature)  # [P, V]
        place = first_best(log_p_word.max(1).values, scores.text)  # [R] one per draft
        at = scores.text[place], scores.position[place]
        drafts[at] = full[at]
        log_prob += log_p_word[place, full[at]]
    return log_prob.tolist()


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
    texts: Sequence[Sequence[int]], device: torch.device, copies: int = 1, gaps: Sequence[int] | None = None
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield texts of similar length that fit in one pass with ``copies`` drafts of each: indices, [B, L] and [B].

    Texts of the same one of the ``gaps`` come together, and are as one: the drafts are those of the gap.
    """
    of_gap: dict[int, list[int]] = {}
    for i, gap in enumerate(gaps or range(len(texts))):
        of_gap.setdefault(gap, []).append(i)
    together = list(of_gap.values())
    sizes = np.array([max(1, *(len(texts[i]) for i in group)) for group in together], dtype=int)
    by_length = sizes.argsort(kind="stable")
    for run in split_by_budget(sizes[by_length], TOKENS_PER_PASS.get(device.type, 16_384) // copies):
        members = [i for group in by_length[run] for i in together[group]]
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
    wanted: Sequence[Wanted] | None = None,
) -> list[Fills]:
    """Return the ``beam`` most probable fills of each text that the search finds, best first.

    Drafts less probable than the best of their text by more than ``within`` nats are dropped. ``wanted`` may say that
    some of the texts are the same but for the length of a gap: then the ``beam`` best of all of them are found, drafts
    with as many open positions competing, and their log p include that of the text.

    ``window``: on a CPU, a mixed L-BLM encodes only so many tokens on either side of the open positions of each
    draft, and the rest of the text once. By default every draft is encoded whole.
    """
    if beam < 1:
        raise BlankLMError(f"`beam` must be at least 1, not {beam}")
    wanted = wanted or [Wanted(i) for i in range(len(texts))]
    results = [Fills() for _ in texts]
    for members, tokens, lengths in _batches(texts, model.device, beam, [each.gap for each in wanted]):
        rule = _Rule(model, tokens == BLANK, [wanted[i] for i in members])
        drafts = Drafts(tokens, rule.log_prob, torch.arange(len(members), device=model.device))
        score = _draft_scorer(model, tokens, lengths, window)
        while (left := (drafts.tokens == BLANK).sum(1)).any():
            progress(0)
            active = rule.turn(drafts, left)  # [R]
            expanded = drafts[active.nonzero().squeeze(1)]
            scores = score(expanded.tokens, expanded.text)
            log_p_word = _tempered(scores.log_p_word, temperature)  # [P, V]
            written = _expand(expanded, scores, log_p_word, beam, within, rule)
            drafts = drafts[(~active).nonzero().squeeze(1)].joined(written)
        for ids, log_prob, row in zip(*(part.tolist() for part in vars(drafts).values()), strict=True):
            i = members[row]
            results[i].append(FilledText(ids[: len(texts[i])], log_prob, {}))
        for i, right in zip(members, rule.right.tolist(), strict=True):
            results[i].right = right
    for fills in results:
        fills.sort(key=lambda fill: -fill.log_prob)
    return results


class _Rule:
    """Which drafts of several texts compete, and which can still become what is wanted."""

    def __init__(self, model: CharacterModel, opened: Tensor, wanted: Sequence[Wanted]) -> None:
        device, unbounded = opened.device, (0, opened.shape[1])
        self.opened = opened  # [B, L]
        self.letter = model.writable & ~model.ends_word if isinstance(model, MixedLBLM) else model.writable  # [V]
        numbers = {gap: number for number, gap in enumerate(dict.fromkeys(each.gap for each in wanted))}
        self.gap = torch.tensor([numbers[each.gap] for each in wanted], device=device)  # [B]
        self.gaps = len(numbers)
        bounds = torch.tensor([each.letters or unbounded for each in wanted], device=device)  # [B, 2]
        self.fewest, self.most = bounds.unbind(1)  # [B] each
        self.log_prob = torch.tensor([each.log_prob for each in wanted], device=device)  # [B]
        self.right = torch.ones(len(wanted), device=device)  # [B] of the probability, what was not refused yet

    def turn(self, drafts: Drafts, left: Tensor) -> Tensor:
        """Return whose turn it is [R]: of each gap, the drafts with the most open positions, ``left`` [R]."""
        gap = self.gap[drafts.text]  # [R]
        most = left.new_zeros(self.gaps).scatter_reduce(0, gap, left, "amax")  # [G]
        return (left > 0) & (left == most[gap])

    def apply(self, total: Tensor, tokens: Tensor, text: Tensor) -> Tensor:
        """Return log p ``total`` [Q, V] of what continues drafts ``tokens`` [Q, L], -inf where it is not wanted.

        Drafts that the search has dropped are taken to be refused as often as those that it has kept.
        """
        letters = (self.letter[tokens] & self.opened[text]).sum(1, keepdim=True) + self.letter  # [Q, V]
        left = (tokens == BLANK).sum(1, keepdim=True) - 1  # [Q, 1] places that will still be open
        wrong = (letters > self.most[text, None]) | (letters + left < self.fewest[text, None])  # [Q, V]
        p = total.double().exp()  # [Q, V]
        each = torch.zeros_like(self.right, dtype=p.dtype)  # [B]
        refused, kept = (each.index_add(0, text, torch.where(part, p, 0).sum(1)) for part in (wrong, ~wrong))  # [B]
        self.right *= torch.where(refused > 0, kept / (kept + refused), 1).float()
        return total.masked_fill(wrong, -torch.inf)


def _draft_scorer(
    model: CharacterModel, tokens: Tensor, lengths: Tensor, window: int | None
) -> Callable[[Tensor, Tensor], LBLMScores]:
    """Return what scores drafts [R, L] of the texts ``tokens`` [B, L], given which [R] each is a draft of.

    They are encoded whole, or in windows around the open positions.
    """
    if window is not None and isinstance(model, MixedLBLM) and not tokens.is_cuda:
        opened = (tokens == BLANK).float()[:, None]  # [B, 1, L]
        near = F.max_pool1d(opened, 2 * window + 1, stride=1, padding=window)[:, 0] > 0  # [B, L]
        inside = near & (torch.arange(tokens.shape[1]) < lengths[:, None])  # [B, L]
        if inside.any(1).all() and int(inside.sum()) < LARGEST_WINDOW_SHARE * int(lengths.sum()):
            return model.read_around(tokens, lengths, inside).score_drafts
    return lambda drafts, of: _score(model, drafts, lengths[of], drafts == BLANK)


def _expand(drafts: Drafts, scores: LBLMScores, log_p_word: Tensor, beam: int, within: float, rule: _Rule) -> Drafts:
    """Write one more position of each draft, and keep the best drafts of each gap."""
    place = first_best(log_p_word.max(1).values, scores.text)  # [Q] one per draft
    parent = scores.text[place]  # [Q] the draft that a row of candidates continues
    total = drafts.log_prob[parent, None] + log_p_word[place]  # [Q, V]
    total = rule.apply(total, drafts.tokens[parent], drafts.text[parent])
    gap_of = rule.gap[drafts.text[parent]]  # [Q]
    # The candidates of each gap side by side, so that one top-k serves all gaps.
    by_gap = gap_of.argsort(stable=True)  # [Q]
    count = torch.bincount(gap_of, minlength=rule.gaps)  # [G]
    rank = torch.arange(len(gap_of), device=gap_of.device) - (count.cumsum(0) - count)[gap_of[by_gap]]  # [Q]
    table = total.new_full((rule.gaps, int(count.max()), total.shape[1]), -torch.inf)  # [G, most drafts, V]
    table[gap_of[by_gap], rank] = total[by_gap]
    row_of = torch.zeros(table.shape[:2], dtype=torch.long, device=gap_of.device)  # [G, most drafts]
    row_of[gap_of[by_gap], rank] = by_gap
    values, index = table.flatten(1).topk(min(beam, table[0].numel()), dim=1)  # [G, beam] each
    keep = (values > -torch.inf) & (values >= values[:, :1] - within)  # [G, beam]
    gap, _ = keep.nonzero(as_tuple=True)  # [R']
    chosen = index[keep]  # [R']
    row, word = row_of[gap, chosen // table.shape[2]], chosen % table.shape[2]  # [R'] each
    tokens = drafts.tokens[parent[row]].clone()  # [R', L]
    tokens[torch.arange(len(row), device=row.device), scores.position[place[row]]] = word
    written = Drafts(tokens, values[keep], drafts.text[parent[row]])
    return written[written.text.argsort(stable=True)]
