"""The documents say what the code does: every example is run, every number comes from results/."""

import gzip
import importlib.util
import json
import re
import subprocess
import sys
import tomllib

import pytest

import blanklm
from blanklm.choosing.options import CALIBRATIONS
from blanklm.paper import render
from blanklm.paper.render import sentiment, source
from tests.support.paths import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
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


@pytest.mark.slow
def test_every_command_between_the_readmes_lines_runs(tmp_path, monkeypatch):
    """Those in the prose; a server is started by the tests of serve."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = set(re.findall(r"`(blanklm [^`\n]+)`", text)) - {"blanklm serve"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.txt").write_text("The food was good.\n" * 200)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "The ___[1] was good."}\n'))
    assert {command.split()[1] for command in commands} == {"train", "fill", "restore", "transfer"}
    for command in commands:
        quickly = " --size tiny --steps 2" if command.startswith("blanklm train") else ""
        printed = script("build_examples").run_command(command + quickly)
        assert "error" not in printed.lower().replace('"errors": 0', ""), printed
    assert (tmp_path / "filled" / "a.jsonl.gz").exists() and (tmp_path / "runs" / "reviews" / "config.json").exists()


def test_the_notebook_is_the_tutorial():
    build = script("build_notebook")
    assert build.NOTEBOOK.read_text(encoding="utf-8") == build.notebook(build.PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs(tmp_path, monkeypatch):
    """With a few steps of training in place of its minutes."""
    monkeypatch.chdir(ROOT)
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict = {}
    for statements in sources:
        quick = statements.replace("minutes=3", "steps=2").replace("runs/reviews", str(tmp_path / "run"))
        exec("" if statements.startswith("%cd") else quick, names)
    assert names["mine"].about["started_from"] == "english-small" and (tmp_path / "run" / "config.json").exists()


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
    chosen = [row for name, row in r["ours"].items() if name in sentiment.CHOSEN]
    for name, row in published.items():
        assert any(ours["accuracy"] > row["accuracy"] and ours["bleu"] > row["bleu"] for ours in chosen), name


@pytest.mark.parametrize("document", [*DOCUMENTS, *GUIDES], ids=lambda path: path.name)
def test_links_and_files_exist(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (document.parent / target).exists(), target


def test_every_test_that_the_page_on_reliability_names_exists():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(?:tests/)?([\w/]*test_\w+\.py)`", page))
    assert names and [name for name in names if not (ROOT / "tests" / name).is_file()] == []


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from_pretrained" in (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")


def test_every_public_name_has_its_place_in_the_reference():
    listed = re.findall(r"^::: blanklm\.[\w.]*?(\w+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M)
    assert set(blanklm.__all__) <= set(listed)


def test_ci_runs_the_readmes_test_command_and_nothing_else():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert TEST_COMMAND in readme
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == TEST_COMMAND


def test_the_guide_maps_every_folder_in_at_most_20_lines_and_the_readme_is_short():
    code = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The code")[1].split("## Glossary")[0]
    rows = [line for line in code.splitlines() if line.startswith("|")]
    package = ROOT / "src" / "blanklm"
    folders = [path.parent.name for path in package.glob("*/__init__.py")]
    assert folders and [name for name in folders if f"`{name}/`" not in "".join(rows)] == []
    assert len(rows) <= 20 and len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pins}


def test_the_constraints_are_generated_for_any_machine():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert text.startswith("#\n# This file is autogenerated by pip-compile") and "\n#    pip-compile " in text
    assert not re.search(r"://|(?<!\w)/|@|\+", text)  # no hosts, no paths, no builds of one index
    assert pinned()["torch"] == "2.13.0"


def test_the_constraints_pin_every_direct_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [d for group in project["optional-dependencies"].values() for d in group if not d.startswith("blanklm")]
    for dependency in [*project["dependencies"], *extras]:
        assert re.split(r"[<>=\[]", dependency)[0].lower().replace("_", "-") in pinned(), dependency


@pytest.mark.parametrize("plot", sorted((ROOT / "docs" / "plots").glob("*.py")), ids=lambda path: path.stem)
def test_every_plot_script_is_importable(plot):
    spec = importlib.util.spec_from_file_location(plot.stem, plot)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.slow
def test_the_notebook_runs_and_its_assertions_hold():
    cells = json.loads((ROOT / "docs" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["repaired"].changed


def test_what_is_fitted_is_what_the_results_say():
    """The temperatures of ``choose``, and few enough false alarms of ``repair``."""
    fitted = {path.stem: json.loads(path.read_text()) for path in (ROOT / "results" / "choosing").glob("*.json")}
    assert {name: (row["temperature"], row["per_word"]) for name, row in fitted.items()} == CALIBRATIONS
    for path in (ROOT / "results" / "repairing").glob("*.json"):
        clean = json.loads(path.read_text())["clean"]
        assert clean["words"] > 1000 and clean["per_500"] <= 1, path.name
