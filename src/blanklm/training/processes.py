"""The processes of a run: how they are started on Accelerate, and what must hold among them."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, DistributedType, gather_object

from blanklm.errors import TrainingError
from blanklm.training.config import Precision


def new_accelerator(precision: Precision, folder: Path) -> Accelerator:
    """Make the Accelerator of a run, on a GPU if there is one."""
    gpu = torch.cuda.is_available()
    bf16 = precision == "bf16" or (gpu and precision == "auto")
    AcceleratorState._reset_state()  # of a run before this one, which may have had another precision
    return Accelerator(
        mixed_precision="bf16" if bf16 else "no",
        cpu=not gpu,
        log_with="tensorboard" if importlib.util.find_spec("tensorboard") else None,
        project_dir=str(folder),
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],  # they are constants
    )


def is_sharded(accelerator: Accelerator) -> bool:
    """Tell whether each process holds only a part of the weights."""
    return accelerator.distributed_type == DistributedType.FSDP


def check_agreement(settings: str) -> None:
    """Refuse processes that read other files or learnt another vocabulary: they would train without an error."""
    if len(set(gather_object([hashlib.sha256(settings.encode()).hexdigest()]))) > 1:
        raise TrainingError("the processes of this run do not have the same texts, vocabulary and settings")


def lost_contact(error: RuntimeError) -> bool:
    """Tell whether an exchange between processes failed; gloo has no error class of its own."""
    signs = ("closed by peer", "reset by peer", "Broken pipe", "gloo")
    return isinstance(error, torch.distributed.DistError) or any(sign in str(error) for sign in signs)
