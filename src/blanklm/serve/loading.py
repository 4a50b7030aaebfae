"""A model as the server's tasks take it: by the product that its kind belongs to."""

from __future__ import annotations

from typing import Any

from blanklm import pretrained
from blanklm.api import BlankLM
from blanklm.models import registry
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from blanklm.transfer.transfer import Transfer

PRODUCTS = {"fill": BlankLM, "restore": Restorer, "transfer": Transfer}


def load(name: str, device: str | None = None) -> Any:
    kind = checkpoint.read_config(pretrained.locate(name))["kind"]
    model_class, _ = registry.find(kind)
    return PRODUCTS.get(model_class.product, BlankLM).from_pretrained(name, device)
