"""``POST /v1/score``: log p of whole texts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from blanklm.api import BlankLM, Score
from blanklm.errors import BlankLMError
from blanklm.options import ScoreMethod
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Task, TaskBody, check_texts
from blanklm.serve.worker import Job, Stopped


class ScoreBody(TaskBody):
    texts: list[str] = Field(min_length=1, description="Whole texts.", examples=[["the food was really good ."]])
    method: ScoreMethod = Field("monte-carlo", description="exact: short texts only.")
    orders: int = Field(64, ge=1, description="Orders (monte-carlo) or canvases (bound) per text.")
    seed: int = Field(0, ge=0, lt=2**63)


class ScoreResult(BaseModel):
    input: str
    log_prob: float
    tokens: int
    perplexity: float = Field(description="Per token.")
    method: str
    standard_error: float | None = None


class ScoreTask(Task):
    name = "score"
    summary = "How probable whole texts are."
    Body = ScoreBody
    Result = ScoreResult

    def jobs(self, name: str, model: BlankLM, body: ScoreBody, limits: Limits, deadline: float) -> list[Job]:
        """One job a request: all the canvases of its texts are one flat batch already."""
        check_texts(body.texts, limits)
        for place, text in enumerate(body.texts):
            try:
                model.to_score(text, body.method)
            except BlankLMError as error:
                raise Refusal(422, "bad_text", str(error), f"texts[{place}]") from None
        canvases = model.score_work(body.texts, body.method, body.orders)
        if canvases > limits.canvases:
            message = f"{canvases:,} canvases are too many, at most {limits.canvases:,}: fewer texts or fewer orders"
            raise Refusal(422, "too_many_canvases", message, "orders" if body.method != "exact" else "texts")

        def run(items: list[list[str]]) -> list[list[Score]]:
            def go_on(done: int) -> None:
                if not job.wanted():
                    raise Stopped

            go_on(0)
            budget = min(4096, limits.batch_tokens)
            return [model.score(texts, body.method, body.orders, body.seed, go_on, budget) for texts in items]

        job = Job(self.name, object(), body.texts, run, deadline=deadline)  # a group of its own
        return [job]

    def results(self, body: ScoreBody, jobs: Sequence[Job]) -> list[dict]:
        return [score.to_json() for score in jobs[0].answer.result()]
