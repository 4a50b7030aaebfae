"""The wheel, installed away from the source tree, is all that a user needs to fill a blank."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from filelock import FileLock  # comes with torch

from tests.support.paths import ROOT

pytestmark = pytest.mark.slow  # a wheel is built and installed
BUILT_FROM = ["pyproject.toml", ".gitignore", "README.md", "LICENSE", "NOTICE", "src"]
MODELS = [
    f"blanklm/pretrained/{name}"
    for name in (
        "english",
        "english-small",
        "greek",
        "greek-attribution",
        "latin",
        "latin-attribution",
        "sentiment",
        "tone",
    )
]


@dataclass(frozen=True)
class Wheel:
    """A wheel file, and the folder it is installed in."""

    path: Path
    site: Path

    def names(self) -> set[str]:
        with ZipFile(self.path) as archive:
            return set(archive.namelist())

    def read(self, name: str) -> str:
        """A file of the wheel's metadata folder."""
        folder = "-".join(self.path.name.split("-")[:2]) + ".dist-info"
        with ZipFile(self.path) as archive:
            return archive.read(f"{folder}/{name}").decode()

    def metadata(self) -> Message:
        return HeaderParser().parsestr(self.read("METADATA"))

    def python(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run Python in an empty folder, with the installed wheel before everything else and no network."""
        environment = os.environ | {"PYTHONPATH": str(self.site), "HF_HUB_OFFLINE": "1"}
        return run([sys.executable, *arguments], cwd=folder, env=environment)


def run(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", **options)
    assert done.returncode == 0, f"{' '.join(command)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def build(folder: Path) -> None:
    """Build the wheel from a copy of the tree, so that no build output lands in it, and install it."""
    tree = folder / "tree"
    tree.mkdir()
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, tree / name)
    output = folder / "dist"
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(output), str(tree)])
    (wheel,) = output.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel)])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """Built once a session: where the tests run in several processes, the first to come here builds for all."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "wheel"
    with FileLock(shared / "wheel.lock"):
        if not (folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            (folder / "built").touch()
    (path,) = (folder / "dist").glob("*.whl")
    return Wheel(path, folder / "site")


def source_version() -> str:
    """The version as pyproject.toml says to find it: the ``__version__`` of the file that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    tree = ast.parse((ROOT / project["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return ast.literal_eval(node.value)
    raise AssertionError("no __version__")


def test_the_installed_package_is_imported_and_has_the_version(wheel: Wheel, tmp_path: Path):
    program = "import blanklm, json; print(json.dumps([blanklm.__file__, blanklm.__version__]))"
    file, version = json.loads(wheel.python("-c", program, folder=tmp_path).stdout)
    assert Path(file) == wheel.site / "blanklm" / "__init__.py"
    assert version == wheel.metadata()["Version"] == source_version()


def test_the_citation_names_the_version():
    assert f"\nversion: {source_version()}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_wheel_is_typed_and_has_the_whole_models(wheel: Wheel):
    files = {f"{model}/{name}" for model in MODELS for name in ("config.json", "tokenizer.json", "model.safetensors")}
    assert wheel.names() >= {"blanklm/py.typed"} | files


def test_the_wheel_is_below_the_limit_of_the_package_index(wheel: Wheel):
    """100 MB; with some room for the models to grow."""
    assert wheel.path.stat().st_size < 95e6


def test_the_wheel_has_every_file_of_the_source_tree_and_nothing_else(wheel: Wheel):
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "blanklm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel.names() if ".dist-info/" not in name} == source


def test_the_licence_files_are_in_the_metadata(wheel: Wheel):
    assert wheel.metadata()["License-Expression"] == "Apache-2.0 AND CC-BY-SA-4.0"
    assert set(wheel.metadata().get_all("License-File")) == {"LICENSE", "NOTICE"}
    for name in ("LICENSE", "NOTICE"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text.strip() and wheel.read(f"licenses/{name}") == text


def test_the_notice_has_an_entry_for_every_model_and_every_folder_of_data():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:src|tests)/[\w/.-]+\w", notice))
    assert not [name for name in named if not (ROOT / name).exists()]
    for model in MODELS:
        *_, name = model.split("/")
        assert f"src/{model}" in named or f"and {name} " in notice, name
    assert {"src/blanklm/restoration/formulae", "src/blanklm/restoration/accents", "tests/fixtures/yelp-words"} <= named


def test_the_command_is_declared(wheel: Wheel):
    assert "blanklm = blanklm.cli:main" in wheel.read("entry_points.txt").splitlines()


def test_the_installed_package_fills_blanks_with_the_bundled_model(wheel: Wheel, tmp_path: Path):
    done = wheel.python("-m", "blanklm", "fill", "They also have ___ which ___ .", folder=tmp_path)
    (line,) = done.stdout.splitlines()
    assert line.startswith("They also have ")
    assert " which " in line
    assert "_" not in line
