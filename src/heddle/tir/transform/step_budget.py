"""Bounds on how long one call of a loop function from untrusted text may run.

    for i in 0 .. n:                        assert n * m <= max_steps
        for j in 0 .. m:          →         for i in 0 .. n:
            A[i, j] = 0                         for j in 0 .. m: ...

    while B[0] > 0:                         steps[0] = 0
        B[0] = f(B[0])            →         while B[0] > 0:
                                                steps[0] += 1; assert steps[0] <= max_steps
                                                B[0] = f(B[0])

A step is one turn of an innermost loop. Loops whose bounds follow from the function's parameters are counted
before they begin, all at once, as the most that they can take: in float64, where nothing wraps. Others count
as they are entered (`for`, with what is known of their insides) or at each turn (`while`), in a counter of
the function, or of the turn of the parallel loop that they are in; then all turns together have the budget.

What is not bounded: the number of calls, so a text may run for ever by recursion of graph functions.
"""

from __future__ import annotations

from collections.abc import Callable

from heddle.ir.node import replace
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, Var
from heddle.prim.ops import add, cast, const, less_equal, maximum, multiply
from heddle.prim.substitute import free_vars
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    decl_buffer,
    seq,
)

MAX_STEPS = "max_steps"
"""The attribute of functions that have a budget: its steps."""
_STEPS_ERROR = "StepsError"
_DOUBLE = "float64"
_Steps = PrimExpr | None
"""The most steps of a statement that are counted before it begins; None for one that has no such loops."""


def with_step_budget(func: PrimFunc) -> PrimFunc:
    """The function with checks of its budget. Requires: no blocks."""
    limit = func.attrs.get(MAX_STEPS)
    if limit is None:
        return func
    sizes = [expr for buffer in func.buffers for expr in (*buffer.shape, *buffer.strides)]
    known = {*func.params, *(var for expr in sizes for var in free_vars(expr))}
    name = str(func.attrs.get("global_symbol", ""))
    return func.with_body(_Budget(int(limit), known, name).function(func.body))


class _Budget:
    """Adds checks. `_counter` is that of the innermost parallel loop's turn, or of the function, where it has
    one yet; `_turns` how many turns there are of it."""

    def __init__(self, limit: int, known: set[Var], name: str) -> None:
        self._limit, self._known = limit, known
        self._message = f"the loops of {name!r} would take more than %e steps"
        self._counter: Buffer | None = None
        self._turns: PrimExpr = const(1.0, _DOUBLE)

    def function(self, body: Stmt) -> Stmt:
        steps, made = self._visit(body)
        made = self._with_counter(made)
        if steps is None or (isinstance(steps, FloatImm) and steps.value <= self._limit):
            return made
        return seq(self._check(steps), made)

    def _visit(self, stmt: Stmt) -> tuple[_Steps, Stmt]:
        if isinstance(stmt, For):
            return self._loop(stmt)
        if isinstance(stmt, While):
            steps, body = self._visit(stmt.body)
            turn = const(1.0, _DOUBLE) if steps is None else steps
            return None, replace(stmt, body=seq(*self._charge(turn), body))
        if isinstance(stmt, IfThenElse):
            first, then = self._visit(stmt.then_case)
            second, other = (None, None) if stmt.else_case is None else self._visit(stmt.else_case)
            return _joined(first, second, maximum), IfThenElse(stmt.condition, then, other)
        if isinstance(stmt, SeqStmt):
            total, made = None, []
            for part in stmt.seq:
                steps, rewritten = self._visit(part)
                total = _joined(total, steps, add)
                made.append(rewritten)
            return total, seq(*made)
        if isinstance(stmt, AttrStmt):
            steps, body = self._visit(stmt.body)
            return steps, replace(stmt, body=body)
        return None, stmt

    def _loop(self, loop: For) -> tuple[_Steps, Stmt]:
        turns = _as_double(loop.extent)
        if loop.kind is ForKind.PARALLEL:
            outer = self._counter, self._turns
            self._counter, self._turns = None, multiply(self._turns, turns)
            inner, body = self._visit(loop.body)
            body = self._with_counter(body)
            self._counter, self._turns = outer
        else:
            inner, body = self._visit(loop.body)
        steps = turns if inner is None else multiply(turns, inner)
        made = replace(loop, body=body)
        return (steps, made) if self._is_known(loop.extent) else (None, seq(*self._charge(steps), made))

    def _is_known(self, extent: PrimExpr) -> bool:
        """Whether a number of turns follows from the parameters."""
        has_load = any(isinstance(node, BufferLoad) for node in walk_distinct(extent))
        return not has_load and all(var in self._known for var in free_vars(extent))

    def _with_counter(self, body: Stmt) -> Stmt:
        """A body with the counter that its parts use, if they do."""
        if self._counter is None:
            return body
        zero = BufferStore(self._counter, const(0.0, _DOUBLE), (const(0),))
        return seq(AllocBuffer(self._counter), zero, body)

    def _charge(self, steps: PrimExpr) -> tuple[Stmt, ...]:
        """Count steps, and check what was counted so far."""
        if self._counter is None:
            self._counter = decl_buffer((1,), _DOUBLE, "steps", scope="local")
        zero = (const(0),)
        counted = BufferLoad(self._counter, zero)
        return (
            BufferStore(self._counter, add(counted, steps), zero),
            self._check(multiply(counted, self._turns)),
        )

    def _check(self, steps: PrimExpr) -> Stmt:
        fits = less_equal(steps, const(float(self._limit), _DOUBLE))
        return AssertStmt(fits, self._message, _STEPS_ERROR, const(self._limit, "int64"))


def _as_double(extent: PrimExpr) -> PrimExpr:
    if isinstance(extent, IntImm):
        return const(float(max(extent.value, 0)), _DOUBLE)
    return maximum(cast(_DOUBLE, extent), const(0.0, _DOUBLE))


def _joined(a: _Steps, b: _Steps, join: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> _Steps:
    return b if a is None else a if b is None else join(a, b)
