"""What a server takes at most, and how a request that it does not take is answered."""

from __future__ import annotations

from dataclasses import dataclass, fields

from blanklm.errors import BlankLMError


@dataclass(frozen=True)
class Limits:
    """Every bound of a server. Whatever a client sends, the work and the memory it can cause are bounded by these."""

    body: int = 262_144  # bytes of a request's body
    body_seconds: float = 10.0  # for a client to send it
    texts: int = 64  # texts in a request
    characters: int = 10_000  # in a text
    document: int = 200_000  # characters of a document to restore: EpiDoc has much around its text
    blanks: int = 200  # in a text
    words: int = 10_000  # in the constraints of a request, counted for each blank that they are for
    candidates: int = 64  # fills or samples of a text, and the width of the beam
    canvases: int = 200_000  # looked at to score the texts of a request
    queue: int = 512  # texts waiting for the worker; more are answered 429
    deadline: float = 30.0  # seconds from a request's arrival until its work is stopped
    batch: int = 64  # texts filled together
    batch_tokens: int = 8192  # tokens in one pass over a batch, where it has more than one text
    batch_wait: float = 0.01  # seconds that a text may wait for others to share its batch; or a quarter of a batch

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise BlankLMError(f"the limit {field.name} must be above 0, not {value}")

    @classmethod
    def parse(cls, written: list[str]) -> Limits:
        """From ``name=value`` pairs, as the command line has them."""
        kinds = {field.name: type(field.default) for field in fields(cls)}
        values = {}
        for pair in written:
            name, _, value = pair.partition("=")
            if name not in kinds:
                raise BlankLMError(f"there is no limit {name!r}: there are {', '.join(kinds)}")
            try:
                values[name] = kinds[name](value)
            except ValueError:
                kind = "a whole number" if kinds[name] is int else "a number"
                raise BlankLMError(f"the limit {name} is {kind}, not {value!r}") from None
        return cls(**values)


class Refusal(Exception):
    """A request that is answered with an error: its HTTP status, a code for programs, a message for people."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field, self.headers = status, code, message, field, headers or {}

    def to_json(self) -> dict:
        return {"error": {"code": self.code, "message": self.message, "field": self.field}}


def out_of_time() -> Refusal:
    message = "the deadline has passed before the work was done: send fewer or shorter texts, or try again later"
    return Refusal(504, "deadline", message)
