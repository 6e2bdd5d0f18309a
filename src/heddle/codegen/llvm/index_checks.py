"""`tir.checked_index` as machine code: the position, and the way out of the kernel for one that is outside.

An index that is the same in the iterations of its loop leaves at once: a branch that is never taken, which
LLVM moves out of the loop. One that differs would keep LLVM from making vectors of the loop. It is kept in
bounds instead, and the loop remembers that one was outside, or, where a condition guards the check, in which
iteration. Where the loop ends this is looked at once; code that hardly ever runs then finds the first index
that is outside and leaves.

One that is written through waits too: what a kernel that fails has written is undefined, but inside its
buffer. Where what is stored depends on a check (an element that something is added to), or the index is not
known again where its loop ends, or lies in memory that the loop writes, it leaves at once: from 0 to the size
it is a position as it is, and only others are looked at closer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from heddle.codegen.llvm.types import register_type
from heddle.codegen.llvm.writer import FunctionWriter
from heddle.ir.node import Node, children
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk, walk_distinct
from heddle.prim.checked_index import is_index_check
from heddle.prim.nodes import Add, Call, Cast, IntImm, Mul, PrimExpr, Sub, Var, is_const_int
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import BufferLoad, BufferStore, Stmt


class Emitter(Protocol):
    """What checks ask of the emitter of a function."""

    out: FunctionWriter
    env: dict[Any, str]

    def emit(self, expr: Any) -> str:
        """The operand that holds a value."""

    def emit_index(self, expr: PrimExpr) -> str:
        """An index, whose arithmetic does not overflow."""

    def splat(self, operand: str, dtype: DataType, lanes: int) -> str:
        """A scalar operand in all lanes."""

    def call_intrinsic(self, name: str, ty: str, operands: list[str]) -> str:
        """An `llvm.NAME` intrinsic over operands of one type."""

    def index_error(self, bad: str, lanes: int, given: str, size: str) -> None:
        """Leave where `bad` holds in some lane, with an error that names the first such lane's index."""

    def index_error_somewhere(self, size: str) -> None:
        """Leave with an error that names no index."""

    def open_loop(self, var: Var | None = None) -> AbstractContextManager[Any]:
        """The body of a loop."""

    def unlikely(self) -> str:
        """Branch weights: the first way is hardly ever taken."""


@frozen
class _Waiting:
    """A check that is looked at where its loop ends. `slot` has whether an index was outside, or, where a
    condition guards the check, the first iteration that met one. `bound` are the variables of the loop's body
    that the index needs."""

    call: Call
    slot: str
    is_guarded: bool
    bound: tuple[Var, ...]


@dataclass(slots=True)
class _Loop:
    """The innermost loop: its variable, what is known before it, how many conditions are around it, and the
    pointers that its body writes, once they were asked for."""

    var: Var
    known: frozenset[Any]
    conditions: int
    body: Stmt
    waiting: list[_Waiting] = field(default_factory=list)
    _written: list[Var] | None = None

    def written(self) -> list[Var]:
        if self._written is None:
            stores = (node for node in walk_stmts(self.body) if isinstance(node, BufferStore))
            self._written = list(dict.fromkeys(node.buffer.data for node in stores))
        return self._written


@dataclass
class IndexChecks:
    """The checks of one function. `may_wait` says that the check under way may wait for the end of its loop;
    `is_moving` that the index may change within an iteration. `values` has what variables are bound to, in
    order; `may_share` says whether two pointers may be to one memory. `_known` are the checks of the store
    under way that were made, with their positions.
    """

    values: dict[Var, PrimExpr]
    may_share: Callable[[Var, Var], bool]
    may_wait: bool = True
    is_moving: bool = False
    _known: list[tuple[Call, str]] = field(default_factory=list)
    _loop: _Loop | None = None

    # ---- loops

    @contextmanager
    def inside(
        self, var: Var, known: frozenset[Any], conditions: int, body: Stmt
    ) -> Iterator[Callable[..., None]]:
        """The body of a loop. Gives what is to be called where the loop ends, with the emitter and the
        operands of its bounds."""
        outer, is_moving = self._loop, self.is_moving
        loop = self._loop = _Loop(var, known, conditions, body)
        self.is_moving = False
        try:
            yield lambda emitter, begin, end: self._settle(emitter, loop, begin, end)
        finally:
            self._loop, self.is_moving = outer, is_moving

    @contextmanager
    def moving(self) -> Iterator[None]:
        """A loop whose iterations have no number."""
        before, self.is_moving = self.is_moving, True
        try:
            yield
        finally:
            self.is_moving = before

    @contextmanager
    def written_through(self, emitter: Emitter, index: PrimExpr, may_wait: bool) -> Iterator[None]:
        """A store to `index`. Where its checks may not wait, those that are always made come first, and the
        value that is stored finds their positions."""
        before = self.may_wait, self._known
        self.may_wait, self._known = may_wait, []
        try:
            if not may_wait:
                for check in _made_first(index):
                    self._known.append((check, emitter.emit_index(check)))
            yield
        finally:
            self.may_wait, self._known = before

    def _settle(self, emitter: Emitter, loop: _Loop, begin: str, end: str) -> None:
        """Look at the checks that waited for the end of a loop."""
        if not loop.waiting:
            return
        bound = {var for check in loop.waiting for var in (loop.var, *check.bound)}
        before = {var: emitter.env.get(var) for var in bound}
        outer, self._loop = self._loop, None  # what is checked now leaves at once
        try:
            self._look(emitter, loop, begin, end)
        finally:
            emitter.env.update({var: operand for var, operand in before.items() if operand is not None})
            self._loop = outer

    def _look(self, emitter: Emitter, loop: _Loop, begin: str, end: str) -> None:
        for check in loop.waiting:
            if check.is_guarded:
                self._at_first(emitter, loop, check)
        plain = [check for check in loop.waiting if not check.is_guarded]
        if plain:
            self._search(emitter, loop, plain, begin, end)

    def _at_first(self, emitter: Emitter, loop: _Loop, check: _Waiting) -> None:
        """Check again in the first iteration that met an index outside, if one did."""
        out, ty = emitter.out, register_type(loop.var.dtype)
        first = out.value(f"load {ty}, ptr {check.slot}, align 8")
        failed, passed = out.label("some_outside"), out.label("none_outside")
        none = out.value(f"icmp eq {ty} {first}, {_last(loop.var.dtype)}")
        out.branch(out.value(f"xor i1 {none}, true"), failed, passed, emitter.unlikely())
        out.start(failed)
        self._again(emitter, loop, [check], first)
        emitter.index_error_somewhere(emitter.emit(check.call.args[1]))
        out.start(passed)

    def _search(self, emitter: Emitter, loop: _Loop, checks: list[_Waiting], begin: str, end: str) -> None:
        """Go through the iterations again, for the first index outside, if one was."""
        out, ty = emitter.out, register_type(loop.var.dtype)
        some = out.value(f"load i1, ptr {checks[0].slot}, align 1")
        failed, passed = out.label("some_outside"), out.label("none_outside")
        out.branch(some, failed, passed, emitter.unlikely())
        out.start(failed)
        head, body, lost = out.label("find"), out.label("look"), out.label("lost")
        counter, following = out.reserve(), out.reserve()
        out.start(head)
        out.define(counter, f"phi {ty} [ {begin}, %{failed} ], [ {following}, %{body}_end ]")
        less = "slt" if loop.var.dtype.is_signed else "ult"
        out.branch(out.value(f"icmp {less} {ty} {counter}, {end}"), body, lost)
        out.start(body)
        self._again(emitter, loop, checks, counter)
        out.start(f"{body}_end")
        out.define(following, f"add {ty} {counter}, 1")
        out.terminate(f"br label %{head}")
        out.start(lost)
        emitter.index_error_somewhere(emitter.emit(checks[0].call.args[1]))
        out.start(passed)

    def _again(self, emitter: Emitter, loop: _Loop, checks: list[_Waiting], iteration: str) -> None:
        with emitter.open_loop():
            emitter.env[loop.var] = iteration
            wanted = {var for check in checks for var in check.bound}
            for var, value in self.values.items():
                if var in wanted:
                    emitter.env[var] = emitter.emit(value)
            within = {
                inner
                for check in checks
                for inner in walk_distinct(check.call.args[0])
                if is_index_check(inner)
            }
            for check in checks:
                if check.call not in within:  # else it is made where the index around it is
                    emitter.emit(check.call)

    # ---- checks

    def emit(self, emitter: Emitter, call: Call, conditions: int) -> str:
        """The position that an index means."""
        for known, position in self._known:
            if structural_equal(known, call):
                return position
        index, extent = call.args[0], call.args[1]
        assert isinstance(index, PrimExpr)
        assert isinstance(extent, PrimExpr)
        lanes, ty, out = call.dtype.lanes, register_type(call.dtype), emitter.out
        given, size = emitter.emit(index), emitter.emit(extent)
        counts = is_const_int(call.args[2], 1)
        if lanes == 1 and self._differs(index):
            bound = self._bound(index, extent)
            if bound is None:
                return _position(emitter, given, size, counts)
            position = given
            if counts:
                moved, is_low = out.value(f"add i64 {given}, {size}"), out.value(f"icmp slt i64 {given}, 0")
                position = out.value(f"select i1 {is_low}, i64 {moved}, i64 {given}")
            return self._bounded(emitter, call, given, position, size, conditions, bound)
        sizes = size if lanes == 1 else emitter.splat(size, extent.dtype, lanes)
        position = given
        if counts:
            moved = out.value(f"add {ty} {given}, {sizes}")
            position = emitter.call_intrinsic("umin", ty, [given, moved])  # the sum for -size <= i < 0 alone
        bad = out.value(f"icmp uge {ty} {position}, {sizes}")
        if len(call.args) > 3:
            bools = register_type(DataType("bool").with_lanes(lanes))
            bad = out.value(f"and {bools} {bad}, {emitter.emit(call.args[3])}")
        emitter.index_error(bad, lanes, given, size)
        return position

    def _differs(self, index: PrimExpr) -> bool:
        """Whether an index differs in the iterations of the innermost loop."""
        loop = self._loop
        return loop is not None and any(var not in loop.known for var in free_vars(index))

    def _bound(self, index: PrimExpr, extent: PrimExpr) -> tuple[Var, ...] | None:
        """The variables of the loop's body that an index needs; None where the check cannot wait."""
        loop = self._loop
        assert loop is not None
        if not self.may_wait or self.is_moving or not loop.known.issuperset(free_vars(extent)):
            return None
        found: dict[Var, None] = {}
        pending = list(free_vars(index))
        while pending:
            var = pending.pop()
            if var in loop.known or var is loop.var or var in found:
                continue
            if var not in self.values:
                return None
            found[var] = None
            pending += free_vars(self.values[var])
        return (
            None
            if self._is_written(loop, index, extent, *map(self.values.__getitem__, found))
            else tuple(found)
        )

    def _is_written(self, loop: _Loop, *parts: PrimExpr) -> bool:
        """Whether the loop may write what expressions read: after it they may have other values."""
        read = {node.buffer.data for part in parts for node in walk(part) if isinstance(node, BufferLoad)}
        return any(self.may_share(data, written) for data in read for written in loop.written())

    def _bounded(
        self,
        emitter: Emitter,
        call: Call,
        given: str,
        position: str,
        size: str,
        conditions: int,
        bound: tuple[Var, ...],
    ) -> str:
        out, loop, extent = emitter.out, self._loop, call.args[1]
        assert loop is not None
        if not (isinstance(extent, IntImm) and extent.value > 0):
            emitter.index_error(out.value(f"icmp eq i64 {size}, 0"), 1, given, size)
        bad = out.value(f"icmp uge i64 {position}, {size}")
        is_guarded = conditions > loop.conditions
        if is_guarded:
            ty, last = register_type(loop.var.dtype), _last(loop.var.dtype)
            slot = out.alloca(f"{ty}, align 8", f"{ty} {last}")
            here = out.value(f"select i1 {bad}, {ty} {emitter.env[loop.var]}, {ty} {last}")
            before = out.value(f"load {ty}, ptr {slot}, align 8")
            least = "smin" if loop.var.dtype.is_signed else "umin"
            after = emitter.call_intrinsic(least, ty, [before, here])
            out.effect(f"store {ty} {after}, ptr {slot}, align 8")
        else:
            known = [check.slot for check in loop.waiting if not check.is_guarded]
            slot = known[0] if known else out.alloca("i1, align 1", "i1 false")
            before = out.value(f"load i1, ptr {slot}, align 1")
            out.effect(f"store i1 {out.value(f'or i1 {before}, {bad}')}, ptr {slot}, align 1")
        loop.waiting.append(_Waiting(call, slot, is_guarded, bound))
        return out.value(f"select i1 {bad}, i64 0, i64 {position}")


def checks_in(expr: PrimExpr) -> list[Call]:
    """The checks in an expression."""
    return [node for node in walk(expr) if is_index_check(node)]


def _made_first(index: PrimExpr) -> list[Call]:
    """The checks that an index always makes, and of which nothing in it that is read depends."""
    found: list[Call] = []
    pending: list[Node] = [index]
    while pending:
        node = pending.pop()
        if is_index_check(node) and len(checks_in(node)) == 1:
            found.append(node)
        elif isinstance(node, (Add, Sub, Mul, Cast)):
            pending += children(node)
    return found


def _last(dtype: DataType) -> int:
    """The greatest number of a loop's variable, which no iteration has."""
    return (1 << (dtype.bits - dtype.is_signed)) - 1


def _position(emitter: Emitter, given: str, size: str, counts: bool) -> str:
    """The position of an index that differs, where one outside leaves at once."""
    out = emitter.out
    if not counts:
        emitter.index_error(out.value(f"icmp uge i64 {given}, {size}"), 1, given, size)
        return given
    low, end, before = out.label("not_inside"), out.label("position"), out.block
    out.branch(out.value(f"icmp uge i64 {given}, {size}"), low, end, emitter.unlikely())
    out.start(low)
    moved = out.value(f"add i64 {given}, {size}")
    emitter.index_error(out.value(f"icmp uge i64 {moved}, {size}"), 1, given, size)
    last = out.block
    out.start(end)
    return out.value(f"phi i64 [ {given}, %{before} ], [ {moved}, %{last} ]")
