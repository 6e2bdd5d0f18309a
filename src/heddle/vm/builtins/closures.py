"""Builtins for closures and for calls of functions that are values."""

from __future__ import annotations

from typing import Any

from heddle.runtime.function import Function
from heddle.runtime.shape import Shape
from heddle.support.diagnostics import TrapTypeError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402
from heddle.vm.objects import VMClosure


@builtin("make_closure")
def make_closure(function: Any, *bound: Any) -> Any:
    """Bind the *last* parameters of a function: calling the result with (y, z) runs function(y, z,
    *bound).
    """
    if isinstance(function, VMClosure):
        return function.bind_last(bound)
    if not callable(function):
        raise TrapTypeError(V0402, f"expected a function, got {type(function).__name__}")
    call = function.call if isinstance(function, Function) else function
    return Function(lambda *args: call(*args, *bound), getattr(function, "name", None))


@builtin("invoke_closure", calls=True)
def invoke_closure(vm: Any, closure: Any, *args: Any) -> Any:
    """Call a closure of the machine, or a plain function. Raises: TrapTypeError V0402."""
    call = getattr(vm, "invoke_closure", None)
    if call is None:
        raise TrapTypeError(V0402, f"expected the machine as the first argument, got {type(vm).__name__}")
    return call(closure, *args)


@builtin("call_tir_dyn", calls=True)
def call_tir_dyn(function: Any, *args: Any) -> None:
    """Call a kernel with the tensors. If the last argument is a Shape, its sizes follow as integers."""
    shape = args[-1] if args else None
    if not isinstance(shape, Shape):
        raise TrapTypeError(V0402, f"expected a shape as the last argument, got {type(shape).__name__}")
    if not callable(function):
        raise TrapTypeError(V0402, f"expected a function, got {type(function).__name__}")
    call = function.call if isinstance(function, Function) else function
    call(*args[:-1], *shape)
