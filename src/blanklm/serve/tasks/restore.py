"""``POST /v1/restore``: damaged texts in Leiden notation or EpiDoc, restored in the same notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from blanklm.restoration.edition import passages_to_read, restore_document
from blanklm.restoration.notation import Document, Letters, parse
from blanklm.restoration.notation.language import CODES
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.records import GapRecord, PassageRecord
from blanklm.restoration.restorer import Restorer
from blanklm.serve.events import GapStream, Stream
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Task, TaskBody, check_texts, options_of, refusing_text, with_options
from blanklm.serve.worker import Client, Job, call_each


class TextsToRestore(TaskBody):
    texts: list[str] = Field(
        min_length=1,
        description="Damaged texts: [...] three lost letters, [c. 5] about five, [---] any number; or EpiDoc.",
        examples=[["d(is) m(anibus) s[.....] iuliae felici vixit an[...] xx"]],
    )
    stream: bool = Field(False, description="Send server-sent events: each of several gaps, then the text.")


@dataclass(frozen=True, kw_only=True)
class ServedPassage(PassageRecord):
    model: str = field(metadata={"description": "The name of the model that restored it."})


class RestoreResult(BaseModel):
    input: str
    notation: str
    text: str = Field(description="The text restored, in its own notation.")
    passages: list[ServedPassage]
    gaps: list[GapRecord]


@dataclass
class Damaged:
    """A text to restore: the work of a job. ``names`` has the name of the model for each of its languages."""

    text: str
    document: Document
    names: Mapping[str, str]
    models: Mapping[str, Restorer]
    options: RestoreOptions
    client: Client
    ready: Callable[[GapRecord], None] = lambda gap: None

    def __call__(self) -> dict[str, Any]:
        restorers = {language: self.models[name] for language, name in self.names.items()}
        several = (self.ready,) if len(self.document.lacunae) > 1 else ()  # one gap is ready when all is
        edition = restore_document(self.document, restorers, self.options, self.client.check, *several)
        record = edition.to_json()
        for passage in record["passages"]:
            passage["model"] = self.names[passage["language"]]
        return record


class RestoreTask(Task[Restorer, TextsToRestore]):
    name = "restore"
    summary = "Restore the gaps of damaged Greek and Latin texts."
    Model = Restorer
    Body = with_options(TextsToRestore, RestoreOptions)
    Result = RestoreResult

    def jobs(self, models: Mapping[str, Restorer], body: TextsToRestore, limits: Limits, client: Client) -> list[Job]:
        """Return a job per text; each passage is restored by the model of its language."""
        options = options_of(RestoreOptions, body, limits, "top")
        check_texts(body.texts, limits, limits.document)
        jobs = []
        for place, text in enumerate(body.texts):
            with refusing_text(place):
                document = parse(text, options.notation)
                names = _names(document, options, models, place)
            _check_size(document, limits, place)
            jobs.append(
                Job(self.name, object(), Damaged(text, document, names, models, options, client), call_each, client)
            )
        return jobs

    def stream(
        self, body: TextsToRestore, jobs: Sequence[Job], limits: Limits, result_of: Callable[[Job, int], dict[str, Any]]
    ) -> Stream:
        return GapStream(jobs, result_of)

    def results(self, body: TextsToRestore, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [{"input": job.item.text, **job.answer.result()} for job in jobs]

    def answered_by(self, name: str, results: list[dict[str, Any]]) -> str:
        return ", ".join(dict.fromkeys(passage["model"] for result in results for passage in result["passages"]))


def _names(document: Document, options: RestoreOptions, models: Mapping[str, Restorer], place: int) -> dict[str, str]:
    """Return the name of a model for each language of a document; a model without a language takes any."""
    names = {}
    for _, needed in passages_to_read(document, options):
        able = [name for name, model in models.items() if CODES.get(model.language, needed) == needed]
        if not able:
            raise Refusal(422, "no_model", f"no model for {needed.capitalize()} is served", f"texts[{place}]")
        names[needed] = able[0]
    return names


def _check_size(document: Document, limits: Limits, place: int) -> None:
    letters = sum(len(part.text) for p in document.passages for part in p.parts if isinstance(part, Letters))
    if letters > limits.characters:
        message = f"the text has {letters:,} letters, and at most {limits.characters:,} are allowed: split it"
        raise Refusal(422, "text_too_long", message, f"texts[{place}]")
    if len(document.lacunae) > limits.blanks:
        message = f"the text has {len(document.lacunae)} gaps, and at most {limits.blanks} are allowed: split it"
        raise Refusal(422, "too_many_gaps", message, f"texts[{place}]")
