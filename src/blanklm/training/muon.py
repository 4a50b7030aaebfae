"""Muon (Jordan et al. 2024): hidden matrices are updated by an orthogonal matrix near their momentum.

torch.optim.Muon does the same one matrix after the other; a small model on a GPU would wait for its many small
calls. Here, matrices of one shape are updated together, and AdamW updates all other parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ITERATIONS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)  # of Newton and Schulz, the polynomial that Muon is known with
LIKE_ADAMW = 0.2  # the root mean square of AdamW's updates: one learning rate serves both
NARROW = 16  # matrices with fewer rows or columns (scalar heads) are left to AdamW


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices of linear layers, except those that hold a vector for each word."""
    words = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)} - words
    return [matrix for matrix in model.parameters() if id(matrix) in linear and min(matrix.shape) >= NARROW]


class Muon(torch.optim.AdamW):
    """AdamW, except for the groups of parameters that say ``"orthogonal": True``."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if not group.get("orthogonal"):
                continue
            for matrices in _of_one_shape([p for p in group["params"] if p.grad is not None]):
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


def _of_one_shape(matrices: list[Tensor]) -> list[list[Tensor]]:
    shapes: dict[torch.Size, list[Tensor]] = {}
    for matrix in matrices:
        shapes.setdefault(matrix.shape, []).append(matrix)
    return list(shapes.values())
