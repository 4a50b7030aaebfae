"""Servers for the tests: in this process, and as a process of their own."""

import time

import pytest
from playwright.sync_api import sync_playwright

from blanklm import BlankLM
from tests.support.browser import chromium
from tests.support.paths import YELP_WORDS
from tests.support.serving import client_of


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
def model() -> BlankLM:
    """Of words, small and quick, whatever the default is."""
    return BlankLM.from_pretrained(YELP_WORDS, device="cpu")


class Slowed:
    """A model whose passes take a while and are counted."""

    def __init__(self, model, seconds):
        self.model, self.seconds, self.passes = model, seconds, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def eval(self):
        return self

    def score(self, canvases, *rest):
        self.passes.append(len(canvases))
        time.sleep(self.seconds)
        return self.model.score(canvases, *rest)

    def action_log_probs(self, tokens, *rest):
        self.passes.append(len(tokens))
        time.sleep(self.seconds)
        return self.model.action_log_probs(tokens, *rest)


@pytest.fixture
def slowed(model):
    """A language model that takes ``seconds`` a pass; ``slowed.model.passes`` has the canvases of each pass so far."""

    def make(seconds: float) -> BlankLM:
        return BlankLM(Slowed(model.model, seconds), model.tokenizer, model.about)

    return make


@pytest.fixture(scope="session")
def client(model):
    with client_of(model) as client:
        yield client
