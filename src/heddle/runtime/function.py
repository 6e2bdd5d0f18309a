"""Packed functions: callables over runtime values, and the table of global functions.

Arguments, and results of Python callbacks, are converted by the first row that fits:

| Python value | runtime value |
|---|---|
| Tensor, Shape, Array, Map, int, float, bool, str, None, Device, DataType, Function | unchanged |
| numpy array | Tensor; memory is shared if it is compact, writable and aligned |
| numpy scalar | Python int, float or bool |
| list, tuple | Array, element by element |
| ConstructorValue | ConstructorValue, field by field |
| RefValue | the same RefValue; the value that it holds is converted |
| dict | Map |
| numpy dtype or scalar type | DataType |
| object with `__dlpack__` | Tensor, memory shared |
| plain function, method, builtin or partial | Function |
| anything else | unchanged |
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any, overload

import numpy as np

from heddle.runtime.codes import U0401, U0402
from heddle.runtime.data import ConstructorValue, RefValue, map_values
from heddle.runtime.device import Device
from heddle.runtime.dlpack import is_lender
from heddle.runtime.dtype import DataType, dtype_of
from heddle.runtime.shape import Array, Map, Shape, TextTensor
from heddle.runtime.tensor import Tensor, from_dlpack, tensor_from_numpy
from heddle.support.diagnostics import MissingNameError, UsageError, did_you_mean
from heddle.support.registry import Registry, caller_place


class Function:
    """A callable over runtime values. A call converts the arguments and the result. `.call` is the
    unconverted callable.

    Exceptions of a Python callback are not wrapped.
    """

    __slots__ = ("__weakref__", "call", "name")

    def __init__(self, call: Callable[..., Any], name: str | None = None) -> None:
        if not callable(call):
            raise UsageError(U0402, f"expected a callable, got {type(call).__name__}")
        self.call: Callable[..., Any] = call.call if isinstance(call, Function) else call
        self.name = name or getattr(call, "__name__", type(call).__name__)

    def __call__(self, *args: Any) -> Any:
        return to_value(self.call(*[to_value(arg) for arg in args]))

    def __repr__(self) -> str:
        return f"Function({self.name})"


_UNCHANGED: frozenset[type] = frozenset(
    (
        Tensor,
        Shape,
        Array,
        TextTensor,
        Map,
        int,
        float,
        bool,
        str,
        type(None),
        Device,
        DataType,
        Function,
        bytes,
    )
)
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial)


def to_value(value: Any) -> Any:
    """Convert a Python value to a runtime value (see the table of this module).

    Raises: IRTypeError U0302 for an array whose element type has no equivalent.
    """
    if type(value) in _UNCHANGED:
        return value
    if isinstance(value, np.ndarray):
        return tensor_from_numpy(value)
    if isinstance(value, (Shape, Array)):
        return value
    if isinstance(value, (list, tuple, ConstructorValue)):
        return map_values(value, to_value, Array)
    if isinstance(value, RefValue):
        return _with_value_inside(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return Map({to_value(key): to_value(item) for key, item in value.items()})
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return dtype_of(value)
    if isinstance(value, _CALLABLES):
        return Function(value)
    if is_lender(value):
        return from_dlpack(value)
    return value


def _with_value_inside(ref: RefValue) -> RefValue:
    if ref.cell is not None:
        return ref
    held = ref.value
    if type(held) not in _UNCHANGED:
        ref.value = None  # cleared during the conversion, because the value may contain the reference itself
        try:
            held = to_value(held)
        finally:
            ref.value = held
    return ref


convert = to_value

_global_functions: Registry[Function] = Registry("global function")


@overload
def register_global_func(name: str, f: None = None, override: bool = False) -> Callable[[Any], Any]: ...
@overload
def register_global_func(
    name: Callable[..., Any], f: None = None, override: bool = False
) -> Callable[..., Any]: ...
@overload
def register_global_func(name: str, f: Callable[..., Any], override: bool = False) -> Callable[..., Any]: ...
def register_global_func(name: Any, f: Any = None, override: bool = False) -> Any:
    """Register `f` as the global function `name`, and return `f`.

    Without `f`, the result is a decorator. As a bare decorator (`@register_global_func`) it uses the
    function's own name. `override` allows to replace a registered function.

    Raises: UsageError S0201 if the name is taken and `override` is False, U0402 if `f` is not callable.
    """
    place = caller_place()
    if callable(name):
        return _register(name.__name__, name, override, place)
    if f is None:
        return lambda function: _register(name, function, override, place)
    return _register(name, f, override, place)


def _register(name: str, f: Any, override: bool, place: str) -> Any:
    _global_functions.add(name, Function(f, name), override=override, place=place)
    return f


def find_global_func(name: str) -> Function | None:
    """Return the global function `name`, or None if there is none."""
    return _global_functions.get(name)


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """Return the global function `name`. If there is none and `allow_missing` is True, return None.

    Raises: MissingFunctionError U0401 (a MissingNameError and a ValueError) if there is none and
    `allow_missing` is False.
    """
    found = _global_functions.get(name)
    if found is None and not allow_missing:
        raise MissingFunctionError(
            U0401, f"cannot find global function {name!r}", help=did_you_mean(name, _global_functions)
        )
    return found


class MissingFunctionError(MissingNameError, ValueError):
    """The error for a global function that is not registered."""


def remove_global_func(name: str) -> None:
    """Remove a global function. Raises: MissingFunctionError U0401 if there is none with this name."""
    get_global_func(name)
    _global_functions.remove(name)


def list_global_func_names() -> list[str]:
    """Return the names of all global functions, sorted."""
    return sorted(_global_functions)
