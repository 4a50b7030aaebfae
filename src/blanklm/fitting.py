"""``blanklm.fit``: train a model on your own texts from Python."""

from __future__ import annotations

import inspect
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, get_type_hints

from blanklm.api import BlankLM
from blanklm.training.config import FitOptions, TrainingConfig, parse_options
from blanklm.training.fit import Texts, fit_folder


def fit(
    texts: Texts,
    out: str | PathLike[str],
    *,
    valid: Texts | None = None,
    resume: bool = False,
    show_progress: bool = True,
    **options: Any,
) -> BlankLM:
    """Train a BLM and return the best model, which is also in the folder ``out``.

    >>> import blanklm
    >>> model = blanklm.fit("reviews.txt", out="runs/reviews", size="small", steps=5000)
    >>> model.fill("the ___ was ___ .").text

    ``texts`` and ``valid`` are a file (one text per line, or .jsonl; may be compressed), a pattern of files, or a list
    of texts. Without ``valid``, 1 % of the texts (at least 50, at most a tenth) is held out for validation. A run that
    was stopped continues from its last saved state with ``resume=True`` and the same options.
    """
    fit_options, config = parse_options(options)
    fit_folder(texts, Path(out), fit_options, config, valid, resume, show_progress)
    return BlankLM.from_pretrained(Path(out))


def _describe() -> None:
    """Give ``fit`` the signature and the help of its options, which are written down once, at their fields."""
    signature = inspect.signature(fit)
    parameters = [item for item in signature.parameters.values() if item.kind != item.VAR_KEYWORD]
    lines = [inspect.cleandoc(fit.__doc__ or ""), "", "Options:"]
    for cls in (FitOptions, TrainingConfig):
        hints = get_type_hints(cls)
        for item in fields(cls):
            if "help" in item.metadata:
                hint, kind = hints[item.name], inspect.Parameter.KEYWORD_ONLY
                parameters.append(inspect.Parameter(item.name, kind, default=item.default, annotation=hint))
                lines.append(f"    {item.name}: {item.metadata['help']}")
    vars(fit)["__signature__"] = signature.replace(parameters=parameters)
    fit.__doc__ = "\n".join(lines)


_describe()
