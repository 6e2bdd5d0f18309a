"""Passes that users write over loop functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.pass_makers import decorated_pass, over_functions
from heddle.tir.nodes import PrimFunc

_over_loops = over_functions(PrimFunc, "tir")


def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or a class of passes of a class with `transform_function`.

    Used as `@prim_func_pass(opt_level=1)`. `traceable` does nothing: every pass is seen by instruments.
    """
    return decorated_pass(pass_func, (opt_level, name, required), "transform_function", _over_loops)
