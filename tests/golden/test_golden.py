"""The program gives what it gave when the golden outputs were recorded.

Strings and structure are compared exactly, numbers within 2e-3: other processors add up in another order, which moves
the last digits of a float32. On the machine that recorded them, ``python tests/golden/record.py --check`` is exact.
"""

import pytest

from tests.golden.record import computed, difference, recorded

TOLERANCE = 2e-3


def check(name: str, every: int = 1) -> None:
    """Compare every ``every``-th case with its record."""
    differs = difference(recorded(name, every), computed(name, every), TOLERANCE, name)
    assert differs is None, differs


def test_some_fills():
    check("fills", every=8)


@pytest.mark.slow
def test_fills():
    check("fills")


@pytest.mark.slow
def test_scores():
    check("scores")


def test_some_restorations():
    check("restorations", every=4)


@pytest.mark.slow
def test_restorations():
    check("restorations")


@pytest.mark.slow
def test_transfers():
    check("transfers")


@pytest.mark.slow
def test_losses():
    check("losses")
