"""Passes that users write over Relay functions, and contexts by TVM's older name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.expr import Function
from heddle.ir.pass_makers import decorated_pass, over_functions
from heddle.ir.transform import PassContext

_over_relay = over_functions(Function, "relay")


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or a class of passes of a class with `transform_function`.

    Used as `@function_pass(opt_level=1)`. A name that is not given is that of the function or class.
    """

    return decorated_pass(pass_func, (opt_level, name, required), "transform_function", _over_relay)


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
