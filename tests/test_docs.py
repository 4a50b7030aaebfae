"""The documents say what the code does: every example is run, every number comes from results/."""

import importlib.util
import re
import tomllib

import pytest

from blanklm.paper import render
from blanklm.paper.render import sentiment, source
from blanklm.paper.tasks.sentiment import not_beaten
from tests.support.paths import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEST_COMMAND = 'pip install -c constraints.txt -e ".[dev]" && pytest -n 2'


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.slow
def test_every_example_prints_what_the_document_shows(document):
    examples = script("build_examples")
    text = document.read_text(encoding="utf-8")
    assert examples.comparable(examples.rendered(text)) == examples.comparable(text)


@pytest.mark.parametrize("document", render.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_table_comes_from_a_results_file(document):
    text = document.read_text(encoding="utf-8")
    assert render.rendered(text) == text


def test_every_table_is_shown_in_a_document():
    shown = {match[2] for path in render.documents() for match in render.PASSAGE.finditer(path.read_text())}
    assert shown == set(render.TABLES)


def test_rendering_repairs_a_stale_table_and_needs_a_checkout(tmp_path, monkeypatch, capsys):
    (tmp_path / "src" / "blanklm").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").symlink_to(ROOT / "results")
    readme = tmp_path / "README.md"
    readme.write_text("Before.\n<!-- table: fuzzing -->\nold\n<!-- end -->\nAfter.\n")
    monkeypatch.chdir(tmp_path)
    source.checkout.cache_clear()
    try:
        assert render.main(["--check"]) == 1 and "README.md is out of date" in capsys.readouterr().err
        assert render.main([]) == 0 and render.main(["--check"]) == 0
        assert readme.read_text().startswith("Before.\n<!-- table: fuzzing -->\n| target |")
        (tmp_path / "results").unlink()
        monkeypatch.setattr(source, "HERE", tmp_path / "source.py")
        source.checkout.cache_clear()
        assert render.main([]) == 1
        assert capsys.readouterr().err == "error: results/ is not here: run this command in a checkout of blanklm\n"
    finally:
        source.checkout.cache_clear()


@pytest.mark.parametrize("corpus", sentiment.CORPORA)
def test_a_chosen_row_is_ahead_of_every_published_output(corpus):
    """As docs/results.md says."""
    r = source.result(f"sentiment-{corpus}")
    published = {name: row for name, row in r["known"].items() if "bleu" in row and name != "copy of the source"}
    assert not_beaten(published, [row for name, row in r["ours"].items() if name in sentiment.CHOSEN]) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_files_exist(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (document.parent / target).exists(), target


def test_ci_runs_the_readmes_test_command_and_nothing_else():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert TEST_COMMAND in readme
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == TEST_COMMAND


def test_the_readme_maps_every_module():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "blanklm"
    for path in package.iterdir():
        if path.name.startswith(("_", "py.typed")) or path.name in ("errors.py", "special.py", "metrics.py"):
            continue
        if path.is_dir() and not any(path.rglob("*.py")):
            continue
        assert path.name.rstrip("/") in readme, path.name


def test_the_lock_has_the_constraints_versions_and_a_hash_for_each():
    pinned = dict(line.lower().replace("_", "-").split("==") for line in (ROOT / "constraints.txt").read_text().split())
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    locked = {}
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==([\w.]+)", entry).groups()
        assert "--hash=sha256:" in entry, name
        locked[name.lower().replace("_", "-")] = version
    assert {name: version for name, version in locked.items() if pinned.get(name, version) != version} == {}
    assert {"torch", "accelerate", "tokenizers", "safetensors", "ray", "hypothesis"} <= set(locked)


def test_the_constraints_pin_every_direct_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    extras = [d for group in project["optional-dependencies"].values() for d in group if not d.startswith("blanklm")]
    for dependency in [*project["dependencies"], *extras]:
        assert re.split(r"[<>=\[]", dependency)[0].lower().replace("_", "-") in pinned, dependency
