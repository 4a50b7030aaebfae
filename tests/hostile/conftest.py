"""How long each generator runs: a minute in all, or BLANKLM_HOSTILE_SECONDS each."""

import os

import pytest


@pytest.fixture
def seconds() -> float:
    return float(os.environ.get("BLANKLM_HOSTILE_SECONDS", 5))
