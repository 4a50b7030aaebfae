"""What a task is to the server: the shape of a request, the jobs it makes, and the shape of an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from blanklm.api import BlankLM
from blanklm.errors import OptionError
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.worker import Job

OptionsType = TypeVar("OptionsType")


class Record(BaseModel):
    """Requests are read strictly: a misspelt field or a number in quotes is an error, not a guess."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TaskBody(Record):
    """What every request may say."""

    model: str | None = Field(None, description="A name of /v1/models; the default model if left out.")
    deadline: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Seconds after which to stop; the server's own limit holds too."
    )


def with_options(base: type[TaskBody], options: type) -> type[TaskBody]:
    """A body that also has the fields of a dataclass of ``options`` (see ``blanklm.options``)."""
    hints = get_type_hints(options)
    made: dict[str, Any] = {}
    for field in fields(options):
        limits = field.metadata["limits"] | ({"allow_inf_nan": False} if hints[field.name] is float else {})
        made[field.name] = hints[field.name], Field(field.default, description=field.metadata["help"], **limits)
    return create_model(f"{options.__name__}Body", __base__=base, **made)


def options_of(options: type[OptionsType], body: TaskBody) -> OptionsType:
    """The options of a request; one that cannot be is refused by its name."""
    try:
        return options(**{field.name: getattr(body, field.name) for field in fields(options)})  # type: ignore[arg-type]
    except OptionError as error:
        raise Refusal(422, "invalid", str(error), error.option) from None


class Task(ABC):
    name: ClassVar[str]
    summary: ClassVar[str]
    Body: ClassVar[type[TaskBody]]
    Result: ClassVar[type[BaseModel]]  # of one text

    def takes(self, model: Any) -> bool:
        """Whether a model can do the task; its endpoint is there when a served model can."""
        return isinstance(model, BlankLM)

    def jobs_with(self, models: Mapping[str, Any], body: Any, limits: Limits, deadline: float) -> Sequence[Job]:
        """The work of a request with the models that it may use; most tasks use the first."""
        name, model = next(iter(models.items()))
        return self.jobs(name, model, body, limits, deadline)

    def answered_by(self, name: str, results: list[dict]) -> str:
        """The name of the model that gave the results, ``name`` being the one asked for or the first that can."""
        return name

    @abstractmethod
    def jobs(self, name: str, model: BlankLM, body: Any, limits: Limits, deadline: float) -> Sequence[Job]:
        """The work of a request; whatever is wrong with it raises Refusal or BlankLMError here."""

    @abstractmethod
    def results(self, body: Any, jobs: Sequence[Job]) -> list[dict]:
        """One Result for each text of the request, when all its jobs have their answers."""


def check_texts(texts: Sequence[str], limits: Limits, longest: int | None = None) -> None:
    longest = longest or limits.characters
    if len(texts) > min(limits.texts, limits.queue):
        most = min(limits.texts, limits.queue)
        raise Refusal(422, "too_many_texts", f"{len(texts)} texts are too many: at most {most} a request", "texts")
    for place, text in enumerate(texts):
        if len(text) > longest:
            message = f"the text has {len(text):,} characters, and at most {longest:,} are taken: split it"
            raise Refusal(422, "text_too_long", message, f"texts[{place}]")
