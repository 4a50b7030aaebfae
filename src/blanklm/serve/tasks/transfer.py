"""``POST /v1/transfer``: rewrite each text in another style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakMethod

from pydantic import Field

from blanklm.errors import BlankLMError
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Record, Task, TaskBody, check_texts, options_of, with_options
from blanklm.serve.worker import Job
from blanklm.transfer.marking import MAX_MASKS, MarkedText
from blanklm.transfer.options import TransferOptions
from blanklm.transfer.results import TextRewrites, TransferResult
from blanklm.transfer.transfer import Transfer

Mask = list[str | int]


class TextToRewrite(Record):
    """A text with a mask of its own, which replaces that of the request."""

    text: str
    mask: Mask | None = Field(default=None, max_length=100)


class TextsToRewrite(TaskBody):
    texts: list[str | TextToRewrite] = Field(min_length=1, examples=[["The employees were super nice and efficient!"]])
    to: str = Field(description="The style to write in, one of the model's.", examples=["negative"])
    mask: Mask | None = Field(
        None,
        max_length=100,
        description="What to replace: words, phrases, or numbers of words from 0. None: the model's choice.",
    )


class TransferBody(with_options(TextsToRewrite, TransferOptions)):  # type: ignore[misc]  # made of the fields of options
    pass


class TransferTask(Task[Transfer, TextsToRewrite]):
    name = "transfer"
    summary = "Rewrite each text in another style."
    Body = TransferBody
    Result = TransferResult

    def takes(self, model: Any) -> bool:
        return isinstance(model, Transfer)

    def jobs(self, name: str, model: Transfer, body: TextsToRewrite, limits: Limits, deadline: float) -> list[Job]:
        options = options_of(TransferOptions, body)
        for field in ("n", "samples"):
            if (count := getattr(options, field)) > limits.candidates:
                message = f"{field} is {count}, and at most {limits.candidates} candidates are allowed"
                raise Refusal(422, "too_many_candidates", message, field)
        if body.to not in model.styles:
            raise Refusal(422, "no_such_style", f"the model writes in {' and '.join(model.styles)}", "to")
        texts = [TextToRewrite(text=entry) if isinstance(entry, str) else entry for entry in body.texts]
        check_texts([entry.text for entry in texts], limits)
        jobs = []
        for place, entry in enumerate(texts):
            try:
                marked = model.mark(entry.text, entry.mask or body.mask)
            except BlankLMError as error:
                raise Refusal(422, "bad_text", str(error), f"texts[{place}]") from None
            run = partial(rewrite, model, body.to, options)
            job = Job(self.name, (name, body.to, options), None, run, deadline=deadline)
            job.item = place, marked, _weak_wanted(job)
            job.size = len(marked.words) * options.samples * MAX_MASKS
            jobs.append(job)
        return jobs

    def results(self, body: TextsToRewrite, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [job.answer.result().to_json() for job in jobs]


def rewrite(
    model: Transfer, to: str, options: TransferOptions, items: list[tuple[int, MarkedText, Callable[[], bool]]]
) -> list[TextRewrites | None]:
    """Rewrite the texts of a batch; None for one that was given up."""
    places, marked, wanted = zip(*items, strict=True)
    return model.rewrite(list(marked), to, options=options, numbers=places, wanted=wanted)


def _weak_wanted(job: Job) -> Callable[[], bool]:
    """Return ``job.wanted`` by a weak reference: a job whose item refers to the job would outlive its answer."""
    reference = WeakMethod(job.wanted)

    def wanted() -> bool:
        method = reference()
        return method is not None and method()

    return wanted
