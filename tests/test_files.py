"""An output is whole or not there, and has the permissions that its owner asks for."""

import os
import resource
import signal
import stat
import subprocess
import sys

import pytest

from blanklm.errors import CheckpointError
from blanklm.files import leftovers, replacing, write_whole
from tests.support.models import make_restorer
from tests.support.paths import YELP_WORDS


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def private():
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_a_new_file_has_the_permissions_of_the_umask_and_an_old_one_keeps_its_own(tmp_path, private):
    write_whole(tmp_path / "new", b"1")
    (tmp_path / "shared").write_bytes(b"")
    (tmp_path / "shared").chmod(0o664)
    write_whole(tmp_path / "shared", b"2")
    assert permissions(tmp_path / "new") == 0o600 and permissions(tmp_path / "shared") == 0o664


@pytest.mark.slow
def test_no_command_writes_anything_for_others_under_a_private_umask(tmp_path):
    """Filled shards, a run's model, states and metrics, and a restored text."""
    from blanklm.training import checkpoint

    restorer = make_restorer()
    checkpoint.save(tmp_path / "greek", restorer.model, restorer.tokenizer, {"language": "greek"})
    (tmp_path / "in.txt").write_text("the ___[1] .\n" * 20)
    out = tmp_path / "out"
    out.mkdir()
    fill = ["fill", "--file", "in.txt", "--out", "out/filled", "--workers", "1", "--model", YELP_WORDS]
    train = ["train", "in.txt", "--out", "out/run", "--size", "tiny", "--steps", "2", "--save-every", "1"]
    restore = ["restore", "α[...] β", "--out", "out/restored", "--model", "greek", "--abstain-below", "0"]
    for command in (fill, train, restore):
        subprocess.run(
            [sys.executable, "-m", "blanklm", *command], cwd=tmp_path, umask=0o077, check=True, capture_output=True
        )
    written = [path for path in out.rglob("*") if path.is_file() or path.parent != out]
    assert {"in.txt.jsonl", "model.safetensors", "metrics.jsonl", "restored"} <= {path.name for path in written}
    assert [path for path in written if permissions(path) & 0o077] == []


def test_a_link_stays_a_link_to_what_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"2"


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", b"whole")
    assert os.read(reader, 99) == b"whole" and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)


def test_a_name_of_the_greatest_length_can_be_written_and_its_leftovers_are_found(tmp_path):
    path = tmp_path / ("ω" * 127)
    write_whole(path, b"1")
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
        assert list(leftovers(path)) == [temporary]
        raise KeyboardInterrupt
    assert path.read_bytes() == b"1" and [*leftovers(path)] == []


@pytest.mark.parametrize("place", ["missing/file", "folder"])
def test_what_cannot_be_written_is_one_line(tmp_path, place):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="cannot write") as error:
        write_whole(tmp_path / place, b"1")
    assert ".tmp" not in str(error.value)


def test_restore_out_on_a_full_disk_leaves_the_document_that_was_there(tmp_path, blanklm):
    """A limit on the size of a file stands for the full disk: the write fails after some bytes."""
    restorer = make_restorer()
    from blanklm.training import checkpoint

    checkpoint.save(tmp_path / "greek", restorer.model, restorer.tokenizer, {"language": "greek"})
    document = tmp_path / "document.txt"
    document.write_text("α[...] β " + "γ" * 5000, encoding="utf-8")
    before, limits = document.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        model = ["--model", tmp_path / "greek", "--abstain-below", 0, "--parallels", 0]
        code, _, said = blanklm("restore", "--file", document, "--out", document, *model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert code == 1 and said.count("\n") == 1 and "cannot write" in said
    assert document.read_bytes() == before and [*leftovers(document)] == []
