"""`tir.checked_index` as machine code: the position, and the way out of the kernel for one that is outside.

An index that is the same in the iterations of its loop, or that is written through, leaves at once: a branch
that is never taken, which LLVM moves out of the loop in the first case. One that differs would keep LLVM from
making vectors of the loop. It is kept in bounds instead, and the function remembers the greatest position
that it met (as an unsigned number: one before the first is great too), which is compared once where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from heddle.codegen.llvm.types import register_type
from heddle.codegen.llvm.writer import FunctionWriter
from heddle.ir.visitor import walk
from heddle.prim.nodes import Call, IntImm, PrimExpr, Var, is_const_int
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType


class Emitter(Protocol):
    """What checks ask of the emitter of a function."""

    out: FunctionWriter
    env: dict[Any, str]

    def emit(self, expr: Any) -> str: ...

    def splat(self, operand: str, dtype: DataType, lanes: int) -> str: ...

    def call_intrinsic(self, name: str, ty: str, operands: list[str]) -> str: ...

    def index_error(self, bad: str, lanes: int, given: str, size: str) -> None: ...


@dataclass
class IndexChecks:
    """The checks of one function. `outside` are the variables known before the innermost loop, None without
    one; `is_store` says that the index under way is written through.
    """

    outside: frozenset[Any] | None = None
    is_store: bool = False
    params: frozenset[Any] = frozenset()
    _greatest: list[tuple[PrimExpr, str]] = field(default_factory=list)

    def emit(self, emitter: Emitter, call: Call) -> str:
        index, extent = call.args[0], call.args[1]
        assert isinstance(index, PrimExpr)
        assert isinstance(extent, PrimExpr)
        lanes, ty, out = call.dtype.lanes, register_type(call.dtype), emitter.out
        given, size = emitter.emit(index), emitter.emit(extent)
        sizes = size if lanes == 1 else emitter.splat(size, extent.dtype, lanes)
        position = given
        if is_const_int(call.args[2], 1):
            moved = out.value(f"add {ty} {given}, {sizes}")
            position = emitter.call_intrinsic("umin", ty, [given, moved])  # the sum for -size <= i < 0 alone
        if lanes == 1 and self._can_wait(index, extent):
            return self._bounded(emitter, extent, position, size)
        bad = out.value(f"icmp uge {ty} {position}, {sizes}")
        if len(call.args) > 3:
            bools = register_type(DataType("bool").with_lanes(lanes))
            bad = out.value(f"and {bools} {bad}, {emitter.emit(call.args[3])}")
        emitter.index_error(bad, lanes, given, size)
        return position

    def _can_wait(self, index: PrimExpr, extent: PrimExpr) -> bool:
        """Whether an index differs in the iterations of the innermost loop, and the size is known at the
        function's end."""
        if self.outside is None or self.is_store or not self.params.issuperset(free_vars(extent)):
            return False
        outside = self.outside
        return any(isinstance(node, Var) and node not in outside for node in walk(index))

    def _bounded(self, emitter: Emitter, extent: PrimExpr, position: str, size: str) -> str:
        out = emitter.out
        if not (isinstance(extent, IntImm) and extent.value > 0):
            emitter.index_error(out.value(f"icmp eq i64 {size}, 0"), 1, position, size)
        slot = next((slot for known, slot in self._greatest if known is extent), None)
        if slot is None:
            slot = out.alloca("i64, align 8", "i64 0")
            self._greatest.append((extent, slot))
        before = out.value(f"load i64, ptr {slot}, align 8")
        greatest = emitter.call_intrinsic("umax", "i64", [before, position])
        out.effect(f"store i64 {greatest}, ptr {slot}, align 8")
        bad = out.value(f"icmp uge i64 {position}, {size}")
        return out.value(f"select i1 {bad}, i64 0, i64 {position}")

    def finish(self, emitter: Emitter) -> None:
        """Compare what was met, where the function ends."""
        for extent, slot in self._greatest:
            greatest, size = emitter.out.value(f"load i64, ptr {slot}, align 8"), emitter.emit(extent)
            used = emitter.out.value(f"icmp ne i64 {greatest}, 0")
            bad = emitter.out.value(f"icmp uge i64 {greatest}, {size}")
            bad = emitter.out.value(f"and i1 {used}, {bad}")
            emitter.index_error(bad, 1, greatest, size)
