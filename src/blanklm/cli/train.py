"""``blanklm train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from blanklm.cli.options import expanded
from blanklm.errors import BlankLMError
from blanklm.training.config import FitOptions, TrainingConfig


@expanded
def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run and of its best model.")],
    texts: Annotated[
        Path | None,
        typer.Argument(help="A file, one text per line, or .jsonl; may be compressed; or a quoted 'pattern' of files."),
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option(
            help="Validation texts; by default 1 % of the texts is held out, at least 50 and at most a tenth."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out from its last state.")] = False,
    task: Annotated[
        Literal["fill", "transfer"],
        typer.Option(help="fill: train a BLM; transfer: train a model that rewrites texts in another style."),
    ] = "fill",
    style0: Annotated[Path | None, typer.Option(help="transfer: texts in one style, named after the file.")] = None,
    style1: Annotated[Path | None, typer.Option(help="transfer: texts in the other style.")] = None,
    *,
    options: FitOptions,
    config: TrainingConfig,
) -> None:
    """Train a BLM on your own texts.

    blanklm train reviews.txt --out runs/reviews --minutes 10
    """
    if task == "transfer":
        if texts or valid:
            raise BlankLMError("--task transfer trains on --style0 and --style1: leave out TEXTS and --valid")
        if style0 is None or style1 is None:
            raise BlankLMError("--task transfer needs the texts of two styles: give --style0 and --style1")
        from blanklm.transfer.train import fit_transfer

        fit_transfer(style0, style1, out, options, config, resume)
    else:
        if style0 or style1:
            raise BlankLMError("--style0 and --style1 need --task transfer")
        if texts is None:
            raise BlankLMError("no texts: write blanklm train reviews.txt --out runs/reviews")
        from blanklm.fitting import fit_texts

        fit_texts(str(texts), out, options, config, valid, resume)
