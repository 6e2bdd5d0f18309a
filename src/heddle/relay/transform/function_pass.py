"""Passes that users write over Relay functions, and contexts by TVM's older name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.expr import Function
from heddle.ir.transform import PassContext, over_functions, pass_decorator

function_pass = pass_decorator(
    "transform_function",
    over_functions(Function, "relay"),
    "Make a pass of `f(func, mod, ctx)` over Relay functions, or of a class with `transform_function`.",
)


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
