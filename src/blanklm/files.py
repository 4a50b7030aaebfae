"""Files that are never half-written."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from blanklm.errors import CheckpointError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to a temporary file beside ``path``; it takes the name only when it is whole and on disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")  # others may write it too
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # the weights come out readable by their owner alone
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full: free some space" if full else str(error)
        raise CheckpointError(f"cannot write {path} ({reason}); what was there before is untouched") from None
    finally:
        temporary.unlink(missing_ok=True)
