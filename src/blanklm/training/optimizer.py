"""The optimizer of a run: AdamW, or Muon for hidden matrices and AdamW for the rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from blanklm.training.config import TrainingConfig
from blanklm.training.muon import Muon, hidden_matrices

BETAS = (0.9, 0.98)


def new_optimizer(model: nn.Module, config: TrainingConfig, fused: bool) -> torch.optim.Optimizer:
    """Make the optimizer that the config asks for; ``fused``: with one kernel for all parameters, on a GPU."""
    muon = config.optimizer == "muon"
    groups = _decay_groups(model, config.weight_decay, hidden_matrices(model) if muon else [])
    kind = Muon if muon else torch.optim.AdamW
    return kind(groups, lr=config.learning_rate, betas=BETAS, fused=fused or None)


def _decay_groups(model: nn.Module, weight_decay: float, orthogonal: list[nn.Parameter]) -> list[dict[str, Any]]:
    """Decay the matrices, but not biases and norms; matrices with ``orthogonal`` updates (Muon) are a group apart."""
    by_muon = {id(matrix) for matrix in orthogonal}
    matrices = [p for p in model.parameters() if p.dim() > 1 and id(p) not in by_muon]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    if orthogonal:
        groups.append({"params": orthogonal, "weight_decay": weight_decay, "orthogonal": True})
    return groups
