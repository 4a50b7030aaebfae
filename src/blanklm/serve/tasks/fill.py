"""``POST /v1/fill`` and ``POST /v1/sample``: texts with blanks and constraints in, fills out."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from blanklm.api import BlankLM
from blanklm.core.canvas import Fill, Trajectory
from blanklm.core.template import Template
from blanklm.decoding.fill import writes_spans
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.decoding.request import Request
from blanklm.errors import BlankLMError
from blanklm.serve.events import FillStream, Stream
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.tasks.task import Record, Task, TaskBody, check_texts, options_of, refusing_text, with_options
from blanklm.serve.worker import Client, Job


class BlankConstraint(Record):
    """What one blank may hold. Lengths are in words, in characters for a character model."""

    min: int | None = Field(None, ge=1, le=10_000)
    max: int | None = Field(None, ge=1, le=10_000)
    ban: list[str] = Field([], description="Words that it may not contain.", max_length=100)
    require: list[str] = Field([], description="Words or phrases that it must contain.", max_length=20)
    only: list[str] = Field([], description="The only words that it may contain.", max_length=1000)


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
        None, description="One for all blanks, or a list with one per blank; for texts that have none of their own."
    )
    trajectory: bool = Field(False, description="Show how each fill was written, step by step.")
    strict: bool = Field(False, description="Refuse texts with words that the model does not know.")


class StreamableBody(CanvasesBody):
    stream: bool = Field(False, description="Send server-sent events: step by step, then the fills of each text.")


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
    pieces: list[str] = Field(description="The given text before, between and after the blanks.")
    unknown: list[str] = Field(description="Given words that the model does not know.")
    fills: list[FillRecord] = Field(description="Best first, or in the order drawn.")


@dataclass
class Watcher:
    """What the decoder calls before each step of a text: it says whether to continue."""

    client: Client
    by_blank: bool = False  # follow blanks that are filled: until then a search for a span often changes its mind
    follow: Callable[[Trajectory], None] | None = None  # is told the trajectory so far, as it grows

    def __call__(self, so_far: Callable[[], Trajectory]) -> bool:
        waits = self.client.waits()
        if waits and self.follow is not None:
            self.follow(to_last_filled(so_far()) if self.by_blank else so_far())
        return waits


def to_last_filled(trajectory: Trajectory) -> Trajectory:
    """Cut a trajectory behind the last action that leaves no blank."""
    closing = (n for n, action in enumerate(trajectory.actions, 1) if not action.left and not action.right)
    steps = max(closing, default=0)
    return Trajectory(trajectory.canvases[: steps + 1], trajectory.actions[:steps], trajectory.log_probs[:steps])


@dataclass(frozen=True)
class CanvasItem:
    place: int  # in its own request
    text: str
    request: Request
    watcher: Watcher


class CanvasTask(Task[BlankLM, CanvasesBody]):
    """Filling or sampling: they differ in ``run`` and in their ``Options``."""

    Model = BlankLM
    Result = CanvasResult
    Options: ClassVar[type[FillOptions] | type[SampleOptions]]
    counts: ClassVar[tuple[str, ...]]  # the options that say how many drafts of a text there are

    @abstractmethod
    def run(self, model: BlankLM, options: Any, items: list[CanvasItem]) -> list[list[Fill] | None]:
        """Return the fills of each text; None for one that nobody waits for any more."""

    def jobs(self, models: Mapping[str, BlankLM], body: CanvasesBody, limits: Limits, client: Client) -> list[Job]:
        name, model = next(iter(models.items()))
        options = options_of(self.Options, body, limits, *self.counts)
        try:
            by_blank = options.order is None and writes_spans(model.model.for_blanks(options.blanks))
        except BlankLMError as error:
            raise Refusal(422, "invalid", str(error), "blanks") from None
        counts = [getattr(options, count) for count in self.counts]
        drafts = math.prod(counts) if by_blank else max(counts)  # spans: a beam for each of n lengths
        if drafts > limits.candidates:
            message = f"{' x '.join(self.counts)} is {drafts}, and at most {limits.candidates} candidates are allowed"
            raise Refusal(422, "too_many_candidates", message, self.counts[0])
        texts = [CanvasText(text=entry) if isinstance(entry, str) else entry for entry in body.texts]
        check_texts([entry.text for entry in texts], limits)
        run, jobs, words = partial(self.run, model, options), [], 0
        for place, entry in enumerate(texts):
            constraints, field = entry.constraints or body.constraints, f"texts[{place}]"
            watcher = Watcher(client, by_blank)
            with refusing_text(place):
                blanks = len(Template.parse(entry.text).blanks)
                words += _count_words(constraints, blanks)
                if blanks > limits.blanks:
                    message = f"the text has {blanks} blanks, and at most {limits.blanks} are allowed: split it"
                    raise Refusal(422, "too_many_blanks", message, field)
                if words > limits.words:
                    message = f"the constraints have more than {limits.words:,} words, counted for each of their blanks"
                    raise Refusal(422, "too_many_words", message, field)
                request = model.prepare(entry.text, _plain(constraints), watcher)
            if body.strict and request.unknown:
                unknown = ", ".join(map(repr, request.unknown[:5]))
                raise Refusal(422, "unknown_words", f"the model does not know {unknown}", field)
            item = CanvasItem(place, entry.text, request, watcher)
            jobs.append(Job(self.name, (name, options), item, run, client, len(request.ids) * drafts))
        return jobs

    def results(self, body: CanvasesBody, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [
            {
                "input": job.item.text,
                "pieces": list(job.item.request.template.pieces),
                "unknown": list(job.item.request.unknown),
                "fills": [fill.to_json(body.trajectory) for fill in job.answer.result()],
            }
            for job in jobs
        ]


class FillTask(CanvasTask):
    name = "fill"
    summary = "Fill the blanks of each text with the most probable words."
    Body = with_options(StreamableBody, FillOptions)
    Options = FillOptions
    counts = ("n", "beam")

    def stream(
        self, body: CanvasesBody, jobs: Sequence[Job], limits: Limits, result_of: Callable[[Job, int], dict[str, Any]]
    ) -> Stream:
        # A beam knows only at its end which trajectory is the best.
        return FillStream(jobs, options_of(FillOptions, body, limits).is_greedy, result_of)

    def run(self, model: BlankLM, options: FillOptions, items: list[CanvasItem]) -> list[list[Fill] | None]:
        best = model.fill([item.request for item in items], options)
        return [None if fill is None else list(fill.ranked) for fill in best]


class SampleTask(CanvasTask):
    name = "sample"
    summary = "Fill the blanks of each text at random."
    Body = with_options(CanvasesBody, SampleOptions)
    Options = SampleOptions
    counts = ("n",)

    def run(self, model: BlankLM, options: SampleOptions, items: list[CanvasItem]) -> list[list[Fill] | None]:
        # A text's draws depend on its place in its own request, not on who shares the batch.
        numbers = [item.place for item in items]
        return [fills or None for fills in model.sample([item.request for item in items], options, numbers=numbers)]


def _count_words(constraints: BlankConstraints | None, blanks: int) -> int:
    of_blanks = constraints if isinstance(constraints, list) else [constraints] * blanks
    return sum(len(c.ban) + len(c.require) + len(c.only) for c in of_blanks if c is not None)


def _plain(constraints: BlankConstraints | None) -> dict[str, Any] | list[dict[str, Any]] | None:
    if isinstance(constraints, list):
        return [{} if constraint is None else constraint.model_dump() for constraint in constraints]
    return None if constraints is None else constraints.model_dump()
