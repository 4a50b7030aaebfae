"""The Chromium of this machine, driven by Playwright."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return the path of the browser; skip the test if there is none."""
    path = next((path for name in NAMES if (path := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no Chromium: install one of {', '.join(NAMES)} to run the tests of the page")
    return path
