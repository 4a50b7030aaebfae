"""No option has a value that it cannot have, whoever gives it: Python, the command line or a request."""

import math
from dataclasses import fields

import pytest

from blanklm.bulk.lines import EveryBlank
from blanklm.choosing.options import ChooseOptions
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.errors import BlankLMError
from blanklm.options import _kinds, check_number
from blanklm.repairing.options import RepairOptions
from blanklm.restoration.options import RestoreOptions
from blanklm.training.config import FitOptions, TrainingConfig
from blanklm.transfer.options import TransferOptions

DECODING = (FillOptions, SampleOptions, EveryBlank, ChooseOptions, RepairOptions)
PRODUCTS = (*DECODING, RestoreOptions, TransferOptions, FitOptions, TrainingConfig)
NUMBERS = [(cls, item) for cls in PRODUCTS for item in fields(cls) if _kinds(cls)[item.name][1]]


def bad_values(item):
    """What no number may be, and what is just beyond the limits of this one."""
    limits = item.metadata.get("limits", {})
    yield from (math.nan, math.inf, -math.inf, "1", True, [1], 1j)
    yield from (bound - 1 for name, bound in limits.items() if name in ("ge", "gt"))
    yield from (bound + 1 for name, bound in limits.items() if name in ("le", "lt"))
    yield from (bound for name, bound in limits.items() if name in ("gt", "lt"))


@pytest.mark.parametrize(("cls", "item"), NUMBERS, ids=lambda x: getattr(x, "name", getattr(x, "__name__", "")))
def test_every_number_option_is_checked(cls, item):
    assert item.metadata.get("limits"), f"{cls.__name__}.{item.name} says no limits"
    for value in bad_values(item):
        with pytest.raises(BlankLMError, match=rf"^{item.name} must be [^\n]+$"):
            cls(**{item.name: value})


@pytest.mark.parametrize("cls", PRODUCTS)
def test_every_choice_is_checked(cls):
    for item in fields(cls):
        if _kinds(cls)[item.name][0]:
            with pytest.raises(BlankLMError, match=f"{item.name} must be .*, not 'nonesuch'"):
                cls(**{item.name: "nonesuch"})


@pytest.mark.parametrize("cls", PRODUCTS)
def test_every_option_of_words_is_checked(cls):
    for item in fields(cls):
        if _kinds(cls)[item.name][2]:
            for value in ("word", 5, [5], ("word", None)):
                with pytest.raises(BlankLMError, match=f"{item.name} must be a list of texts, not "):
                    cls(**{item.name: value})


def test_a_number_of_any_library_will_do():
    numpy = pytest.importorskip("numpy")
    assert FillOptions(beam=numpy.int64(3)).beam == 3 and FillOptions(length_penalty=numpy.float32(1)).n == 1
    check_number("seed", 0, ge=0, lt=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "t.txt", "--out", "x", "--seed", "8589934592"], "seed must be below 2147483648"),
        (["train", "t.txt", "--out", "x", "--weight-decay", "nan"], "weight_decay must be a number, not nan"),
        (["train", "t.txt", "--out", "x", "--learning-rate", "1e300"], "learning_rate must be at most"),
        (["train", "t.txt", "--out", "x", "--dropout", "nan"], "dropout must be a number, not nan"),
        (["fill", "a ___", "--beam", "2", "--length-penalty", "1e308"], "length_penalty must be at most 10"),
        (["fill", "a ___", "--beam", "5000000"], "beam must be at most 1000000"),
        (["score", "a", "--stream", "--orders", "-1"], "orders must be at least 1"),
        (["score", "a", "--stream", "--seed", "-1"], "seed must be 0 or more"),
        (["score", "a", "--orders", "-1"], "orders must be at least 1"),
        (["score", "a", "--seed", str(10**30)], "seed must be below"),
        (["sample", "--seed", str(10**30)], "seed must be below"),
        (["sample", "--temperature", "1e308"], "temperature must be at most 100"),
        (["restore", "a[...]", "--abstain-below", "nan"], "abstain_below must be a number, not nan"),
        (["transfer", "a b", "--to", "negative", "--content", "nan"], "content must be a number, not nan"),
        (["transfer", "a b", "--to", "negative", "--seed", str(10**30)], "seed must be below"),
        (["reproduce", "infilling", "--out", "x", "--seconds", "nan"], "seconds must be a number, not nan"),
        (["reproduce", "infilling", "--out", "x", "--jobs", "0"], "jobs must be at least 1"),
        (["evaluate", "infilling", "--file", "x", "--seed", str(10**30)], "seed must be below"),
        (["evaluate", "infilling", "--file", "x", "--ratios", "nan"], "--ratios takes percentages"),
    ],
)
def test_a_number_out_of_range_gets_one_line(blanklm, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("good food .\nnice staff .\n")
    code, out, err = blanklm(*arguments)
    assert (code, out) == (1, []) and len(err.splitlines()) == 1 and message in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]
