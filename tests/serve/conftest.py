"""Models and a client for the tests of the server."""

import time

import pytest

from blanklm import BlankLM
from tests.support.paths import YELP_WORDS
from tests.support.serving import client_of


@pytest.fixture(scope="session")
def model() -> BlankLM:
    """A small word model, independent of the default."""
    return BlankLM.from_pretrained(YELP_WORDS, device="cpu")


class SlowModel:
    """A model that counts its passes and takes a while for each."""

    def __init__(self, model, seconds):
        self.model, self.seconds, self.passes = model, seconds, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def eval(self):
        return self

    def for_blanks(self, blanks):
        return self

    def score(self, canvases, *rest):
        self.passes.append(len(canvases))
        time.sleep(self.seconds)
        return self.model.score(canvases, *rest)

    def action_log_probs(self, tokens, *rest):
        self.passes.append(len(tokens))
        time.sleep(self.seconds)
        return self.model.action_log_probs(tokens, *rest)


class SlowWriter(SlowModel):
    """The same of a model that writes spans from left to right, their lengths first."""

    told = "spans"

    @property
    def device(self):
        return self.model.device

    def score_spans(self, canvases, *rest):
        self.passes.append(len(canvases))
        time.sleep(self.seconds)
        return self.model.score_spans(canvases, *rest)


@pytest.fixture
def slow_writer() -> BlankLM:
    """``english-small``, which takes a while for each pass."""
    english = BlankLM.from_pretrained("english-small", device="cpu")
    return BlankLM(SlowWriter(english.model.for_blanks("spans"), 0.02), english.tokenizer, english.about)


@pytest.fixture
def slowed(model):
    """Make a language model that takes ``seconds`` per pass; its ``model.passes`` lists the canvases of each pass."""

    def make(seconds: float) -> BlankLM:
        return BlankLM(SlowModel(model.model, seconds), model.tokenizer, model.about)

    return make


@pytest.fixture(scope="session")
def client(model):
    with client_of(model) as client:
        yield client
