"""Calibration of ``choose``: what is fitted on which questions, and what is reported."""

import numpy as np
import pytest

from blanklm.paper.tables import choosing
from blanklm.paper.tasks.choices import Asked
from tests.support.paths import YELP_WORDS

OPTIONS = (("a",), ("b",))


def questions(count, right):
    """Questions of two options of which the share ``right`` has the first for an answer."""
    return [Asked("___", OPTIONS, 0 if number < right * count else 1) for number in range(count)]


@pytest.fixture
def measured(monkeypatch):
    """Held-out questions whose first half is answered as surely as the model says, and whose second half is not."""
    made = questions(200, 0.9) + questions(200, 0.6)
    by_test = {"msr": questions(50, 0.6), "sat": questions(20, 0.6)}
    monkeypatch.setattr(choosing, "read_corpus", lambda *name: iter(()))
    monkeypatch.setattr(choosing, "of_any_length", lambda texts, count: made)
    monkeypatch.setattr(choosing, "sentence_completion", by_test.__getitem__)
    always = np.log([0.9, 0.1])
    monkeypatch.setattr(
        choosing, "log_probs", lambda model, asked: (np.tile(always, (len(asked), 1)), np.ones((len(asked), 2)))
    )
    return choosing.measure(YELP_WORDS, "cpu", {0, 1})


def test_the_temperature_is_fitted_on_one_half_and_reported_on_the_other(measured):
    assert measured["temperature"] == pytest.approx(1.0)
    held_out = measured["held_out"]
    assert held_out["fitted"]["questions"] == 200 and held_out["fitted"]["accuracy"] == pytest.approx(0.6)
    assert held_out["fitted"]["ece"] == pytest.approx(0.3, abs=0.01)  # 0.9 is said, 0.6 is right


def test_questions_that_were_seen_in_training_come_apart(measured):
    assert measured["msr"]["seen"]["questions"] == 2 and measured["msr"]["unseen"]["questions"] == 48
    assert measured["msr"]["seen"]["accuracy"] == 1.0 and "seen" not in measured["sat"]
    low, high = measured["msr"]["fitted"]["interval"]
    assert low < 0.6 < high
