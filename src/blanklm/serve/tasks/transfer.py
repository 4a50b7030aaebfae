"""``POST /v1/transfer``: each text in another style, with what was replaced in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakMethod

from pydantic import BaseModel, Field

from blanklm.errors import BlankLMError
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Record, Task, TaskBody, check_texts
from blanklm.serve.worker import Job
from blanklm.transfer.transfer import MASKS, SAMPLES, TEMPERATURE, Marked, Rewritten, Transfer, Weights

Mask = list[str | int]


class TextToRewrite(Record):
    """A text with a mask of its own, in place of that of the request."""

    text: str
    mask: Mask | None = Field(None, max_length=100)


class TransferBody(TaskBody):
    texts: list[str | TextToRewrite] = Field(min_length=1, examples=[["The employees were super nice and efficient!"]])
    to: str = Field(description="The style to write in, one of the model's.", examples=["negative"])
    mask: Mask | None = Field(
        None,
        max_length=100,
        description="What to replace: words, phrases, or numbers of words from 0. None: the model's choice.",
    )
    n: int = Field(1, ge=1, description="How many rewritten texts of each, best first.")
    samples: int = Field(SAMPLES, ge=1, description="How often each mask is filled, to choose from.")
    content: float = Field(Weights().content, ge=0, le=1000, description="Weight of keeping words, in ranking.")
    fluency: float = Field(Weights().fluency, ge=0, le=1000, description="Weight of the writer's own probability.")
    fewer: bool = Field(False, description="Also try to replace fewer of the marked words.")
    temperature: float = Field(TEMPERATURE, gt=0, le=100, description="Below 1: safer; above 1: wilder.")
    seed: int = Field(0, ge=0, lt=2**63)


class WordRecord(BaseModel):
    text: str
    weight: float = Field(description="How much of the style it carries, of 1 in all.")
    masked: bool


class ReadsAs(BaseModel):
    style: str
    p: float


class RewriteRecord(BaseModel):
    text: str
    parts: list[str] = Field(description="What was kept and what was written, in turn.")
    canvas: str
    style: float = Field(description="p(the wanted style).")
    content: float = Field(description="Of the words of both texts, the share that they have in common.")
    fluency: float = Field(description="log p a word written.")
    score: float


class TransferResult(BaseModel):
    input: str
    to: str
    reads_as: ReadsAs
    canvas: str
    words: list[WordRecord]
    unknown: list[str] = Field(description="Words that the model does not know.")
    rewrites: list[RewriteRecord] = Field(description="Best first.")


class TransferTask(Task):
    name = "transfer"
    summary = "Rewrite each text in another style."
    Body = TransferBody
    Result = TransferResult

    def takes(self, model: Any) -> bool:
        return isinstance(model, Transfer)

    def jobs(self, name: str, model: Transfer, body: TransferBody, limits: Limits, deadline: float) -> list[Job]:
        for field in ("n", "samples"):
            if getattr(body, field) > limits.candidates:
                message = f"{field} is {getattr(body, field)}, and at most {limits.candidates} candidates are looked at"
                raise Refusal(422, "too_many_candidates", message, field)
        if body.to not in model.styles:
            raise Refusal(422, "no_such_style", f"the model writes in {' and '.join(model.styles)}", "to")
        texts = [TextToRewrite(text=entry) if isinstance(entry, str) else entry for entry in body.texts]
        check_texts([entry.text for entry in texts], limits)
        options = {
            **body.model_dump(include={"to", "n", "samples", "temperature", "seed", "fewer"}),
            "weights": Weights(body.content, body.fluency),
        }
        jobs = []
        for place, entry in enumerate(texts):
            try:
                marked = model.mark(entry.text, entry.mask or body.mask)
            except BlankLMError as error:
                raise Refusal(422, "bad_text", str(error), f"texts[{place}]") from None
            job = Job(self.name, (name, *options.values()), None, partial(rewrite, model, options), deadline=deadline)
            job.item = place, marked, _wanted_by(job)
            job.size = len(marked.words) * body.samples * MASKS
            jobs.append(job)
        return jobs

    def results(self, body: TransferBody, jobs: Sequence[Job]) -> list[dict]:
        return [job.answer.result().to_json() for job in jobs]


def rewrite(
    model: Transfer, options: dict[str, Any], items: list[tuple[int, Marked, Callable[[], bool]]]
) -> list[Rewritten | None]:
    """The answers of texts that came together; None for one that was given up."""
    places, marked, wanted = zip(*items, strict=True)
    return model.rewrite(list(marked), numbers=places, wanted=wanted, **options)


def _wanted_by(job: Job) -> Callable[[], bool]:
    """Its ``wanted``, by a weak reference: a job that held what held the job would outlive its answer."""
    reference = WeakMethod(job.wanted)

    def wanted() -> bool:
        method = reference()
        return method is not None and method()

    return wanted
