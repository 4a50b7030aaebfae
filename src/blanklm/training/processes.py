"""The processes of a run: what they run on, what they cannot combine, and how one notices that another died."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, DistributedType

from blanklm.core.texts import TokenisedTexts
from blanklm.errors import TrainingError
from blanklm.models.model import Model
from blanklm.training.config import Precision, TrainingConfig
from blanklm.training.streamed import StreamedTexts


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


def check_fit_together(
    model: Model,
    texts: TokenisedTexts | StreamedTexts,
    validation: TokenisedTexts,
    config: TrainingConfig,
    accelerator: Accelerator,
) -> None:
    """Refuse settings, models, texts and processes that cannot be combined."""
    sharded = accelerator.distributed_type == DistributedType.FSDP
    if sharded and config.ema:
        raise TrainingError("weights that are sharded over processes cannot be averaged: leave out ema")
    if sharded and config.optimizer == "muon":
        raise TrainingError("muon needs whole matrices, not sharded ones: choose adamw")
    if sharded and config.bits:
        raise TrainingError("weights that are sharded over processes cannot be rounded in training: leave out bits")
    if isinstance(texts, StreamedTexts) and config.canvases > 1:
        raise TrainingError("texts that are read while training have one canvas each: leave out canvases")
    if config.seconds and accelerator.num_processes > 1:
        raise TrainingError("a limit in seconds needs a single process: give a number of steps instead")
    if (texts.context or validation.context) and not model.reads_context:
        raise TrainingError(f"{type(model).__name__} does not support context: train it on texts without one")
    if model.context is not None and model.context != texts.context:
        raise TrainingError(f"the model needs {model.context} tokens of context; the texts have {texts.context}")


def lost_contact(error: RuntimeError) -> bool:
    """Tell whether an exchange between processes failed; gloo has no error class of its own."""
    signs = ("closed by peer", "reset by peer", "Broken pipe", "gloo")
    return isinstance(error, torch.distributed.DistError) or any(sign in str(error) for sign in signs)
