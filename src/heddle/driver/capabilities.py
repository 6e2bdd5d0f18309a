"""Check that an untrusted model only computes. Anything else needs the user's explicit trust.

Script text (`model.py`) is checked here before any part of it is compiled or run; `heddle.vm.capabilities`
checks compiled models. Rejected are calls of foreign code, memory access by address, promises that the
compiler would rely on, and functions of the process. The capability of an operation is a property of its
record: `Intrinsic.capability` for scalar calls, `reaches` for the machine's builtins. Loop functions of
accepted text are marked to be compiled with bounds checks (`CheckBounds`).

Python code of the user (`heddle.script` decorators and `heddle.compile`) is trusted and not checked here.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import ExternFunc
from heddle.ir.module import IRModule
from heddle.ir.node import EMPTY_MAP, children, replace
from heddle.ir.visitor import Visitor, walk_distinct
from heddle.prim.intrinsics import FOREIGN_CODE, RAW_MEMORY, Intrinsic
from heddle.prim.nodes import Call, IntImm, PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.support.diagnostics import Diagnostic, UsageError
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import (
    CHECK_BOUNDS,
    AllocBuffer,
    AttrStmt,
    Buffer,
    BufferLoad,
    DeclBuffer,
    For,
    PrimFunc,
    SBlock,
)
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.transform.check_bounds import UNPROVEN
from heddle.vm.capabilities import reach_of, refusal

_FOREIGN_PRAGMAS = ("import_llvm", "import_c")


def untrusted_module(mod: IRModule) -> IRModule:
    """Check a module from untrusted text. Return it without the text's compiler hints, and with its loop
    functions marked to be compiled with bounds checks.

    Raises: UsageError S0401 with a finding for each place that needs another capability than computing.
    """
    findings = module_findings(mod)
    if findings:
        raise UsageError(findings[:20])
    functions = {
        var: func.with_body(_WithoutHints().visit(func.body)) if isinstance(func, PrimFunc) else func
        for var, func in mod.functions.items()
    }
    if not any(isinstance(func, PrimFunc) for func in functions.values()):
        return mod
    return mod.with_functions(functions).with_attr(CHECK_BOUNDS, UNPROVEN)


def module_findings(mod: IRModule) -> list[Diagnostic]:
    """Return a finding for each place in a module that needs another capability than computing."""
    own = {var.name_hint for var in mod.functions}
    own |= {
        str(func.attrs["global_symbol"]) for func in mod.functions.values() if "global_symbol" in func.attrs
    }
    findings: list[Diagnostic] = []
    for var, func in mod.functions.items():
        if CALLING_CONV in func.attrs:
            findings.append(
                refusal(RAW_MEMORY, f"the attribute {CALLING_CONV!r} of {var.name_hint!r}", func.span)
            )
        if isinstance(func, PrimFunc):
            asks = _LoopFunction()
            asks.function(func)
            findings += asks.findings
            continue
        for node in walk_distinct(func):
            if isinstance(node, ExternFunc):
                findings += _external(node, own)
            elif isinstance(node, Call):
                findings += _intrinsic(node)
    return findings


def _external(node: ExternFunc, own: set[str]) -> list[Diagnostic]:
    name = node.global_symbol
    reach = "" if name in own else reach_of(name)
    return [refusal(reach, f"the call of {name!r}", node.span)] if reach else []


def _intrinsic(node: Call) -> list[Diagnostic]:
    record = getattr(node.op, "record", None)
    if not isinstance(record, Intrinsic) or not record.capability:
        return []
    return [refusal(record.capability, record.name.removeprefix("tir."), node.span)]


class _LoopFunction(Visitor):
    """Collects what a loop function asks for."""

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self._pointers: set[PrimVar] = set()

    def function(self, func: PrimFunc) -> None:
        for buffer in func.buffers:
            self._own_memory(buffer, func)
        self.visit(func.body)

    def _report(self, capability: str, what: str, node: Any) -> None:
        self.findings.append(refusal(capability, what, node.span))

    def _own_memory(self, buffer: Buffer, node: Any) -> None:
        """Each buffer has memory of its own, laid out densely: an access inside its shape is inside it."""
        if buffer.data in self._pointers:
            self._report(RAW_MEMORY, f"buffer {buffer.name!r} over the pointer of another", node)
        self._pointers.add(buffer.data)
        is_moved = buffer.elem_offset is not None and not (
            isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0
        )
        if buffer.strides or is_moved:
            self._report(RAW_MEMORY, f"buffer {buffer.name!r} with strides or an offset of its own", node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self._own_memory(node.buffer, node)
        self.default(node)

    def visit_SBlock(self, node: SBlock) -> None:
        for buffer in node.alloc_buffers:
            self._own_memory(buffer, node)
        self.default(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self._report(RAW_MEMORY, f"buffer {node.buffer.name!r} declared over a pointer", node)

    def visit_Buffer(self, node: Buffer) -> None:
        for part in node.shape:
            self.visit(part)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self._expression(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if any(pragma in node.attr_key for pragma in _FOREIGN_PRAGMAS):
            self._report(FOREIGN_CODE, f"the attribute {node.attr_key!r}", node)
        self.default(node)

    def visit_Call(self, node: Call) -> None:
        self.findings += _intrinsic(node)
        if not isinstance(getattr(node.op, "record", None), Intrinsic):
            self._report(FOREIGN_CODE, f"the call of {getattr(node.op, 'name', node.op)}", node)
        self._expression(node)

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        self._expression(node)

    def _expression(self, node: PrimExpr) -> None:
        if node.dtype.is_handle:
            self._report(RAW_MEMORY, "a pointer as a value", node)
        for child in children(node):
            self.visit(child)


class _WithoutHints(StmtRewriter):
    """Drops annotations of loops: schedules make promises with them."""

    def visit_For(self, node: For) -> Any:
        body = self.visit(node.body)
        if body is node.body and not node.annotations:
            return node
        return replace(node, body=body, annotations=EMPTY_MAP)
