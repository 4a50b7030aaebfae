"""``POST /v1/restore``: damaged texts in Leiden notation or EpiDoc, restored in the same notation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal
from weakref import WeakMethod

from pydantic import BaseModel, Field

from blanklm.errors import BlankLMError
from blanklm.restoration.edition import Edition, damaged_passages, parallels_of, restore_document
from blanklm.restoration.notation import Document, Letters, parse
from blanklm.restoration.notation.language import CODES
from blanklm.restoration.restorer import Restorer
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Task, TaskBody, check_texts
from blanklm.serve.worker import Job, Stopped


class RestoreBody(TaskBody):
    texts: list[str] = Field(
        min_length=1,
        description="Damaged texts: [...] three lost letters, [c. 5] about five, [---] any number; or EpiDoc.",
        examples=[["d(is) m(anibus) s[.....] iuliae felici vixit an[...] xx"]],
    )
    notation: Literal["leiden", "epidoc"] | None = Field(None, description="Detected if left out.")
    language: Literal["greek", "latin"] | None = Field(None, description="Told by the letters if left out.")
    top: int = Field(20, ge=1, description="How many restorations of each gap, best first.")
    abstain_below: float = Field(0.05, ge=0, le=1, description="Leave a gap if nothing is as probable as this.")
    sure: float = Field(0.0, ge=0, le=1, description="Leave characters lost that are less probable than this.")
    parallels: int = Field(3, ge=0, le=20, description="How many parallels for each gap.")
    count: Literal["characters", "letters"] = Field("characters", description="What lengths count.")


class Hypothesis(BaseModel):
    restorations: list[str]
    probability: float


class PassageRecord(BaseModel):
    language: str
    model: str
    parts: list[str | int] = Field(description="What is read, and the numbers of its gaps, in reading order.")
    gaps: list[int] = Field(description="The numbers of its gaps.")
    hypotheses: list[Hypothesis] = Field(description="For all its gaps together, best first.")


class RestorationRecord(BaseModel):
    text: str
    probability: float
    certainty: str = Field(description="high, medium or low.")
    written: str = Field(description="As it is written in the document, in the place of the gap.")


class ParallelRecord(BaseModel):
    words: str = Field(description="The words that agree.")
    texts: int = Field(description="In how many training texts they stand.")
    examples: list[str]
    before: str
    behind: str


class GapRecord(BaseModel):
    gap: int = Field(description="Its number, from 1.")
    line: int
    column: int
    start: int = Field(description="Where it begins in the text sent, in characters from 0.")
    end: int
    written: str
    min: int | None
    max: int | None
    before: str
    behind: str
    abstained: bool
    reason: str | None
    restorations: list[RestorationRecord] = Field(description="Best first.")
    confidence: list[float] = Field(description="Of each character of the best.")
    places: list[dict[str, float]] = Field(description="The characters that compete for each place of the best.")
    lengths: dict[str, float] = Field(description="How probable each length is.")
    parallels: list[ParallelRecord]


class RestoreResult(BaseModel):
    input: str
    notation: str
    text: str = Field(description="The text restored, in its own notation.")
    passages: list[PassageRecord]
    gaps: list[GapRecord]


class RestoreTask(Task):
    name = "restore"
    summary = "Restore the gaps of damaged Greek and Latin texts."
    Body = RestoreBody
    Result = RestoreResult

    def takes(self, model: Any) -> bool:
        return isinstance(model, Restorer)

    def jobs_with(
        self, models: Mapping[str, Restorer], body: RestoreBody, limits: Limits, deadline: float
    ) -> Sequence[Job]:
        """Each passage is restored by the model of its language."""
        if body.top > limits.candidates:
            message = f"top is {body.top}, and at most {limits.candidates} candidates are looked at"
            raise Refusal(422, "too_many_candidates", message, "top")
        check_texts(body.texts, limits, limits.document)
        jobs = []
        for place, text in enumerate(body.texts):
            field = f"texts[{place}]"
            try:
                document = parse(text, body.notation)
                names = _names(document, body.language, models, field)
            except BlankLMError as error:
                raise Refusal(422, "bad_text", str(error), field) from None
            _check_size(document, limits, field)
            job = Job(self.name, object(), None, run=partial(_restore, body, models), deadline=deadline)
            job.item = document, names, WeakMethod(job.wanted)
            jobs.append(job)
        return jobs

    def jobs(self, name: str, model: Restorer, body: Any, limits: Limits, deadline: float) -> Sequence[Job]:
        return self.jobs_with({name: model}, body, limits, deadline)

    def results(self, body: RestoreBody, jobs: Sequence[Job]) -> list[dict]:
        results = []
        for text, job in zip(body.texts, jobs, strict=True):
            record = job.answer.result().to_json()
            for passage in record["passages"]:
                passage["model"] = job.item[1][passage["language"]]
            results.append({"input": text, **record})
        return results

    def answered_by(self, name: str, results: list[dict]) -> str:
        return ", ".join(dict.fromkeys(passage["model"] for result in results for passage in result["passages"]))


def _names(document: Document, language: str | None, models: Mapping[str, Restorer], field: str) -> dict[str, str]:
    """The name of the model for each language of a document; a model that does not say its language takes any."""
    found = {}
    for _, needed in damaged_passages(document, language):
        able = [name for name, model in models.items() if CODES.get(model.language, needed) == needed]
        if not able:
            raise Refusal(422, "no_model", f"no model for {needed.capitalize()} is served", field)
        found[needed] = able[0]
    return found


def _check_size(document: Document, limits: Limits, field: str) -> None:
    letters = sum(len(part.text) for p in document.passages for part in p.parts if isinstance(part, Letters))
    if letters > limits.characters:
        message = f"the text has {letters:,} letters, and at most {limits.characters:,} are taken: split it"
        raise Refusal(422, "text_too_long", message, field)
    if len(document.lacunae) > limits.blanks:
        message = f"the text has {len(document.lacunae)} gaps, and at most {limits.blanks} are taken: split it"
        raise Refusal(422, "too_many_gaps", message, field)


def _restore(
    body: RestoreBody, models: Mapping[str, Restorer], items: list[tuple[Document, dict[str, str], WeakMethod]]
) -> list[Edition]:
    editions = []
    for document, names, wanted in items:

        def go_on(done: int, wanted: WeakMethod = wanted) -> None:
            method = wanted()
            if method is None or not method():
                raise Stopped

        go_on(0)
        find = parallels_of(body.parallels) if body.parallels else None
        editions.append(
            restore_document(
                document,
                lambda language, names=names: models[names[language]],
                body.language,
                body.top,
                body.abstain_below,
                body.sure,
                find,
                body.count,
                go_on,
            )
        )
    return editions
