"""The one entry to filling: which decoder takes which request.

``greedy`` keeps drafts as tensors and knows lengths alone; ``beam`` keeps a Python object for each draft, as
constraints of every kind need. Where both apply they give the same fills, which the tests hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from blanklm.core.policy import Scorer
from blanklm.decoding.beam import fill_in_parallel_slowly, search_beams
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import fill_greedily, fits, fits_in_parallel
from blanklm.decoding.options import FillOptions
from blanklm.decoding.request import Request


def fill(policy: Scorer, requests: Sequence[Request], options: FillOptions) -> list[list[Draft]]:
    """The ``n`` most probable finished drafts of each request that the search finds, best first.

    Drafts that reach the same canvas by different orders are merged and their probabilities added. Finished drafts are
    ranked by log p / steps^length_penalty. A request that was given up has none.
    """
    if options.order == "parallel":
        drafts = fill_in_parallel(policy, requests, options.threshold)
        return [[draft] if draft.finished else [] for draft in drafts]
    beam = max(options.beam, options.n)
    if beam > 1 or not any(map(fits, requests)):
        return search_beams(policy, requests, beam, options.n, options.order, options.length_penalty)
    as_tensors = iter(fill_greedily(policy, [request for request in requests if fits(request)], options.order))
    greedy = [next(as_tensors) if fits(request) else None for request in requests]  # None: a dead end, too
    rest = [request for request, draft in zip(requests, greedy, strict=True) if draft is None]
    searched = iter(search_beams(policy, rest, 1, 1, options.order))
    ranked = [next(searched) if draft is None else [draft] for draft in greedy]
    return [best if best and best[0].finished else [] for best in ranked]


def fill_in_parallel(policy: Scorer, requests: Sequence[Request], threshold: float = 0.0) -> list[Draft]:
    """One finished draft for each request, an unfinished one if it was given up.

    Blanks whose best action has less than the probability ``threshold`` wait.
    """
    as_tensors = iter(fill_greedily(policy, [r for r in requests if fits_in_parallel(r)], "parallel", threshold))
    greedy = [next(as_tensors) if fits_in_parallel(request) else None for request in requests]
    rest = [request for request, draft in zip(requests, greedy, strict=True) if draft is None]
    searched = iter(fill_in_parallel_slowly(policy, rest, threshold))
    return [next(searched) if draft is None else draft for draft in greedy]
