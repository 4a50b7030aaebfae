"""``POST /v1/repair`` and ``POST /v1/words``: texts corrected, and how probable each of their words is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from blanklm.api import BlankLM
from blanklm.repairing.options import RepairOptions
from blanklm.repairing.surprise import check_units
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Task, TaskBody, check_texts, options_of, refusing_text, with_options
from blanklm.serve.worker import Client, Job, call_each

CANVASES = {"repair": 40, "words": 3}  # for each word, about


class WholeTexts(TaskBody):
    texts: list[str] = Field(min_length=1, description="Whole texts.", examples=[["He go to school yesterday."]])


class EditRecord(BaseModel):
    start: int = Field(description="Offset in the input, in characters.")
    end: int
    old: str
    new: str
    gain: float = Field(description="How much log p rises, in nats, less the cost of such a change.")
    rule: str = Field(description="The kind of mistake: spelling, form, word, doubled, missing, ...")


class RepairResult(BaseModel):
    input: str
    text: str
    edits: list[EditRecord] = Field(description="They do not overlap, so any of them may be refused.")


class ExpectedWord(BaseModel):
    text: str
    log_prob: float


class WordRecord(BaseModel):
    text: str
    start: int
    end: int
    log_prob: float = Field(description="Of the word in its place, given all the others.")
    surprise: float = Field(description="How far its log p is below that of the most probable word.")
    expected: list[ExpectedWord]


class WordsResult(BaseModel):
    input: str
    words: list[WordRecord]


@dataclass(frozen=True)
class _Item:
    """What the worker calls, and the text that its answer is about."""

    text: str
    work: Callable[[], Any]

    def __call__(self) -> Any:
        return self.work()


class EachText(Task[BlankLM, WholeTexts]):
    """A job for each text; its work stops when the client has left."""

    Model = BlankLM

    def jobs(self, models: Mapping[str, BlankLM], body: WholeTexts, limits: Limits, client: Client) -> list[Job]:
        model = next(iter(models.values()))
        work = self.work(model, body, limits, client)
        check_texts(body.texts, limits)
        jobs, canvases = [], 0
        for place, text in enumerate(body.texts):
            with refusing_text(place):
                units = check_units(text, model.tokenizer, model.longest)
            canvases += CANVASES[self.name] * len(units)
            if canvases > limits.canvases:
                message = f"the texts need about {canvases:,} canvases, at most {limits.canvases:,}: send fewer words"
                raise Refusal(422, "too_many_canvases", message, f"texts[{place}]")
            jobs.append(Job(self.name, object(), _Item(text, partial(work, text)), call_each, client, len(units)))
        return jobs

    @abstractmethod
    def work(self, model: BlankLM, body: Any, limits: Limits, client: Client) -> Callable[[str], Any]:
        """Return what is to be done with each text."""


class RepairTask(EachText):
    name = "repair"
    summary = "Correct words that are improbable in context."
    Body = with_options(WholeTexts, RepairOptions)
    Result = RepairResult

    def work(self, model: BlankLM, body: Any, limits: Limits, client: Client) -> Callable[[str], Any]:
        options = options_of(RepairOptions, body, limits)
        if sum(map(len, options.keep)) > limits.characters or len(options.keep) > limits.words:
            raise Refusal(422, "too_many_words", "too many words are to be kept: name fewer", "keep")
        return partial(model.repair, options=options, check=client.check)

    def results(self, body: WholeTexts, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [job.answer.result().to_json() for job in jobs]


class WordsTask(EachText):
    name = "words"
    summary = "How probable each word is in its place."
    Body = WholeTexts
    Result = WordsResult

    def work(self, model: BlankLM, body: Any, limits: Limits, client: Client) -> Callable[[str], Any]:
        return partial(model.surprise, check=client.check)

    def results(self, body: WholeTexts, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [{"input": job.item.text, "words": [word.to_json() for word in job.answer.result()]} for job in jobs]
