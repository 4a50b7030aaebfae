"""``POST /v1/restore``: damaged texts in Leiden notation or EpiDoc, restored in the same notation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakMethod

from pydantic import BaseModel, Field

from blanklm.errors import BlankLMError
from blanklm.restoration.edition import Edition, damaged_passages, restore_document
from blanklm.restoration.notation import Document, Letters, parse
from blanklm.restoration.notation.language import CODES
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.records import GapRecord, PassageRecord
from blanklm.restoration.restorer import Restorer
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Task, TaskBody, check_texts, options_of, with_options
from blanklm.serve.worker import Job, Stopped


class RestoreTexts(TaskBody):
    texts: list[str] = Field(
        min_length=1,
        description="Damaged texts: [...] three lost letters, [c. 5] about five, [---] any number; or EpiDoc.",
        examples=[["d(is) m(anibus) s[.....] iuliae felici vixit an[...] xx"]],
    )


class RestoreBody(with_options(RestoreTexts, RestoreOptions)):  # type: ignore[misc]  # made of the fields of RestoreOptions
    pass


@dataclass(frozen=True, kw_only=True)
class ServedPassage(PassageRecord):
    model: str = field(metadata={"description": "The name of the model that restored it."})


class RestoreResult(BaseModel):
    input: str
    notation: str
    text: str = Field(description="The text restored, in its own notation.")
    passages: list[ServedPassage]
    gaps: list[GapRecord]


@dataclass(frozen=True)
class RestoreItem:
    """A document to restore, the name of the model for each language, and whether its answer is still wanted."""

    document: Document
    names: Mapping[str, str]
    wanted: WeakMethod[Any]

    def go_on(self, done: int) -> None:
        method = self.wanted()
        if method is None or not method():
            raise Stopped


class RestoreTask(Task):
    name = "restore"
    summary = "Restore the gaps of damaged Greek and Latin texts."
    Body = RestoreBody
    Result = RestoreResult

    def takes(self, model: Any) -> bool:
        return isinstance(model, Restorer)

    def jobs_with(
        self, models: Mapping[str, Restorer], body: RestoreTexts, limits: Limits, deadline: float
    ) -> Sequence[Job]:
        """Return a job per text; each passage is restored by the model of its language."""
        options = options_of(RestoreOptions, body)
        if options.top > limits.candidates:
            message = f"top is {options.top}, and at most {limits.candidates} candidates are allowed"
            raise Refusal(422, "too_many_candidates", message, "top")
        check_texts(body.texts, limits, limits.document)
        jobs = []
        for place, text in enumerate(body.texts):
            location = f"texts[{place}]"
            try:
                document = parse(text, options.notation)
                names = _names(document, options.language, models, location)
            except BlankLMError as error:
                raise Refusal(422, "bad_text", str(error), location) from None
            _check_size(document, limits, location)
            job = Job(self.name, object(), None, run=partial(_restore, options, models), deadline=deadline)
            job.item = RestoreItem(document, names, WeakMethod(job.wanted))
            jobs.append(job)
        return jobs

    def jobs(self, name: str, model: Any, body: Any, limits: Limits, deadline: float) -> Sequence[Job]:
        return self.jobs_with({name: model}, body, limits, deadline)

    def results(self, body: RestoreTexts, jobs: Sequence[Job]) -> list[dict]:
        results = []
        for text, job in zip(body.texts, jobs, strict=True):
            record = job.answer.result().to_json()
            for passage in record["passages"]:
                passage["model"] = job.item.names[passage["language"]]
            results.append({"input": text, **record})
        return results

    def answered_by(self, name: str, results: list[dict]) -> str:
        return ", ".join(dict.fromkeys(passage["model"] for result in results for passage in result["passages"]))


def _names(document: Document, language: str | None, models: Mapping[str, Restorer], location: str) -> dict[str, str]:
    """Return the name of a model for each language of a document; a model without a language takes any."""
    names = {}
    for _, needed in damaged_passages(document, language):
        able = [name for name, model in models.items() if CODES.get(model.language, needed) == needed]
        if not able:
            raise Refusal(422, "no_model", f"no model for {needed.capitalize()} is served", location)
        names[needed] = able[0]
    return names


def _check_size(document: Document, limits: Limits, location: str) -> None:
    letters = sum(len(part.text) for p in document.passages for part in p.parts if isinstance(part, Letters))
    if letters > limits.characters:
        message = f"the text has {letters:,} letters, and at most {limits.characters:,} are allowed: split it"
        raise Refusal(422, "text_too_long", message, location)
    if len(document.lacunae) > limits.blanks:
        message = f"the text has {len(document.lacunae)} gaps, and at most {limits.blanks} are allowed: split it"
        raise Refusal(422, "too_many_gaps", message, location)


def _restore(options: RestoreOptions, models: Mapping[str, Restorer], items: Sequence[RestoreItem]) -> list[Edition]:
    editions = []
    for item in items:
        item.go_on(0)
        restorers = {language: models[name] for language, name in item.names.items()}
        editions.append(restore_document(item.document, restorers, options, item.go_on))
    return editions
