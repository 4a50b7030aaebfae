"""Small models, a browser and what else many tests share."""

import io
import os
import sys

import pytest
import torch
from hypothesis import settings
from playwright.sync_api import sync_playwright

from blanklm import cli
from blanklm.models.blm import BLM
from tests.support.browser import chromium
from tests.support.models import make_blm
from tests.support.paths import DATA, YELP_WORDS

# Property tests: 200 cases each, the same every time; BLANKLM_CASES=10000 is the long run.
CASES = os.environ.get("BLANKLM_CASES")
settings.register_profile(
    "blanklm", max_examples=int(CASES or 200), derandomize=CASES is None, deadline=None, database=None
)
settings.load_profile("blanklm")

# Tests run in several processes, and small tensors gain nothing from more threads; nor in processes that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def blm() -> BLM:
    return make_blm()


@pytest.fixture
def corpora(monkeypatch):
    """The real corpora, of $BLANKLM_DATA or beside the checkout; where they are not, the test is skipped."""
    if not (DATA / "yahoo").is_dir() or not (DATA / "yelp").is_dir():
        pytest.skip(f"the corpora are not in {DATA}: set BLANKLM_DATA")
    monkeypatch.setenv("BLANKLM_DATA", str(DATA))


class Stdin(io.TextIOWrapper):
    def __init__(self, data, terminal):
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def blanklm(capsys, monkeypatch):
    """Run a command in this process, a small word model being the default: (exit code, lines of stdout, stderr)."""
    monkeypatch.setattr("blanklm.pretrained.DEFAULT", YELP_WORDS)

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["blanklm", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", Stdin(stdin or b"", terminal=stdin is None))
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err

    return run
