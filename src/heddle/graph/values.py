"""Values of the reference interpreters, and what types, operators and loop functions mean for them.

A value is a numpy array, a tuple of values, a shape (a tuple of ints), a Python scalar, or a function of
values. A dialect's interpreter walks its own expressions; what it finds there means the same in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heddle.graph.codes import R0601, R0602
from heddle.graph.types import ShapeType, TensorType
from heddle.ir.attrs import Attrs
from heddle.ir.op_def import OpDef, Without
from heddle.ir.types import PrimType, TupleType, Type
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.runtime.codes import U0601
from heddle.support.diagnostics import HeddleError, Trap, TrapIndexError, TrapValueError, VerifyError
from heddle.support.span import Span

Dims = dict[PrimVar, int]
"""What the symbolic dimensions of a call are."""


def as_value(value: Any) -> Any:
    """Results of any kind as values: tensors and numpy's scalars are numpy arrays, lists tuples."""
    if isinstance(value, (tuple, list)):
        return tuple(as_value(item) for item in value)
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        return value.numpy()
    return np.asarray(value) if isinstance(value, np.generic) else value


def is_true(value: Any) -> bool:
    """What a condition means: a bool or an integer, or the only element of a tensor of these.

    Raises: TrapValueError R0601 for anything else.
    """
    found = np.asarray(value)
    if found.size != 1:
        raise TrapValueError(R0601, f"a condition must have one element, got a tensor of shape {found.shape}")
    if found.dtype.kind not in "biu":
        raise TrapValueError(R0601, f"a condition must have a bool or integer dtype, got {found.dtype}")
    return bool(found.reshape(-1)[0])


# ---- types


def match_value(value: Any, ty: Type | None, where: str, dims: Dims) -> None:
    """Check a value against a type, binding in `dims` the dimensions that are new.

    `where` names the value in messages. Raises: TrapValueError R0601.
    """
    if isinstance(ty, TupleType):
        for item, part in zip(value, ty.fields, strict=True):
            match_value(item, part, where, dims)
    elif isinstance(ty, TensorType):
        _match_tensor(value, ty, where, dims)
    elif isinstance(ty, PrimType) and ty.value is not None:
        _match_dims((value,), (ty.value,), where, dims)
    elif isinstance(ty, ShapeType) and ty.values is not None:
        _match_dims(tuple(value), ty.values, where, dims)


def _match_tensor(value: Any, ty: TensorType, where: str, dims: Dims) -> None:
    if ty.dtype is not None and value.dtype != ty.dtype.numpy():  # 4-bit integers take a byte each
        raise TrapValueError(R0601, f"{where}: expected dtype {ty.dtype}, got {value.dtype}")
    if ty.ndim >= 0 and value.ndim != ty.ndim:
        raise TrapValueError(R0601, f"{where}: expected {ty.ndim} dimensions, got {value.ndim}")
    if ty.dims is not None:
        _match_dims(value.shape, ty.dims, where, dims)


def _match_dims(sizes: tuple[int, ...], expected: tuple[PrimExpr, ...], where: str, dims: Dims) -> None:
    for dim, size in zip(expected, sizes, strict=True):
        if isinstance(dim, PrimVar):
            dims.setdefault(dim, size)
    for axis, (dim, size) in enumerate(zip(expected, sizes, strict=True)):
        wanted = evaluate(dim, dims)
        if wanted != size:
            raise TrapValueError(R0601, f"{where}: dimension {axis} expected {wanted}, got {size}")


def shape_value(values: Sequence[PrimExpr], dims: Dims) -> tuple[int, ...]:
    """A shape, where its symbolic dimensions are known."""
    return tuple(int(evaluate(dim, dims)) for dim in values)


# ---- calls


def apply_operator(record: OpDef, attrs: Attrs, values: Sequence[Any], span: Span | None = None) -> Any:
    """What an operator gives, by its reference.

    Raises: VerifyError R0602 where it has none; TrapValueError R0601 where sizes do not fit, TrapIndexError
    R0601 where an index is out of range; Trap U0601 where there is no memory for the result.
    """
    if isinstance(record.reference, Without):
        raise VerifyError(
            R0602, f"operator {record.name} has no reference: {record.reference.reason}", span=span
        )
    try:
        return as_value(record.reference(attrs, *values))
    except HeddleError:
        raise
    except ValueError as error:  # numpy's, and the references' own: sizes that do not fit
        raise TrapValueError(R0601, f"{record.name}: {error}", span=span) from error
    except IndexError as error:
        raise TrapIndexError(R0601, f"{record.name}: {error}", span=span) from error
    except MemoryError as error:
        raise Trap(U0601, f"{record.name}: {error}", span=span) from error


def call_with_outputs(
    run: Callable[..., Any],
    ty: Type,
    given: Sequence[Any],
    dims: Dims,
    *,
    places: Sequence[int] = (),
    scalars: Sequence[Any] = (),
) -> Any:
    """Allocate outputs of type `ty`, call `run(given..., outputs..., scalars...)`, give the outputs.

    Output i is the argument `places[i]` where that is not negative, else fresh.
    """
    types = ty.fields if isinstance(ty, TupleType) else (ty,)
    arrays = tuple(_dense(item) for item in given)
    at = tuple(places) or (-1,) * len(types)
    outputs = [_empty(t, dims) if place < 0 else arrays[place] for t, place in zip(types, at, strict=True)]
    fresh = [out for out, place in zip(outputs, at, strict=True) if place < 0]
    run(*arrays, *fresh, *scalars)
    return tuple(outputs) if isinstance(ty, TupleType) else outputs[0]


def _empty(ty: Any, dims: Dims) -> Any:
    assert isinstance(ty, TensorType) and ty.dims is not None and ty.dtype is not None
    return np.zeros(shape_value(ty.dims, dims), ty.dtype.numpy())


def _dense(value: Any) -> Any:
    """An array as loop functions take it; references of operators may give views."""
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value
