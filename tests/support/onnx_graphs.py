"""Exported graphs, run as the page runs them."""

from collections.abc import Callable
from pathlib import Path

import onnxruntime
import torch

from blanklm import BlankLM
from blanklm.core.special import BLANK
from blanklm.export.to_onnx import export
from blanklm.models.span_blm import LENGTHS, SPAN, SPAN_OF, WORDS


def exported(model: BlankLM, folder: Path, **options) -> Callable[..., dict[str, torch.Tensor]]:
    """Export a model; what is returned runs graph 0, of scores, or 1, of sides."""
    export(model, folder, **options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.add_session_config_entry("session.disable_quant_qdq", "1")  # as the page does
    graphs = [
        onnxruntime.InferenceSession(folder / f"{name}.onnx", settings, providers=["CPUExecutionProvider"])
        for name in ("model", "sides")
    ]

    def run(number: int, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        graph = graphs[number]
        found = graph.run(None, {name: value.numpy() for name, value in inputs.items()})
        return {output.name: torch.from_numpy(value) for output, value in zip(graph.get_outputs(), found, strict=True)}

    return run


def places(ids: torch.Tensor) -> torch.Tensor:
    return (ids == BLANK).flatten().nonzero().squeeze(1)


def kinds_of(ids: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The kinds of blank on canvases, given how many words each is told to hold, below 0 where untold."""
    return torch.where(words < 0, SPAN, SPAN_OF + words.clamp_max(LENGTHS - 1)).where(ids == BLANK, WORDS)
