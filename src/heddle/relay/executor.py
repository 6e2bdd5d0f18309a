"""Executors: Relay programs as Python functions, and how their values look from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from heddle.graph.types import TensorType
from heddle.graph.values import as_value
from heddle.ir.expr import Constant, Expr, Function, GlobalVar, Var
from heddle.ir.module import IRModule, checked_module
from heddle.ir.node import replace
from heddle.relay.builders import as_expr, bind, const
from heddle.relay.codes import Q0101, Q0105, Q0402
from heddle.relay.interpreter import Closure, RelayInterpreter
from heddle.relay.nodes import Let
from heddle.relay.typed import infer_expr, infer_module
from heddle.runtime.data import ConstructorValue, RefValue, map_values
from heddle.runtime.device import Device, cpu
from heddle.runtime.dtype import dtype_of
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import Trap, TrapTypeError, UsageError, did_you_mean
from heddle.support.registry import Registry


class ADT(tuple[Any, ...]):
    """A tuple as a program's result. `tag` is 0."""

    tag = 0

    @property
    def fields(self) -> tuple[Any, ...]:
        """The items as a plain tuple."""
        return tuple(self)


class Executor:
    """Evaluates expressions of a module. `kind` "debug": by the interpreter, to which no `target` matters."""

    def __init__(self, mod: IRModule | None, device: Device | None = None, target: Any = None) -> None:
        self.mod = infer_module(mod if mod is not None else IRModule())
        self.device = device if device is not None else cpu()
        self._interpreter: Any = RelayInterpreter(self.mod)

    def evaluate(self, expr: Any = None, binds: Mapping[Var, Any] | None = None) -> Any:
        """Without an expression, `main` as a Python function; a function or global as one; the value of any
        other expression. `binds` are values of variables.

        Raises: IRTypeError where types do not fit, MissingNameError I0301, Trap Q04..
        """
        if expr is None:
            return self._callable(self.mod["main"])
        if isinstance(expr, GlobalVar):
            return self._callable(self.mod[expr])
        for var, value in (binds or {}).items():
            expr = Let(var, as_expr(value), expr)
        typed = infer_expr(expr, self.mod)
        if isinstance(typed, Function):
            return self._callable(typed)
        return self._outside(self._interpreter.evaluate(typed))

    def _callable(self, func: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            given = _by_name(func, args, kwargs)
            values = [
                _inside(value, param.ty, f"argument {param.name_hint}")
                for value, param in zip(given, func.params, strict=True)
            ]
            return self._outside(self._interpreter.call(func, values))

        return run

    def _outside(self, value: Any) -> Any:
        """A value for Python: tensors on the executor's device."""
        return map_values(value, self._leaf_outside, ADT)

    def _leaf_outside(self, value: Any) -> Any:
        if isinstance(value, RefValue):
            return RefValue(self._outside(value.value))
        if isinstance(value, Closure) or callable(value):
            return self._callable_closure(value)
        return tensor(value, self.device) if isinstance(value, np.ndarray) else value

    def _callable_closure(self, closure: Closure) -> Callable[..., Any]:
        return lambda *args: self._outside(
            self._interpreter.call(closure, [_inside(arg, None, "an argument") for arg in args])
        )


def _by_name(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Arguments in the order of the parameters. Raises: TrapTypeError Q0402 for missing, surplus or double
    ones."""
    names = [param.name_hint for param in func.params]
    if len(args) > len(names):
        message = f"the function takes {len(names)} arguments, got {len(args)}"
        raise TrapTypeError(Q0402, message, help=f"its parameters are {', '.join(names) or 'none'}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise TrapTypeError(Q0402, f"argument {name!r} comes twice")
        if name not in names:
            raise TrapTypeError(Q0402, f"no parameter is called {name!r}", help=did_you_mean(name, names))
        given[name] = value
    missing = [name for name in names[len(args) :] if name not in given]
    if missing:
        raise TrapTypeError(
            Q0402, f"argument {missing[0]!r} is missing", help=f"the parameters are {', '.join(names)}"
        )
    return [*args, *(given[name] for name in names[len(args) :])]


def _inside(value: Any, ty: Any, where: str) -> Any:
    """A value of Python as the interpreter has it. Raises: TrapTypeError Q0402."""
    if isinstance(value, (tuple, list)) and not isinstance(ty, TensorType):
        types = getattr(ty, "fields", None) or (None,) * len(value)
        if len(types) != len(value):
            raise TrapTypeError(Q0402, f"{where}: expected a tuple of {len(types)}, got {len(value)}")
        return tuple(_inside(item, part, where) for item, part in zip(value, types, strict=True))
    if isinstance(value, ConstructorValue):
        return map_values(value, lambda item: _inside(item, None, where))
    if isinstance(value, (Closure, RefValue)):
        return value
    if isinstance(value, (bool, int, float)):
        dtype = str(ty.dtype) if isinstance(ty, TensorType) else None
        return _array(const(value, dtype).data)
    if not isinstance(value, (Tensor, np.ndarray, np.generic)):
        raise TrapTypeError(
            Q0402, f"{where}: expected a tensor, number, tuple or data type, got {type(value).__name__}"
        )
    array = np.asarray(as_value(value))
    if not isinstance(ty, TensorType):
        return array
    if ty.dtype is not None and dtype_of(array.dtype) == ty.dtype:
        array = array.astype(ty.dtype.numpy(), copy=False)  # of fewer than 8 bits: one to a byte
    _check(array, ty, where)
    return array


def _array(data: Tensor) -> Any:
    return np.asarray(data.numpy(), data.dtype.numpy())


def _check(array: Any, ty: TensorType, where: str) -> None:
    """Raises: TrapTypeError Q0402 where an array does not fit a type."""
    expected = ty.dtype.numpy() if ty.dtype is not None else array.dtype
    sizes = [getattr(dim, "value", None) for dim in ty.dims or ()]
    fits = len(sizes) == array.ndim and all(
        size is None or size == got for size, got in zip(sizes, array.shape, strict=True)
    )
    if array.dtype != expected or not fits:
        shown = ", ".join("?" if size is None else str(size) for size in sizes)
        raise TrapTypeError(
            Q0402, f"{where}: expected ({shown}) of {ty.dtype}, got {tuple(array.shape)} of {array.dtype}"
        )


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """A function with the parameters of these names known; other names do nothing. A Python number takes the
    dtype of its parameter.

    Raises: UsageError Q0101 where two parameters have one of the names, and for no function or mapping;
    TrapTypeError Q0402 for an array that does not fit its parameter's type.
    """
    if not isinstance(func, Function):
        raise UsageError(Q0101, f"expected a function, got {type(func).__name__}")
    if not isinstance(params, Mapping):
        raise UsageError(Q0101, f"params: expected arrays by name, got {type(params).__name__}")
    binds = {}
    for name, value in params.items():
        found = [param for param in func.params if param.name_hint == name]
        if len(found) > 1:
            help_text = "relay.bind takes the variables"
            raise UsageError(Q0101, f"{len(found)} parameters are called {name!r}", help=help_text)
        for param in found:
            binds[param] = _bound(value, param)
    return bind(func, binds) if binds else func


def _bound(value: Any, param: Var) -> Expr:
    """What a parameter is bound to. Raises: TrapTypeError Q0402."""
    ty = param.ty
    if not isinstance(ty, TensorType) or ty.dtype is None:
        return as_expr(value)
    is_number = type(value) in (bool, int) or (type(value) is float and ty.dtype.is_float)
    is_same = not isinstance(value, Expr) and getattr(value, "dtype", None) == str(ty.dtype)
    given = const(value, str(ty.dtype)) if is_number or is_same else as_expr(value)  # const narrows 64 bits
    if isinstance(given, Constant):
        _check(given.data.numpy(), ty, f"parameter {param.name_hint!r}")
    return given


EXECUTORS: Registry[Callable[..., Any]] = Registry("executor")
"""By kind: makes an executor of a module and a device. Those that compile lie above, and the table asks for
them."""
EXECUTORS.add("debug", Executor)


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Device | None = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Any:
    """An executor of a module. With `params`, only `main` is kept, with these parameters known. The
    interpreter ("debug") makes no code; "vm" compiles for the target and runs it on Relay's machine.

    Raises: Trap (a RuntimeError) Q0105 for an unknown kind; UsageError I0509 for what is no module.
    """
    if kind not in EXECUTORS:
        raise Trap(
            Q0105, f"there is no executor {kind!r}", help=f"the kinds are {', '.join(sorted(EXECUTORS))}"
        )
    if mod is not None:
        checked_module(mod, "create_executor")
    if params and mod is not None:
        main = bind_params_by_name(mod["main"], params)
        mod = replace(IRModule.from_expr(main), type_definitions=mod.type_definitions)
    return EXECUTORS[kind](mod, device, target)
