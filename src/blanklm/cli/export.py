"""``blanklm export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blanklm.errors import BlankLMError
from blanklm.extras import how_to_install
from blanklm.options import Blanks


def export(
    model: Annotated[str, typer.Argument(help="A bundled model, a folder or a Hugging Face Hub id.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the exported model.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX graphs, which run in browsers and on phones.")] = False,
    blanks: Annotated[
        Blanks | None, typer.Option(help="What blanks stand for; by default spans if the model knows both.")
    ] = None,
) -> None:
    """Write a model for another runtime.

    blanklm export --onnx english-small --out onnx/
    """
    if not onnx:
        raise BlankLMError("choose the format to export: --onnx")
    import torch

    from blanklm.api import BlankLM

    try:
        from blanklm.export.to_onnx import export as to_onnx
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise BlankLMError(f"exporting needs onnx: {how_to_install('onnx')}") from None
    paths = to_onnx(BlankLM.from_pretrained(model, "cpu", torch.float32), out, blanks)
    size = sum(path.stat().st_size for path in paths)
    print(f"{size / 1e6:.1f} MB in {out}: {', '.join(path.name for path in paths)}")
