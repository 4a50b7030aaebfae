"""What training, checkpoints and products ask of every model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from blanklm.core.texts import Batch
from blanklm.models.encoder import EncoderLayer
from blanklm.models.int8 import Int8Matrix
from blanklm.models.llama import LlamaLayer

Product = Literal["fill", "restore", "restore --attribute", "transfer", "evaluate"]


class Model(nn.Module):
    """A network with one objective. ``prepare`` turns a batch into what ``loss`` needs, on the CPU if need be."""

    config: Any  # a frozen dataclass with ``vocabulary`` and ``max_length``
    product: ClassVar[Product] = "evaluate"  # the command that takes a model of this kind; evaluate: a baseline
    reads_context: ClassVar[bool] = False  # whether texts may come with leading tokens that are given

    @property
    def context(self) -> int | None:
        """The tokens of context that every text must come with; None: any number, if the model reads context."""
        return None

    def prepare(self, batch: Batch) -> Any:
        """Compute ahead what the loss of a batch needs; needs no weights, so another process may do it."""
        raise NotImplementedError

    def loss(self, prepared: Any) -> Tensor:
        """The loss of each text [B], in nats."""
        raise NotImplementedError

    def forward(self, prepared: Any) -> Tensor:
        """The loss: what a distributed wrapper calls."""
        return self.loss(prepared)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        in_8_bits = sum(module.parameter_count for module in self.modules() if isinstance(module, Int8Matrix))
        return sum(parameter.numel() for parameter in self.parameters()) + in_8_bits

    def compile_parts(self) -> None:
        """Compile what a step spends its time in: the layers, which share one graph, and the read-out."""
        for module in self.modules():
            if isinstance(module, EncoderLayer | LlamaLayer):
                module.compile(dynamic=True)
        read_out: Any = getattr(self, "read_out", None)
        if read_out is not None:
            vars(self)["read_out"] = torch.compile(read_out, dynamic=True)  # shadows the method

    def uncompile_read_out(self) -> None:
        """Undo ``compile_parts`` of the read-out, for a copy that is only evaluated."""
        vars(self).pop("read_out", None)
