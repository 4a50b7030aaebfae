"""The page is built from what npm fetches, if that is what it should be."""

import os
import tarfile

import pytest

from blanklm.errors import BlankLMError
from tests.support.site import build_script


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The build script with an empty cache, and an npm that packs what a test lays into a folder."""
    script = build_script()
    monkeypatch.setattr(script, "CACHE", tmp_path / "cache")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return script


def write_npm(folder, line):
    npm = folder / "bin" / "npm"
    npm.write_text(f"#!/bin/sh\n{line}\n")
    npm.chmod(0o755)


def test_a_package_with_another_checksum_is_refused(script, tmp_path):
    (tmp_path / "file").write_text("something else")
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as archive:
        archive.add(tmp_path / "file", f"package/dist/{script.LIBRARY}")
    write_npm(tmp_path, f"cp {tmp_path}/package.tgz .")
    with pytest.raises(BlankLMError, match=r"what npm fetched is not onnxruntime-web") as error:
        script.build(tmp_path / "page")
    assert not isinstance(error.value, script.NotFetchedError)
    assert not (tmp_path / "cache").exists() and not (tmp_path / "page").exists()


def test_without_npm_or_a_connection_one_line_says_so(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["build.py", "--out", str(tmp_path / "page")])
    write_npm(tmp_path, "echo 'npm error code ENOTFOUND' >&2; echo 'npm error a log is there' >&2; exit 1")
    assert script.main() == 1
    wrong = "error: npm could not fetch onnxruntime-web 1.30.0 (npm error code ENOTFOUND): check the connection\n"
    assert capsys.readouterr().err == wrong
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script.main() == 1
    assert capsys.readouterr().err == "error: npm is not installed, which fetches onnxruntime-web: install Node.js\n"


def test_a_page_is_built_the_same_way_every_time(script, tmp_path):
    (tmp_path / "file").write_text("the weights")
    for name in ("a.gz", "b.gz"):
        assert script.compress(tmp_path / "file", tmp_path / name) == (tmp_path / name).stat().st_size
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
