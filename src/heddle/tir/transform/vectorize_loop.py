"""VectorizeLoop: loops of kind VECTORIZED with a constant extent → vector statements.

    for i in 0 .. 8 (vectorized):              C[r] = A[r] + broadcast(s[b], 8)
        C[b * 8 + i] = A[b * 8 + i] + s[b]      →      with r = ramp(b * 8, 1, 8)

    for i in 0 .. 8 (vectorized):              mask = r < broadcast(n, 8)
        if b * 8 + i < n:               →       if any_lane(mask):
            C[b * 8 + i] = A[b * 8 + i]             C[r where mask] = A[r where mask]

What does not depend on the loop variable stays scalar. Conditions that do become predicates of loads and
stores. A loop with anything that has no vector form (a call with effects, a loop with varying bounds, a store
of every lane to one place, an assert on a lane) becomes a serial loop. Requires: flat buffers.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import map_children, replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.checked_index import CHECKED_INDEX
from heddle.prim.nodes import (
    Add,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Var,
)
from heddle.prim.ops import const, if_then_else, logical_and, logical_not
from heddle.support.frozen import frozen
from heddle.tir.kernel_abi import any_lane
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.vector_algebra import broadcast, vector_binary, vector_cast

MAX_LANES = 256
"""Longer loops become serial ones; LLVM vectorises those itself."""


class _NoVectorFormError(Exception):
    """The loop under way has to run lane by lane."""


@frozen(slots=False)
class VectorizeLoop(FunctionPass):
    """With `enable` off, vectorised loops become serial ones."""

    enable: bool = True
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Loops(self.enable).visit(func.body))


class _Loops(StmtRewriter):
    def __init__(self, enable: bool) -> None:
        self._enable = enable

    def visit_For(self, node: For) -> Any:
        body = self.visit(node.body)
        if body is not node.body:
            node = replace(node, body=body)
        if node.kind is not ForKind.VECTORIZED:
            return node
        extent = node.extent
        if not self._enable or not isinstance(extent, IntImm) or not 1 < extent.value <= MAX_LANES:
            return replace(node, kind=ForKind.SERIAL)
        try:
            return _Vectorizer(node, extent.value).visit(node.body)
        except _NoVectorFormError:
            return replace(node, kind=ForKind.SERIAL)


class _Vectorizer(Rewriter):
    """Rewrites the body of one loop for all lanes at once. Expressions come back as scalars where lanes
    agree.
    """

    def __init__(self, loop: For, lanes: int) -> None:
        self._lanes = lanes
        self._values: dict[Var, PrimExpr] = {
            loop.loop_var: Ramp(loop.min, const(1, loop.loop_var.dtype), lanes)
        }
        self._private: dict[Var, Buffer] = {}
        self._mask: PrimExpr | None = None

    # ---- expressions

    def visit_Var(self, node: Var) -> PrimExpr:
        return self._values.get(node, node)

    def _vector(self, *exprs: PrimExpr) -> tuple[PrimExpr, ...]:
        """All of them with the loop's lanes. Vectors from an inner loop cannot be widened again."""
        if any(expr.dtype.lanes not in (1, self._lanes) for expr in exprs):
            raise _NoVectorFormError
        return tuple(broadcast(expr, self._lanes) for expr in exprs)

    def visit_BinaryExpr(self, node: BinaryExpr) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if a.dtype.lanes > 1 or b.dtype.lanes > 1:
            self._require_scalar(node)
        if self._mask is not None and isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and node.dtype.is_int:
            if not isinstance(b, IntImm):
                (b,) = self._vector(b)
                b = Select(self._mask, b, *self._vector(const(1, node.dtype)))
        return vector_binary(type(node), a, b)

    def _require_scalar(self, node: PrimExpr) -> None:
        """The node as written is scalar: vectors of an inner loop are not vectorised again."""
        if node.dtype.lanes > 1:
            raise _NoVectorFormError

    def visit_Ramp(self, node: Ramp) -> Any:
        return self._unchanged(node)

    def visit_Broadcast(self, node: Broadcast) -> Any:
        return self._unchanged(node)

    def visit_Shuffle(self, node: Shuffle) -> Any:
        return self._unchanged(node)

    def _unchanged(self, node: Any) -> Any:
        if map_children(node, self.visit) is not node:
            raise _NoVectorFormError
        return node

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        if value is node.value:
            return node
        self._require_scalar(node)
        return vector_cast(node.dtype, value)

    def visit_Not(self, node: Not) -> PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else Not(a)

    def visit_Select(self, node: Select) -> PrimExpr:
        condition, yes, no = (
            self.visit(part) for part in (node.condition, node.true_value, node.false_value)
        )
        if condition is node.condition and yes is node.true_value and no is node.false_value:
            return node
        self._require_scalar(node)
        if condition.dtype.lanes > 1 or yes.dtype.lanes > 1 or no.dtype.lanes > 1:
            yes, no = self._vector(yes, no)
        return Select(condition, yes, no)

    def visit_Let(self, node: Let) -> PrimExpr:
        value = self.visit(node.value)
        var = self._bound(node.var, value)
        body = self.visit(node.body)
        same = var is node.var and value is node.value and body is node.body
        return node if same else Let(var, value, body)

    def _bound(self, var: Var, value: PrimExpr) -> Var:
        """The variable for a value: a new one where the value became a vector."""
        if value.dtype == var.dtype:
            return var
        made = Var(var.name, value.dtype)
        self._values[var] = made
        return made

    def visit_Call(self, node: Call) -> PrimExpr:
        if node.op.name == "tir.if_then_else":
            return self._if_then_else(node)
        if node.op.name == CHECKED_INDEX:
            return self._checked_index(node)
        args = tuple(self.visit(arg) for arg in node.args)
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            if not node.op.record.is_pure:
                raise _NoVectorFormError
            return node
        scalars = all(not isinstance(a, PrimExpr) or a.dtype.lanes == 1 for a in args)
        if not node.op.record.is_pure or node.op.name in ("tir.address_of", "tir.any_lane"):
            raise _NoVectorFormError
        if scalars:
            return Call(node.dtype, node.op, args)
        self._require_scalar(node)
        vectors = tuple(self._vector(a)[0] if isinstance(a, PrimExpr) else a for a in args)
        return Call(node.dtype.with_lanes(self._lanes), node.op, vectors)

    def _checked_index(self, node: Call) -> PrimExpr:
        """Lanes that are not under way are not asked."""
        index, size = self.visit(node.args[0]), self.visit(node.args[1])
        if size.dtype.lanes > 1 or len(node.args) > 3:
            raise _NoVectorFormError
        if index.dtype.lanes == 1:
            same = index is node.args[0] and size is node.args[1]
            return node if same else Call(node.dtype, node.op, (index, size, node.args[2]))
        self._require_scalar(node)
        mask = () if self._mask is None else (self._mask,)
        args = (*self._vector(index), size, node.args[2], *mask)
        return Call(node.dtype.with_lanes(self._lanes), node.op, args)

    def _if_then_else(self, node: Call) -> PrimExpr:
        condition = self.visit(node.args[0])
        if condition.dtype.lanes == 1:
            yes, no = self.visit(node.args[1]), self.visit(node.args[2])
            if condition is node.args[0] and yes is node.args[1] and no is node.args[2]:
                return node
            if yes.dtype.lanes > 1 or no.dtype.lanes > 1:
                yes, no = self._vector(yes, no)
            return if_then_else(condition, yes, no)
        self._require_scalar(node)
        yes = self._under(condition, node.args[1])
        no = self._under(logical_not(condition), node.args[2])
        return Select(condition, yes, no)

    def _under(self, condition: PrimExpr, expr: Any) -> PrimExpr:
        """A value needed only in lanes that hold; where it reads memory at a lane-independent place, only if
        one does.
        """
        outer = self._mask
        self._mask = condition if outer is None else logical_and(outer, condition)
        value, mask = self.visit(expr), self._mask
        self._mask = outer
        (vector,) = self._vector(value)
        if not reads_scalars(value):
            return vector
        zeros = self._vector(const(0, value.dtype.element))
        return if_then_else(any_lane(mask), vector, *zeros)

    def _predicate(self, given: PrimExpr | None) -> PrimExpr | None:
        if given is None:
            return self._mask
        raise _NoVectorFormError

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        index = self.visit(node.indices[0])
        private = self._private.get(node.buffer.data)
        if private is None and (node.predicate is not None or index is node.indices[0]):
            same: PrimExpr = self._unchanged(node)
            return same
        self._require_scalar(node)
        if private is not None:
            return BufferLoad(private, (self._private_index(index),), self._predicate(node.predicate))
        if index.dtype.lanes == 1:
            return BufferLoad(node.buffer, (index,))
        return BufferLoad(node.buffer, self._vector(index), self._predicate(node.predicate))

    def _private_index(self, index: PrimExpr) -> PrimExpr:
        """Lane l of element i lies at i * lanes + l."""
        dtype = index.dtype.element
        scaled = vector_binary(Mul, index, const(self._lanes, dtype))
        return vector_binary(Add, scaled, Ramp(const(0, dtype), const(1, dtype), self._lanes))

    # ---- statements

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        return seq(*(self.visit(stmt) for stmt in node.seq))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        index, value = self.visit(node.indices[0]), self.visit(node.value)
        private = self._private.get(node.buffer.data)
        if private is None and index.dtype.lanes == 1:
            return self._store_at_one_place(node, index, value)
        if node.value.dtype.lanes > 1:
            raise _NoVectorFormError
        target = private or node.buffer
        place = self._private_index(index) if private is not None else self._vector(index)[0]
        (stored,) = self._vector(value)
        return BufferStore(target, stored, (place,), self._predicate(node.predicate))

    def _store_at_one_place(self, node: BufferStore, index: PrimExpr, value: PrimExpr) -> Stmt:
        """A store that all lanes do alike is done once, unless it counts them."""
        reads = any(isinstance(n, BufferLoad) and n.buffer.data is node.buffer.data for n in walk(node.value))
        self._require_same(node.predicate)
        if value.dtype != node.value.dtype or reads or index.dtype.lanes != node.indices[0].dtype.lanes:
            raise _NoVectorFormError
        if index is node.indices[0] and value is node.value:
            return node
        return BufferStore(node.buffer, value, (index,), node.predicate)

    def _require_same(self, predicate: PrimExpr | None) -> None:
        if predicate is not None and self.visit(predicate) is not predicate:
            raise _NoVectorFormError

    def visit_Bind(self, node: Bind) -> Stmt:
        value = self.visit(node.value)
        var = self._bound(node.var, value)
        return node if var is node.var and value is node.value else Bind(var, value)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        value = self.visit(node.value)
        return node if value is node.value else Evaluate(value)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        if condition.dtype.lanes == 1:
            then, other = self.visit(node.then_case), node.else_case and self.visit(node.else_case)
            return IfThenElse(condition, then, other)
        if node.else_case is None:
            return self._masked(condition, node.then_case)
        held = Var("condition", condition.dtype)  # decided once: the first branch may change what it reads
        return seq(
            Bind(held, condition),
            self._masked(held, node.then_case),
            self._masked(logical_not(held), node.else_case),
        )

    def _masked(self, condition: PrimExpr, body: Stmt) -> Stmt:
        outer = self._mask
        mask = condition if outer is None else logical_and(outer, condition)
        held = Var("mask", mask.dtype)
        self._mask = held
        result = self.visit(body)
        self._mask = outer
        return seq(Bind(held, mask), IfThenElse(any_lane(held), result))

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        if low.dtype.lanes > 1 or extent.dtype.lanes > 1 or node.kind is ForKind.THREAD_BINDING:
            raise _NoVectorFormError
        body = self.visit(node.body)
        if low is node.min and extent is node.extent and body is node.body:
            return node
        return replace(node, min=low, extent=extent, body=body)

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        """Memory of one iteration gets a place for each lane."""
        buffer = node.buffer
        size = self.visit(buffer.shape[0])
        if size.dtype.lanes > 1 or buffer.dtype.lanes > 1:
            raise _NoVectorFormError
        data = Var(buffer.data.name, buffer.data.dtype, buffer.data.type_annotation)
        made = Buffer(data, buffer.dtype, (size * self._lanes,), buffer.name, (), None, buffer.align_bytes)
        self._private[buffer.data] = made
        return AllocBuffer(made, node.annotations)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        if node.buffer.data in self._private:
            raise _NoVectorFormError
        return node

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        return node if body is node.body else replace(node, body=body)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        if self._mask is not None:
            raise _NoVectorFormError
        result: Stmt = self._unchanged(node)
        return result

    def visit_While(self, node: While) -> Stmt:
        condition = self.visit(node.condition)
        if condition.dtype.lanes > 1 or self._mask is not None:
            raise _NoVectorFormError
        return While(condition, self.visit(node.body))


def reads_scalars(expr: PrimExpr) -> bool:
    """Whether an expression has loads without predicate."""
    return any(isinstance(node, BufferLoad) and node.predicate is None for node in walk(expr))
