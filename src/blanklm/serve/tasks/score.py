"""``POST /v1/score``: log p of whole texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from blanklm.api import BlankLM
from blanklm.options import ScoreMethod
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Task, TaskBody, check_texts, refusing_text
from blanklm.serve.worker import Client, Job, call_each


class ScoreBody(TaskBody):
    texts: list[str] = Field(min_length=1, description="Whole texts.", examples=[["the food was really good ."]])
    method: ScoreMethod = Field("monte-carlo", description="exact: short texts only.")
    orders: int = Field(64, ge=1, le=1_000_000, description="Orders (monte-carlo) or canvases (bound) per text.")
    seed: int = Field(0, ge=0, lt=2**63)


class ScoreResult(BaseModel):
    input: str
    log_prob: float
    tokens: int
    perplexity: float = Field(description="Per token.")
    method: str
    standard_error: float | None = None


class ScoreTask(Task[BlankLM, ScoreBody]):
    name = "score"
    summary = "How probable whole texts are."
    Model = BlankLM
    Body = ScoreBody
    Result = ScoreResult

    def jobs(self, models: Mapping[str, BlankLM], body: ScoreBody, limits: Limits, client: Client) -> list[Job]:
        """Return one job per request: all the canvases of its texts are one flat batch already."""
        model = next(iter(models.values()))
        check_texts(body.texts, limits)
        for place, text in enumerate(body.texts):
            with refusing_text(place):
                model.to_score(text, body.method)
        canvases = model.score_work(body.texts, body.method, body.orders)
        if canvases > limits.canvases:
            message = f"{canvases:,} canvases are too many, at most {limits.canvases:,}: fewer texts or fewer orders"
            raise Refusal(422, "too_many_canvases", message, "orders" if body.method != "exact" else "texts")
        budget = min(4096, limits.batch_tokens)
        score = partial(model.score, body.texts, body.method, body.orders, body.seed, client.check, budget)
        return [Job(self.name, object(), score, call_each, client, texts=len(body.texts))]  # in a group of its own

    def results(self, body: ScoreBody, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [score.to_json() for score in jobs[0].answer.result()]
