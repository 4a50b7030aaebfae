"""The one entry to filling: which decoder takes which request.

``spans`` writes spans from left to right, their lengths first: what people mean by blanks. The others fill in other
orders: ``greedy`` keeps drafts as tensors and knows lengths alone; ``beam`` keeps a Python object for each draft, as
constraints of every kind need. Where both apply they give the same fills, which the tests hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from blanklm.core.policy import Scorer, SpanScorer, SpanWriter
from blanklm.decoding.beam import fill_in_parallel_slowly, search_beams
from blanklm.decoding.draft import Draft
from blanklm.decoding.greedy import fill_greedily, fits, fits_in_parallel
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.decoding.request import Request
from blanklm.decoding.sample import sample_actions
from blanklm.decoding.span_tasks import can_write
from blanklm.decoding.spans import sample_spans, write_spans


def fill(policy: Scorer, requests: Sequence[Request], options: FillOptions) -> list[list[Draft]]:
    """The ``n`` most probable finished drafts of each request that the search finds, best first.

    Drafts that reach the same canvas by different orders are merged and their probabilities added. Finished drafts are
    ranked by log p / steps^length_penalty. A request that was given up has none.
    """
    if options.order is None:
        found: list[list[Draft] | None] = [None] * len(requests)
        if writes_spans(policy):
            ours = [i for i, request in enumerate(requests) if can_write(request)]
            for i, drafts in zip(ours, write_spans(policy, [requests[i] for i in ours], options), strict=True):
                found[i] = drafts
        rest = [request for request, drafts in zip(requests, found, strict=True) if drafts is None]
        others = iter(fill(policy, rest, replace(options, order="confident")))
        return [next(others) if drafts is None else drafts for drafts in found]
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


def sample(
    policy: Scorer, requests: Sequence[Request], options: SampleOptions, numbers: Sequence[int] | None = None
) -> list[list[Draft]]:
    """Draw ``n`` independent samples of each request, in the order drawn; none for one that is given up.

    Each draw has its own random stream, seeded by (seed, number of the request, number of the draw), so it does not
    depend on what else is in the batch. ``numbers`` are those of the requests, 0, 1, ... by default.
    """
    numbers = range(len(requests)) if numbers is None else numbers
    if options.order is not None:
        return sample_actions(policy, requests, options, numbers)
    drawn: dict[int, list[Draft]] = {}
    if writes_spans(policy):
        ours = [i for i, request in enumerate(requests) if can_write(request)]
        samples = sample_spans(policy, [requests[i] for i in ours], options, [numbers[i] for i in ours])
        drawn = dict(zip(ours, samples, strict=True))
    rest = [i for i in range(len(requests)) if i not in drawn]
    in_order = replace(options, order="model")
    drawn |= zip(
        rest, sample_actions(policy, [requests[i] for i in rest], in_order, [numbers[i] for i in rest]), strict=True
    )
    return [drawn[i] for i in range(len(requests))]


def writes_spans(policy: Scorer) -> TypeGuard[SpanScorer | SpanWriter]:
    """Whether a policy's blanks are spans, which it can be told the lengths of."""
    return isinstance(policy, SpanScorer | SpanWriter) and policy.told == "spans"


def fill_in_parallel(policy: Scorer, requests: Sequence[Request], threshold: float = 0.0) -> list[Draft]:
    """One finished draft for each request, an unfinished one if it was given up.

    Blanks whose best action has less than the probability ``threshold`` wait.
    """
    as_tensors = iter(fill_greedily(policy, [r for r in requests if fits_in_parallel(r)], "parallel", threshold))
    greedy = [next(as_tensors) if fits_in_parallel(request) else None for request in requests]
    rest = [request for request, draft in zip(requests, greedy, strict=True) if draft is None]
    searched = iter(fill_in_parallel_slowly(policy, rest, threshold))
    return [next(searched) if draft is None else draft for draft in greedy]
