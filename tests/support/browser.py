"""Find the Chromium that tests of the web page drive with Playwright."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return the path of the browser. Without one the tests that need it fail in CI and are skipped elsewhere."""
    path = next((path for name in NAMES if (path := shutil.which(name))), None)
    if path is None:
        message = f"no browser: install one of {', '.join(NAMES)}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    return path
