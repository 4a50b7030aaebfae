"""Many texts, one per line: read them, fill them a group at a time, and answer each.

A bad line carries its error along, so every line in has exactly one answer out, in order.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from blanklm.data.readers import DAMAGE, bounded_lines, is_jsonl, open_bytes
from blanklm.errors import BlankLMError, DataError, OptionError, shortened
from blanklm.options import LONGEST_LENGTH, check_options, option

if TYPE_CHECKING:
    from blanklm.api import BlankLM, Watch
    from blanklm.core.canvas import Fill
    from blanklm.decoding.constraint import Constraint
    from blanklm.decoding.options import FillOptions, SampleOptions
    from blanklm.decoding.request import Request

S = TypeVar("S")
T = TypeVar("T")
LINES_AT_ONCE = 64  # lines filled together where someone waits for them; results come as each group is done


@dataclass(frozen=True)
class Line:
    """One input: where it stands, and its text and constraints, or what is wrong with it.

    What is around the text in a file comes out again where the answer is text: ``mark``, a byte-order mark, and
    ``ending``, how the line ends.
    """

    number: int | None  # None for a text given as an argument
    text: str
    constraints: Any = None
    error: str | None = None
    mark: str = ""
    ending: str = "\n"
    options: Any = None  # of its blanks, for choosing
    alternatives: Any = None

    @property
    def place(self) -> str:
        return "" if self.number is None else f"line {self.number}: "


@dataclass(frozen=True)
class Answer:
    """The answer to a line: its fills, best first, or the reason why there are none."""

    line: Line
    fills: tuple[Fill, ...] = ()
    error: str | None = None
    unknown: tuple[str, ...] = ()  # given words that the model does not know

    def to_json(self, trace: bool = False) -> dict[str, Any]:
        if self.error is None:
            return {"input": self.line.text, "fills": [fill.to_json(trace) for fill in self.fills]}
        record = {"input": self.line.text, "error": self.error}
        return record if self.line.number is None else record | {"line": self.line.number}


@dataclass(frozen=True)
class EveryBlank:
    """The constraints of the command line, for every blank of every text; ``2=word`` is for the second blank alone."""

    min: int | None = option(
        None, "Minimum length of each blank, in words (or characters).", "--min", ge=1, le=LONGEST_LENGTH
    )
    max: int | None = option(None, "Maximum length of each blank.", "--max", ge=1, le=LONGEST_LENGTH)
    ban: tuple[str, ...] = option((), "A word no blank may hold; 2=WORD: only blank 2.", "--ban")
    require: tuple[str, ...] = option((), "A word every blank must hold; 2=WORD: only blank 2.", "--require")
    only: tuple[str, ...] = option((), "Allow only these words; 2=WORD: only in blank 2.", "--only")

    def __post_init__(self) -> None:
        check_options(self)

    def together_with(self, own: list | dict | None, blanks: int) -> list[Constraint]:
        """Combine these with a line's own constraints, one for each blank; its only-these words take precedence."""
        from blanklm.decoding.constraint import Constraint, per_blank

        return [
            Constraint(
                min=max((length for length in (self.min, b.min) if length is not None), default=None),
                max=min((length for length in (self.max, b.max) if length is not None), default=None),
                ban=(*a["ban"], *b.ban),
                require=(*a["require"], *b.require),
                only=b.only or tuple(a["only"]),
            )
            for a, b in zip(self._words(blanks), per_blank(own, blanks), strict=True)
        ]

    def _words(self, blanks: int) -> list[dict[str, list[str]]]:
        """Return the words of each blank by the name of the constraint."""
        words: list[dict[str, list[str]]] = [{"ban": [], "require": [], "only": []} for _ in range(blanks)]
        for name in ("ban", "require", "only"):
            for word in getattr(self, name):
                number, separator, rest = word.partition("=")
                if not (separator and number.isdecimal() and len(number) < 10):
                    for of_blank in words:
                        of_blank[name].append(word)
                    continue
                if not 1 <= int(number) <= blanks:
                    raise BlankLMError(f"--{name} {word}: blanks are numbered from 1 to {blanks}")
                words[int(number) - 1][name].append(rest)
        return words


def lines_of(file: Path, jsonl: bool = False) -> Iterator[Line]:
    """Read the lines of a file, plain or compressed; as JSON lines if its name or ``jsonl`` says so."""
    if not file.exists() or file.is_dir():
        reason = f"{file} is a folder: give a file" if file.is_dir() else f"there is no file {file}: check the path"
        raise DataError(reason)
    try:
        with open_bytes(file) as stream:
            yield from lines_in(stream, str(file), jsonl or is_jsonl(file))
    except DAMAGE as error:
        raise DataError(f"{file} cannot be read further ({error})") from None


def lines_in(stream: IO[bytes], name: str, jsonl: bool) -> Iterator[Line]:
    for number, line in enumerate(bounded_lines(stream, name), 1):
        mark = codecs.BOM_UTF8 if number == 1 and line.startswith(codecs.BOM_UTF8) else b""
        ending = "\r\n" if line.endswith(b"\r\n") else "\n"
        text = line.removeprefix(mark).removesuffix(b"\n")
        text = text.removesuffix(b"\r") if ending == "\r\n" else text
        yield replace(_parse_line(number, text, jsonl), mark=mark.decode(), ending=ending)


def _parse_line(number: int, line: bytes, jsonl: bool) -> Line:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        shown = line.decode("utf-8", "replace")
        return Line(number, shown, error=f"not UTF-8 (byte {error.start + 1} of the line): convert the file first")
    if not jsonl:
        return Line(number, text)
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        return Line(number, text, error=f"not JSON ({error.msg} at column {error.colno})")
    except (RecursionError, ValueError):
        return Line(number, text, error="not JSON that can be read: nested too deeply, or a number too long")
    line_text = record.get("text", record.get("input")) if isinstance(record, dict) else None
    if not isinstance(line_text, str):
        return Line(number, text, error='not an object with a "text": write {"text": "They also have ___ ."}')
    found = Line(number, line_text, record.get("constraints"))
    return replace(found, options=record.get("options"), alternatives=record.get("alternatives"))


def attempt(line: Line, work: Callable[[str], T]) -> T | str:
    """Return what ``work`` makes of the text of a line, or what is wrong with the line."""
    if line.error is not None:
        return line.error
    try:
        return work(line.text)
    except OptionError:  # which are those of all lines
        raise
    except Exception as error:  # whatever it is, it is wrong with this line alone
        return _reason(error)


def each_or_its_error(work: Callable[[list[S]], Iterable[T]], items: list[S]) -> Iterator[T | str]:
    """Yield the result of each item of a group, or what is wrong with it.

    If the group fails, each item is tried alone, so that a bad one does not take others along.
    """
    try:
        yield from list(work(items)) if items else ()
    except OptionError:
        raise
    except Exception as error:  # an error of any class must not cost the others their results
        if len(items) == 1:
            yield _reason(error)
            return
        for item in items:
            yield from each_or_its_error(work, [item])


def _reason(error: Exception) -> str:
    """Say what is wrong with a text whose work failed."""
    if isinstance(error, BlankLMError):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
        return "out of memory: shorten the text"
    first = " ".join(str(error).split())
    return shortened(f"this text cannot be worked on ({type(error).__name__}: {first}): please report it", 300)


def answers(
    language_model: BlankLM,
    lines: Iterable[Line],
    options: FillOptions | SampleOptions,
    shared: EveryBlank,
    strict: bool = False,
    at_once: int = LINES_AT_ONCE,
    watch: Callable[[Line], Watch] | None = None,
) -> Iterator[list[Answer]]:
    """Fill or sample, as the ``options`` say, all lines a group at a time, in order.

    ``watch`` gives each line what ``BlankLM.prepare`` takes: it is called before each pass over the line's text.
    """
    lines, seen = iter(lines), 0
    while group := list(islice(lines, at_once)):
        prepared = [_prepare(language_model, line, shared, strict, watch) for line in group]
        ready = [(number, r) for number, r in enumerate(prepared, seen) if not isinstance(r, str)]
        seen += len(group)
        filled = each_or_its_error(partial(_fill_group, language_model, options), ready)
        yield [
            Answer(line, error=request) if isinstance(request, str) else _answer(line, next(filled), request.unknown)
            for line, request in zip(group, prepared, strict=True)
        ]


def _prepare(
    language_model: BlankLM, line: Line, shared: EveryBlank, strict: bool, watch: Callable[[Line], Watch] | None
) -> Request | str:
    """Parse a line into a request, or say what is wrong with it."""
    from blanklm.core.template import Template

    def request_of(text: str) -> Request:
        constraints = line.constraints
        if constraints is not None and not isinstance(constraints, list | dict):
            raise BlankLMError('"constraints" must be an object, or a list with one object per blank')
        if shared != EveryBlank():
            constraints = shared.together_with(constraints, len(Template.parse(text).blanks))
        request = language_model.prepare(text, constraints, watch and watch(line))
        if strict and request.unknown:
            problem = f"the model does not know {listed(request.unknown)}"
            raise BlankLMError(f"{problem}: use other words, another model, or leave out --strict")
        return request

    return attempt(line, request_of)


def listed(words: tuple[str, ...]) -> str:
    return ", ".join(repr(shortened(word)) for word in words[:5]) + (", ..." if len(words) > 5 else "")


def _fill_group(
    language_model: BlankLM, options: FillOptions | SampleOptions, ready: list[tuple[int, Request]]
) -> Iterable[list[Fill]]:
    """Return the fills of each request, given with the number of its line, which seeds its samples."""
    from blanklm.decoding.options import FillOptions

    numbers, requests = zip(*ready, strict=True)
    if isinstance(options, FillOptions):
        return [list(best.ranked) for best in language_model.fill(requests, options)]
    return language_model.sample(requests, options, numbers=numbers)


def _answer(line: Line, outcome: list[Fill] | str, unknown: tuple[str, ...]) -> Answer:
    return Answer(line, error=outcome) if isinstance(outcome, str) else Answer(line, tuple(outcome), unknown=unknown)


def one_line_json(record: Any) -> str:
    """Write JSON on one line; characters that are not valid Unicode are escaped."""
    text = json.dumps(record, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(record)
