"""``POST /v1/transfer``: rewrite each text in another style."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import Field

from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Record, Task, TaskBody, check_texts, options_of, refusing_text, with_options
from blanklm.serve.worker import Client, Job
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


class TransferTask(Task[Transfer, TextsToRewrite]):
    name = "transfer"
    summary = "Rewrite each text in another style."
    Model = Transfer
    Body = with_options(TextsToRewrite, TransferOptions)
    Result = TransferResult

    def jobs(self, models: Mapping[str, Transfer], body: TextsToRewrite, limits: Limits, client: Client) -> list[Job]:
        name, model = next(iter(models.items()))
        options = model.options(options_of(TransferOptions, body, limits, "n", "samples"), {})
        samples = min(options.samples or 1, limits.candidates)
        options = replace(options, samples=samples)
        if body.to not in model.styles:
            raise Refusal(422, "no_such_style", f"the model writes in {' and '.join(model.styles)}", "to")
        texts = [TextToRewrite(text=entry) if isinstance(entry, str) else entry for entry in body.texts]
        check_texts([entry.text for entry in texts], limits)
        group, run, jobs = (name, body.to, options), partial(rewrite, model, body.to, options), []
        for place, entry in enumerate(texts):
            with refusing_text(place):
                marked = model.mark(entry.text, entry.mask or body.mask)
            size = len(marked.words) * samples * MAX_MASKS
            jobs.append(Job(self.name, group, (place, marked, client.waits), run, client, size))
        return jobs

    def results(self, body: TextsToRewrite, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [job.answer.result().to_json() for job in jobs]


def rewrite(
    model: Transfer, to: str, options: TransferOptions, items: list[tuple[int, MarkedText, Callable[[], bool]]]
) -> list[TextRewrites | None]:
    """Rewrite the texts of a batch; None for one that nobody waits for any more."""
    places, marked, wanted = zip(*items, strict=True)
    return model.rewrite(list(marked), to, options=options, numbers=places, wanted=wanted)
