"""LowerSmallFloat: conversions of floats that the target cannot convert → integer arithmetic on their bits.

    B[i] = cast(float32, A[i])      →      B[i] = let bits = reinterpret(uint8, A[i]) in ...

Other dtypes are reached by way of float32. float64 becomes float16 by way of a float32 that keeps what the
second rounding needs; processors have no such conversion, and the C function for it is not always there.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.pass_options import option
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import Cast, PrimExpr
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.analysis.dtypes import dtypes_in
from heddle.tir.nodes import PrimFunc
from heddle.tir.vector_math.small_float import SMALL_FLOATS, from_float32, rounded_to_odd, to_float32


@frozen(slots=False)
class LowerSmallFloat(FunctionPass):
    """`dtypes` are those without conversion instructions. `halves_doubles`: the target has one from float64
    to float16. Requires: no arithmetic on the dtypes."""

    dtypes: tuple[str, ...] = option(one_of=SMALL_FLOATS)
    halves_doubles: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        present = dtypes_in(func.body)
        if present.isdisjoint(self.dtypes) and (self.halves_doubles or not {"float16", "float64"} <= present):
            return func
        return func.with_body(_Lowerer(frozenset(self.dtypes), self.halves_doubles).visit(func.body))


class _Lowerer(Rewriter):
    def __init__(self, dtypes: frozenset[str], halves_doubles: bool) -> None:
        self._dtypes, self._halves_doubles = dtypes, halves_doubles

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value: PrimExpr = self.visit(node.value)
        floats = DataType("float32").with_lanes(value.dtype.lanes)
        if str(value.dtype.element) in self._dtypes:
            value = to_float32(value)
        if value.dtype.element == "float64" and node.dtype.element == "float16" and not self._halves_doubles:
            value = rounded_to_odd(value)
        if str(node.dtype.element) in self._dtypes:
            return from_float32(cast(floats, value), node.dtype)
        return node if value is node.value else cast(node.dtype, value)
