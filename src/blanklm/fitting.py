"""``blanklm.fit``: train a model on your own texts from Python."""

from __future__ import annotations

import inspect
from os import PathLike
from pathlib import Path
from typing import Any

from blanklm.api import BlankLM
from blanklm.training.config import parse_options, training_options
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
    for option in training_options():
        parameters.append(
            inspect.Parameter(
                option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type
            )
        )
    vars(fit)["__signature__"] = signature.replace(parameters=parameters)
    lines = [f"    {option.name}: {option.help.text}" for option in training_options()]
    fit.__doc__ = "\n".join([inspect.cleandoc(fit.__doc__ or ""), "", "Options:", *lines])


_describe()
