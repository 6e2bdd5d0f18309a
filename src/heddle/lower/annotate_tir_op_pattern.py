"""AnnotateTIROpPattern: annotate loop functions with their fusion kind, as attribute `op_pattern`.

    @T.prim_func                           @T.prim_func
    def add(A, B, C): ...          →       def add(A, B, C):
                                               T.func_attr({"op_pattern": 0})   # elementwise
                                               ...

The numbers are those of `OpPattern`. A function that has the attribute keeps it, and so may state another
kind than its loops show.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.tir.analysis.op_pattern import op_pattern
from heddle.tir.nodes import PrimFunc


class AnnotateTIROpPattern(FunctionPass):
    """Establishes: every loop function has `op_pattern`."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> Any:
        return func if "op_pattern" in func.attrs else func.with_attr("op_pattern", int(op_pattern(func)))
