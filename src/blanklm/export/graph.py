"""A graph of ONNX operations that is built by calls, and the file of weights that several graphs share.

Weights stay as they are stored. One of a few bits is (q + 1/2) * scale (``training/quantise.py``), which is
(2 q + 1) * (scale / 2): an odd whole number of 8 bits with half of the scale, so nothing is rounded a second time. Only
a matrix that is stored at full precision is rounded to 8 bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from blanklm.training.quantise import GROUP, PLANES, can_be_grouped, codes_of, rounded

OPSET = 21  # the first that dequantises in groups
READER = 10  # version of the format that this operator set came with
ALIGNED = 64  # bytes
MOST = 127  # in 8 bits


def in_whole_numbers(matrix: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers [R, C] and their scales [R, C / 32] (float32) of a matrix [R, C].

    Their products are the matrix, if it was stored at a few bits; else they are the nearest of 8 bits.
    """
    for bits in PLANES:
        if torch.equal(rounded(matrix, bits), matrix):
            codes, scales = codes_of(matrix, bits)
            whole = (2 * codes + 1).flatten(1).numpy().astype(np.int8 if bits < 8 else np.int16)
            return whole, scales.float().squeeze(2).numpy() / 2
    groups = matrix.unflatten(1, (-1, GROUP))  # [R, C / 32, 32]
    scale = groups.abs().amax(2, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / MOST  # [R, C / 32, 1]
    return (groups / scale).round().flatten(1).numpy().astype(np.int8), scale.squeeze(2).numpy()


class Weights:
    """A file of tensors, each known to graphs by its name, its place and its length."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("wb")
        self.known: dict[str, TensorProto] = {}

    def __enter__(self) -> Weights:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def add(self, name: str, array: np.ndarray) -> TensorProto:
        """Write an array, if it is not there yet, and describe it."""
        if name not in self.known:
            array = np.ascontiguousarray(array)
            self.file.write(bytes(-self.file.tell() % ALIGNED))
            tensor = TensorProto(
                name=name,
                data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
                dims=array.shape,
                data_location=TensorProto.EXTERNAL,
            )
            place = {"location": self.path.name, "offset": self.file.tell(), "length": array.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            self.file.write(array.tobytes())
            self.known[name] = tensor
        return self.known[name]


class Graph:
    """ONNX operations in the order of the calls; values are known by their names."""

    def __init__(self, name: str, weights: Weights) -> None:
        self.name, self.weights = name, weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.whole: dict[str, str] = {}  # dequantised matrices, by name

    # --- Values -----------------------------------------------------------------------------------------------------

    def input(self, name: str, kind: int, *shape: str | int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, *shape: str | int) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def constant(self, *values: int | float) -> str:
        """A small vector; of one number, a scalar if that is a float."""
        array = np.array(values, np.int64) if isinstance(values[0], int) else np.array(values[0], np.float32)
        name = f"constant_{array.dtype}_{'_'.join(map(str, values))}"
        self.initializers.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def tensor(self, name: str, values: Tensor) -> str:
        """Weights in float32."""
        return self._stored(name, values.detach().float().numpy())

    def matrix(self, name: str, matrix: Tensor) -> str:
        """A matrix [R, C] whose weights are stored as whole numbers, as float32."""
        if not can_be_grouped(matrix):
            return self.tensor(name, matrix)
        if name not in self.whole:
            self.whole[name] = self.op("DequantizeLinear", *self._parts(name, matrix), axis=1, block_size=GROUP)
        return self.whole[name]

    def rows(self, name: str, matrix: Tensor, numbers: str) -> str:
        """Some rows [M, C] of such a matrix, of which no others are dequantised."""
        if not can_be_grouped(matrix):
            return self.op("Gather", self.tensor(name, matrix), numbers)
        parts = (self.op("Gather", part, numbers) for part in self._parts(name, matrix))
        return self.op("DequantizeLinear", *parts, axis=1, block_size=GROUP)

    def _parts(self, name: str, matrix: Tensor) -> tuple[str, str]:
        if f"{name}.whole" in self.weights.known:
            for part in ("whole", "scales"):
                self.initializers[f"{name}.{part}"] = self.weights.known[f"{name}.{part}"]
            return f"{name}.whole", f"{name}.scales"
        whole, scales = in_whole_numbers(matrix.detach().float())
        return self._stored(f"{name}.whole", whole), self._stored(f"{name}.scales", scales)

    def _stored(self, name: str, array: np.ndarray) -> str:
        self.initializers[name] = self.weights.add(name, array)
        return name

    # --- Operations -------------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """The results of an operation that has several."""
        outputs = [f"{kind}_{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs

    def linear(self, x: str, name: str, layer: torch.nn.Linear) -> str:
        """W x + b [N, out] for x [N, in]."""
        bias = () if layer.bias is None else (self.tensor(f"{name}.bias", layer.bias),)
        return self.op("Gemm", x, self.matrix(f"{name}.weight", layer.weight), *bias, transB=1)

    def silu(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def model(self) -> onnx.ModelProto:
        tensors = list(self.initializers.values())
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, tensors)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=READER, producer_name="blanklm")
