"""``POST /v1/sample``: random fills of each text, as probable as the model finds them."""

from __future__ import annotations

from blanklm.api import BlankLM
from blanklm.core.canvas import Fill
from blanklm.decoding.options import SampleOptions
from blanklm.decoding.request import Request
from blanklm.serve.tasks.canvases import CanvasesBody, CanvasTask
from blanklm.serve.tasks.task import with_options


class SampleBody(with_options(CanvasesBody, SampleOptions)):  # type: ignore[misc]  # made of its fields
    pass


class SampleTask(CanvasTask):
    name = "sample"
    summary = "Fill the blanks of each text at random."
    Body = SampleBody
    Options = SampleOptions

    def run(
        self, model: BlankLM, options: SampleOptions, numbered: list[tuple[int, Request]]
    ) -> list[list[Fill] | None]:
        # A text's draws depend on its place in its own request, not on who shares the batch.
        numbers, requests = zip(*numbered, strict=True)
        return [samples or None for samples in model.sample(list(requests), options, numbers=numbers)]
