"""``POST /v1/fill``: the most probable fills of each text."""

from __future__ import annotations

from pydantic import Field

from blanklm.api import BlankLM
from blanklm.core.canvas import Fill
from blanklm.decoding.options import FillOptions
from blanklm.decoding.request import Request
from blanklm.serve.tasks.canvases import CanvasesBody, CanvasTask
from blanklm.serve.tasks.task import with_options


class FillBody(with_options(CanvasesBody, FillOptions)):  # type: ignore[misc]  # made of the fields of FillOptions
    stream: bool = Field(False, description="Send server-sent events: step by step, then the fills of each text.")

    @property
    def live(self) -> bool:
        """Are the steps known as they are taken? A beam knows only at its end which trajectory is the best."""
        return self.n == self.beam == 1


class FillTask(CanvasTask):
    name = "fill"
    summary = "Fill the blanks of each text with the most probable words."
    Body = FillBody
    Options = FillOptions

    def run(self, model: BlankLM, options: FillOptions, numbered: list[tuple[int, Request]]) -> list[list[Fill] | None]:
        best = model.fill([request for _, request in numbered], options)
        return [None if fill is None else list(fill.ranked) for fill in best]
