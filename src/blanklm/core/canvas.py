"""Canvas, blank, action, order, trajectory, fill: the nouns of the paper, in plain Python.

This is the slow, obvious version of everything the tensor code does; the tests hold the two equal.
A *canvas* is a sequence of tokens and blanks (Section 3). An *action* (b, w, l, r) picks blank b, writes
token w in it and says whether blanks stay to its left and right. An *order* fixes a *trajectory*: the
canvases and actions that lead from the first canvas to the finished text (Figure 2).
"""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from blanklm.core.template import Blank, Template, escape
from blanklm.errors import CanvasError

Token = Hashable  # a word (str) for people, an id (int) for models


@dataclass(frozen=True, slots=True)
class Action:
    """(b, w, l, r). ``blank`` counts the canvas's blanks from 0.

    BLM: ``left`` and ``right`` say whether a blank stays there (bools).
    L-BLM: they are the lengths of the blanks that stay (ints); 0 means none.
    """

    blank: int
    token: Token
    left: bool | int
    right: bool | int


@dataclass(frozen=True)
class Canvas:
    """Tokens and blanks. Each blank, and each token put in one, remembers the blank it descends from.

    ``origins[i]`` is the number of the first-canvas blank that item ``i`` belongs to, None for a given token;
    ``limits[o]`` is that blank as it was first written: its length budget is shared by all its descendants.
    ``separator`` stands between items in print: nothing where tokens carry their own spaces.
    """

    items: tuple[Token | Blank, ...]
    origins: tuple[int | None, ...] = field(default=())
    limits: tuple[Blank, ...] = field(default=())
    separator: str = " "

    def __post_init__(self) -> None:
        if not self.origins and self.items:
            number = iter(range(len(self.items)))
            origins = tuple(next(number) if isinstance(item, Blank) else None for item in self.items)
            object.__setattr__(self, "origins", origins)
            object.__setattr__(self, "limits", tuple(item for item in self.items if isinstance(item, Blank)))

    @classmethod
    def parse(cls, text: str) -> Canvas:
        """A canvas of whitespace-separated words: ``Canvas.parse("They also have ___ which ___ .")``."""
        template = Template.parse(text)
        items: list[Token | Blank] = list(template.pieces[0].split())
        for blank, piece in zip(template.blanks, template.pieces[1:], strict=True):
            items += [blank, *piece.split()]
        return cls(tuple(items))

    def __str__(self) -> str:
        return self.separator.join(str(i) if isinstance(i, Blank) else escape(str(i)) for i in self.items)

    @property
    def blanks(self) -> tuple[int, ...]:
        """Where the blanks stand: b_1 ... b_k of the paper, as item indices."""
        return tuple(i for i, item in enumerate(self.items) if isinstance(item, Blank))

    @property
    def spans(self) -> tuple[tuple[Token | Blank, ...], ...]:
        """For each blank of the first canvas, what is in its place now."""
        return tuple(
            tuple(item for item, origin in zip(self.items, self.origins, strict=True) if origin == o)
            for o in range(len(self.limits))
        )

    def apply(self, action: Action) -> Canvas:
        """The next canvas; an action that the canvas or a length budget does not allow raises CanvasError."""
        places = self.blanks
        if not 0 <= action.blank < len(places):
            raise CanvasError(f"there is no blank {action.blank}: the canvas has {len(places)}")
        at = places[action.blank]
        blank, origin = self.items[at], self.origins[at]
        assert isinstance(blank, Blank) and origin is not None
        filling = (*_child(action.left), action.token, *_child(action.right))
        if not isinstance(action.left, bool):
            total = action.left + 1 + action.right
            if total < blank.min or (blank.max is not None and total > blank.max):
                raise CanvasError(f"{total} tokens do not fit the blank {blank}")
        canvas = Canvas(
            self.items[:at] + filling + self.items[at + 1 :],
            self.origins[:at] + (origin,) * len(filling) + self.origins[at + 1 :],
            self.limits,
            self.separator,
        )
        canvas._check_budget(origin)
        return canvas

    def _check_budget(self, origin: int) -> None:
        """What is filled plus what is open stays within the maximum; the last blank closes at the minimum or later."""
        span, limit = self.spans[origin], self.limits[origin]
        open_blanks = [item for item in span if isinstance(item, Blank)]
        filled = len(span) - len(open_blanks)
        if limit.max is not None and filled + sum(blank.min for blank in open_blanks) > limit.max:
            raise CanvasError(f"blank {origin} has room for {limit.max} tokens")
        if not open_blanks and filled < limit.min:
            raise CanvasError(f"blank {origin} wants at least {limit.min} tokens and would close with {filled}")


def _child(stays: bool | int) -> tuple[Blank, ...]:
    if isinstance(stays, bool):
        return (Blank(),) if stays else ()
    return (Blank.exactly(stays),) if stays else ()


def conceal(tokens: Sequence[Token], shown: Iterable[int], lengths: bool = False) -> tuple[Canvas, dict[int, Action]]:
    """The canvas that shows only the positions ``shown``, and for each hidden position the action that writes it.

    With ``lengths`` (L-BLM) each blank carries its length and the actions say how many places stay on each side.
    """
    shown = set(shown)
    items: list[Token | Blank] = []
    actions: dict[int, Action] = {}
    blank, position = 0, 0
    while position < len(tokens):
        if position in shown:
            items.append(tokens[position])
            position += 1
            continue
        end = position
        while end < len(tokens) and end not in shown:
            end += 1
        items.append(Blank.exactly(end - position) if lengths else Blank())
        for hidden in range(position, end):
            left, right = hidden - position, end - 1 - hidden
            sides = (left, right) if lengths else (left > 0, right > 0)
            actions[hidden] = Action(blank, tokens[hidden], *sides)
        blank, position = blank + 1, end
    return Canvas(tuple(items)), actions


@dataclass(frozen=True)
class Trajectory:
    """Canvases c_0 ... c_n and the actions a_0 ... a_{n-1} between them, with log p(a_t | c_t) where known."""

    canvases: tuple[Canvas, ...]
    actions: tuple[Action, ...]
    log_probs: tuple[float, ...] = ()

    @classmethod
    def follow(cls, start: Canvas, actions: Iterable[Action], log_probs: Iterable[float] = ()) -> Trajectory:
        canvases, taken = [start], tuple(actions)
        for action in taken:
            canvases.append(canvases[-1].apply(action))
        return cls(tuple(canvases), taken, tuple(log_probs))

    @classmethod
    def from_order(cls, tokens: Sequence[Token], order: Sequence[int], lengths: bool = False) -> Trajectory:
        """The one trajectory that writes position ``order[0]`` first, then ``order[1]``, ... (positions from 0)."""
        if sorted(order) != list(range(len(tokens))):
            raise CanvasError(f"an order of {len(tokens)} tokens is a permutation of 0..{len(tokens) - 1}")
        actions = [conceal(tokens, order[:step], lengths)[1][position] for step, position in enumerate(order)]
        start = conceal(tokens, (), lengths)[0]
        return cls.follow(start, actions)

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)

    def to_json(self) -> list[dict[str, Any]]:
        """One record per step: the canvas, and the action taken on it (none on the last)."""
        steps: list[dict[str, Any]] = [{"canvas": str(canvas)} for canvas in self.canvases]
        for t, action in enumerate(self.actions):
            steps[t] |= {"blank": action.blank, "token": action.token, "left": action.left, "right": action.right}
            if self.log_probs:
                steps[t]["log_prob"] = round(self.log_probs[t], 6)
        return steps


@dataclass(frozen=True)
class Fill:
    """A filled canvas: the text, what was put in each blank, log p, and the trajectory.

    ``log_prob`` is the log of the summed probability of all the trajectories the search merged into this fill.
    ``alternatives`` are the next best fills, best first, if more than one was requested. As a string it is its text; a
    notebook shows the text with its spans marked.
    """

    text: str
    spans: tuple[str, ...]
    log_prob: float
    steps: Callable[[], Trajectory] | None = field(default=None, repr=False, compare=False)
    alternatives: tuple[Fill, ...] = field(default=(), repr=False)
    given: tuple[str, ...] = field(default=(), repr=False, compare=False)  # the text before, between and after blanks

    def __str__(self) -> str:
        return self.text

    @property
    def parts(self) -> tuple[str, ...]:
        """The text in pieces, given and written ones alternately; the first and the last are given."""
        parts, rest = [""], self.text
        for given, span in zip(self.given or ("",) * (len(self.spans) + 1), (*self.spans, ""), strict=True):
            parts[-1] += given
            rest = rest[len(given) :]
            at = rest.index(span)  # touching word-level blanks have a space between them
            parts[-1] += rest[:at]
            parts += [span, ""]
            rest = rest[at + len(span) :]
        return (*parts[:-3], parts[-3] + rest)

    def _repr_html_(self) -> str:
        """Show the fill and its alternatives in a notebook, best first, with what was written marked."""

        def marked(fill: Fill) -> str:
            parts = map(html.escape, fill.parts)
            return "".join(f"<mark>{part}</mark>" if number % 2 else part for number, part in enumerate(parts))

        if not self.alternatives:
            return f"<p>{marked(self)}</p>"
        rows = (
            f"<tr><td>{fill.log_prob:.2f}</td><td style='text-align:left'>{marked(fill)}</td></tr>"
            for fill in self.ranked
        )
        return f"<table><tr><th>log p</th><th style='text-align:left'>fill</th></tr>{''.join(rows)}</table>"

    @cached_property
    def trajectory(self) -> Trajectory | None:
        """The steps that led to the fill, built on first use."""
        return self.steps() if self.steps is not None else None

    @property
    def ranked(self) -> tuple[Fill, ...]:
        """This fill and its alternatives."""
        return (self, *self.alternatives)

    def to_json(self, trace: bool = False) -> dict[str, Any]:
        record: dict[str, Any] = {"text": self.text, "spans": list(self.spans), "log_prob": round(self.log_prob, 6)}
        if trace and self.trajectory is not None:
            record["trajectory"] = self.trajectory.to_json()
        return record
