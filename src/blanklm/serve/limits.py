"""The limits of a server, and its answer to a request that it refuses."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from blanklm.errors import BlankLMError

LONGEST_MESSAGE = 500  # characters


@dataclass(frozen=True)
class Limits:
    """The bounds on the work and the memory that any request can cause."""

    connections: int = 1000  # at once; fewer where the process may open few files
    header_seconds: float = 10.0  # for a client to send the header of a request
    body: int = 262_144  # bytes in the body of a request
    body_seconds: float = 10.0  # for a client to send the body
    texts: int = 64  # texts in a request
    characters: int = 10_000  # in a text
    document: int = 200_000  # characters of a document to restore: EpiDoc has much markup
    blanks: int = 100  # in a text; the time grows with their square
    words: int = 10_000  # in the constraints of a request, counted once per blank
    candidates: int = 64  # fills or samples of a text, and the beam width
    canvases: int = 200_000  # evaluated to score the texts of a request
    queue: int = 512  # texts waiting for the worker; more are refused with status 429
    deadline: float = 30.0  # seconds after which the work of a request is stopped
    batch: int = 64  # texts filled together
    batch_tokens: int = 8192  # tokens in one pass over a batch of more than one text
    batch_wait: float = 0.01  # seconds that a text waits for others to share its batch, or a quarter of a batch

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise BlankLMError(f"the limit {field.name} must be above 0, not {value}")

    @classmethod
    def parse(cls, written: list[str]) -> Limits:
        """Parse ``name=value`` pairs of the command line."""
        types: dict[str, type[int] | type[float]] = get_type_hints(cls)
        values: dict[str, Any] = {}
        for pair in written:
            name, _, value = pair.partition("=")
            if name not in types:
                raise BlankLMError(f"there is no limit {name!r}: choose {', '.join(types)}")
            try:
                values[name] = types[name](value)
            except ValueError:
                kind = "a whole number" if types[name] is int else "a number"
                raise BlankLMError(f"the limit {name} must be {kind}, not {value!r}") from None
        return cls(**values)


class Refusal(Exception):
    """The reason to refuse a request: an HTTP status, a code for programs, a message for people."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        if len(message) > LONGEST_MESSAGE:  # it repeats what was sent
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 2 :]}"
        super().__init__(message)
        self.status, self.code, self.message, self.field, self.headers = status, code, message, field, headers or {}

    def to_json(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "field": self.field}}


def deadline_passed() -> Refusal:
    message = (
        "the deadline passed before the work was done: send fewer or shorter texts, fewer blanks, or try again later"
    )
    return Refusal(504, "deadline", message)
