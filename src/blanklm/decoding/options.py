"""How to fill and how to sample: the options that API, command line, server and shards share.

Which blank comes next (``order``); by default, spans are written from left to right, their lengths chosen first:
  confident       the blank whose best word is most probable; a deterministic rule, so p(b) plays no part
  left-to-right   the leftmost blank; likewise
  model           the paper's joint search over (b, w, l, r), with p(b)
  parallel        every blank that is confident enough, all at once
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from blanklm.errors import OptionError
from blanklm.options import Blanks, option

SequentialOrder = Literal["confident", "model", "left-to-right"]
Order = Literal[SequentialOrder, "parallel"]
ORDER_HELP = "spans from left to right, lengths first; words in the order {}."
BLANKS_HELP = "What blanks stand for: spans as people leave them, or words; by default spans if the model knows both."


@dataclass(frozen=True)
class FillOptions:
    """How ``fill`` searches."""

    n: int = option(1, "How many fills per text, best first; the beam is at least as wide.", "--n", "-n", ge=1)
    beam: int = option(1, "Beam width: how many drafts the search keeps; 1 is fastest.", ge=1)
    order: Order | None = option(None, "Which blank to fill next: by default " + ORDER_HELP.format("confident"))
    length_penalty: float = option(0.0, "Rank fills by log p / steps to this power; 0: by log p.", ge=-10, le=10)
    threshold: float = option(0.0, "With --order parallel: the least probability of a word to be written.", ge=0, le=1)
    blanks: Blanks | None = option(None, BLANKS_HELP)

    def __post_init__(self) -> None:
        _check_order(self.order, get_args(Order))
        _check_blanks(self.blanks)
        if self.beam < 1 or self.n < 1:
            name, meaning = ("beam", "beam") if self.beam < 1 else ("n", "number of fills")
            raise OptionError(name, f"the {meaning} must be at least 1")
        if not math.isfinite(self.length_penalty):
            raise OptionError("length_penalty", f"the length penalty must be a number, not {self.length_penalty}")
        if not 0 <= self.threshold <= 1:
            raise OptionError("threshold", f"the threshold is a probability, from 0 to 1, not {self.threshold}")
        if self.order == "parallel" and not self.is_greedy:
            raise OptionError("order", "order 'parallel' gives one fill: leave out the beam and the number of fills")
        if self.order != "parallel" and self.threshold:
            raise OptionError(
                "threshold", "a threshold says which blanks act at once: it goes with the order 'parallel'"
            )

    @property
    def is_greedy(self) -> bool:
        """Whether there is one draft per text, so that its trajectory is known while it grows."""
        return self.n == self.beam == 1


@dataclass(frozen=True)
class SampleOptions:
    """How ``sample`` draws. The temperature applies to every choice, top-k and top-p to words."""

    n: int = option(1, "How many samples per text.", "--n", "-n", ge=1)
    temperature: float = option(1.0, "Below 1: safer; above 1: wilder.", gt=0, le=100)
    top_k: int = option(0, "Draw from the k most probable words; 0: from all.", ge=0, le=1_000_000)
    top_p: float = option(1.0, "Draw from the fewest words that hold this probability.", gt=0, le=1)
    seed: int = option(0, "The same seed gives the same samples.", ge=0, lt=2**63)
    order: SequentialOrder | None = option(None, "Which blank to fill next: by default " + ORDER_HELP.format("model"))
    blanks: Blanks | None = option(None, BLANKS_HELP)

    def __post_init__(self) -> None:
        _check_order(self.order, get_args(SequentialOrder))
        _check_blanks(self.blanks)
        if self.n < 1:
            raise OptionError("n", "the number of samples must be at least 1")
        if not 0 < self.temperature < math.inf:
            raise OptionError(
                "temperature",
                f"the temperature must be above 0, not {self.temperature}: to take the best words, use fill",
            )
        if self.top_k < 0:
            raise OptionError("top_k", f"top-k must be 0 (all words) or more, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise OptionError("top_p", f"top-p must be above 0 and at most 1, not {self.top_p}")
        if self.seed < 0:
            raise OptionError("seed", f"a seed is 0 or more, not {self.seed}")


def _check_order(order: str | None, orders: tuple[str, ...]) -> None:
    if order not in (None, *orders):
        raise OptionError("order", f"there is no order {order!r}: choose {', '.join(orders)}")


def _check_blanks(blanks: str | None) -> None:
    if blanks not in (None, *get_args(Blanks)):
        raise OptionError("blanks", f"blanks stand for {' or '.join(get_args(Blanks))}, not {blanks!r}")
