"""Small models and texts that many tests share."""

import io
import os
import sys

import pytest
import torch
from hypothesis import settings

from blanklm import cli
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.mixed_lblm import MixedConfig, MixedLBLM
from blanklm.restoration.restorer import Restorer

# Property tests: 200 cases each, the same every time; BLANKLM_CASES=10000 is the long run.
CASES = os.environ.get("BLANKLM_CASES")
settings.register_profile(
    "blanklm", max_examples=int(CASES or 200), derandomize=CASES is None, deadline=None, database=None
)
settings.load_profile("blanklm")

torch.set_num_threads(1)  # tests run in several processes, and small tensors gain nothing from more threads


def make_blm(vocabulary: int = 12, seed: int = 0, spread: float = 8.0, **config) -> BLM:
    """A random BLM whose weights are spread enough that its distributions are far from uniform."""
    torch.manual_seed(seed)
    model = BLM(BLMConfig(vocabulary, EncoderConfig(2, 2, 16, 32, dropout=0.0), sides_hidden=16, **config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(spread)
    return model.eval()


@pytest.fixture(scope="session")
def blm() -> BLM:
    return make_blm()


GREEK = "αβγδεζηθικλμνξοπρστυφχψωϛϟϡ .-#"


def make_restorer(alphabet: str = GREEK, seed: int = 0, spread: float = 8.0, **config) -> Restorer:
    """A restorer with a random mixed L-BLM, whose restorations are nonsense of the right length."""
    torch.manual_seed(seed)
    tokenizer = Tokenizer.train("character", [alphabet])
    settings = {"max_length": 200, "longest_blank": 40} | config
    model = MixedLBLM(MixedConfig(len(tokenizer), EncoderConfig(1, 2, 16, 32, dropout=0.0), **settings))
    model.know(tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(spread)
    return Restorer(model, tokenizer, {"name": "random"})


class Stdin(io.TextIOWrapper):
    def __init__(self, data, terminal):
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def blanklm(capsys, monkeypatch):
    """Run a command in this process, a small word model being the default: (exit code, lines of stdout, stderr)."""
    monkeypatch.setattr("blanklm.pretrained.DEFAULT", "yelp-words")

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
