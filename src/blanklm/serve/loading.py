"""A model as the server's tasks take it: by the kind that its folder says."""

from __future__ import annotations

from typing import Any

from blanklm import pretrained
from blanklm.api import BlankLM
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from blanklm.transfer.transfer import Transfer

# Kind of checkpoint -> what uses it; a BlankLM by default.
LOADERS = {"lblm": Restorer, "mixed-lblm": Restorer, "rewriter": Transfer}


def load(name: str, device: str | None = None) -> Any:
    kind = checkpoint.read_config(pretrained.locate(name))["kind"]
    return LOADERS.get(kind, BlankLM).from_pretrained(name, device)
