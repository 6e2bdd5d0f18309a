"""What makes passes of users' functions and classes: decorators over functions of one dialect."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.transform import CallbackPass, Pass, PassContext, PassInfo, map_functions

FunctionChange = Callable[[Any, Any, PassContext], Any]
"""(function, module, context) → function."""


def decorated_pass(
    pass_func: Any,
    info: tuple[int | None, str | None, Sequence[str] | None],
    method: str,
    over: Callable[[FunctionChange, PassInfo], Pass],
) -> Any:
    """A pass of a function, or a class of passes of a class with `method`; without `pass_func` a decorator.

    `info` is opt_level, name and required; a name that is not given is that of the function or class.
    """
    opt_level, name, required = info

    def make(target: Any) -> Any:
        told = PassInfo(name or target.__name__, opt_level or 0, tuple(required or ()))
        if not inspect.isclass(target):
            return over(target, told)
        owner: Any = target

        def build(*args: Any, **kwargs: Any) -> Pass:
            return over(getattr(owner(*args, **kwargs), method), told)

        return build

    return make if pass_func is None else make(pass_func)


def over_functions(kind: type, dialect: str) -> Callable[[FunctionChange, PassInfo], Pass]:
    """Makes passes of what changes functions of one class and dialect; all others stay."""

    def over(function: FunctionChange, info: PassInfo) -> Pass:
        def run(mod: Any, ctx: PassContext) -> Any:
            def change(_var: Any, func: Any) -> Any:
                return function(func, mod, ctx) if isinstance(func, kind) else func

            return map_functions(mod, (dialect,), change)

        run.__module__ = str(getattr(function, "__module__", ""))  # whose fault a fault in it is
        return CallbackPass(run, info)

    return over
