"""Find the folder of a model: bundled, local or on the Hugging Face Hub."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blanklm.errors import CheckpointError

DEFAULT = "english"
DEFAULT_TRANSFER = "tone"
HERE = Path(__file__).parent


def bundled() -> list[str]:
    """Return the names of the bundled models, the defaults first."""
    names = sorted(path.parent.name for path in HERE.glob("*/config.json"))
    return sorted(names, key=lambda name: (name != DEFAULT, name != DEFAULT_TRANSFER))


def locate(name_or_path: str | Path) -> Path:
    """Return the folder of a bundled name, a folder, or a Hugging Face Hub id (downloaded on first use)."""
    if not isinstance(name_or_path, str | Path):
        kind = type(name_or_path).__name__
        raise CheckpointError(f"a model is a bundled name, a folder or a Hub id, not {kind} {name_or_path!r}")
    name, path = str(name_or_path), Path(name_or_path)
    if name in bundled():
        return HERE / name
    if path.is_dir():
        return path
    if name.count("/") == 1 and not path.is_absolute() and not name.startswith("."):
        return _download(name)
    raise CheckpointError(
        f"there is no model {name!r}: bundled are {', '.join(bundled())}; or give a folder or a Hub id"
    )


def _download(repository: str) -> Path:
    from huggingface_hub import snapshot_download

    from blanklm.training import checkpoint

    try:
        return Path(snapshot_download(repository, allow_patterns=[*checkpoint.FILES, checkpoint.LEXICON]))
    except Exception as error:  # no network, no such model, no permission: the Hub client has many classes
        raise CheckpointError(
            f"there is no folder {repository!r}, and no model of that id could be fetched from the Hugging Face Hub "
            f"({str(error).splitlines()[0]})"
        ) from None


def upload(repository: str, save: Callable[[Path], None], **options: Any) -> str:
    """Upload what ``save`` writes into a folder to the Hugging Face Hub; ``options`` go to ``create_repo``."""
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(repository, exist_ok=True, **options)
        with tempfile.TemporaryDirectory() as folder:
            save(Path(folder))
            message = "Upload a blanklm model"
            return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))
    except Exception as error:  # network, login and permission errors share no narrower base
        raise CheckpointError(f"cannot push to {repository!r}: {str(error).splitlines()[0]}") from None
