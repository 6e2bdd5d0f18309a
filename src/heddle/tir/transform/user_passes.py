"""Passes that users write over loop functions."""

from __future__ import annotations

from heddle.ir.transform import over_functions, pass_decorator
from heddle.tir.nodes import PrimFunc

prim_func_pass = pass_decorator(
    "transform_function",
    over_functions(PrimFunc, "tir"),
    "Make a pass of `f(func, mod, ctx)` over loop functions, or of a class with `transform_function`.",
)
