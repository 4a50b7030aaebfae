"""How long the generators run: a few seconds each, or BLANKLM_HOSTILE_SECONDS of them."""

import os

import pytest


@pytest.fixture
def seconds() -> float:
    return float(os.environ.get("BLANKLM_HOSTILE_SECONDS", 3))
