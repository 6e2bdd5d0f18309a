"""Tensor expressions: tensors defined by formulas for their elements.

    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")

A tensor expression cannot run by itself; `te.create_prim_func` creates a loop function from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heddle.ir.node import Node, defines, derived, node
from heddle.prim.nodes import PrimExpr, Range, Var, as_expr, constant
from heddle.prim.operators import Operators
from heddle.prim.ops import match_types
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0101
from heddle.tir.nodes import Buffer, IterType, IterVar, Stmt, decl_buffer


@dataclass(eq=False, slots=True)
class Operation:
    """An operation that produces tensors. `inputs` are the tensors that it reads, each once."""

    name: str
    attrs: dict[str, Any]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()

    @property
    def output(self) -> Callable[[int], Tensor]:
        """The output tensors by number: `op.output(0)`."""
        return lambda index: self.outputs[index]


@dataclass(eq=False, slots=True)
class PlaceholderOp(Operation):
    """An input tensor."""


@dataclass(eq=False, slots=True)
class ComputeOp(Operation):
    """Outputs that are computed element by element: at each point of `axis`, `body[k]` is the element of
    output k."""

    axis: tuple[IterVar, ...] = ()
    reduce_axis: tuple[IterVar, ...] = ()
    body: tuple[PrimExpr, ...] = ()


@dataclass(eq=False, slots=True)
class ExternOp(Operation):
    """Outputs written by a statement over buffers."""

    input_buffers: tuple[Buffer, ...] = ()
    output_buffers: tuple[Buffer, ...] = ()
    body: Stmt | None = None


class TensorSlice(Operators):
    """`A[i][j]` with only some of its indices yet."""

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, index: Any) -> Any:
        return self.tensor[(*self.indices, *(index if isinstance(index, tuple) else (index,)))]


class Tensor(Operators):
    """One output of an operation. `A[i, j]` and `A(i, j)` read an element."""

    def __init__(self, op: Operation, value_index: int, shape: tuple[PrimExpr, ...], dtype: DataType) -> None:
        self.op, self.value_index, self.shape, self.dtype = op, value_index, shape, dtype

    @property
    def name(self) -> str:
        """The name of its operation. If the operation has several outputs, the output's number is
        appended.
        """
        return self.op.name if len(self.op.outputs) <= 1 else f"{self.op.name}_{self.value_index}"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Any:
        given = indices if isinstance(indices, tuple) else (indices,)
        given = tuple(index.var if isinstance(index, IterVar) else index for index in given)
        if len(given) < len(self.shape):
            return TensorSlice(self, given)
        if len(given) != len(self.shape):
            raise IRTypeError(
                E0101, f"tensor {self.name!r} has {len(self.shape)} dimensions, got {len(given)} indices"
            )
        return TensorLoad(self, tuple(as_expr(index) for index in given))

    def __call__(self, *indices: Any) -> Any:
        return self[indices] if indices else TensorLoad(self, ())

    def __hash__(self) -> int:
        return id(self) >> 4

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"Tensor({self.name}, {self.dtype}, shape={list(self.shape)})"


class ScalarTensor(Tensor):
    """A tensor of rank 0 with a known value. Reading it gives the constant."""

    def __init__(self, value: PrimExpr) -> None:
        super().__init__(PlaceholderOp("scalar", {}, ()), 0, (), value.dtype)
        self.value = value

    def __getitem__(self, indices: Any) -> Any:
        return self.value

    def __call__(self, *indices: Any) -> Any:
        return self.value


@node("te.TensorLoad")
class TensorLoad(PrimExpr):
    """An element of a tensor. `producer` is a te Tensor; it is compared by identity."""

    producer: Any
    indices: tuple[PrimExpr, ...]
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        lanes = max((index.dtype.lanes for index in self.indices), default=1)
        self.set_derived("dtype", self.producer.dtype.with_lanes(lanes))


@node("te.CommReducer")
class CommReducer(Node):
    """A commutative reducer of one or several values: `result[k]` combines the accumulated values `lhs` with
    new values `rhs`. Accumulation starts from `identity_element`."""

    lhs: tuple[Var, ...] = defines()
    rhs: tuple[Var, ...] = defines()
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]


@node("te.Reduce")
class Reduce(PrimExpr):
    """The reduction of `source` over `axis`, at the points where `condition` holds. `init` replaces the
    identity."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int
    init: tuple[PrimExpr, ...] = ()
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("dtype", self.source[self.value_index].dtype)


def _shape(shape: Any) -> tuple[PrimExpr, ...]:
    return tuple(as_expr(dim) for dim in (shape if isinstance(shape, (tuple, list)) else (shape,)))


def placeholder(shape: Any, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """Return an input tensor."""
    op = PlaceholderOp(name, {}, ())
    op.outputs = (Tensor(op, 0, _shape(shape), DataType(dtype)),)
    return op.outputs[0]


def var(name: str = "v", dtype: str = "int32") -> Var:
    """Return a scalar variable."""
    return Var(name, DataType(dtype))


def size_var(name: str = "n", dtype: str = "int32") -> Var:
    """Return a variable for a size. Sizes are never negative."""
    return Var(name, DataType(dtype), None, True)


def reduce_axis(dom: Any, name: str = "rv") -> IterVar:
    """Return a reduction axis over `dom`, which is a pair (begin, end) or a Range."""
    if not isinstance(dom, Range):
        begin, end = match_types(*dom)
        dom = Range(begin, end)
    return IterVar(dom, Var(name, dom.extent.dtype), IterType.CommReduce)


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
    tag: str = "",
) -> Any:
    """Return the tensor whose element at (i, j, ...) is `fcompute(i, j, ...)`. If `fcompute` returns a tuple,
    the result is a tuple of tensors.

    Raises: IRTypeError E0101 if the number of the function's parameters is not the rank of the shape.
    """
    dims = _shape(shape)
    axis = tuple(
        IterVar(Range.from_min_extent(constant(0, dim.dtype), dim), Var(axis_name, dim.dtype))
        for dim, axis_name in zip(dims, _axis_names(fcompute, len(dims), varargs_names, name), strict=True)
    )
    result = fcompute(*(a.var for a in axis))
    items = result if isinstance(result, (tuple, list)) else (result,)
    body = tuple(as_expr(item() if isinstance(item, Tensor) else item) for item in items)
    reduces = [item for item in body if isinstance(item, Reduce)]
    op = ComputeOp(
        name, dict(attrs or {}), producers(*body), (), axis, reduces[0].axis if reduces else (), body
    )
    op.outputs = tuple(Tensor(op, index, dims, item.dtype) for index, item in enumerate(body))
    return op.outputs if isinstance(result, (tuple, list)) else op.outputs[0]


def _axis_names(function: Callable[..., Any], ndim: int, given: Sequence[str] | None, name: str) -> list[str]:
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = ndim - len(names)
            names.extend(given or [f"{parameter.name.rstrip('s')}{k}" for k in range(rest)])
        elif parameter.default is parameter.empty:
            names.append(parameter.name)
    if len(names) != ndim:
        raise IRTypeError(
            E0101, f"the function of compute {name!r} takes {len(names)} indices, the shape has {ndim}"
        )
    return names


def producers(*exprs: PrimExpr) -> tuple[Tensor, ...]:
    """The tensors that the expressions read, each once, in order."""
    found: dict[Tensor, None] = {}
    stack: list[Any] = list(reversed(exprs))
    seen: set[int] = set()
    while stack:
        top = stack.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        if isinstance(top, TensorLoad):
            found[top.producer] = None
        stack.extend(reversed(list(_children(top))))
    return tuple(found)


def _children(item: Any) -> list[Any]:
    values = (
        [getattr(item, name) for name in item.init_names]
        if isinstance(item, Node) and not item.identity
        else []
    )
    flat: list[Any] = []
    for value in values:
        flat.extend(value if isinstance(value, tuple) else (value,))
    return [value for value in flat if isinstance(value, Node)]


def extern(
    shapes: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[..., Stmt],
    name: str = "extern",
    dtype: Any = None,
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Return tensors that a statement writes. `fcompute(input buffers, output buffers)` returns the
    statement.

    `shapes` is one shape (the result is one tensor), or a list of shapes (the result is a list of tensors).
    """
    inputs = [compute((), lambda t=t: t.value, t.name) if isinstance(t, ScalarTensor) else t for t in inputs]
    several = isinstance(shapes, list)
    all_shapes = [_shape(shape) for shape in (shapes if several else [shapes])]
    dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(all_shapes)
    made = [DataType(given) if given is not None else inputs[0].dtype for given in dtypes]
    in_buffers = tuple(decl_buffer(t.shape, t.dtype, t.name) for t in inputs)
    out_buffers = tuple(
        decl_buffer(shape, d, f"{name}_{k}")
        for k, (shape, d) in enumerate(zip(all_shapes, made, strict=True))
    )
    body = fcompute(in_buffers, out_buffers)
    op = ExternOp(name, dict(attrs or {}), tuple(inputs), (), in_buffers, out_buffers, body)
    op.outputs = tuple(
        Tensor(op, k, shape, d) for k, (shape, d) in enumerate(zip(all_shapes, made, strict=True))
    )
    return list(op.outputs) if several else op.outputs[0]
