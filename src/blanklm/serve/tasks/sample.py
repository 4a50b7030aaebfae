"""``POST /v1/sample``: random fills of each text, as probable as the model finds them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from blanklm.api import BlankLM
from blanklm.api import Request as Prepared
from blanklm.core.canvas import Fill
from blanklm.serve.tasks.canvases import CanvasesBody, CanvasTask


class SampleBody(CanvasesBody):
    n: int = Field(1, ge=1, description="How many samples of each text.")
    temperature: float = Field(1.0, gt=0, le=100, description="Below 1: safer; above 1: wilder.")
    top_k: int = Field(0, ge=0, le=1_000_000, description="Draw from the k most probable words; 0: from all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Draw from the fewest words that hold this probability.")
    seed: int = Field(0, ge=0, lt=2**63, description="The same seed gives the same samples.")
    order: Literal["confident", "model", "left-to-right"] = Field("model", description="Which blank next.")


class SampleTask(CanvasTask):
    name = "sample"
    summary = "Fill the blanks of each text at random."
    Body = SampleBody
    options = frozenset({"n", "temperature", "top_k", "top_p", "seed", "order"})

    def run(
        self, model: BlankLM, options: dict[str, Any], numbered: list[tuple[int, Prepared]]
    ) -> list[list[Fill] | None]:
        # A text's draws depend on its place in its own request, not on who shares the batch.
        numbers, texts = zip(*numbered, strict=True)
        return [drawn or None for drawn in model.sample(texts, **options, numbers=numbers)]
