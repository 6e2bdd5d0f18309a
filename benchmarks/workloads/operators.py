"""Single operators and short chains, at sizes that stay in a core's second-level cache and at sizes that do
not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save

from benchmarks.workloads.workload import Requests, Workload
from heddle.support.settings import settings

NEAR, FAR = (64, 768), (4096, 3072)
VOCABULARY = 30522
SQUARES = (256, 512, 1024, 2048)
ROWS, HIDDEN, WIDTHS = (1, 16, 64, 128), 768, (768, 3072)
_TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


@dataclass(frozen=True)
class Operator:
    """`nodes` go from x (and w) to y; `constants` are made by a generator, the same each time."""

    name: str
    nodes: Sequence[NodeProto]
    inputs: Mapping[str, tuple[int, ...]]
    output: tuple[int, ...]
    torch: Callable[..., Any]
    constants: Mapping[str, tuple[int, ...] | float] = field(default_factory=dict)
    high: int = 0

    def arrays(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(3)
        return {
            name: np.float32(size)
            if isinstance(size, float)
            else (0.05 * rng.standard_normal(size)).astype(np.float32)
            for name, size in self.constants.items()
        }

    def requests(self) -> Requests:
        rng = np.random.default_rng(4)
        if self.high:
            return [[rng.integers(0, self.high, shape) for shape in self.inputs.values()]]
        return [[rng.standard_normal(shape).astype(np.float32) for shape in self.inputs.values()]]

    def path(self) -> Path:
        folder = settings().cache_dir / "bench-models"
        folder.mkdir(parents=True, exist_ok=True)
        number = _TYPES["int64" if self.high else "float32"]
        graph = helper.make_graph(
            list(self.nodes),
            self.name,
            [helper.make_tensor_value_info(name, number, shape) for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, self.output)],
            [numpy_helper.from_array(np.asarray(array), name) for name, array in self.arrays().items()],
        )
        path = folder / f"{self.name}.onnx"
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
        return path

    def torch_form(self) -> Callable[..., Any]:
        import torch

        constants = {name: torch.from_numpy(np.asarray(array)) for name, array in self.arrays().items()}
        return lambda *tensors: self.torch(torch, *tensors, **constants)

    def workload(self) -> Workload:
        return Workload(self.name, self.path, self.requests, f"op:{self.name}")


_node = helper.make_node


def _matmuls() -> list[Operator]:
    found = [
        Operator(
            f"matmul-{n}",
            [_node("MatMul", ["x", "w"], ["y"])],
            {"x": (n, n), "w": (n, n)},
            (n, n),
            lambda torch, x, w: x @ w,
        )
        for n in SQUARES
    ]
    for rows in ROWS:
        for width in WIDTHS:
            found.append(
                Operator(
                    f"matmul-{rows}x{HIDDEN}x{width}",
                    [_node("MatMul", ["x", "w"], ["y"])],
                    {"x": (rows, HIDDEN)},
                    (rows, width),
                    lambda torch, x, w: x @ w,
                    {"w": (HIDDEN, width)},
                )
            )
    return found


def _rows(place: str, shape: tuple[int, int]) -> list[Operator]:
    """The operators over rows, maps and moves of one size."""
    rows, width = shape
    x = {"x": shape}
    gelu = [
        _node("Mul", ["x", "s"], ["a"]),
        _node("Erf", ["a"], ["b"]),
        _node("Add", ["b", "one"], ["c"]),
        _node("Mul", ["x", "c"], ["d"]),
        _node("Mul", ["d", "half"], ["y"]),
    ]
    chain = [
        _node("Mul", ["x", "w"], ["a"]),
        _node("Add", ["a", "b"], ["c"]),
        _node("Sigmoid", ["c"], ["d"]),
        _node("Mul", ["c", "d"], ["e"]),
        _node("Add", ["e", "x"], ["y"]),
    ]
    vectors = {"w": (width,), "b": (width,)}
    return [
        Operator(
            f"softmax-{place}",
            [_node("Softmax", ["x"], ["y"], axis=-1)],
            x,
            shape,
            lambda torch, x: torch.softmax(x, -1),
        ),
        Operator(
            f"layer-norm-{place}",
            [_node("LayerNormalization", ["x", "w", "b"], ["y"], axis=-1)],
            x,
            shape,
            lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (width,), w, b),
            vectors,
        ),
        Operator(
            f"gelu-{place}",
            gelu,
            x,
            shape,
            lambda torch, x, **_: torch.nn.functional.gelu(x),
            {"s": 0.5**0.5, "one": 1.0, "half": 0.5},
        ),
        Operator(f"chain-{place}", chain, x, shape, _torch_chain, vectors),
        Operator(
            f"transpose-{place}",
            [_node("Transpose", ["x"], ["y"], perm=[1, 0])],
            x,
            (width, rows),
            lambda torch, x: x.t().contiguous(),
        ),
        Operator(
            f"row-sum-{place}",
            _sum_over(1),
            x,
            (rows,),
            lambda torch, x: x.sum(1),
        ),
        Operator(
            f"column-sum-{place}",
            _sum_over(0),
            x,
            (width,),
            lambda torch, x: x.sum(0),
        ),
        Operator(
            f"embedding-{place}",
            [_node("Gather", ["w", "x"], ["y"], axis=0)],
            {"x": (rows,)},
            (rows, HIDDEN),
            lambda torch, x, w: torch.nn.functional.embedding(x, w),
            {"w": (256 if place == "near" else VOCABULARY, HIDDEN)},
            high=256 if place == "near" else VOCABULARY,
        ),
    ]


def _sum_over(axis: int) -> list[NodeProto]:
    constant = _node("Constant", [], ["axis"], value=numpy_helper.from_array(np.array([axis])))
    return [constant, _node("ReduceSum", ["x", "axis"], ["y"], keepdims=0)]


def _torch_chain(torch: Any, x: Any, w: Any, b: Any) -> Any:
    scaled = x * w + b
    return scaled * torch.sigmoid(scaled) + x


_ALL = [*_matmuls(), *_rows("near", NEAR), *_rows("far", FAR)]
BY_NAME: dict[str, Operator] = {operator.name: operator for operator in _ALL}
OPERATORS: tuple[Workload, ...] = tuple(operator.workload() for operator in BY_NAME.values())
