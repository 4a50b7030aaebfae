"""Lines of any bytes, JSON of any shape and options of any value: one answer for each, or one line that says why not.

BLANKLM_HOSTILE_SECONDS=3600 pytest tests/hostile/test_lines.py     an hour of each
"""

import io
import json
import math
import time
from dataclasses import fields
from random import Random

import pytest

from blanklm.api import BlankLM
from blanklm.bulk.lines import EveryBlank, Line, answers, lines_in
from blanklm.choosing.options import ChooseOptions
from blanklm.core.template import Template
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.errors import BlankLMError
from blanklm.repairing.options import RepairOptions
from blanklm.restoration.options import RestoreOptions
from blanklm.training.config import FitOptions, TrainingConfig
from blanklm.transfer.options import TransferOptions
from tests.support.paths import YELP_WORDS

PIECES = [
    b"the food ", b"was ", b"good .", b"___", b"___[1]", b"___[2-3]", b"___[", b"]", b"\\", b"____", b" ", b"  ",
    b"\r", b"\t", b"\x00", b"\x0b", b"\x1c", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80", b"\xcc\x80", b"<eos>", b"<blank>", b"<unk>", b"___[0]", b"___[999999999]", b"___[-]",
    "ñ “x”".encode(), b"x" * 300,
]  # fmt: skip
NUMBERS = [0, 1, 2, -1, 3.5, 1e20, 10**20, 10**400, math.nan, math.inf, -math.inf, 2**31, 2**63, True, 1e308, 5e-324]
WORDS = ["good", "the food", "", " ", "<eos>", "<pad>", "\ud800", "x" * 500, "\n", "___", "2=good", "²", "ﬁ"]
KEYS = ["min", "max", "ban", "require", "only", "text", "input", "constraints", "maximum", ""]


@pytest.fixture(scope="module")
def model():
    return BlankLM.from_pretrained(YELP_WORDS, "cpu")


def any_value(random: Random, deep: int = 3):
    """A JSON value: numbers that no integer holds, words that are no text, lists and objects within each other."""
    kind = random.randrange(4 + 2 * (deep > 0))
    if kind < 4:
        return random.choice([random.choice(NUMBERS), random.choice(WORDS), None, random.random() < 0.5])
    if kind == 4:
        return [any_value(random, deep - 1) for _ in range(random.randrange(4))]
    return {random.choice(KEYS): any_value(random, deep - 1) for _ in range(random.randrange(4))}


def any_record(random: Random):
    text = " ".join(random.choice(["the", "food", "___", "___[1]", "good", "___[2]"]) for _ in range(5))
    if random.random() < 0.2:
        return any_value(random)
    constraint = {random.choice(KEYS[:5]): any_value(random, 1) for _ in range(random.randrange(3))}
    return {random.choice(["text", "input"]): random.choice([text, text, any_value(random)]), "constraints": constraint}


def check(model: BlankLM, lines: list[Line], options, **settings) -> None:
    given = [answer for group in answers(model, lines, options, EveryBlank(**settings)) for answer in group]
    assert [answer.line for answer in given] == lines
    for answer in given:
        json.dumps(answer.to_json())
        if answer.error is not None:
            assert answer.error and len(answer.error) <= 1000 and "please report" not in answer.error, answer
            continue
        for fill in answer.fills:
            rest = fill.text
            for piece, span in zip(Template.parse(answer.line.text).pieces, (*fill.spans, ""), strict=True):
                assert rest.startswith(piece), answer.line
                rest = rest[len(piece) :].removeprefix(" " if rest[len(piece) :].startswith(f" {span}") else "")
                assert rest.startswith(span), answer.line
                rest = rest[len(span) :]
            assert not rest and "<eos>" not in " ".join(fill.spans)


def test_every_line_of_any_bytes_has_its_answer(model, seconds):
    random, end = Random(25), time.monotonic() + seconds
    while time.monotonic() < end:
        raw = [b"".join(random.choices(PIECES, k=random.randrange(8))) for _ in range(8)]
        data = random.choice([b"\n", b"\r\n"]).join(raw)
        lines = list(lines_in(io.BytesIO(data), "generated", jsonl=False))
        whole = "".join(line.mark + line.text + line.ending for line in lines if line.error is None).encode()
        if all(line.error is None for line in lines):
            assert whole in (data, data + b"\n", data + b"\r\n"), data
        check(model, lines, random.choice([FillOptions(), FillOptions(n=2), SampleOptions()]))


def test_every_line_of_any_json_has_its_answer(model, seconds):
    random, end = Random(26), time.monotonic() + seconds
    while time.monotonic() < end:
        raw = []
        for _ in range(8):
            line = json.dumps(any_record(random)).encode()
            cut = random.randrange(len(line) + 1)
            raw.append(line if random.random() < 0.9 else line[:cut] + random.choice(PIECES) + line[cut:])
        lines = list(lines_in(io.BytesIO(b"\n".join(raw)), "generated", jsonl=True))
        settings = random.choice([{}, {}, {"max": 2}, {"ban": ("good",)}])
        check(model, lines, random.choice([FillOptions(), SampleOptions(n=2)]), **settings)


DECODING = (FillOptions, SampleOptions, EveryBlank, ChooseOptions, RepairOptions)
PRODUCTS = (*DECODING, RestoreOptions, TransferOptions, FitOptions, TrainingConfig)


def test_options_of_any_value_are_taken_or_refused_in_one_line(seconds):
    random, end = Random(27), time.monotonic() + min(seconds, 2)
    while time.monotonic() < end:
        product = random.choice(PRODUCTS)
        names = [item.name for item in fields(product) if item.type not in ("str", "bool", "str | None")]
        values = {name: any_value(random, 0) for name in random.sample(names, random.randint(1, min(3, len(names))))}
        try:
            product(**values)
        except BlankLMError as error:
            assert "\n" not in str(error) and len(str(error)) <= 1000


COMMANDS = (
    ["fill", "the ___[1] ."], ["sample", "the ___[1] ."], ["score", "the food"], ["score", "--stream", "the food"],
    ["fill", "--jsonl", "--file", "-"], ["info"], ["data"], ["models"], ["score", "--words", "a food"], ["choose"],
    ["choose", "the ___ .", "--options", "food|staff"], ["choose", "--jsonl", "--file", "-"],
    ["repair", "the food food was god ."],
)  # fmt: skip
OPTIONS = (
    "-n", "--beam", "--order", "--length-penalty", "--threshold", "--min", "--max", "--ban", "--require", "--only",
    "--temperature", "--top-k", "--top-p", "--seed", "--orders", "--method", "--blanks", "--model", "--json",
    "--options", "--alternative", "--per-word", "--keep", "--most", "--margin", "--rounds", "--diff", "--words",
)  # fmt: skip
ARGUMENTS = (
    "0",
    "1",
    "2",
    "-1",
    "3",
    "nan",
    "inf",
    "1e308",
    "9" * 30,
    "",
    " ",
    "word",
    "2=good",
    "\ud800",
    "²",
    "___",
    "--",
)


def test_a_command_line_of_any_options_ends_without_a_traceback(blanklm, seconds):
    random, end = Random(28), time.monotonic() + seconds
    while time.monotonic() < end:
        command = list(random.choice(COMMANDS))
        for _ in range(random.randrange(3)):
            command += [random.choice(OPTIONS), random.choice(ARGUMENTS)]
        code, _, err = blanklm(*command, stdin=b'{"text": "the ___[1] ."}\n{}\n')
        assert code in (0, 1, 2) and "Traceback" not in err and "please report" not in err, command
        assert code != 2 or len(err.splitlines()) == 1, command
