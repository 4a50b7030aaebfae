"""Debian's Chromium, driven by Playwright: found, or installed with apt-get where that can be done."""

import os
import shutil
import subprocess

import pytest
from filelock import FileLock

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str:
    """Install it, as root on Debian; the reason it could not be done, empty if it was."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "it is not installed, and only root on Debian can have it installed by the tests"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    packages = ["chromium", "fonts-dejavu-core"]
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            return f"{' '.join(command)} failed: {done.stderr[-500:]}"
    return ""


def chromium(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the browser. Where there is none the tests that need it fail in CI, and are skipped elsewhere."""
    shared = tmp_path_factory.getbasetemp()
    folder = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with FileLock(folder / "chromium.lock"):  # of several test processes one installs, the others wait
        reason = "" if find() else install()
    found = find()
    if found is None:
        message = f"no Chromium: {reason}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    return found
