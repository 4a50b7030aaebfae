"""Servers for the tests: in this process, and as a process of their own."""

import re
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import sync_playwright

from blanklm import BlankLM
from blanklm.serve.app import create_app
from blanklm.serve.limits import Limits
from tests.serve.browser import chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = chromium(tmp_path_factory)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def model() -> BlankLM:
    """Of words, small and quick, whatever the default is."""
    return BlankLM.from_pretrained("yelp-words", device="cpu")


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


@contextmanager
def client_of(model, limits=None, **options):
    with TestClient(create_app({"words": model}, limits or Limits(), **options), raise_server_exceptions=False) as c:
        yield c


@pytest.fixture(scope="session")
def client(model):
    with client_of(model) as client:
        yield client


class Process:
    """``blanklm serve`` as a real process."""

    def __init__(self, *arguments: str, port: int = 0) -> None:
        model = () if "--model" in arguments else ("--model", "yelp-words")
        command = [sys.executable, "-m", "blanklm", "serve", "--port", str(port), *model, *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        match = re.search(r"http://\S+:(\d+)/", line)
        assert match, line + self.process.stderr.read()
        self.url, self.port = match[0].rstrip("/"), int(match[1])

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextmanager
def served(*arguments: str, port: int = 0):
    process = Process(*arguments, port=port)
    try:
        yield process
    finally:
        process.end()
