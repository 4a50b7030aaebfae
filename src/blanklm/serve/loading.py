"""Load a model as the product that its kind belongs to."""

from __future__ import annotations

from blanklm import pretrained
from blanklm.api import BlankLM
from blanklm.models import registry
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from blanklm.transfer.transfer import Transfer

Product = BlankLM | Restorer | Transfer
PRODUCTS: dict[str, type[Product]] = {"restore": Restorer, "transfer": Transfer}


def load(name: str, device: str | None = None) -> Product:
    """Load a bundled model, a folder or a model of the Hub; one that no product takes is refused by ``BlankLM``."""
    entry = registry.find(checkpoint.read_config(pretrained.locate(name))["kind"])
    product = "fill" if entry is None else entry[0].product
    return PRODUCTS.get(product, BlankLM).from_pretrained(name, device)
