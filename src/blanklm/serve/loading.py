"""Load a model as the product that its kind belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from blanklm import pretrained
from blanklm.api import BlankLM
from blanklm.models import registry
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from blanklm.transfer.transfer import Transfer

Product = BlankLM | Restorer | Transfer
PRODUCTS: dict[str, type[Product]] = {"restore": Restorer, "transfer": Transfer}


def served() -> list[str]:
    """Return the bundled models that are served by default: those of products, not what belongs to another model."""
    return [name for name in pretrained.bundled() if _product_of(name) in ("fill", *PRODUCTS)]


def load(name: str, device: str | None = None, loaded: Mapping[str, Product] | None = None) -> Product:
    """Load a bundled model, a folder or a model of the Hub; one that no product takes is refused by ``BlankLM``.

    A model that stands on another one shares it, if it is among those ``loaded``.
    """
    product = PRODUCTS.get(_product_of(name), BlankLM)
    if product is not Transfer:
        return product.from_pretrained(name, device)
    base = (loaded or {}).get(checkpoint.read_config(pretrained.locate(name))["model"].get("base", ""))
    return Transfer.from_pretrained(name, device, base=base if isinstance(base, BlankLM) else None)


def _product_of(name: str) -> str:
    entry = registry.find(checkpoint.read_config(pretrained.locate(name))["kind"])
    return "fill" if entry is None else entry[0].product
