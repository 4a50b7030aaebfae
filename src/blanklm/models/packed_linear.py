"""Linear layers in float32 by oneDNN, with weights laid out once: on some CPUs twice as fast as the library's own."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PackedLinear(nn.Linear):
    """A linear layer with the weight and bias of another, and beside them the weight as the kernel reads it.

    The two are stored as before. The weight must not change afterwards: it is for models that only infer.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or x.device.type != "cpu" or x.dtype != torch.float32 or x.dim() != 2 or not len(x):
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


@cache
def has_kernel() -> bool:
    """Whether this build of the library has the kernel, and its sums are those of the plain product."""
    try:
        linear = nn.Linear(4, 3)
        with torch.inference_mode():
            x = torch.linspace(-1, 1, 8).view(2, 4)  # [2, 4]
            return torch.allclose(PackedLinear(linear)(x), linear(x), atol=1e-5)
    except (AttributeError, RuntimeError):
        return False


def pack_linears(module: nn.Module) -> None:
    """Let the linear layers of a model in float32 on a CPU multiply by the kernel, where there is one."""
    if not has_kernel():
        return
    for name, child in module.named_children():
        if type(child) is nn.Linear and child.weight.device.type == "cpu" and child.weight.dtype == torch.float32:
            setattr(module, name, PackedLinear(child))
        else:
            pack_linears(child)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Return x W^T [N, out] of x [N, in] and a ``weight`` [out, in] on a CPU, in float32 by the kernel where it is."""
    if not has_kernel() or x.dtype != torch.float32 or not len(x):
        return F.linear(x, weight)
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
