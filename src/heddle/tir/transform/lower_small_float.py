"""LowerSmallFloat: conversions of floats that the target cannot convert → integer arithmetic on their bits.

    B[i] = cast(float32, A[i])      →      B[i] = let bits = reinterpret(uint8, A[i]) in ...

Other dtypes are reached by way of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import Cast, PrimExpr
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import PrimFunc
from heddle.tir.vector_math.small_float import from_float32, to_float32


@dataclass(frozen=True)
class LowerSmallFloat(FunctionPass):
    """`dtypes` are those without conversion instructions. Requires: no arithmetic on them."""

    dtypes: tuple[str, ...]
    function_kind: ClassVar[type] = PrimFunc

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Lowerer(frozenset(self.dtypes)).visit(func.body))


class _Lowerer(Rewriter):
    def __init__(self, dtypes: frozenset[str]) -> None:
        self._dtypes = dtypes

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value: PrimExpr = self.visit(node.value)
        floats = DataType("float32").with_lanes(value.dtype.lanes)
        if str(value.dtype.element) in self._dtypes:
            value = to_float32(value)
        if str(node.dtype.element) in self._dtypes:
            return from_float32(cast(floats, value), node.dtype)
        return node if value is node.value else cast(node.dtype, value)
