"""Builtins that call into Python: functions that users register for a program, and debugging hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from heddle.runtime.function import Function, find_global_func, to_value
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError, did_you_mean
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0407

PYTHON = "python functions of the process"
_py_functions: dict[str, Callable[..., Any]] = {}


@builtin("register_py_func", reaches=PYTHON)
def register_py_func(name: str, function: Any) -> None:
    """Register a Python function under a name for programs to call (`call_py_func`). It replaces an older
    one."""
    _py_functions[name] = function.call if isinstance(function, Function) else function


@builtin("get_py_func", reaches=PYTHON)
def get_py_func(name: str) -> Function:
    """Return the function registered under a name. Raises: Trap V0407 if there is none."""
    found = _py_functions.get(name)
    if found is None:
        raise Trap(
            V0407, f"python function {name!r} is not registered", help=did_you_mean(name, _py_functions)
        )
    return Function(found, name)


@builtin("clear_py_func_registry", reaches=PYTHON)
def clear_py_func_registry() -> None:
    """Remove all functions that `register_py_func` registered."""
    _py_functions.clear()


@builtin("call_py_func", calls=True, reaches=PYTHON)
def call_py_func(packed: Any) -> Any:
    """Call a registered Python function. `packed` is (name, tuple of arguments)."""
    if not isinstance(packed, tuple) or len(packed) != 2 or not isinstance(packed[1], tuple):
        raise TrapTypeError(V0402, f"expected a name and a tuple of arguments, got {packed!r}")
    name, args = packed
    return to_value(get_py_func(name).call(*args))


@builtin("invoke_debug_func", calls=True, reaches=PYTHON)
def invoke_debug_func(_: Any, func_name: str, line_info: str, *args: Any) -> Any:
    """Call the global function `func_name` with (line_info, *args). Raises: TrapValueError V0407 if it does
    not exist."""
    function = find_global_func(func_name)
    if function is None:
        raise TrapValueError(
            V0407,
            f"debug function {func_name!r} is not registered",
            help="use register_global_func before running",
        )
    return function.call(line_info, *args)


@builtin("debug_print")
def debug_print(*values: Any) -> None:
    """Print the values to standard output."""
    sys.stdout.write(" ".join(map(str, values)) + "\n")
