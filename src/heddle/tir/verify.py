"""Verify loop functions: return the violated rules as findings.

Variables and buffers are defined once, before their use; block names are unique; a realization has a value
for each axis; a block declares what it reads and writes, and uses only its axes, not the loops around it; an
`init` does not use reduction axes, which have no values there.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.module import IRModule
from heddle.ir.node import children
from heddle.prim.intrinsics import is_prefetch
from heddle.prim.nodes import Call, Let, Var
from heddle.prim.substitute import free_vars
from heddle.support.diagnostics import Code, Diagnostic
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.codes import T0201, T0202, T0204, T0205, T0206, T0207, T0208
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    IterType,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
)


def verify_prim_func(func: PrimFunc, mod: IRModule) -> list[Diagnostic]:
    """The findings for one loop function."""
    checker = _Checker()
    checker.function(func)
    return checker.findings


class _Checker:
    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self._defined: set[Any] = set()
        self._ever: set[Any] = set()
        self._blocks: set[str] = set()
        self._regions: list[set[Buffer]] = []
        self._loops: set[Var] = set()
        """The loops around, down to the innermost block."""
        self._hidden: set[Var] = set()
        """The loops outside of the innermost block, which sees its axes only."""
        self._reduced: set[Var] = set()
        """The reduction axes of the block whose `init` is looked at."""

    def _report(self, code: Code, message: str, node: Any) -> None:
        self.findings.append(Diagnostic(code, message, node.span))

    def function(self, func: PrimFunc) -> None:
        for param in func.params:
            self._define(param, param.name, func)
        for buffer in func.buffers:
            self._define(buffer.data, buffer.data.name, func)
            for var in free_vars(*buffer.shape, *buffer.strides):
                self._defined.add(var)
            self._defined.add(buffer)
        self._visit(func.body)

    def _define(self, thing: Any, name: str, node: Any) -> None:
        if thing in self._ever:
            self._report(T0202, f"{name!r} is defined twice", node)
        self._defined.add(thing)
        self._ever.add(thing)

    def _use(self, thing: Any, name: str, node: Any) -> None:
        if thing not in self._defined:
            self._report(T0201, f"{name!r} is not defined here", node)

    # ---- the walk

    def _visit(self, node: Any) -> None:
        method = getattr(self, f"_visit_{type(node).__name__}", None)
        if method is not None:
            method(node)
        else:
            self._children(node)

    def _children(self, node: Any) -> None:
        for child in children(node):
            self._visit(child)

    def _visit_Var(self, node: Var) -> None:
        self._use(node, node.name, node)
        if node in self._hidden:
            self._report(T0207, f"loop variable {node.name!r} is used inside a block", node)
        if node in self._reduced:
            self._report(T0208, f"reduction axis {node.name!r} is used in the init of its block", node)

    def _visit_Buffer(self, node: Buffer) -> None:
        self._use(node, node.name, node)

    def _visit_SeqStmt(self, node: SeqStmt) -> None:
        outer = set(self._defined)
        for stmt in node.seq:
            self._visit(stmt)
        self._defined = outer

    def _visit_Bind(self, node: Bind) -> None:
        self._visit(node.value)
        self._define(node.var, node.var.name, node)

    def _visit_Let(self, node: Let) -> None:
        self._visit(node.value)
        self._defined.add(node.var)
        self._visit(node.body)
        self._defined.discard(node.var)

    def _visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self._declare(node.buffer, node, owns=True)

    def _visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self._use(node.buffer.data, node.buffer.data.name, node)
        self._declare(node.buffer, node, owns=False)

    def _declare(self, buffer: Buffer, node: Any, owns: bool) -> None:
        for expr in (*buffer.shape, *buffer.strides):
            self._visit(expr)
        if owns:
            self._define(buffer.data, buffer.name, node)
        self._define(buffer, buffer.name, node)

    def _visit_For(self, node: For) -> None:
        self._visit(node.min)
        self._visit(node.extent)
        outer = set(self._defined)
        self._define(node.loop_var, node.loop_var.name, node)
        self._loops.add(node.loop_var)
        self._visit(node.body)
        self._loops.discard(node.loop_var)
        self._defined = outer

    def _visit_Call(self, node: Call) -> None:
        if is_prefetch(node):
            for arg in node.args:  # names an element without reading it
                self._visit_outside(arg)
        else:
            self._children(node)

    def _visit_BufferLoad(self, node: BufferLoad) -> None:
        self._access(node)

    def _visit_BufferStore(self, node: BufferStore) -> None:
        self._access(node)

    def _access(self, node: Any) -> None:
        self._children(node)
        buffer = node.buffer
        if self._regions and buffer not in self._regions[-1]:
            self._report(T0206, f"the block does not declare its access to {buffer.name!r}", node)

    # ---- blocks

    def _visit_SBlockRealize(self, node: SBlockRealize) -> None:
        for value in (*node.iter_values, node.predicate):
            self._visit_outside(value)
        if len(node.iter_values) != len(node.block.iter_vars):
            axes, values = len(node.block.iter_vars), len(node.iter_values)
            self._report(T0204, f"block {node.block.name_hint!r} has {axes} axes and {values} values", node)
        self._block(node.block)

    def _visit_outside(self, value: Any) -> None:
        """Bindings are evaluated outside the block: its regions do not count."""
        regions, self._regions = self._regions, []
        self._visit(value)
        self._regions = regions

    def _block(self, block: SBlock) -> None:
        if block.name_hint in self._blocks:
            self._report(T0205, f"two blocks are called {block.name_hint!r}", block)
        self._blocks.add(block.name_hint)
        outer = set(self._defined)
        for axis in block.iter_vars:
            self._define(axis.var, axis.var.name, block)
        for buffer in block.alloc_buffers:
            self._declare(buffer, block, owns=True)
        for match in block.match_buffers:
            self._defined.update(free_vars(*match.buffer.shape))
            self._defined.update((match.buffer.data, match.buffer))
        self._regions.append(self._declared(block))
        outside = self._hidden, self._loops
        self._hidden, self._loops = self._hidden | self._loops, set()
        if block.init is not None:
            self._reduced = {v.var for v in block.iter_vars if v.iter_type is IterType.CommReduce}
            self._visit(block.init)
            self._reduced = set()
        self._visit(block.body)
        self._hidden, self._loops = outside
        self._regions.pop()
        self._defined = outer

    def _declared(self, block: SBlock) -> set[Buffer]:
        """What accesses inside a block may touch. A block that declares nothing only holds other blocks."""
        own = {*block.alloc_buffers, *(match.buffer for match in block.match_buffers)}
        regions = {region.buffer for region in (*block.reads, *block.writes)}
        local = {
            node.buffer for node in walk_stmts(block.body) if isinstance(node, (AllocBuffer, DeclBuffer))
        }
        return own | regions | local
