"""The one registry of models: the kind that a checkpoint names, and its class.

A model registers itself with ``@register("kind", Config)``. To find a kind, the modules of ``PACKAGES`` are imported,
the one of the same name first, so that loading a BLM does not import every baseline.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import TypeVar

from blanklm.models.model import Model

PACKAGES = ("blanklm.models", "blanklm.paper.baselines")
ModelType = TypeVar("ModelType", bound=Model)
_MODELS: dict[str, tuple[type[Model], type]] = {}


def register(kind: str, config: type) -> Callable[[type[ModelType]], type[ModelType]]:
    """Make a class of models loadable under the name of its ``kind``, with its ``config`` class."""

    def add(model: type[ModelType]) -> type[ModelType]:
        _MODELS[kind] = model, config
        return model

    return add


def find(kind: str) -> tuple[type[Model], type] | None:
    """Return the class of a kind of model and that of its config; None for an unknown kind."""
    if kind not in _MODELS:
        for module in _modules(kind.replace("-", "_")):
            importlib.import_module(module)
            if kind in _MODELS:
                break
    return _MODELS.get(kind)


def kinds() -> list[str]:
    """Every kind of model there is."""
    for module in _modules(""):
        importlib.import_module(module)
    return sorted(_MODELS)


def kind_of(model: Model) -> str:
    """The kind that a model is saved as: its class's own, or that of the nearest class it derives from."""
    by_name = {model_class.__name__: kind for kind, (model_class, _) in _MODELS.items()}
    # By name, since the class of a model that is sharded over processes derives from the model's.
    return next(by_name[base.__name__] for base in type(model).__mro__ if base.__name__ in by_name)


def _modules(first: str) -> Iterator[str]:
    """The modules of all packages, those called ``first`` at the beginning."""
    names = []
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        names += [f"{package}.{module.name}" for module in pkgutil.iter_modules(path)]
    yield from sorted(names, key=lambda name: name.rpartition(".")[2] != first)
