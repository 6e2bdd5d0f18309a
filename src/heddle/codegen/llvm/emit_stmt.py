"""Statements as LLVM control flow. The function under way returns 0, or -1 after `heddle_set_error`."""

from __future__ import annotations

from collections.abc import Callable

from heddle.codegen.codes import G0101
from heddle.codegen.error_kinds import ERROR_KINDS, INDEX_ERROR
from heddle.codegen.expressions import is_mask, is_speculatable
from heddle.codegen.llvm.emit_memory import AliasScopes, MemoryEmitter
from heddle.codegen.llvm.index_checks import IndexChecks, checks_in
from heddle.codegen.llvm.intrinsics import emit_call
from heddle.codegen.llvm.object_code import ONE_BY_ONE
from heddle.codegen.llvm.types import INT64, memory_type, register_type
from heddle.codegen.llvm.writer import FunctionWriter, ModuleWriter
from heddle.ir.node import children, replace
from heddle.prim.checked_index import MESSAGE, MESSAGE_SOMEWHERE
from heddle.prim.nodes import Call, IntImm, PrimExpr, as_expr
from heddle.prim.ops import cast
from heddle.support.diagnostics import UsageError
from heddle.tir.allocation import is_on_stack, num_elements
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)

ALLOCATION_ALIGN_BYTES = 64
ParallelEmitter = Callable[["StmtEmitter", For], None]


class StmtEmitter(MemoryEmitter):
    """Emits statements. `emit_parallel` outlines the loops of kind PARALLEL."""

    def __init__(
        self, module: ModuleWriter, out: FunctionWriter, scopes: AliasScopes, emit_parallel: ParallelEmitter
    ) -> None:
        super().__init__(module, out, scopes)
        self._emit_parallel = emit_parallel
        self._workspaces: list[str] = []
        self.index_checks = IndexChecks(self.divisors.values, scopes.may_share)

    def visit_Call(self, node: Call) -> str:
        return emit_call(self, node)

    def run(self, stmt: Stmt) -> None:
        """Emit a statement. Raises: UsageError G0101 for one that has no machine form."""
        self._method(type(stmt))(self, stmt)

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        held = len(self._workspaces)
        for stmt in node.seq:
            self.run(stmt)
        self._free_down_to(held)

    def visit_Bind(self, node: Bind) -> None:
        self.env[node.var] = self.emit(node.value)
        self.divisors.values[node.var] = node.value
        self.note_sign(node.var, node.value)

    def visit_BufferStore(self, node: BufferStore) -> None:
        if node.predicate is not None and not is_mask(node.predicate, node.buffer.dtype, node.value.dtype):
            self._store_under(node.predicate, replace(node, predicate=None))
            return
        index = self.flat_index(node.buffer, node.indices)
        checks = checks_in(index)
        if not checks:
            self.store(node.buffer, index, node.value, node.predicate)
            return
        with self.index_checks.written_through(self, index, may_wait=not checks_in(node.value)):
            self.store(node.buffer, index, node.value, node.predicate)

    def _store_under(self, condition: PrimExpr, store: BufferStore) -> None:
        """A store of which nothing is evaluated where its condition does not hold."""
        yes, end = self.out.label("store"), self.out.label("stored")
        self.out.branch(self.predicate(condition), yes, end)
        self.out.start(yes)
        with self.conditional():
            self.visit_BufferStore(store)
        self.out.start(end)

    def visit_Evaluate(self, node: Evaluate) -> None:
        value = node.value
        if not isinstance(value, Call):
            if not (isinstance(value, PrimExpr) and is_speculatable(value)):
                self.emit_effect(value)
            return
        if value.op.name == "tir.ret":
            self._return(as_expr(value.args[0]))
        elif not (value.op.record.is_pure and is_speculatable(value)):
            self.emit_effect(value)

    def _return(self, value: PrimExpr) -> None:
        self.leave(self.emit(cast("int32", value)))

    def leave(self, status: str) -> None:
        """Return from the function, workspaces given back."""
        for workspace in reversed(self._workspaces):
            self._free(workspace)
        self.out.terminate(f"ret i32 {status}")

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        """Nothing to do: accesses name the pointer."""

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        buffer = node.buffer
        if is_on_stack(node):
            count = num_elements(buffer)
            assert isinstance(count, IntImm)
            text = f"[{count.value} x {memory_type(buffer.dtype)}], align {ALLOCATION_ALIGN_BYTES}"
            self.env[buffer.data] = self.out.alloca(text)
            return
        size = cast("int64", num_elements(buffer)) * buffer.dtype.itemsize
        callee = self.module.declare("heddle_workspace_alloc", "noalias align 64 ptr", ["i64"])
        workspace = self.out.value(f"call noalias align 64 ptr {callee}(i64 {self.emit_index(size)})")
        self.env[buffer.data] = workspace
        failed, ready = self.out.label("no_memory"), self.out.label("allocated")
        self.out.branch(self.out.value(f"icmp eq ptr {workspace}, null"), failed, ready, self.unlikely())
        self.out.start(failed)
        self.leave("-1")
        self.out.start(ready)
        self._workspaces.append(workspace)

    def _free_down_to(self, count: int) -> None:
        while len(self._workspaces) > count:
            self._free(self._workspaces.pop())

    def _free(self, workspace: str) -> None:
        callee = self.module.declare("heddle_workspace_free", "void", ["ptr"])
        self.out.effect(f"call void {callee}(ptr {workspace})")

    def unlikely(self) -> str:
        """Branch weights: the first way is hardly ever taken."""
        return self.module.metadata_once('!{!"branch_weights", i32 1, i32 2000}')

    def visit_AssertStmt(self, node: AssertStmt) -> None:
        failed, passed = self.out.label("fail"), self.out.label("pass")
        condition = self.out.value(f"xor i1 {self.emit(node.condition)}, true")
        self.out.branch(condition, failed, passed, self.unlikely())
        self.out.start(failed)
        expected, got = self._error_operand(node.expected), self._error_operand(node.got)
        self._report(ERROR_KINDS[node.error_kind], node.message, expected, got)
        self.out.start(passed)

    def index_error(self, bad: str, lanes: int, given: str, size: str) -> None:
        """Leave where `bad` holds in some lane, with the first such lane's index as int64."""
        failed, passed = self.out.label("out_of_range"), self.out.label("in_range")
        some = bad
        if lanes > 1:
            operand = (f"<{lanes} x i1>", bad)
            some = self.call_overloaded(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [operand])
        self.out.branch(some, failed, passed, self.unlikely())
        self.out.start(failed)
        if lanes > 1:
            bits = self.out.value(f"bitcast <{lanes} x i1> {bad} to i{lanes}")
            operands = [(f"i{lanes}", bits), ("i1", "true")]
            lane = self.call_overloaded(f"llvm.cttz.i{lanes}", f"i{lanes}", operands)
            given = self.out.value(f"extractelement <{lanes} x i64> {given}, i{lanes} {lane}")
        self._report(INDEX_ERROR, MESSAGE, size, given)
        self.out.start(passed)

    def index_error_somewhere(self, size: str) -> None:
        """Leave for an index that the kernel itself wrote over."""
        self._report(INDEX_ERROR, MESSAGE_SOMEWHERE, size, "0")

    def _report(self, kind: int, text: str, expected: str, got: str) -> None:
        callee = self.module.declare("heddle_set_error", "void", ["i32", "ptr", "i64", "i64"])
        message = self.module.string(text)
        self.out.effect(f"call void {callee}(i32 {kind}, ptr {message}, i64 {expected}, i64 {got})")
        self.leave("-1")

    def _error_operand(self, value: PrimExpr | None) -> str:
        return "0" if value is None else self.emit(cast(INT64, value))

    def check_status(self, status: str) -> None:
        """Leave with -1 where a callee reported an error."""
        failed, passed = self.out.label("fail"), self.out.label("pass")
        self.out.branch(self.out.value(f"icmp ne i32 {status}, 0"), failed, passed, self.unlikely())
        self.out.start(failed)
        self.leave("-1")
        self.out.start(passed)

    def scoped(self, stmt: Stmt) -> None:
        """A body whose allocations end with it."""
        held = len(self._workspaces)
        self.run(stmt)
        self._free_down_to(held)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        yes, end = self.out.label("then"), self.out.label("endif")
        no = self.out.label("else") if node.else_case is not None else end
        weights = ""
        if isinstance(node.condition, Call) and node.condition.op.name == "tir.likely":
            weights = self.module.metadata_once('!{!"branch_weights", i32 2000, i32 1}')
        self.out.branch(self.emit(node.condition), yes, no, weights)
        self.out.start(yes)
        with self.conditional():
            self.scoped(node.then_case)
        self._jump(end)
        if node.else_case is not None:
            self.out.start(no)
            with self.conditional():
                self.scoped(node.else_case)
            self._jump(end)
        self.out.start(end)

    def _jump(self, label: str) -> None:
        if not self.out.terminated:
            self.out.terminate(f"br label %{label}")

    def visit_While(self, node: While) -> None:
        head, body, end = self.out.label("while"), self.out.label("do"), self.out.label("done")
        self.out.start(head)
        with self.conditional(), self.index_checks.moving():
            self.out.branch(self.emit(node.condition), body, end)
            self.out.start(body)
            self.scoped(node.body)
        self._jump(head)
        self.out.start(end)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.scoped(node.body)

    def visit_For(self, node: For) -> None:
        if node.kind is ForKind.PARALLEL:
            self._emit_parallel(self, node)
            return
        if node.kind in (ForKind.VECTORIZED, ForKind.THREAD_BINDING):
            raise UsageError(G0101, f"a {node.kind.name.lower()} loop was not lowered", span=node.span)
        begin = self.emit_index(node.min)
        end = self.emit_index(node.min + node.extent)
        self.loop(node, begin, end)

    def loop(self, node: For, begin: str, end: str) -> None:
        """for (v = begin; v < end; ++v) body."""
        ty = register_type(node.loop_var.dtype)
        head, body, latch, done = (self.out.label(hint) for hint in ("for", "body", "next", "end"))
        counter, following = self.out.reserve(), self.out.reserve()
        before, size = self.out.block, self._unrolled_size()
        if self.out.terminated:
            self.out.start(self.out.label("dead"))
            before = self.out.block
        self.out.start(head)
        self.out.define(counter, f"phi {ty} [ {begin}, %{before} ], [ {following}, %{latch} ]")
        less = "slt" if node.loop_var.dtype.is_signed else "ult"
        self.out.branch(self.out.value(f"icmp {less} {ty} {counter}, {end}"), body, done)
        self.out.start(body)
        known = frozenset(self.env)
        self.env[node.loop_var] = counter
        self.note_sign(node.loop_var, node.min)
        with (
            self.divisors.in_loop(node.extent),
            self.open_loop(node.loop_var) as state,
            self.index_checks.inside(node.loop_var, known, self.num_conditions, node.body) as settle,
        ):
            self.scoped(node.body)
        self._jump(latch)
        self.out.start(latch)
        wrap = " nsw" if node.loop_var.dtype.is_signed else " nuw"
        self.out.define(following, f"add{wrap} {ty} {counter}, 1")
        turns = node.extent.value if isinstance(node.extent, IntImm) else None
        may_unroll = self.module.unrolled.may_unroll(self._unrolled_size() - size, turns)
        metadata = self._loop_metadata(node, state.divides, may_unroll)
        self.out.terminate(f"br label %{head}, !llvm.loop {metadata}")
        self.out.start(done)
        settle(self, begin, end)

    def _unrolled_size(self) -> int:
        """The instructions of the function so far, those included that unrolling will add."""
        return self.out.num_lines + self.module.unrolled.added

    def _loop_metadata(self, node: For, keep_scalar: bool, may_unroll: bool) -> str:
        """Ask LLVM to leave alone what the schedule arranged: loops with vector code, or marked so. So it
        shall leave divisions by variables: no processor has them for vectors, and what LLVM estimates of them
        in two ways may differ, upon which it ends the process (LoopVectorize.cpp, `computeBestVF`).
        """
        options = ['!{!"llvm.loop.mustprogress"}']
        if node.annotations.get("disable_vectorize"):
            self.module.flag(ONE_BY_ONE)
            keep_scalar = True
        if keep_scalar or has_vector_code(node.body):
            options.append('!{!"llvm.loop.vectorize.enable", i1 false}')
        if node.annotations.get("disable_unroll") or not may_unroll:
            options.append('!{!"llvm.loop.unroll.disable"}')
        names = ", ".join(self.module.metadata_once(option) for option in options)
        return self.module.metadata(f"distinct !{{{{self}}, {names}}}")


def has_vector_code(stmt: Stmt) -> bool:
    """Whether a statement at or below stores a vector."""
    if isinstance(stmt, BufferStore):
        return stmt.value.dtype.lanes > 1
    return any(isinstance(child, Stmt) and has_vector_code(child) for child in children(stmt))
