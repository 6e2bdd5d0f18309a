"""Passes that users write over Relay functions, and contexts by TVM's older name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.transform import CallbackPass, Pass, PassContext, PassInfo, map_functions


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or a class of passes of a class with `transform_function`.

    Used as `@function_pass(opt_level=1)`. A name that is not given is that of the function or class.
    """

    def make(target: Any) -> Any:
        info = PassInfo(name or target.__name__, opt_level or 0, tuple(required or ()))
        if not inspect.isclass(target):
            return _over_functions(target, info)
        owner: Any = target

        def build(*args: Any, **kwargs: Any) -> Pass:
            return _over_functions(owner(*args, **kwargs).transform_function, info)

        return build

    return make if pass_func is None else make(pass_func)


def _over_functions(function: Callable[..., Any], info: PassInfo) -> Pass:
    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        def change(_var: Any, func: Any) -> Any:
            return function(func, mod, ctx) if isinstance(func, Function) else func

        return map_functions(mod, ("relay",), change)

    run.__module__ = str(getattr(function, "__module__", ""))  # whose fault a fault in it is
    return CallbackPass(run, info)


def build_config(
    opt_level: int = 2,
    required_pass: Sequence[str] | None = None,
    disabled_pass: Sequence[str] | None = None,
    trace: Any = None,
) -> PassContext:
    """A context of passes: `with build_config(opt_level=3): ...`. `trace` does nothing, as in TVM."""
    return PassContext(
        opt_level=opt_level,
        required_pass=tuple(required_pass or ()),
        disabled_pass=tuple(disabled_pass or ()),
    )
