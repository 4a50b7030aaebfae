"""How to fill and how to sample: the options that API, command line, server and shards share.

Which blank comes next (``order``); by default, spans are written from left to right, their lengths chosen first:
  confident       the blank whose best word is most probable; a deterministic rule, so p(b) plays no part
  left-to-right   the leftmost blank; likewise
  model           the paper's joint search over (b, w, l, r), with p(b)
  parallel        every blank that is confident enough, all at once
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from blanklm.errors import OptionError
from blanklm.options import Blanks, check_options, option

SequentialOrder = Literal["confident", "model", "left-to-right"]
Order = Literal[SequentialOrder, "parallel"]
ORDER_HELP = "spans from left to right, lengths first; words in the order {}."
BLANKS_HELP = "What blanks stand for: spans as people leave them, or words; by default spans if the model knows both."
RERANK_HELP = "Among how many fills of a span to choose by how well every word fits its place; 1: the most probable."

WIDEST = 1_000_000  # drafts; wider beams are slips


@dataclass(frozen=True)
class FillOptions:
    """How ``fill`` searches."""

    n: int = option(1, "How many fills per text, best first; the beam is at least as wide.", "--n", "-n", ge=1)
    beam: int = option(1, "How many drafts the search keeps: 1 is fastest, more finds better fills.", ge=1, le=WIDEST)
    order: Order | None = option(None, "Which blank to fill next: by default " + ORDER_HELP.format("confident"))
    length_penalty: float = option(0.0, "Rank fills by log p / steps to this power; 0: by log p.", ge=-10, le=10)
    threshold: float = option(
        0.0, "With --order parallel: write only words that are at least this probable.", ge=0, le=1
    )
    blanks: Blanks | None = option(None, BLANKS_HELP)
    rerank: int = option(4, RERANK_HELP, ge=1, le=WIDEST)

    def __post_init__(self) -> None:
        check_options(self)
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

    n: int = option(1, "How many samples per text.", "--n", "-n", ge=1, le=100_000)
    temperature: float = option(1.0, "Below 1: more predictable; above 1: more varied.", gt=0, le=100)
    top_k: int = option(0, "Draw from the k most probable words; 0: from all.", ge=0, le=1_000_000)
    top_p: float = option(1.0, "Draw from the fewest words whose probabilities sum to this.", gt=0, le=1)
    seed: int = option(0, "The same seed gives the same samples.", ge=0, lt=2**63)
    order: SequentialOrder | None = option(None, "Which blank to fill next: by default " + ORDER_HELP.format("model"))
    blanks: Blanks | None = option(None, BLANKS_HELP)

    def __post_init__(self) -> None:
        check_options(self)
