"""Types of graph programs beside those of `ir`: tensors and shapes with symbolic dimensions.

TensorType((n, 128), "float32")   known shape          TensorType(ndim=2, dtype="float32")   only the rank
TensorType(dtype="float32")       unknown rank         TensorType()                          any tensor
ShapeType((n, 4)), ShapeType(ndim=2), ShapeType()      the same for shape values
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from heddle.graph.codes import R0101, R0209
from heddle.ir.expr import Expr
from heddle.ir.node import Node, node
from heddle.ir.types import Type
from heddle.ir.visitor import nodes_as_text
from heddle.prim.codes import K0102
from heddle.prim.nodes import IntImm, PrimExpr, as_expr, constant
from heddle.runtime.device import Device, device
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.support.limits import current_limits, exceeded

UNKNOWN_NDIM = -1


@node("relax.VDevice")
class VDevice(Node):
    """A virtual device: a target, a device number and a memory scope.

    `target` is a text, so that a program can name devices for which this machine cannot compile.
    """

    target: Any = "llvm"
    vdevice_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self) -> None:
        given = self.target if self.target is not None else "llvm"
        if isinstance(given, Mapping):
            options = [f"-{key}={value}" for key, value in sorted(given.items()) if key != "kind"]
            given = " ".join([str(given["kind"]), *options])
        self.set_derived("target", str(given))

    @property
    def kind(self) -> str:
        """The target's kind: "llvm", "cuda", ..."""
        return str(self.target).split()[0]

    @property
    def device(self) -> Device:
        """The device of this kind and number. Raises: UsageError U0201 for an unknown kind."""
        return device(self.kind, self.vdevice_id)


@node("relax.ShapeType")
class ShapeType(Type):
    """The type of shape values. Dimensions are int64 scalar expressions."""

    values: tuple[PrimExpr, ...] | None = None
    ndim: int = UNKNOWN_NDIM

    def __post_init__(self) -> None:
        if self.values is None:
            return
        self.set_derived("values", dims(self.values))
        _check_ndim(self.ndim, len(self.values or ()))
        self.set_derived("ndim", len(self.values or ()))


MAX_NDIM = 64
"""Dimensions of a tensor: as many as numpy's arrays have at most."""


@node("relax.ShapeExpr")
class ShapeExpr(Expr):
    """A shape value. Its sizes are formulas, which are written out where they are computed and told, however
    much their parts share. Raises: UsageError S0601 for one beyond the limit `size_nodes`.
    """

    values: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        self.set_derived("values", dims(self.values))
        most = current_limits().size_nodes
        for value in self.values:
            if not value.is_leaf and (count := nodes_as_text(value)) > most:
                raise exceeded("size_nodes", f"a size without a name (R.match_cast) has {count} nodes")

    @property
    def ty(self) -> ShapeType:
        """The type of a shape with these sizes."""
        return ShapeType(self.values)

    def __getitem__(self, index: int) -> PrimExpr:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)


@node("relax.TensorType")
class TensorType(Type):
    """The type of tensors. `shape` is a ShapeExpr, a variable of ShapeType, or None (unknown); `dtype` None
    means unknown."""

    shape: Any = None
    dtype: DataType | None = None
    vdevice: VDevice | None = None
    ndim: int = UNKNOWN_NDIM

    def __post_init__(self) -> None:
        if self.shape is not None and not isinstance(self.shape, Expr):
            self.set_derived("shape", ShapeExpr(_listed(self.shape)))
        self.set_derived("dtype", DataType(self.dtype) if self.dtype else None)
        known = getattr(self.shape.ty, "ndim", UNKNOWN_NDIM) if self.shape is not None else UNKNOWN_NDIM
        if known != UNKNOWN_NDIM:
            _check_ndim(self.ndim, known)
            self.set_derived("ndim", known)
        if self.ndim > MAX_NDIM:
            raise IRTypeError(R0209, f"a tensor of {self.ndim} dimensions: expected at most {MAX_NDIM}")

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """The dimensions, where the shape is known."""
        return self.shape.values if isinstance(self.shape, ShapeExpr) else None

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a constant."""
        return self.dims is not None and all(isinstance(dim, IntImm) for dim in self.dims)

    def static_shape(self) -> tuple[int, ...]:
        """The dimensions as Python integers; only where `is_static`."""
        assert self.dims is not None
        return tuple(int(dim) for dim in self.dims)  # type: ignore[call-overload]

    def get_shape(self) -> tuple[PrimExpr, ...] | None:
        """The sizes; None where they are not known."""
        return self.dims


def dims(values: Any) -> tuple[PrimExpr, ...]:
    """Dimensions as int64 expressions."""
    return tuple(dim(value) for value in values)


def dim(value: Any) -> PrimExpr:
    """One dimension. Raises: IRTypeError R0101 for no integer, or none of 64 bits; K0102 for a name."""
    if isinstance(value, str):
        raise IRTypeError(
            K0102,
            f"expected a dimension, got the string {value!r}",
            help='a symbolic size is a variable: n = tir.Var("n", "int64"); scripts and R.Tensor take names',
        )
    if value is None:
        raise IRTypeError(
            R0101, "a dimension must be an integer, got None", help="a free one is relay.Any(), or a variable"
        )
    if isinstance(value, Real) and not isinstance(value, Integral):
        raise IRTypeError(R0101, f"a dimension must be an integer, got {value}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise IRTypeError(R0101, f"a dimension must be an integer of 64 bits, got {value}")
    expr = as_expr(value, "int64")
    if isinstance(expr, IntImm):
        return expr if expr.dtype == "int64" else constant(expr.value, "int64")
    if not expr.dtype.is_int:
        raise IRTypeError(R0101, f"a dimension must be an integer, got {expr.dtype}")
    return expr


def _listed(shape: Any) -> tuple[Any, ...]:
    if not isinstance(shape, Iterable):
        raise IRTypeError(R0101, f"a shape is a list of dimensions, got {shape!r}")
    return tuple(shape)


def _check_ndim(given: int, known: int) -> None:
    if given not in (UNKNOWN_NDIM, known):
        raise IRTypeError(R0101, f"the shape has {known} dimensions, but ndim is {given}")
