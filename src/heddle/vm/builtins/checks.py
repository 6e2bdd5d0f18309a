"""Builtins that check arguments and results against the program's type annotations at run time. Error
messages begin with the context text."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from heddle.runtime.dtype import DataType
from heddle.runtime.function import Function
from heddle.runtime.shape import Array, Shape
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0403
from heddle.vm.objects import VMClosure


def _wrong_type(context: str, expected: str, value: object) -> TrapTypeError:
    return TrapTypeError(V0402, f"{context} expected {expected}, got {type(value).__name__}")


@builtin("check_tensor_info")
def check_tensor_info(value: Any, ndim: int, *rest: Any) -> None:
    """Check that a value is a tensor. ndim -1 accepts any rank. `rest` holds the dtype (None or absent: any),
    then the context text.

    Raises: TrapTypeError V0402 if it is not a tensor; TrapValueError V0403 for another ndim or dtype.
    """
    context, dtype = rest[-1], rest[0] if len(rest) > 1 else None
    if not isinstance(value, Tensor):
        raise _wrong_type(context, "a tensor", value)
    if ndim != -1 and value.ndim != ndim:
        raise TrapValueError(V0403, f"{context} expected a tensor with ndim {ndim}, got ndim {value.ndim}")
    if dtype is not None and dtype != "" and value.dtype != dtype:
        raise TrapValueError(
            V0403, f"{context} expected a tensor with dtype {dtype}, got dtype {value.dtype}"
        )


@builtin("check_shape_info")
def check_shape_info(value: Any, ndim: int, context: str) -> None:
    """Check that a value is a Shape of `ndim` sizes. Raises: TrapTypeError V0402 if it is not a Shape;
    TrapValueError V0403 for another ndim."""
    if not isinstance(value, Shape):
        raise _wrong_type(context, "a shape", value)
    if ndim != -1 and len(value) != ndim:
        raise TrapValueError(V0403, f"{context} expected a shape with ndim {ndim}, got ndim {len(value)}")


@builtin("check_prim_value_info")
def check_prim_value_info(value: Any, dtype: DataType, context: str) -> None:
    """Check that a value is a scalar of a dtype: an int dtype accepts ints and bools, a float dtype floats
    and ints, bool accepts bools and ints.

    Raises: TrapTypeError V0402.
    """
    wanted = DataType(dtype)
    accepted: tuple[type, ...] = (int,)
    if wanted.is_float:
        accepted = (int, float)
    elif wanted.is_handle:
        accepted = (object,)
    if not isinstance(value, accepted):
        raise _wrong_type(context, f"a value of dtype {wanted}", value)


@builtin("check_tuple_info")
def check_tuple_info(value: Any, length: int, context: str) -> None:
    """Check that a value is a tuple of `length` items. Raises: TrapTypeError V0402 if it is not a tuple;
    TrapValueError V0403 for another length."""
    if not isinstance(value, Array):
        raise _wrong_type(context, "a tuple", value)
    if len(value) != length:
        raise TrapValueError(
            V0403, f"{context} expected a tuple with {length} elements, got {len(value)} elements"
        )


@builtin("check_func_info")
def check_func_info(value: Any, context: str) -> None:
    """Check that a value is a function. Raises: TrapTypeError V0402 if it is not."""
    if not isinstance(value, (Function, VMClosure, types.BuiltinFunctionType)):
        raise _wrong_type(context, "a function", value)


def scalar_of(tensor: Tensor) -> np.generic | None:
    """Return the first element of a tensor, or None if the tensor is empty."""
    values = tensor.numpy()
    found: np.generic | None = values.reshape(-1)[0] if values.size else None
    return found
