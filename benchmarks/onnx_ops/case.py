"""What a row is, and how it becomes an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

Sizes = Mapping[str, int]
Fill = Callable[[np.random.Generator, tuple[int, ...], Sizes], np.ndarray]
SEED = 23
NEWEST = 28
"""The newest operator set of the installed package. A row with an older one is of an operator whose newest
version ONNX Runtime lacks."""
IR_VERSION = 10
ITEMS = 4
"""So many tensors are in a sequence that is an input, unless the sizes have `items`."""
_WORDS = ("a", "of", "tensor", "Operator", "größe", "compiled", "model", "x" * 40)


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant of a model: its dimensions are numbers or names of sizes. `has_size`: so are its values."""

    shape: tuple[int | str, ...]
    dtype: str = "float32"
    fill: Fill | None = None
    has_size: bool = False

    @property
    def differs(self) -> bool:
        return self.has_size or any(isinstance(dim, str) for dim in self.shape)


@dataclass(frozen=True, slots=True)
class Case:
    """An operator at two sizes. `inputs` and `nodes` are in ONNX's text form; the output is `y`, or those of
    `outputs`.

    `form` tells apart the rows of one operator. `fills` gives the values of inputs where the default for
    their element type does not do. Outputs are held to ONNX Runtime's within `tolerance` of their scale;
    where values are random (`is_random`), only their shapes and element types are.
    """

    operator: str
    inputs: str
    nodes: str
    small: Sizes
    large: Sizes
    form: str = ""
    outputs: str = "y"
    fills: Mapping[str, Fill] = field(default_factory=dict)
    weights: Mapping[str, Weight] = field(default_factory=dict)
    opset: int = NEWEST
    tolerance: float = 1e-3
    is_random: bool = False

    @property
    def name(self) -> str:
        return f"{self.operator}/{self.form}" if self.form else self.operator

    @property
    def sizes(self) -> dict[str, Sizes]:
        return {"small": self.small, "large": self.large}

    @property
    def is_sized_by_weights(self) -> bool:
        """Whether weights differ between the sizes: each then has a model of its own."""
        return any(weight.differs for weight in self.weights.values())

    def model(self, sizes: Sizes, *, is_fixed: bool) -> onnx.ModelProto:
        """The model with the dimensions of its inputs free, or set."""
        graph = parser.parse_graph(f"row ({self.inputs}) => ({self.outputs}) {{ {self.nodes} }}")
        rng = np.random.default_rng(SEED)
        for name, weight in self.weights.items():
            shape = tuple(dim if isinstance(dim, int) else sizes[dim] for dim in weight.shape)
            fill = weight.fill or default_fill(np.dtype(weight.dtype))
            graph.initializer.append(
                numpy_helper.from_array(fill(rng, shape, sizes).astype(weight.dtype), name)
            )
        if is_fixed:
            for value in graph.input:
                for dim in _tensor_type(value.type).shape.dim:
                    if dim.dim_param:
                        dim.dim_value = sizes[dim.dim_param]
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)

    def arrays(self, sizes: Sizes) -> list[Any]:
        """The inputs at these sizes: arrays, and lists of arrays for sequences."""
        rng = np.random.default_rng(SEED)
        graph = self.model(sizes, is_fixed=True).graph
        return [self._array(value, sizes, rng) for value in graph.input]

    def _array(self, value: onnx.ValueInfoProto, sizes: Sizes, rng: np.random.Generator) -> Any:
        tensor = _tensor_type(value.type)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        fill = self.fills.get(value.name) or default_fill(dtype)
        if value.type.WhichOneof("value") == "sequence_type":
            return [fill(rng, shape, sizes).astype(dtype) for _ in range(sizes.get("items", ITEMS))]
        return np.asarray(fill(rng, shape, sizes)).astype(dtype)


def _tensor_type(given: onnx.TypeProto) -> Any:
    """The tensor type that a type is, or is a sequence or an optional of."""
    while given.WhichOneof("value") in ("sequence_type", "optional_type"):
        given = getattr(given, given.WhichOneof("value")).elem_type
    return given.tensor_type


def integers(*values: int | str) -> Weight:
    """A constant vector of int64: numbers, or names of sizes."""
    return Weight((len(values),), "int64", just(*values), any(isinstance(value, str) for value in values))


def integer(value: int | str) -> Weight:
    """A constant int64 scalar."""
    return Weight((), "int64", just(value), isinstance(value, str))


def scalar(value: float, dtype: str = "float32") -> Weight:
    return Weight((), dtype, just(value))


def default_fill(dtype: np.dtype[Any]) -> Fill:
    """Normal floats, any byte, integers below 100, words."""
    if dtype.kind in "OUT":
        return words
    if dtype.kind == "b":
        return below(2)
    if dtype.kind in "iu":
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (0, 100)
        return between(low, high)
    return lambda rng, shape, sizes: rng.standard_normal(shape, "float32")


def uniform(low: float, high: float) -> Fill:
    return lambda rng, shape, sizes: rng.uniform(low, high, shape)


def between(low: int, high: int) -> Fill:
    return lambda rng, shape, sizes: rng.integers(low, high, shape)


def below(limit: int | str) -> Fill:
    """Integers from 0 to before a number, or a size."""
    return lambda rng, shape, sizes: rng.integers(0, limit if isinstance(limit, int) else sizes[limit], shape)


def just(*values: float | str) -> Fill:
    """These values; a text is the name of a size."""
    return lambda rng, shape, sizes: np.array(
        [sizes[value] if isinstance(value, str) else value for value in values]
    ).reshape(shape)


def words(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    return np.array(_WORDS, object)[rng.integers(0, len(_WORDS), shape)]


POSITIVE = uniform(0.1, 4.0)
IMAGE = "float[n,c,h,w] x"
SMALL_IMAGE: Sizes = {"n": 1, "c": 16, "h": 14, "w": 14}
LARGE_IMAGE: Sizes = {"n": 1, "c": 64, "h": 112, "w": 112}
TOKENS = "float[b,s,d] x"
SMALL_TOKENS: Sizes = {"b": 1, "s": 16, "d": 256}
LARGE_TOKENS: Sizes = {"b": 4, "s": 256, "d": 768}


def on_images(operator: str, call: str, **options: Any) -> Case:
    """A row on one image tensor `x`."""
    return Case(operator, IMAGE, f"y = {call}", SMALL_IMAGE, LARGE_IMAGE, **options)


def on_tokens(operator: str, call: str, **options: Any) -> Case:
    """A row on one tensor of token vectors `x`."""
    return Case(operator, TOKENS, f"y = {call}", SMALL_TOKENS, LARGE_TOKENS, **options)
