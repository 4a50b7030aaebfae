"""What filling and sampling share: texts with blanks and constraints in, fills out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from weakref import WeakMethod

from pydantic import BaseModel, Field

from blanklm.api import BlankLM, Watch
from blanklm.core.canvas import Fill, Trajectory
from blanklm.core.template import Template
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.decoding.request import Request
from blanklm.errors import BlankLMError
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Record, Task, TaskBody, check_texts, options_of
from blanklm.serve.worker import Job


class BlankConstraint(Record):
    """What one blank may hold. Lengths are in words, in characters for a character model."""

    min: int | None = Field(None, ge=1, le=10_000)
    max: int | None = Field(None, ge=1, le=10_000)
    ban: list[str] = Field([], description="Words that may not stand in it.", max_length=100)
    require: list[str] = Field([], description="Words or phrases that must stand in it.", max_length=20)
    only: list[str] = Field([], description="The only words that may stand in it.", max_length=1000)


BlankConstraints = BlankConstraint | list[BlankConstraint | None]  # one for every blank, or one each


class CanvasText(Record):
    """A text with constraints of its own, in place of those of the request."""

    text: str
    constraints: BlankConstraints | None = None


class CanvasesBody(TaskBody):
    texts: list[str | CanvasText] = Field(
        min_length=1,
        description="Texts with blanks: ___ any length, ___[3] three words, ___[2-5] two to five.",
        examples=[["They also have ___ which ___."]],
    )
    constraints: BlankConstraints | None = Field(
        None, description="One for every blank, or a list with one for each; of all texts that have none of their own."
    )
    trajectory: bool = Field(False, description="Show how each fill came about, step by step.")
    strict: bool = Field(False, description="Refuse texts with words that the model does not know.")


class Step(BaseModel):
    """A canvas, and the action taken on it (none on the last): the paper's (b, w, l, r), b counted from 0."""

    canvas: str
    blank: int | None = None
    token: str | None = None
    left: bool | int | None = Field(None, description="Does a blank stay to the left?")
    right: bool | int | None = Field(None, description="Does a blank stay to the right?")
    log_prob: float | None = None


class FillRecord(BaseModel):
    text: str
    spans: list[str] = Field(description="What was put in each blank.")
    log_prob: float
    trajectory: list[Step] | None = None


class CanvasResult(BaseModel):
    input: str
    pieces: list[str] = Field(description="What was given, as it stands before, between and after the blanks.")
    unknown: list[str] = Field(description="Given words that the model does not know.")
    fills: list[FillRecord] = Field(description="Best first, or in the order drawn.")


@dataclass(eq=False)
class CanvasJob(Job):
    """One text to fill; its item is its place in the request and what was prepared from it.

    ``follow`` is told the trajectory so far, where somebody wants to see it grow.
    """

    text: str = ""
    follow: Callable[[Trajectory], None] | None = None

    @property
    def prepared(self) -> Request:
        return self.item[1]

    def watch(self, so_far: Callable[[], Trajectory]) -> bool:
        wanted = self.wanted()
        if wanted and self.follow is not None:
            self.follow(so_far())
        return wanted


class CanvasTask(Task):
    """Filling or sampling: they differ in ``run`` and in their ``Options``."""

    Result = CanvasResult
    Options: ClassVar[type[FillOptions] | type[SampleOptions]]

    @abstractmethod
    def run(self, model: BlankLM, options: Any, numbered: list[tuple[int, Request]]) -> list[list[Fill] | None]:
        """The fills of each text, given with its place in its own request; None for one that was given up."""

    def jobs(
        self, name: str, model: BlankLM, body: CanvasesBody, limits: Limits, deadline: float
    ) -> Sequence[CanvasJob]:
        options = options_of(self.Options, body)
        widths = {name: getattr(options, name) for name in ("n", "beam") if hasattr(options, name)}
        for field, value in widths.items():
            if value > limits.candidates:
                message = f"{field} is {value}, and at most {limits.candidates} candidates are looked at"
                raise Refusal(422, "too_many_candidates", message, field)
        check_texts([entry if isinstance(entry, str) else entry.text for entry in body.texts], limits)
        make = partial(CanvasJob, self.name, (name, options), run=partial(self.run, model, options))
        jobs, words = [], 0
        for place, entry in enumerate(body.texts):
            text, constraints = (entry, None) if isinstance(entry, str) else (entry.text, entry.constraints)
            constraints, field = constraints or body.constraints, f"texts[{place}]"
            job = make(item=None, deadline=deadline, text=text)
            try:
                blanks = len(Template.parse(text).blanks)
                words += _count_words(constraints, blanks)
                if blanks > limits.blanks:
                    message = f"the text has {blanks} blanks, and at most {limits.blanks} are taken: split it"
                    raise Refusal(422, "too_many_blanks", message, field)
                if words > limits.words:
                    message = f"the constraints have more than {limits.words:,} words, counted for each of their blanks"
                    raise Refusal(422, "too_many_words", message, field)
                job.item = place, model.prepare(text, _plain(constraints), _watch_of(job))
            except BlankLMError as error:
                raise Refusal(422, "bad_text", str(error), field) from None
            if body.strict and job.prepared.unknown:
                unknown = ", ".join(map(repr, job.prepared.unknown[:5]))
                raise Refusal(422, "unknown_words", f"the model does not know {unknown}", field)
            job.size = len(job.prepared.ids) * max(widths.values())
            jobs.append(job)
        return jobs

    def results(self, body: CanvasesBody, jobs: Sequence[Any]) -> list[dict]:
        return [
            {
                "input": job.text,
                "pieces": list(job.prepared.template.pieces),
                "unknown": list(job.prepared.unknown),
                "fills": [fill.to_json(body.trajectory) for fill in job.answer.result()],
            }
            for job in jobs
        ]


def _watch_of(job: CanvasJob) -> Watch:
    """Its watch, by a weak reference: a job that held a text that held the job would outlive its answer."""
    reference = WeakMethod(job.watch)

    def watch(so_far: Callable[[], Trajectory]) -> bool:
        method = reference()
        return method is not None and method(so_far)

    return watch


def _count_words(constraints: BlankConstraints | None, blanks: int) -> int:
    each = constraints if isinstance(constraints, list) else [constraints] * blanks
    return sum(len(one.ban) + len(one.require) + len(one.only) for one in each if one is not None)


def _plain(constraints: BlankConstraints | None) -> dict | list | None:
    if isinstance(constraints, list):
        return [_plain(constraint) or {} for constraint in constraints]
    return None if constraints is None else constraints.model_dump()
