"""CheckBounds: accesses that may leave their buffer are checked as the program runs.

    for i in 0 .. 4:                          for i in 0 .. 4:
        A[i] = B[k + i]              →            at = as_computed(k + i)
                                                  assert 0 <= at and at < 8, "index %g is outside ..."
                                                  A[i] = B[at]

Only functions with the attribute `check_bounds` are changed. With "unproven", which loop functions from
untrusted text get, an access costs nothing where `ExactIndices` proves it; with "all" every access is
checked, and memory that is allocated is filled with a value that gives itself away (NaN, or the bytes 0xAB).

What is checked is held in a variable, so that it is what is used: no later pass reasons about it, and no
other thread changes it in between. Checks inside a branch of `if_then_else`, `and` and `or` apply where the
branch is taken. Checked beside accesses: divisors of integers, bounds of loops, sizes of allocations, sizes
of the parameters (at most `MAX_SIZE`), views (`view_checks.py`),
and of functions from text how long they run (`step_budget.py`). A
size that is computed by cases is checked as a whole: what it is made of may be negative. What exceeds
`STACK_BUDGET_BYTES` leaves the stack.

Raises: UsageError T0801 for an access that cannot be checked (a vector index other than a ramp, a predicate).

Over 450 lines: one rewrite, which finds and writes each check in one walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from hashlib import blake2b
from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.intrinsics import as_computed, is_prefetch
from heddle.prim.nodes import (
    And,
    ArithExpr,
    Broadcast,
    Call,
    CompareExpr,
    IntImm,
    Let,
    Max,
    Min,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Var,
    is_const_int,
)
from heddle.prim.ops import (
    add,
    cast,
    const,
    equal,
    greater,
    if_then_else,
    less,
    less_equal,
    logical_and,
    logical_not,
    multiply,
    not_equal,
)
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.support.limits import current_limits
from heddle.tir.allocation import MAX_STACK_BYTES, STORAGE, is_on_stack, size_bytes
from heddle.tir.analysis.exact_index import DIVISIONS, MAX_SIZE, ExactIndices
from heddle.tir.codes import T0801
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.kernel_abi import any_lane
from heddle.tir.nodes import (
    CHECK_BOUNDS,
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
    decl_buffer,
    seq,
)
from heddle.tir.transform.step_budget import MAX_STEPS, with_step_budget
from heddle.tir.transform.view_checks import fits_in

CHECKED_PLACES = "checked_places"
UNPROVEN, ALL = "unproven", "all"
MAX_ALLOCATION_BYTES = 1 << 46
STACK_BUDGET_BYTES = 256 << 10
"""What temporaries of a checked function take of the stack: threads have little of it."""
_BOUNDS_ERROR = "BoundsError"
_IF_THEN_ELSE = "tir.if_then_else"
_CASES = (CompareExpr, Max, Min, Select)
_MAX_BOUND = 1 << 62


def marked(func: PrimFunc, mode: str) -> PrimFunc:
    """The function, to be compiled with checks. The places that their messages name count as part of it: code
    of an equal function elsewhere is not taken for it."""
    places = "\n".join(node.span.place() for node in walk(func.body) if node.span is not None)
    digest = blake2b(places.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    made: PrimFunc = func.with_attr(CHECK_BOUNDS, mode).with_attr(CHECKED_PLACES, digest)
    return made.with_attr(MAX_STEPS, current_limits().kernel_steps) if mode == UNPROVEN else made


class CheckBounds(FunctionPass):
    """Requires: no blocks, allocations in place, buffers not flat yet."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)
    requires: ClassVar[tuple[str, ...]] = ("no blocks",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        mode = func.attrs.get(CHECK_BOUNDS)
        if mode is None:
            return func
        func = with_step_budget(func)
        return func.with_body(_Checker(str(mode) == ALL).function(func))


class _Checker(Rewriter):
    """Rewrites statements. Checks of the statement under way are collected in `_before`; `_guard` is the
    condition, already decided, under which the expression under way is evaluated."""

    def __init__(self, check_all: bool) -> None:
        self._all = check_all
        self._exact = ExactIndices()
        self._before: list[Stmt] = []
        self._guard: PrimExpr | None = None
        self._copies, self._stack_bytes = 1, 0
        self._memory: dict[Var, Buffer] = {}
        """What is viewed: parameters and allocations by their pointers."""

    def function(self, func: PrimFunc) -> Stmt:
        self._memory.update((buffer.data, buffer) for buffer in func.buffers)
        dims = dict.fromkeys(expr for buffer in func.buffers for expr in (*buffer.shape, *buffer.strides))
        computed = [expr for expr in dims if _decides(expr)]
        sizes = dict.fromkeys(var for expr in dims if not _decides(expr) for var in free_vars(expr))
        summands = [var for var in sizes if var not in dims]
        for var in sizes:
            self._exact.know_size(var, is_summand=var in summands)
        computed += [
            expr for expr in dims if expr not in computed and any(var in summands for var in free_vars(expr))
        ]
        checks = [_size_check(var, f" {var.name!r}", is_summand=var in summands) for var in sizes]
        checks += [_size_check(expr, "") for expr in computed]
        return seq(*checks, self.visit(func.body))

    # ---- statements

    def _with_checks(self, build: Any) -> Stmt:
        """The statement that `build` makes, with the checks of its expressions in front."""
        outer, self._before = self._before, []
        made = build()
        before, self._before = self._before, outer
        return seq(*before, made) if before else made

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        def build() -> Stmt:
            value = self.visit(node.value)
            indices = self._indices(node, node.buffer, node.indices, node.predicate)
            same = value is node.value and all(a is b for a, b in zip(indices, node.indices, strict=True))
            return node if same else BufferStore(node.buffer, value, indices, node.predicate)

        return self._with_checks(build)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        if is_prefetch(node.value):
            return node  # asks for a cache line, touches nothing

        def build() -> Stmt:
            value = self.visit(node.value)
            return node if value is node.value else Evaluate(value)

        return self._with_checks(build)

    def visit_Bind(self, node: Bind) -> Stmt:
        def build() -> Stmt:
            value = self.visit(node.value)
            self._exact.know_value(node.var, value)
            return node if value is node.value else Bind(node.var, value)

        return self._with_checks(build)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        def build() -> Stmt:
            parts = {
                name: self.visit(part)
                for name in ("condition", "expected", "got")
                if (part := getattr(node, name)) is not None
            }
            return replace(node, **parts)

        return self._with_checks(build)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        def build() -> Stmt:
            condition = self.visit(node.condition)
            with self._exact.under(condition):
                then = self.visit(node.then_case)
            with self._exact.under(condition, holds=False):
                other = None if node.else_case is None else self.visit(node.else_case)
            return IfThenElse(condition, then, other)

        return self._with_checks(build)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        return replace(node, body=self.visit(node.body))

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        made = [self.visit(stmt) for stmt in node.seq]
        return node if all(a is b for a, b in zip(made, node.seq, strict=True)) else seq(*made)

    def visit_For(self, node: For) -> Stmt:
        def build() -> Stmt:
            loop = replace(node, min=self.visit(node.min), extent=self.visit(node.extent))
            if not self._exact.know_loop(loop):
                loop = self._checked_bounds(loop)
            outer, self._copies = self._copies, self._copies * _num_copies(loop)
            with self._exact.under(greater(loop.extent, const(0, loop.extent.dtype))):
                body = self.visit(loop.body)
            self._copies, kind = outer, loop.kind
            if kind is ForKind.VECTORIZED and _has_check(body):
                kind = ForKind.SERIAL
            return replace(loop, body=body, kind=kind)

        return self._with_checks(build)

    def _checked_bounds(self, loop: For) -> For:
        """Bounds of which nothing is proved: held, and their sum checked against overflow."""
        low, extent = self._held("begin", loop.min), self._held("extent", loop.extent)
        dtype = loop.loop_var.dtype
        most = min(_MAX_BOUND, (1 << (dtype.bits - (2 if dtype.is_signed else 1))) - 1)
        fits = [less_equal(part, const(most, dtype)) for part in (low, extent)]
        if dtype.is_signed:
            fits.append(less_equal(const(-most, dtype), low))
        message = f"loop {loop.loop_var.name!r} starts or ends beyond %e{_place(loop)}"
        self._require(reduce(logical_and, fits), message, const(most, dtype), extent)
        return replace(loop, min=low, extent=extent)

    def visit_While(self, node: While) -> Stmt:
        outer, self._before = self._before, []
        condition = self.visit(node.condition)
        checks, self._before = self._before, outer
        body = self.visit(node.body)
        if not checks:
            return replace(node, condition=condition, body=body)
        go = decl_buffer((1,), "int8", "go_on", scope="local")
        zero = const(0)
        decide = seq(*checks, BufferStore(go, cast("int8", condition), (zero,)))
        again = with_fresh_definitions(decide)
        loop = While(not_equal(BufferLoad(go, (zero,)), const(0, "int8")), seq(body, again))
        return seq(AllocBuffer(go), decide, loop)

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        buffer = node.buffer
        self._memory[buffer.data] = buffer
        known = size_bytes(buffer)
        if known is not None:
            if not 0 <= known <= MAX_ALLOCATION_BYTES:
                raise UsageError(
                    T0801,
                    f"buffer {buffer.name!r} would take {known} bytes, more than {MAX_ALLOCATION_BYTES}",
                    span=node.span,
                )
        checks = [] if known is not None else self._size_checks(buffer, node)
        if is_on_stack(node) and known is not None:
            self._stack_bytes += known * self._copies
            if known > MAX_STACK_BYTES or self._stack_bytes > STACK_BUDGET_BYTES:
                node = replace(node, annotations={**dict(node.annotations), STORAGE: "workspace"})
        return seq(*checks, node, *(poison(buffer) if self._all else ()))

    def _size_checks(self, buffer: Buffer, node: AllocBuffer) -> list[Stmt]:
        """Every size is there, and their product no more than a machine has. In float64 nothing wraps."""
        outer, self._before = self._before, []
        sizes = [cast("float64", as_computed(dim)) for dim in buffer.shape]
        fits = [less_equal(const(0.0, "float64"), size) for size in sizes]
        total = reduce(multiply, sizes, const(float(buffer.dtype.itemsize), "float64"))
        limit = const(float(MAX_ALLOCATION_BYTES), "float64")
        fits.append(less_equal(total, limit))
        message = f"buffer {buffer.name!r} would take more than %e bytes{_place(node)}"
        self._require(reduce(logical_and, fits), message, const(MAX_ALLOCATION_BYTES, "int64"), None)
        checks, self._before = self._before, outer
        return checks

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        source = self._memory.get(node.buffer.data)
        outer, self._before = self._before, []
        condition = fits_in(node, source)
        if condition is not None and source is not None:
            message = f"buffer {node.buffer.name!r} is larger than buffer {source.name!r}, which it views"
            self._require(condition, message + _place(node))
        checks, self._before = self._before, outer
        return seq(*checks, node) if checks else node

    # ---- expressions

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        indices = self._indices(node, node.buffer, node.indices, node.predicate)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True))
        return node if same else BufferLoad(node.buffer, indices, node.predicate)

    def visit_ArithExpr(self, node: ArithExpr) -> Any:
        made: Any = self.default(node)
        if not isinstance(made, DIVISIONS) or not made.dtype.is_int or self._exact.is_nonzero(made.b):
            return made
        if made.dtype.lanes > 1:
            wrong = equal(made.b, Broadcast(const(0, made.dtype.element), made.dtype.lanes))
            self._require(logical_not(any_lane(wrong)), f"division by zero{_place(node)}")
            return made
        divisor = self._held("divisor", made.b, 1)
        self._require(not_equal(divisor, const(0, divisor.dtype)), f"division by zero{_place(node)}")
        return type(made)(made.a, divisor)

    def visit_And(self, node: And) -> Any:
        return self._logic(node, holds=True)

    def visit_Or(self, node: Or) -> Any:
        return self._logic(node, holds=False)

    def _logic(self, node: And | Or, holds: bool) -> Any:
        """The second side is evaluated only where the first leaves it open."""
        first = self.visit(node.a)
        if node.dtype.lanes > 1:
            return type(node)(first, self.visit(node.b))
        first, second = self._branch(first, node.b, holds)
        return node if first is node.a and second is node.b else type(node)(first, second)

    def visit_Call(self, node: Call) -> Any:
        if node.op.name == "tir.address_of":
            return node
        if not _is_branch(node):
            return self.default(node)
        condition, yes, no = node.args
        test = self.visit(condition)
        if test.dtype.lanes > 1:
            return Call(node.dtype, node.op, (test, self.visit(yes), self.visit(no)))
        test, yes = self._branch(test, yes, True)
        test, no = self._branch(test, no, False)
        same = test is condition and yes is node.args[1] and no is node.args[2]
        return node if same else Call(node.dtype, node.op, (test, yes, no))

    def _branch(self, test: PrimExpr, branch: Any, holds: bool) -> tuple[PrimExpr, Any]:
        """A branch, evaluated where `test` is `holds`, and the test: held where checks depend on it."""
        outer_guard, outer_before = self._guard, self._before
        held = test if isinstance(test, Var) else Var("taken", test.dtype)
        own = held if holds else logical_not(held)
        self._guard = own if outer_guard is None else logical_and(outer_guard, own)
        self._before = []
        with self._exact.under(test, holds):
            made = self.visit(branch)
        checks, self._before, self._guard = self._before, outer_before, outer_guard
        if not checks:
            return test, made
        if held is not test:
            value = test if outer_guard is None else if_then_else(outer_guard, test, const(False))
            self._before.append(Bind(held, as_computed(value)))
        self._before += checks
        return held, made

    def visit_Let(self, node: Let) -> Any:
        value = self.visit(node.value)
        self._exact.know_value(node.var, value)
        before = len(self._before)
        body = self.visit(node.body)
        if len(self._before) == before:
            return node if value is node.value and body is node.body else Let(node.var, value, body)
        # Checks in front of the statement need the variable: it is bound there, under a name of its own.
        checks, self._before = self._before[before:], self._before[:before]
        held = self._held(node.var.name, value)
        rename = _Renamed(node.var, held)
        self._before += [rename.visit(stmt) for stmt in checks]
        return substitute(body, {node.var: held})

    # ---- checks

    def _indices(
        self, node: Any, buffer: Buffer, indices: Sequence[PrimExpr], predicate: PrimExpr | None
    ) -> tuple[PrimExpr, ...]:
        if predicate is not None:
            raise _uncheckable(buffer, "a predicate", node)
        return tuple(self._index(node, buffer, dim, self.visit(index)) for dim, index in enumerate(indices))

    def _index(self, node: Any, buffer: Buffer, dim: int, index: PrimExpr) -> PrimExpr:
        """The index to use: itself where it is proved to lie inside, else held and checked."""
        extent = buffer.shape[dim]
        if not index.dtype.is_int:
            raise _uncheckable(buffer, f"an index of {index.dtype}", node)
        if isinstance(index, Broadcast):
            return Broadcast(self._index(node, buffer, dim, index.value), index.lanes)
        if isinstance(index, Ramp):
            return self._ramp(node, buffer, dim, index)
        if index.dtype.lanes > 1:
            raise _uncheckable(buffer, "a vector index that is no ramp", node)
        if not self._all and self._exact.is_inside(index, extent):
            return index
        # Of uint64, what does not fit int64 is negative there: only after the cast can that be seen.
        held = self._held("at", cast("int64", index) if index.dtype.is_unsigned else index)
        self._require_inside(held, extent, buffer, dim, node)
        return held

    def _ramp(self, node: Any, buffer: Buffer, dim: int, index: Ramp) -> PrimExpr:
        """Both ends of a ramp lie inside, and so does what is between."""
        stride = index.stride
        if not isinstance(stride, IntImm) or abs(stride.value) * index.lanes >= MAX_SIZE:
            raise _uncheckable(buffer, "a ramp without a constant stride", node)
        span = const(stride.value * (index.lanes - 1), index.base.dtype)
        extent = buffer.shape[dim]
        ends = (index.base, add(index.base, span))
        if not self._all and all(self._exact.is_inside(end, extent) for end in ends):
            return index
        if index.dtype.is_unsigned:
            raise _uncheckable(buffer, f"a ramp of {index.dtype}", node)
        held = self._held("at", index.base)
        self._require_inside(held, extent, buffer, dim, node)
        last = as_computed(add(cast("int64", held), cast("int64", span)))
        self._require_inside(last, extent, buffer, dim, node)
        return Ramp(held, stride, index.lanes)

    def _held(self, name: str, value: PrimExpr, otherwise: int = 0) -> PrimExpr:
        """A variable with the value; where the expression is not evaluated, with `otherwise`."""
        if isinstance(value, IntImm):
            return value
        if self._guard is not None:
            value = if_then_else(self._guard, value, const(otherwise, value.dtype))
        held = Var(name, value.dtype)
        self._before.append(Bind(held, as_computed(value)))
        return held

    def _require_inside(self, index: PrimExpr, extent: PrimExpr, buffer: Buffer, dim: int, node: Any) -> None:
        wide = DataType("int64")
        at = cast(wide, index)
        size = cast(wide, extent if isinstance(extent, IntImm) else as_computed(extent))
        inside = logical_and(less_equal(const(0, wide), at), less(at, size))
        message = f"index %g is outside dimension {dim} of buffer {buffer.name!r}, which has %e{_place(node)}"
        self._require(inside, message, size, at)

    def _require(
        self,
        condition: PrimExpr,
        message: str,
        expected: PrimExpr | None = None,
        got: PrimExpr | None = None,
    ) -> None:
        if self._guard is not None and not is_const_int(self._guard, 1):
            condition = if_then_else(self._guard, condition, const(True))
        self._before.append(AssertStmt(condition, message, _BOUNDS_ERROR, expected, got))


class _Renamed(Rewriter):
    def __init__(self, old: Var, new: PrimExpr) -> None:
        self._old, self._new = old, new

    def visit_Var(self, node: Var) -> Any:
        return self._new if node is self._old else node


def _num_copies(loop: For) -> int:
    """How many copies of its body a loop may become."""
    is_copied = loop.kind is ForKind.UNROLLED and isinstance(loop.extent, IntImm)
    return max(loop.extent.value, 1) if is_copied else 1  # type: ignore[attr-defined]


def _size_check(size: PrimExpr, name: str, is_summand: bool = False) -> Stmt:
    """`is_summand`: it stands in formulas of sizes only, as paddings do, and may be negative."""
    given, limit = as_computed(size), _limit(size.dtype)
    least = -_limit(size.dtype) if is_summand else const(0, size.dtype)
    fits = logical_and(less_equal(least, given), less_equal(given, limit))
    known = "numbers of at most %e, negative ones too" if is_summand else "sizes from 0 to %e"
    message = f"size{name} is %g: checked functions take {known}"
    return AssertStmt(fits, message, _BOUNDS_ERROR, limit, size)


def _decides(expr: PrimExpr) -> bool:
    """Whether a size is computed by cases, as bounds of slices and targets of reshapes are: what it is made
    of may be negative, and nothing is assumed of it."""
    return any(isinstance(part, _CASES) or _is_branch(part) for part in walk(expr))


def _is_branch(node: Any) -> bool:
    return isinstance(node, Call) and node.op.name == _IF_THEN_ELSE


def _limit(dtype: DataType) -> PrimExpr:
    return const(min(MAX_SIZE, (1 << (dtype.bits - 1)) - 1), dtype)


def _place(node: Any) -> str:
    return "" if node.span is None else f" (at {node.span.place()})"


def _uncheckable(buffer: Buffer, what: str, node: Any) -> UsageError:
    return UsageError(
        T0801,
        f"an access to buffer {buffer.name!r} with {what} cannot be checked",
        span=node.span,
        help="write a loop over scalar accesses",
    )


def _has_check(stmt: Stmt) -> bool:
    found = stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)
    return any(isinstance(item, AssertStmt) for item in found) or any(
        _has_check(body)
        for item in found
        for body in (
            getattr(item, "body", None),
            getattr(item, "then_case", None),
            getattr(item, "else_case", None),
        )
        if isinstance(body, Stmt)
    )


def poison(buffer: Buffer) -> tuple[Stmt, ...]:
    """Loops that fill a buffer with NaN, or the bytes 0xAB: who reads it before writing it will see."""
    element = buffer.dtype.element
    value: PrimExpr
    if element.is_float:
        value = const(float("nan"), element)
    elif element.is_int and element.bits >= 8:
        pattern = int.from_bytes(b"\xab" * (element.bits // 8), "little")
        value = const(pattern - (1 << element.bits) if element.is_signed else pattern, element)
    else:
        return ()
    if buffer.dtype.lanes > 1:
        value = Broadcast(value, buffer.dtype.lanes)
    loops = [Var(f"p{dim}", extent.dtype) for dim, extent in enumerate(buffer.shape)]
    body: Stmt = BufferStore(buffer, value, tuple(loops))
    for var, extent in reversed(list(zip(loops, buffer.shape, strict=True))):
        body = For(var, const(0, var.dtype), extent, ForKind.SERIAL, body)
    return (body,)
