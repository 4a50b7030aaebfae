"""Canvases, tokenizers and the check of every constraint."""

from collections import Counter
from typing import get_args

import torch

from blanklm.core.special import BLANK
from blanklm.core.template import Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.budget import Rules
from blanklm.decoding.constraint import Constraint, compile_rules
from blanklm.decoding.fill import fill
from blanklm.decoding.fill import sample as draw_samples
from blanklm.decoding.options import FillOptions, SampleOptions, SequentialOrder
from blanklm.decoding.request import Request
from tests.support.models import make_blm

ORDERS = get_args(SequentialOrder)
WORDS = Tokenizer.train("word", ["a b c"])
MODEL = make_blm(vocabulary=len(WORDS), seed=3, spread=12.0)
LIKELY_TO_STOP = make_blm(vocabulary=len(WORDS), seed=3, spread=12.0)
LIKELY_TO_STOP.sides_out.bias.data += torch.tensor([1.5, 0, 0, 0])


def text_of(canvas, constraints=None, tokenizer=WORDS, max_length=40, longest_span=None):
    template = Template.parse(canvas)
    ids, spaces = tokenizer.encode_template(template)
    constraints = constraints or [Constraint()] * len(template.blanks)
    rules = compile_rules(template, constraints, spaces, tokenizer)
    return Request(template, tuple(spaces), tuple(ids), Rules(rules, max_length, tokenizer, longest_span))


def beam_search(model, requests, **options):
    """The drafts that ``fill`` finds with these options."""
    return fill(model, requests, FillOptions(**options))


def sample(model, requests, order="confident", numbers=None, **options):
    """The drafts that ``sample`` draws with these options."""
    return draw_samples(model, requests, SampleOptions(order=order, **options), numbers)


def spans_of(draft, text):
    return tuple(tuple(span) for span in draft.spans(len(text.rules.by_blank)))


def check_constraints(mode, draft, text, template, constraints):
    """A finished draft keeps what was given, and every blank its length and its constraint."""
    assert draft.finished, mode
    given = [item for item, origin in zip(draft.items, draft.origins, strict=True) if origin < 0]
    assert given == [i for i in text.ids if i != BLANK]
    for span, blank, constraint in zip(spans_of(draft, text), template.blanks, constraints, strict=True):
        words = [WORDS.token(i) for i in span]
        assert max(blank.min, constraint.min or 1) <= len(words), mode
        assert len(words) <= min(blank.max or 99, constraint.max or 99), mode
        assert not set(words) & set(constraint.ban), mode
        assert not constraint.only or set(words) <= set(constraint.only), mode
        for phrase in constraint.require:
            assert f" {phrase} " in f" {' '.join(words)} ", (mode, phrase, words)
        needed = Counter(w for phrase in constraint.require for w in phrase.split())
        assert needed <= Counter(words), mode


LINES = [
    "they also have ice cream which is really good .",
    "the food was good , the service was awful !",
    "café naïve — “quoted” text 😀 ok",
] * 3


CANVAS = "They also have ___ which ___ ."
