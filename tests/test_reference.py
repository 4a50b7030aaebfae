"""docs/reference.md says what the docstrings say, and the generator shows what is public and only that."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "build_reference.py"

SAMPLE = '''
"""A room for samples. It has one equation: a_1 < b.

Canvas texts write ``<eos>`` and ``___`` as they are; outside code, <eos> and ___ are escaped.

>>> join("a", "b")
'a b'
"""

import a_library_that_does_not_exist
from dataclasses import dataclass, field

SEPARATOR = " "


@dataclass(frozen=True)
class Blank:
    """A hole."""

    min: int = 1
    max: int | None = None  # no limit
    names: tuple[str, ...] = field(default=("a", "b"))
    """What is in it,
    by name."""
    _cache: int = 0

    @property
    def length(self) -> int | None:
        """The length, where it is known."""

    @classmethod
    def exactly(cls, length: int) -> "Blank":
        return cls(length, length)

    def _check(self) -> None:
        """Private."""


class Model(a_library_that_does_not_exist.Module):
    """Fills blanks."""

    def __init__(self, width: int = 8) -> None:
        """``width`` is even."""

    def __len__(self) -> int:
        return 0

    def fill(self, text: str, /, *texts: str, order: str = "confident", **options: object) -> list[str]:
        """One text in, one text out.

            model.fill("a ___ .")

        A list in, a list out.
        """


class _Hidden:
    """Private."""


def join(left, right="b", *, separator: str = SEPARATOR) -> str:
    """Both, with a space between."""


async def a_long_signature(first_parameter: dict[str, int], second_parameter: dict[str, int], third: int = 3) -> None:
    pass


def _hidden() -> None:
    """Private."""
'''

EXPECTED = """\
# Reference

Written by `python docs/build_reference.py` from the docstrings: change them, not this file.

## Contents

- [`sample`](#sample): The sample package.
  - [`sample.join`](#samplejoin)
    - [`join`](#join)
  - [`sample.room`](#sampleroom): A room for samples.
    - [`Blank`](#class-blank), [`Model`](#class-model), [`join`](#join-1), [`a_long_signature`](#a_long_signature)
- [`sample.inner`](#sampleinner)
  - [`sample.inner.empty`](#sampleinnerempty): Nothing public here.

## `sample`

The sample package.

Public names: `Blank`, `join`.

### `sample.join`

#### `join`

```python
def join()
```

### `sample.room`

A room for samples. It has one equation: a_1 &lt; b.

Canvas texts write ``<eos>`` and ``___`` as they are; outside code, &lt;eos> and \\_\\_\\_ are escaped.

```python
>>> join("a", "b")
'a b'
```

#### class `Blank`

```python
@dataclass(frozen=True)
class Blank
```

A hole.

- `min: int = 1`
- `max: int | None = None`: no limit
- `names: tuple[str, ...] = field(default=("a", "b"))`: What is in it, by name.

##### `Blank.length`

```python
@property
def length(self) -> int | None
```

The length, where it is known.

##### `Blank.exactly`

```python
@classmethod
def exactly(cls, length: int) -> "Blank"
```

#### class `Model`

```python
class Model(a_library_that_does_not_exist.Module)
    def __init__(self, width: int = 8) -> None
```

Fills blanks.

``width`` is even.

##### `Model.fill`

```python
def fill(self, text: str, /, *texts: str, order: str = "confident", **options: object) -> list[str]
```

One text in, one text out.

    model.fill("a ___ .")

A list in, a list out.

#### `join`

```python
def join(left, right="b", *, separator: str = SEPARATOR) -> str
```

Both, with a space between.

#### `a_long_signature`

```python
async def a_long_signature(
    first_parameter: dict[str, int],
    second_parameter: dict[str, int],
    third: int = 3,
) -> None
```

## `sample.inner`

### `sample.inner.empty`

Nothing public here.
"""


@pytest.fixture
def build_reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_reference", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "build_reference", module)  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A package with public and private modules; it could not be imported."""
    package = tmp_path / "sample"
    files = {
        "__init__.py": '"""The sample package."""\n\n__all__ = ["Blank", "join"]\n',
        "__main__.py": '"""Not shown."""\n',
        "_private.py": '"""Not shown."""\n',
        "_folder/module.py": '"""Not shown."""\n',
        "join.py": "def join(): ...\n",
        "room.py": SAMPLE,
        "inner/empty.py": '"""Nothing public here."""\n\nvalue = 1\n',
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    return package


def test_the_committed_reference_is_up_to_date():
    check = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_a_sample_package_is_rendered_exactly(build_reference: ModuleType, sample: Path):
    assert build_reference.render(sample) == EXPECTED


def test_check_tells_an_old_reference_from_a_new_one(
    build_reference: ModuleType, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(build_reference, "PACKAGE", sample)
    monkeypatch.setattr(build_reference, "OUTPUT", tmp_path / "reference.md")

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["build_reference.py", *arguments])
        return build_reference.main()

    assert run("--check") == 1  # there is none
    assert run() == 0
    assert run("--check") == 0
    with (sample / "room.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef another() -> None: ...\n")
    assert run("--check") == 1
    assert run() == 0
    assert run("--check") == 0


def test_a_module_that_does_not_parse_is_named(
    build_reference: ModuleType,
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    (sample / "room.py").write_text("x = 1\ndef half(\n", encoding="utf-8")
    monkeypatch.setattr(build_reference, "PACKAGE", sample)
    monkeypatch.setattr(sys, "argv", ["build_reference.py", "--check"])
    assert build_reference.main() == 1
    assert "room.py:2" in capsys.readouterr().err
