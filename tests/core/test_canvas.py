"""The canvas, its text syntax and the paper's example trajectory, step by step."""

import itertools
import random

import pytest

from blanklm.core.canvas import Action, Canvas, Trajectory, conceal
from blanklm.core.template import Blank, Template
from blanklm.errors import CanvasError

WORDS = ["customer", "service", "is", "awesome"]


def test_the_papers_figure_2_step_by_step():
    canvas = Canvas.parse("___")
    steps = [
        (Action(0, "is", True, True), "___ is ___"),
        (Action(0, "customer", False, True), "customer ___ is ___"),
        (Action(1, "awesome", False, False), "customer ___ is awesome"),
        (Action(0, "service", False, False), "customer service is awesome"),
    ]
    for action, expected in steps:
        canvas = canvas.apply(action)
        assert str(canvas) == expected
    assert canvas.blanks == ()
    assert canvas.spans == (("customer", "service", "is", "awesome"),)


def test_the_papers_order_gives_the_papers_trajectory():
    trajectory = Trajectory.from_order(WORDS, [2, 0, 3, 1])  # (3, 1, 4, 2) in the paper, which counts from 1
    assert [str(canvas) for canvas in trajectory.canvases] == [
        "___",
        "___ is ___",
        "customer ___ is ___",
        "customer ___ is awesome",
        "customer service is awesome",
    ]
    assert trajectory.actions == (
        Action(0, "is", True, True),
        Action(0, "customer", False, True),
        Action(1, "awesome", False, False),
        Action(0, "service", False, False),
    )


@pytest.mark.parametrize("lengths", [False, True])
def test_every_order_ends_in_the_text_and_no_two_share_a_trajectory(lengths):
    trajectories = [Trajectory.from_order(WORDS, order, lengths) for order in itertools.permutations(range(4))]
    assert all(t.canvases[-1].items == tuple(WORDS) for t in trajectories)
    assert len({t.actions for t in trajectories}) == 24


@pytest.mark.parametrize("lengths", [False, True])
def test_a_canvas_depends_only_on_which_positions_are_shown(lengths):
    for order in itertools.permutations(range(4)):
        trajectory = Trajectory.from_order(WORDS, order, lengths)
        for step, canvas in enumerate(trajectory.canvases):
            assert canvas.items == conceal(WORDS, order[:step], lengths)[0].items


def test_length_aware_actions_split_the_length():
    canvas = Canvas.parse("a ___[4] b").apply(Action(0, "x", 1, 2))
    assert str(canvas) == "a ___[1] x ___[2] b"
    with pytest.raises(CanvasError, match="do not fit"):
        canvas.apply(Action(0, "y", 1, 0))


def test_a_length_budget_is_shared_by_all_descendants():
    canvas = Canvas.parse("___[3] end").apply(Action(0, "b", True, True))  # one filled, two open: full
    with pytest.raises(CanvasError, match="room for 3"):
        canvas.apply(Action(0, "a", True, False))
    done = canvas.apply(Action(0, "a", False, False)).apply(Action(0, "c", False, False))
    assert done.spans == (("a", "b", "c"),)


def test_the_last_blank_does_not_close_before_the_minimum():
    canvas = Canvas.parse("___[2-]")
    with pytest.raises(CanvasError, match="at least 2"):
        canvas.apply(Action(0, "a", False, False))
    assert canvas.apply(Action(0, "a", False, True)).apply(Action(0, "b", False, False)).spans == (("a", "b"),)


def test_adjacent_blanks_stay_apart():
    canvas = Canvas.parse("___ ___")
    canvas = canvas.apply(Action(0, "a", False, True)).apply(Action(1, "c", False, False))
    assert str(canvas.apply(Action(0, "b", False, False))) == "a b c"
    assert canvas.apply(Action(0, "b", False, False)).spans == (("a", "b"), ("c",))


def test_acting_on_a_blank_that_is_not_there():
    with pytest.raises(CanvasError, match="no blank 1"):
        Canvas.parse("___").apply(Action(1, "a", False, False))


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        ("___", Blank()),
        ("__________", Blank()),
        ("___[3]", Blank(3, 3)),
        ("___[2-5]", Blank(2, 5)),
        ("___[ 2 - 5 ]", Blank(2, 5)),
        ("___[2-]", Blank(2)),
    ],
)
def test_how_blanks_are_written(text, blank):
    assert Template.parse(text) == Template(("", ""), (blank,))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a __ b", ("a __ b",)),  # two underscores are text
        (r"a \___ b", ("a ___ b",)),
        (r"a \___[3] b", ("a ___[3] b",)),
        (r"a \\___ b", ("a \\", " b")),
        (r"___\[1] b", ("", "[1] b")),
        ("snake___case", ("snake", "case")),
    ],
)
def test_what_is_literal(text, pieces):
    assert Template.parse(text).pieces == pieces


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I have ___[x] .", r"column 8: '___\[x\]' is not a blank"),
        ("I have ___[3", r"column 8: '___\[3' is not a blank"),
        ("___[5-2]", "minimum 5 is greater than its maximum 2"),
        ("___[0]", "at least one token"),
        ("___[0-4]", "at least one token"),
        ("one\ntwo ___[-1]", "line 2, column 5"),
    ],
)
def test_parse_errors_say_where_and_what(text, message):
    with pytest.raises(CanvasError, match=message):
        Template.parse(text)


def test_every_template_prints_as_a_text_that_parses_back_to_it():
    rng = random.Random(0)
    alphabet = ["a", " ", "_", "\\", "[", "]", "3", "\n", "_" * 3, "é"]
    tried = 0
    while tried < 3000:
        blanks = tuple(rng.choice([Blank(), Blank(3, 3), Blank(2, 5), Blank(2)]) for _ in range(rng.randrange(4)))
        pieces = tuple("".join(rng.choices(alphabet, k=rng.randrange(6))) for _ in range(len(blanks) + 1))
        if any(piece.endswith("_") for piece in pieces[:-1]):
            continue  # the one thing that cannot be written, refused below
        template = Template(pieces, blanks)
        assert Template.parse(str(template)) == template, str(template)
        tried += 1
    with pytest.raises(CanvasError, match="right after an underscore"):
        str(Template(("a_", ""), (Blank(),)))


def test_render_keeps_every_given_character():
    template = Template.parse("  I went to ___,\tthen ___!\n")
    assert template.render(["Paris", "home"]) == "  I went to Paris,\tthen home!\n"
