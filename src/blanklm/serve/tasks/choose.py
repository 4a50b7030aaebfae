"""``POST /v1/choose``: texts with blanks and what may stand in them, ranked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from blanklm.api import BlankLM
from blanklm.choosing.choose import Choices, most_canvases
from blanklm.choosing.options import ChooseOptions
from blanklm.choosing.question import Question
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Record, Task, TaskBody, check_texts, options_of, refusing_text, with_options
from blanklm.serve.worker import Client, Job, call_each

Entries = list[str | list[str]]


class TextToChoose(Record):
    """A text with options of its own, in place of those of the request."""

    text: str
    options: Entries | None = Field(None, max_length=1000)
    alternatives: Entries | None = Field(None, max_length=1000)


class TextsToChoose(TaskBody):
    texts: list[str | TextToChoose] = Field(
        min_length=1, description="Texts with blanks.", examples=[["The ___ sat on the ___."]]
    )
    options: Entries | None = Field(
        None,
        max_length=1000,
        description="Options for the blanks: a list per blank, or one list for a single blank.",
        examples=[[["cat", "old man"], ["mat", "moon"]]],
    )
    alternatives: Entries | None = Field(
        None, max_length=1000, description="Instead of options: each has a string per blank."
    )
    top: int = Field(20, ge=1, le=2000, description="How many combinations to return.")


class ChoiceRecord(BaseModel):
    text: str
    spans: list[str]
    probability: float = Field(description="Among all combinations that were compared.")
    standard_error: float = Field(description="Of the probability; 0 where it is exact.")
    log_prob: float


class ChooseResult(BaseModel):
    input: str
    pieces: list[str] = Field(description="The given text before, between and after the blanks.")
    unknown: list[str] = Field(description="Given words that the model does not know.")
    combinations: int = Field(description="How many combinations there are.")
    compared: int = Field(description="How many were compared: all, or those that the beam search found.")
    choices: list[ChoiceRecord] = Field(description="Most probable first.")


@dataclass(frozen=True)
class _Item:
    """What the worker calls, and what its answer is about."""

    text: str
    question: Question
    choose: Callable[[], Choices]

    def __call__(self) -> Choices:
        return self.choose()


class ChooseTask(Task[BlankLM, TextsToChoose]):
    name = "choose"
    summary = "Rank the options for the blanks of each text."
    Model = BlankLM
    Body = with_options(TextsToChoose, ChooseOptions)
    Result = ChooseResult

    def jobs(self, models: Mapping[str, BlankLM], body: TextsToChoose, limits: Limits, client: Client) -> list[Job]:
        """Return a job per text; a text stops when its client has left."""
        model = next(iter(models.values()))
        options = options_of(ChooseOptions, body, limits, "beam")
        texts = [
            TextToChoose(text=entry, options=None, alternatives=None) if isinstance(entry, str) else entry
            for entry in body.texts
        ]
        check_texts([entry.text for entry in texts], limits)
        jobs, canvases = [], 0
        for place, entry in enumerate(texts):
            own = entry.options is not None or entry.alternatives is not None
            source = entry if own else body
            with refusing_text(place):
                question = model.question(entry.text, source.options, source.alternatives)
            if len(question.template.blanks) > limits.blanks:
                message = f"the text has more than {limits.blanks} blanks: split it"
                raise Refusal(422, "too_many_blanks", message, f"texts[{place}]")
            canvases += most_canvases(question, options)
            if canvases > limits.canvases:
                message = f"the options need {canvases:,} canvases, at most {limits.canvases:,}: give fewer options"
                raise Refusal(422, "too_many_canvases", message, f"texts[{place}]")
            choose = partial(model.choose, question, how=options, check=client.check)
            item = _Item(entry.text, question, choose)
            jobs.append(Job(self.name, object(), item, call_each, client, len(question.ids)))
        return jobs

    def results(self, body: TextsToChoose, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [_record(job.item, body.top, job.answer.result()) for job in jobs]


def _record(item: _Item, top: int, choices: Choices) -> dict[str, Any]:
    question = item.question
    given = {"pieces": list(question.template.pieces), "unknown": list(question.unknown)}
    return {"input": item.text} | given | choices.to_json(top)
