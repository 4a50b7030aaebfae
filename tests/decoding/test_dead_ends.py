"""Whatever can be filled is filled: an answer of "no fill" is held against an enumeration of all spans."""

from itertools import product
from random import Random

import pytest
import torch

from blanklm.core.template import Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.constraint import Constraint
from tests.support.canvases import beam_search, text_of
from tests.support.models import make_blm

WORDS = ("ab", "abc", "b", "c", "cab")
BPE = Tokenizer.train("bpe", ["ab b c ac"] * 3 + [" ab abc b c cab a"] * 2, vocabulary=268)
MODEL = make_blm(vocabulary=len(BPE), seed=3, spread=12.0)  # it likes to spell long words that nobody knows


def can_be_filled(blank, constraint):
    """Whether some words fit a blank: those of ``WORDS`` will do."""
    least, most = max(blank.min, constraint.min or 1), min(blank.max or 9, constraint.max or 9, 4)
    words = [word for word in constraint.only or WORDS if word not in constraint.ban]
    return any(
        all(f" {phrase} " in f" {' '.join(span)} " for phrase in constraint.require)
        for length in range(least, most + 1)
        for span in product(words, repeat=length)
    )


def fill(canvas, constraints, order="confident"):
    with torch.inference_mode():
        (drafts,) = beam_search(MODEL, [text_of(canvas, constraints, BPE)], order=order)
    return drafts[0].finished


@pytest.mark.parametrize("order", ["confident", "left-to-right"])
def test_constraints_that_lead_every_beam_into_a_dead_end_are_met_all_the_same(order):
    each = [Constraint(max=4, only=["cab"]), Constraint(ban=["c", "cab"]), Constraint(max=4)]
    assert fill("___[2-3] ___[2] abc ___", each, order)
    assert fill(
        "___[1-2] cab ___[3] ___[3] b", [Constraint(only=["abc"]), Constraint(ban=["abc"]), Constraint()], order
    )


@pytest.mark.slow
def test_what_an_enumeration_can_fill_is_filled():
    random, filled = Random(1), 0
    while filled < 40:
        blanks = [
            random.choice(["___[1]", "___[2]", "___[1-2]", "___[3]", "___[2-3]"]) for _ in range(random.randint(1, 3))
        ]
        canvas = " ".join(part for blank in blanks for part in (blank, random.choice(WORDS)))
        each = [
            Constraint(
                ban=random.sample(WORDS, random.randint(0, 2)),
                require=random.sample(WORDS, random.choice([0, 0, 1])),
                only=random.sample(WORDS, random.randint(1, 3)) if random.random() < 0.5 else (),
            )
            for _ in blanks
        ]
        if all(map(can_be_filled, Template.parse(canvas).blanks, each)):
            assert fill(canvas, each, random.choice(["confident", "model", "left-to-right"])), (canvas, each)
            filled += 1


@pytest.mark.parametrize("canvas", ["___[3] b", "b ___[6]", "___[4-] b", "___ b"])
def test_only_a_word_of_many_tokens_may_be_allowed(canvas):
    word = "zyxwvutsrqp"
    assert len(BPE.encode(f"a{word}")) > 8
    with torch.inference_mode():
        request = text_of(canvas, [Constraint(only=[f"a{word}"])], BPE, max_length=200, longest_span=64)
        (drafts,) = beam_search(MODEL, [request])
    (span,) = drafts[0].spans(1)
    assert set(BPE.decode(span).split()) == {f"a{word}"}


def test_what_cannot_be_filled_is_refused_in_one_line():
    from blanklm.errors import ConstraintError

    with pytest.raises(ConstraintError, match=r"no fill was found|required") as refusal:
        fill("___[1] b", [Constraint(require=["ab", "c"], max=1)])
    assert "\n" not in str(refusal.value)
