"""BF16Legalize: arithmetic on float16 and bfloat16 → arithmetic on float32; memory keeps the narrow type.

    C[i] = A[i] + 1.0      →      C[i] = cast(bfloat16, cast(float32, A[i]) + 1.0)

A value is rounded where it is stored, bound to a variable or cast; inside one expression float32 goes on
unless `strict` asks for a rounding after each operation.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import map_children
from heddle.ir.pass_options import option
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import (
    ArithExpr,
    Broadcast,
    Call,
    Cast,
    CompareExpr,
    FloatImm,
    Let,
    PrimExpr,
    Select,
    Shuffle,
)
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.analysis.dtypes import dtypes_in
from heddle.tir.nodes import Bind, BufferStore, PrimFunc
from heddle.tir.vector_math.small_float import SMALL_FLOATS

_TESTS = ("tir.isnan", "tir.isinf", "tir.isfinite")


@frozen(slots=False)
class BF16Legalize(FunctionPass):
    """`dtypes` are those that the target cannot compute with."""

    dtypes: tuple[str, ...] = option(("bfloat16", "float16"), one_of=("bfloat16", *SMALL_FLOATS))
    strict: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        if dtypes_in(func.body).isdisjoint(self.dtypes):
            return func
        return func.with_body(_Legalizer(frozenset(self.dtypes), self.strict).visit(func.body))


class _Legalizer(Rewriter):
    """Expressions of a narrow dtype may come back in float32; `_narrow` and `_wide` bring them where they are
    needed.
    """

    def __init__(self, dtypes: frozenset[str], strict: bool) -> None:
        self._dtypes, self._strict = dtypes, strict

    def _is_narrow(self, dtype: DataType) -> bool:
        return str(dtype.element) in self._dtypes

    def _wide(self, expr: PrimExpr) -> PrimExpr:
        if not self._is_narrow(expr.dtype):
            return expr
        return cast(DataType("float32").with_lanes(expr.dtype.lanes), expr)

    def _result(self, expr: PrimExpr, dtype: DataType) -> PrimExpr:
        return Cast(dtype, expr) if self._strict else expr

    def visit_ArithExpr(self, node: ArithExpr) -> PrimExpr:
        if not self._is_narrow(node.dtype):
            made: PrimExpr = self.default(node)
            return made
        a, b = self._wide(self.visit(node.a)), self._wide(self.visit(node.b))
        kind: Any = type(node)
        return self._result(kind(a, b), node.dtype)

    def visit_CompareExpr(self, node: CompareExpr) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b and not self._is_narrow(a.dtype):
            return node
        kind: Any = type(node)
        result: PrimExpr = kind(self._wide(a), self._wide(b))
        return result

    def visit_Select(self, node: Select) -> PrimExpr:
        condition, yes, no = (
            self.visit(part) for part in (node.condition, node.true_value, node.false_value)
        )
        if yes.dtype != no.dtype:
            yes, no = self._wide(yes), self._wide(no)
        same = condition is node.condition and yes is node.true_value and no is node.false_value
        return node if same else Select(condition, yes, no)

    def visit_Broadcast(self, node: Broadcast) -> PrimExpr:
        value = self.visit(node.value)
        return node if value is node.value else Broadcast(value, node.lanes)

    def visit_Shuffle(self, node: Shuffle) -> PrimExpr:
        return map_children(node, lambda child: cast(child.dtype, self.visit(child)))

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        if self._is_narrow(value.dtype) and not self._is_float32(node.dtype):
            value = self._wide(value)
        return node if value is node.value else cast(node.dtype, value)

    def _is_float32(self, dtype: DataType) -> bool:
        return dtype.element == "float32"

    def visit_FloatImm(self, node: FloatImm) -> PrimExpr:
        if not self._is_narrow(node.dtype):
            return node
        return FloatImm(DataType("float32"), float(node.dtype.numpy().type(node.value)))

    def visit_Let(self, node: Let) -> PrimExpr:
        value, body = cast(node.var.dtype, self.visit(node.value)), self.visit(node.body)
        return node if value is node.value and body is node.body else Let(node.var, value, body)

    def visit_Call(self, node: Call) -> PrimExpr:
        args = tuple(self.visit(arg) for arg in node.args)
        if node.op.name in _TESTS and isinstance(args[0], PrimExpr) and self._is_narrow(args[0].dtype):
            return Call(node.dtype, node.op, (self._wide(args[0]),))
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        if node.op.name == "tir.if_then_else":
            yes, no = args[1:]
            if yes.dtype != no.dtype:
                yes, no = self._wide(yes), self._wide(no)
            return Call(yes.dtype, node.op, (args[0], yes, no))
        if node.op.name in _TESTS:
            return Call(node.dtype, node.op, args)
        kept = tuple(
            cast(old.dtype, new) if isinstance(old, PrimExpr) else new
            for old, new in zip(node.args, args, strict=True)
        )
        return Call(node.dtype, node.op, kept)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        value, indices = cast(node.value.dtype, self.visit(node.value)), tuple(map(self.visit, node.indices))
        same = value is node.value and all(a is b for a, b in zip(indices, node.indices, strict=True))
        return node if same else BufferStore(node.buffer, value, indices, node.predicate)

    def visit_Bind(self, node: Bind) -> Bind:
        value = cast(node.var.dtype, self.visit(node.value))
        return node if value is node.value else Bind(node.var, value)
