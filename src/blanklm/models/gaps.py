"""Random gaps to train the mixed L-BLM on: where they are, and what is known of their lengths.

Every draw is a function of the text's seed alone, so that it depends neither on the batch nor on the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from blanklm.core.conceal import conceal
from blanklm.core.orders import uniform, uniform_ranks

# Added to the seed of a text, so that its several draws are independent.
ORDER_SEED, _SHAPE_SEED, _LENGTHS_SEED, _SPACES_SEED, _KNOWN_SEED = (number << 40 for number in range(1, 6))
SHORT_SHARE = 0.8  # of the texts have gaps of 1 to 10 characters; the others longer ones, log-uniform to 100
WHOLE_SHARE = 0.03  # of the texts are hidden whole, as in the paper
SHORT_MEAN, LONG_MEAN = 5.5, 21.0  # mean length of short and of long gaps


def draw_gaps(lengths: Tensor, width: int, seeds: Tensor, hideable: Tensor) -> Tensor:
    """Return which positions [B, L] of each text are lost; ``lengths`` and ``seeds`` are [B].

    Gaps cover 3 to 65 % of a text, do not touch, and leave out what is not ``hideable`` [B, L]. Every text has a gap.
    """
    place = torch.arange(width, device=seeds.device)  # [L]
    hideable = hideable & (place < lengths[:, None])  # [B, L]
    shape = uniform(seeds + _SHAPE_SEED, 3)  # [B, 3] share of the text in gaps, kind of gaps, space before the first
    share = 0.03 + 0.62 * shape[:, :1]  # [B, 1]
    segments = width // 2 + 1
    u = uniform(seeds + _LENGTHS_SEED, segments)  # [B, S]
    short, long = (1 + 10 * u).floor(), (100**u).floor()  # [B, S] each
    is_short = shape[:, 1:2] < SHORT_SHARE  # [B, 1]
    gap = torch.where(is_short, short, long)  # [B, S] lengths of the gaps
    between = torch.where(is_short, SHORT_MEAN, LONG_MEAN) * (1 - share) / share  # [B, 1] mean length between two gaps
    space = 1 + (-(between - 1).clamp_min(0.01) * (1 - uniform(seeds + _SPACES_SEED, segments)).log()).floor()  # [B, S]
    space[:, 0] = (space[:, 0] * shape[:, 2]).floor()  # a text may begin in a gap
    ends = (space + gap).cumsum(1)  # [B, S]
    edges = torch.zeros(len(seeds), width + 1, dtype=torch.long, device=seeds.device)
    edges.scatter_add_(1, (ends - gap).long().clamp_max(width), torch.ones_like(ends, dtype=torch.long))
    edges.scatter_add_(1, ends.long().clamp_max(width), -torch.ones_like(ends, dtype=torch.long))
    lost = edges[:, :width].cumsum(1) > 0  # [B, L]
    lost |= shape[:, 1:2] > 1 - WHOLE_SHARE
    lost &= hideable
    # A text without a gap gets one of the length that its first gap was to have: a single character would make gaps of
    # one too frequent in short texts. The gap ends at a mark that cannot be lost.
    first = uniform_ranks(seeds, lengths, width).masked_fill(~hideable, width).argsort(1)[:, :1]  # [B, 1]
    kept = ((place > first) & ~hideable).cumsum(1) > 0  # [B, L] from the first such mark on
    single = (place >= first) & (place < first + gap[:, :1]) & hideable & ~kept  # [B, L]
    return torch.where(lost.any(1, keepdim=True), lost, single)


def draw_unknown_lengths(gap: Tensor, seeds: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions [B, L] in gaps of unknown length, and the range [B, L] twice that some have instead (0: none).

    In half of the texts all lengths are known. In the others, a share of the gaps that varies from text to text has an
    unknown length, half of them with a range. This is drawn before any character is written: among the gaps in which
    nothing is written *yet*, short ones are too frequent, and so they would be in the length posterior.
    """
    width = gap.shape[1]
    u = uniform(seeds + _KNOWN_SEED, 4 * width + 1)  # [B, 4 L + 1]
    chosen, ranged, below, above = u[:, :-1].unflatten(1, (4, width)).unbind(1)  # [B, L] each
    run = conceal(torch.zeros_like(gap, dtype=torch.long), gap.new_full((len(gap),), width, dtype=torch.long), ~gap)
    start = gap & (run.left == 0)  # [B, L]
    k = run.right + 1  # [B, L] at the start of a gap, its length
    unknown_share = (2 * u[:, -1:] - 1).clamp_min(0)  # [B, 1] 0 in half of the texts
    first = start & (chosen < unknown_share) & (k <= longest)  # [B, L] first positions of gaps of unknown length
    number = start.cumsum(1)  # [B, L] of the gap
    by_gap = torch.zeros(len(gap), width + 1, dtype=torch.long, device=gap.device)
    by_gap.scatter_add_(1, number, first.long())
    unknown = gap & (by_gap.gather(1, number) > 0)  # [B, L]
    blur = 1 + k // 2  # [B, L]
    least = (k - (below * (blur + 1)).long()).clamp_min(1)
    most = (k + (above * (blur + 1)).long()).clamp_max(longest)
    has_range = first & (ranged < 0.5)
    return unknown, torch.where(has_range, least, 0), torch.where(has_range, most, 0)
