"""The planned batches of a run: prepared ahead by workers, and moved to the device."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

from blanklm.core.texts import TokenisedTexts
from blanklm.models.model import Model
from blanklm.training.epochs import Draw, PlannedBatch
from blanklm.training.streamed import StreamedTexts

WORKERS = 12  # processes that prepare batches for a GPU, where the machine has as many cores to spare
Prepared = tuple[PlannedBatch, Any, float]  # the batch, what the model prepared of it, and its weight in the loss


class Preparation(Dataset[Prepared]):
    """Prepares this process's part of each planned batch as the model wants it.

    On a GPU, worker processes prepare the batches to come on the CPU: the GPU has nothing to do but train, and the
    process that keeps it busy never waits for a count of symbols or blanks.
    """

    def __init__(self, model: Model, texts: TokenisedTexts | StreamedTexts, accelerator: Accelerator) -> None:
        self.texts, self.device = texts, accelerator.device
        self.workers = max(2, min(WORKERS, (os.cpu_count() or 2) - 2))
        self.rank, self.processes = accelerator.process_index, accelerator.num_processes
        self.on_gpu = self.device.type == "cuda"
        self.model = copy.deepcopy(model) if self.on_gpu else model  # stays on the CPU when the model moves

    def __getitem__(self, planned: PlannedBatch) -> Prepared:
        part, texts, weight = self._part(planned)
        return planned, self.model.prepare(part.collate(texts, self.on_gpu)), weight

    def _part(self, planned: PlannedBatch) -> tuple[Draw, TokenisedTexts, float]:
        if isinstance(self.texts, TokenisedTexts):
            part, weight = planned.draw.part_or_first(self.rank, self.processes)
            return part, self.texts, weight
        assert planned.texts is not None  # a batch of streamed texts brings its own
        return planned.draw, planned.texts, 1.0

    def in_pieces(self, planned: PlannedBatch, pieces: int) -> list[Any]:
        """Prepare this process's part in so many pieces, or as many as it has texts, on the device."""
        part, texts, _ = self._part(planned)
        draws = [part.part(number, pieces) for number in range(pieces)]
        prepared = [self.model.prepare(draw.collate(texts, self.on_gpu)) for draw in draws if len(draw.indices)]
        return [move(piece, self.device) for piece in prepared]

    def ahead(self, plan: Iterator[PlannedBatch]) -> Iterator[Prepared]:
        """Prepare every planned batch, in order."""
        if not self.on_gpu:
            yield from map(self.__getitem__, plan)
            return
        copying, training = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        for planned, prepared, weight in self.in_workers(plan, self.workers):
            with torch.cuda.stream(copying):  # a copy waits for what its stream has queued, so not after the last step
                moved = move(prepared, self.device, training)
            training.wait_stream(copying)
            yield planned, moved, weight

    def in_workers(self, plan: Iterator[PlannedBatch], workers: int) -> DataLoader[Prepared]:
        """Prepare every planned batch, in order, in other processes."""
        return DataLoader(self, batch_size=None, sampler=plan, num_workers=workers, prefetch_factor=2)


def move(value: Any, device: torch.device, used_on: torch.cuda.Stream | None = None) -> Any:
    """Move the tensors of a dataclass to a device, and keep them there until the stream that uses them is done."""
    if isinstance(value, torch.Tensor):
        value = value.to(device, non_blocking=True)
        if used_on is not None:
            value.record_stream(used_on)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value)(**{name: move(part, device, used_on) for name, part in parts.items()})
    return value
