"""The optimizer of a run, AdamW or Muon, and an exponential moving average of the weights.

Muon (Jordan et al. 2024) updates hidden matrices by an orthogonal matrix near their momentum. torch.optim.Muon does the
same one matrix after the other; a small model on a GPU would wait for its many small calls. Here, matrices of one shape
are updated together, and AdamW updates all other parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from blanklm.models.model import Model
from blanklm.training.config import TrainingConfig

BETAS = (0.9, 0.98)  # of AdamW
MOMENTUM = 0.95
ITERATIONS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)  # of Newton and Schulz, the polynomial that Muon is known with
LIKE_ADAMW = 0.2  # the root mean square of AdamW's updates: one learning rate serves both
NARROW = 16  # matrices with fewer rows or columns (scalar heads) are left to AdamW


def new_optimizer(model: nn.Module, config: TrainingConfig, fused: bool) -> torch.optim.Optimizer:
    """Make the optimizer that the config asks for; ``fused``: with one kernel for all parameters, on a GPU.

    Matrices decay, biases and norms do not; those that Muon updates are a group apart.
    """
    muon = config.optimizer == "muon"
    hidden = hidden_matrices(model) if muon else []
    by_muon = {id(matrix) for matrix in hidden}
    matrices = [p for p in model.parameters() if p.dim() > 1 and id(p) not in by_muon]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    decay: dict[str, Any] = {"weight_decay": config.weight_decay}
    groups = [{"params": matrices} | decay, {"params": vectors, "weight_decay": 0.0}]
    if hidden:
        groups.append({"params": hidden, "orthogonal": True} | decay)
    kind = Muon if muon else torch.optim.AdamW
    return kind(groups, lr=config.learning_rate, betas=BETAS, fused=fused or None)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices of linear layers, except those that hold a vector for each word."""
    words = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)} - words
    return [matrix for matrix in model.parameters() if id(matrix) in linear and min(matrix.shape) >= NARROW]


class Muon(torch.optim.AdamW):
    """AdamW, except for the groups of parameters that say ``"orthogonal": True``."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            if not group.get("orthogonal"):
                continue
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for matrices in by_shape.values():
                self._move(matrices, group["lr"], group["weight_decay"])
            for parameter in group["params"]:
                parameter.grad = None  # AdamW leaves alone what has none
        super().step()
        return loss

    def _move(self, matrices: list[Tensor], rate: float, decay: float) -> None:
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if not self.state[matrix]:  # AdamW looks for a step in every state that it is given back
                self.state[matrix] = {"momentum": torch.zeros_like(matrix), "step": torch.zeros(())}
        momenta = [self.state[matrix]["momentum"] for matrix in matrices]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # where the momentum will be (Nesterov)
        updates = orthogonal(torch.stack(ahead))  # [K, r, c]
        torch._foreach_mul_(matrices, 1 - rate * decay)
        scale = LIKE_ADAMW * max(matrices[0].shape) ** 0.5
        torch._foreach_add_(matrices, list(updates.unbind()), alpha=-rate * scale)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices [K, r, c] with the same singular vectors, and all singular values near 1."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x.bfloat16() if x.is_cuda else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        squared = x @ x.mT  # [K, r, r]
        odd = torch.baddbmm(squared, squared, squared, beta=third, alpha=fifth)
        x = torch.baddbmm(x, odd, x, beta=first)
    return (x.mT if tall else x).to(matrices.dtype)


class Average:
    """A copy of a model with averaged weights; the decay rises from 0, so the initial weights are soon forgotten."""

    def __init__(self, model: Model, decay: float) -> None:
        self.model, self.decay, self.updates = copy.deepcopy(model).requires_grad_(False), decay, 0
        self.model.uncompile_read_out()  # the average is only evaluated: not worth compiling
        self.weights: list[Tensor] = list(self.model.parameters())

    @torch.no_grad()
    def update(self, parameters: Sequence[nn.Parameter]) -> None:
        """Move the average towards the current weights."""
        self.updates += 1
        decay = min(self.decay, self.updates / (10 + self.updates))
        torch._foreach_lerp_(self.weights, list(parameters), 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]
