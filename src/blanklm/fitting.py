"""``blanklm.fit``: train a model on your own texts; ``blanklm train`` is the same as a command."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, get_type_hints

from blanklm import pretrained
from blanklm.api import BlankLM
from blanklm.arguments import list_of_texts
from blanklm.learnt import compare
from blanklm.training import checkpoint
from blanklm.training.checkpoint import Checkpoint
from blanklm.training.config import SCRATCH, FitOptions, TrainingConfig, parse_options
from blanklm.training.fit import Texts, fit_folder
from blanklm.training.progress import say

ENGLISH = "english-small"  # the large one takes ten times as long to train
CHARACTERS_PER_TOKEN = 2.75  # in that model's tokens: English has 3.5 and more, other languages and code at most 2.6


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
    >>> model = blanklm.fit("reviews.txt", out="runs/reviews", minutes=10)
    >>> model.fill("The ___ was ___.").text

    ``texts`` and ``valid`` are a file (one text per line, or .jsonl; may be compressed), a pattern of files, or a list
    of texts. Without ``valid``, 1 % of the texts (at least 50, at most a tenth) is held out for validation. English
    texts continue a bundled model; others start from scratch. ``resume=True`` with the same options continues a run
    that was stopped.
    """
    fit_options, config = parse_options(options)
    fit_texts(_checked(texts), Path(out), fit_options, config, valid and _checked(valid), resume, show_progress)
    return BlankLM.from_pretrained(Path(out))


def _checked(texts: Texts) -> Texts:
    return texts if isinstance(texts, str | PathLike) else list_of_texts(texts)


def fit_texts(
    texts: Texts,
    out: Path,
    options: FitOptions,
    config: TrainingConfig,
    valid: Texts | None = None,
    resume: bool = False,
    show_progress: bool = True,
) -> None:
    """Train on texts, starting from the model that suits them, and show the effect on held-out texts."""

    def find_start(sample: Sequence[str]) -> Checkpoint | None:
        name, why = choose_start(options, sample, _start_of_run(out) if resume else None)
        if show_progress and not resume:
            say(f"starting {'from ' + name if name != SCRATCH else 'from scratch'}{why}")
        return None if name == SCRATCH else checkpoint.load(pretrained.locate(name))

    fitted = fit_folder(texts, out, options, config, valid, resume, show_progress, find_start)
    if show_progress and os.environ.get("RANK", "0") == "0":
        for line in compare(fitted.held_out, out, fitted.started_from):
            say(line)


def choose_start(options: FitOptions, sample: Sequence[str], before: str | None = None) -> tuple[str, str]:
    """Return the name of the model to start from, and why; ``before`` is what a run to resume had started from."""
    if chosen := options.start or before:
        return chosen, ""
    if options.of_another_model or options.blanks == "words":
        return SCRATCH, "" if options.backbone is None else ": on the backbone"
    if is_english(sample):
        return ENGLISH, ", which knows English (--start scratch for a new model)"
    return SCRATCH, ": the texts do not look like English"


def is_english(texts: Sequence[str]) -> bool:
    """Tell English from other languages by how few tokens the bundled English model cuts it into."""
    tokenizer = checkpoint.Tokenizer.load(pretrained.HERE / ENGLISH / "tokenizer.json")
    tokens = sum(map(len, tokenizer.encode_many(list(texts))))
    return sum(map(len, texts)) > CHARACTERS_PER_TOKEN * max(1, tokens)


def _start_of_run(out: Path) -> str | None:
    """Return what the run in a folder started from, if there is one."""
    if not (out / "run.json").exists() or not (out / "config.json").exists():
        return None
    return str(checkpoint.read_config(out)["about"].get("started_from", SCRATCH))


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
