"""Files that are never half-written. Every output of every command goes through here."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

from safetensors import SafetensorError

from blanklm.errors import CheckpointError

MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")
NAME = 60  # characters of a file's name that a temporary one keeps: a name has at most 255 bytes


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to a temporary file beside ``path``; it takes the name only when it is whole and on disk.

    A link stays a link to the file that is replaced. A file keeps its permissions; a new one has those of the umask.
    """
    goal = Path(os.path.realpath(path))
    temporary = goal.with_name(f".{goal.name[:NAME]}.{secrets.token_hex(4)}.tmp")  # others may write it too
    try:
        temporary.touch(exist_ok=False)
        mode = S_IMODE((goal if goal.exists() else temporary).stat().st_mode)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)  # some libraries make a file of their own, with other permissions
        os.replace(temporary, goal)
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full: free some space" if full else getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"cannot write {path} ({reason}); what was there before is untouched") from None
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of(*paths: Path) -> str:
    """Return the checksum of files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(2**20):
                total.update(block)
    return total.hexdigest()


def leftovers(path: Path) -> Iterator[Path]:
    """Yield the temporary files that killed writers of ``path`` left behind."""
    return path.parent.glob(f".{glob.escape(path.name[:NAME])}.*.tmp")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file at once, or leave what was there; into a pipe or a device, write straight away."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(data)
        return
    with replacing(path) as temporary:
        temporary.write_bytes(data)
