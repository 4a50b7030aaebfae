"""The interface between a task and the server: the schema of a request, its jobs, and the schema of an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model

from blanklm.errors import BlankLMError, OptionError
from blanklm.options import option_fields
from blanklm.serve.events import Stream
from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.worker import Client, Job

OptionsType = TypeVar("OptionsType")
ModelType = TypeVar("ModelType")
BodyType = TypeVar("BodyType", bound="TaskBody")


class Record(BaseModel):
    """Part of a request, parsed strictly: a misspelt field or a number in quotes is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TaskBody(Record):
    """The fields that every request may have."""

    model: str | None = Field(None, description="A name of /v1/models; the default model if left out.")
    deadline: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Seconds after which to stop, within the server's own limit."
    )


class Task(ABC, Generic[ModelType, BodyType]):
    """An endpoint for models of one type."""

    name: ClassVar[str]
    summary: ClassVar[str]
    Model: ClassVar[type]
    Body: ClassVar[type[TaskBody]]
    Result: ClassVar[type]  # of one text: a pydantic model or a TypedDict

    def takes(self, model: Any) -> bool:
        """Tell whether a model can do the task; there is an endpoint if any served model can."""
        return isinstance(model, self.Model)

    @abstractmethod
    def jobs(self, models: Mapping[str, ModelType], body: BodyType, limits: Limits, client: Client) -> list[Job]:
        """Return the jobs of a request, given the models that it may use, the default first; or raise Refusal."""

    @abstractmethod
    def results(self, body: BodyType, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Return one Result per text of the request, from jobs that have their answers."""

    def stream(
        self, body: BodyType, jobs: Sequence[Job], limits: Limits, result_of: Callable[[Job, int], dict[str, Any]]
    ) -> Stream:
        """Return the events of the jobs of a request whose body has a field ``stream`` that is true."""
        raise NotImplementedError

    def answered_by(self, name: str, results: list[dict[str, Any]]) -> str:
        """Return the name of the model that gave the results; ``name`` is the requested model or the default."""
        return name


def with_options(base: type[BodyType], options: type) -> type[BodyType]:
    """Return a body that also has the fields of a dataclass of ``options`` (see ``blanklm.options``)."""
    hints = get_type_hints(options)
    added: dict[str, Any] = {}
    for field in option_fields(options):
        extra = dict(field.metadata["limits"])
        if hints[field.name] is float:
            extra["allow_inf_nan"] = False
        if get_origin(hints[field.name]) is tuple:
            extra["strict"] = False  # JSON has lists
        names = [flag[2:].replace("-", "_") for flag in field.metadata["flags"] if flag.startswith("--")]
        if len(names) > 1:  # an option with an old name, which requests may still use
            extra["validation_alias"] = AliasChoices(*names)
        added[field.name] = hints[field.name], Field(field.default, description=field.metadata["help"], **extra)
    return create_model(options.__name__.replace("Options", "Body"), __base__=base, **added)


def options_of(options_type: type[OptionsType], body: TaskBody, limits: Limits, *counts: str) -> OptionsType:
    """Return the options of a request; refuse an invalid one by its name, and ``counts`` above the limit."""
    values = {field.name: getattr(body, field.name) for field in option_fields(options_type)}
    try:
        options = options_type(**values)
    except OptionError as error:
        raise Refusal(422, "invalid", str(error), error.option) from None
    for name in counts:
        if values[name] is not None and values[name] > limits.candidates:
            message = f"{name} is {values[name]}, and at most {limits.candidates} candidates are allowed"
            raise Refusal(422, "too_many_candidates", message, name)
    return options


def check_characters(value: Any, field: str = "") -> None:
    """Refuse a lone surrogate in any text of a request: JSON can write one, but it is no character."""
    if isinstance(value, dict):
        for name, part in value.items():
            check_characters(part, f"{field}.{name}" if field else str(name))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            check_characters(part, f"{field}[{place}]")
    elif isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        message = "the text holds half of a character (a lone surrogate): send whole Unicode characters"
        raise Refusal(422, "bad_text", message, field)


def check_texts(texts: Sequence[str], limits: Limits, longest: int | None = None) -> None:
    """Refuse too many texts, and texts of more than ``longest`` characters."""
    longest, most = longest or limits.characters, min(limits.texts, limits.queue)
    if len(texts) > most:
        message = f"{len(texts)} texts are too many: send at most {most} per request"
        raise Refusal(422, "too_many_texts", message, "texts")
    for place, text in enumerate(texts):
        if len(text) > longest:
            message = f"the text has {len(text):,} characters, and at most {longest:,} are allowed: split it"
            raise Refusal(422, "text_too_long", message, f"texts[{place}]")


@contextmanager
def refusing_text(place: int) -> Iterator[None]:
    """Turn an error within the block into the refusal of the text at ``place``."""
    try:
        yield
    except BlankLMError as error:
        raise Refusal(422, "bad_text", str(error), f"texts[{place}]") from None
