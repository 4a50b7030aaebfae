"""``POST /v1/fill``: the most probable fills of each text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from blanklm.api import BlankLM
from blanklm.api import Request as Prepared
from blanklm.core.canvas import Fill
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.canvases import CanvasesBody, CanvasJob, CanvasTask


class FillBody(CanvasesBody):
    n: int = Field(1, ge=1, description="How many fills of each text, best first.")
    beam: int = Field(1, ge=1, description="Beam width; 1 is greedy.")
    order: Literal["confident", "model", "left-to-right", "parallel"] = Field(
        "confident", description="Which blank next; parallel: all at once."
    )
    length_penalty: float = Field(0.0, allow_inf_nan=False, ge=-10, le=10, description="Rank by log p / steps^this.")
    threshold: float = Field(0.0, ge=0, le=1, description="With parallel: how sure a blank must be to act.")
    stream: bool = Field(False, description="Send server-sent events: step by step, then the fills of each text.")

    @property
    def live(self) -> bool:
        """Are the steps known as they are taken? A beam knows only at its end which trajectory is the best."""
        return self.n == self.beam == 1


class FillTask(CanvasTask):
    name = "fill"
    summary = "Fill the blanks of each text with the most probable words."
    Body = FillBody
    options = frozenset({"n", "beam", "order", "length_penalty", "threshold"})

    def jobs(self, name: str, model: BlankLM, body: FillBody, limits: Limits, deadline: float) -> Sequence[CanvasJob]:
        if body.order == "parallel" and not body.n == body.beam == 1:
            raise Refusal(422, "invalid", "parallel gives one fill: leave out n and beam", "order")
        if body.order != "parallel" and body.threshold:
            raise Refusal(422, "invalid", "a threshold goes with the order parallel", "threshold")
        return super().jobs(name, model, body, limits, deadline)

    def run(
        self, model: BlankLM, options: dict[str, Any], numbered: list[tuple[int, Prepared]]
    ) -> list[list[Fill] | None]:
        best = model.fill([prepared for _, prepared in numbered], **options)
        return [None if fill is None else list(fill.ranked) for fill in best]
