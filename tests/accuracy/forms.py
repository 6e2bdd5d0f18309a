"""What is checked: a function of some operators, its sizes, and what it computes in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.op_builder import build_call, const
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.op import OP_RECORDS
from heddle.ops.load import load
from heddle.prim.nodes import SizeVar

load()
Dims = tuple[int | str, ...]


class Expected(NamedTuple):
    """Results in float64; `scale` is what the absolute tolerance of each element is relative to, and `steps`
    how many roundings to the spacing of subnormal numbers may add up in one.
    """

    want: Sequence[Any]
    scale: Sequence[Any] = (0.0,)
    steps: int = 4


Reference = Callable[..., Expected]


@dataclass(frozen=True)
class Form:
    """`body` takes a variable for each of `params` and a constant for each of `weights`; a dimension is a
    size or the name of a symbolic one, to which `sizes` give values. `kind` is a class of
    tests.ops.tolerances; `ulp` limits errors in units in the last place too. `index_below` makes the last
    parameter integers.
    `model` gives the whole module instead of a body.
    """

    family: str
    name: str
    params: tuple[Dims, ...]
    body: Callable[..., Expr] | None
    reference: Reference
    kind: str
    values: tuple[str, ...]
    sizes: tuple[Mapping[str, int], ...] = ({},)
    weights: tuple[tuple[int, ...], ...] = ()
    ulp: float | None = None
    index_below: int = 0
    in_ci: bool = False
    model: Callable[[], IRModule] | None = None

    def shapes(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        return [tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims) for dims in self.params]

    def constants(self) -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        return [rng.standard_normal(shape).astype(np.float32) for shape in self.weights]

    def module(self) -> IRModule:
        if self.model is not None:
            return self.model()
        assert self.body is not None
        builder, symbols = BlockBuilder(), _Symbols()
        last = len(self.params) - 1
        params = [
            Var(
                f"x{k}",
                TensorType(symbols.dims(dims), "int64" if self.index_below and k == last else "float32"),
            )
            for k, dims in enumerate(self.params)
        ]
        with builder.function("main", params):
            with builder.dataflow():
                constants = [const(array) for array in self.constants()]
                result: Any = builder.emit_output(builder.normalize(self.body(*params, *constants)))
            builder.emit_func_output(result)
        return builder.get()


@dataclass
class _Symbols:
    known: dict[str, SizeVar] = field(default_factory=dict)

    def dims(self, dims: Dims) -> tuple[Any, ...]:
        return tuple(self.known.setdefault(d, SizeVar(d)) if isinstance(d, str) else d for d in dims)


def call(name: str, **attrs: Any) -> Callable[..., Expr]:
    """An operator by name, on expressions."""
    record = OP_RECORDS[f"relax.{name}"]
    return lambda *args: build_call(record, args, attrs)


def oracle(name: str, **attrs: Any) -> Callable[..., Any]:
    """An operator's reference, on arrays of float64."""
    record = OP_RECORDS[f"relax.{name}"]

    def run(*arrays: Any) -> Any:
        bound = _Attrs(record.bind_attrs(attrs))
        with np.errstate(all="ignore"):
            found = record.reference(bound, *arrays)
        first = found[0] if isinstance(found, tuple) else found
        assert first.dtype.kind in "ib" or first.dtype == np.float64, f"{name}: {first.dtype} is no reference"
        return found

    return run


class _Attrs(dict[str, Any]):
    """Attributes as references read them."""

    __getattr__ = dict.__getitem__


def exact(function: Callable[..., Any]) -> Reference:
    return lambda *arrays: Expected((function(*arrays),), steps=0)


def relative(
    function: Callable[..., Any], scale: Callable[..., Any] | None = None, steps: int = 4
) -> Reference:
    """Errors count relative to the result, and to a scale where one is given."""

    def reference(*arrays: Any) -> Expected:
        with np.errstate(all="ignore"):
            return Expected((function(*arrays),), (0.0 if scale is None else scale(*arrays),), steps)

    return reference


def products(function: Callable[..., Any]) -> Reference:
    """For sums of products: the scale is the root of the sum of their squares, the size of a sum of terms of
    random sign.
    """

    def reference(*arrays: Any) -> Expected:
        with np.errstate(all="ignore"):
            want, squares = function(*arrays), function(*(array * array for array in arrays))
        terms = function(*(np.ones_like(array) for array in arrays))
        return Expected((want,), (np.sqrt(squares),), int(terms.max(initial=0)) + 2)

    return reference
