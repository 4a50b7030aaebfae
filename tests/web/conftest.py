"""The built page and a plain server for it."""

import os
import shutil

import pytest
from filelock import FileLock  # comes with torch

from blanklm import BlankLM
from tests.support.browser import chromium
from tests.support.site import build_script, served


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Built once a session: where the tests run in several processes, the first to come here builds for all."""
    chromium()
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    page, script = shared / "web", build_script()
    with FileLock(shared / "web.lock"):
        if not (shared / "web.built").exists():
            shutil.rmtree(page, ignore_errors=True)
            try:
                script.build(page)
            except script.NotFetchedError as error:
                pytest.skip(str(error))
            (shared / "web.built").touch()
    return page


@pytest.fixture(scope="module")
def site(folder, tmp_path_factory):
    with served(folder, tmp_path_factory.mktemp("log") / "requests.txt") as site:
        yield site


@pytest.fixture(scope="module")
def english() -> BlankLM:
    return BlankLM.from_pretrained("english-small", device="cpu")
