"""The nodes of the loop IR: programs over buffers.

    func  = fn (params) where handle ↦ buffer: stmt
    stmt  = buffer[i, ...] = e | evaluate(e) | v = e | alloc buffer | declare buffer | assert e | stmt; stmt
          | for v in min .. min + extent (kind): stmt | while e: stmt | if e: stmt else: stmt
          | attr node.key = e: stmt | block realized at (e, ...) where e
    block = sblock name(iter vars) reads regions writes regions: allocations; init stmt; stmt
    e     = scalar expressions (`prim`) | buffer[i, ...]

Semantics:
- Statements run in order. The scope of `v = e`, `alloc` and `declare` is the rest of the enclosing sequence.
  Allocated memory is undefined at first and is freed at the end of its scope.
- A SERIAL or UNROLLED loop runs its iterations in order. PARALLEL and VECTORIZED promise that iterations are
  independent. THREAD_BINDING binds the variable to a hardware thread.
- A block is a unit of computation over its iteration variables. It does the same thing whenever they have the
  same values; spatial iterations (S) are independent; reduction iterations (R) commute. It accesses only the
  regions that it declares. `init` runs at the first iteration of the reduction; if there is no reduction
  iteration, it runs alone. A realization runs the block at the given values if its predicate holds.
- Buffers do not alias unless one is declared over the data of another, or the function lacks `tir.noalias`.
- Indices count elements per dimension. An access outside a buffer is an error of the program. A vector index
  (Ramp) accesses one element per lane. With a predicate, only the lanes for which it holds are accessed, and
  loads give 0 for the others. A scalar predicate is a condition: if it is false, no part of the access is
  evaluated, and a load gives 0. All operands of a vector store are evaluated before it writes.

Over 450 lines: the nodes of the loop IR, which its grammar above lists on one screen.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from heddle.ir.attrs import NO_ATTRS, Attrs, attrs_of
from heddle.ir.expr import BaseFunc, Expr
from heddle.ir.node import EMPTY_MAP, Map, Node, defines, derived, label, node
from heddle.ir.types import FuncType, PointerType, PrimType, TupleType, Type
from heddle.prim.nodes import IntImm, PrimExpr, Ramp, Range, Var, as_expr, constant
from heddle.prim.operators import Operators
from heddle.prim.ops import const, match_types
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.tir.codes import T0101, T0102, T0103, T0104

CHECK_BOUNDS = "check_bounds"
"""The attribute of functions and modules that requests bounds checks: "unproven" or "all"
(`tir.transform.check_bounds`)."""


class Stmt(Node):
    """The base class of statements."""

    __slots__ = ()


class ForKind(IntEnum):
    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class IterType(IntEnum):
    """The kind of an iteration variable of a block: spatial (S), reduction (R), or neither."""

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    Opaque = 4


@node("tir.Buffer", identity=True)
class Buffer(Expr):
    """A memory region with the form of a tensor. Empty `strides` means row-major without gaps. `strides` and
    `elem_offset` count elements. `data` is the pointer; buffers with the same pointer alias."""

    data: Var
    dtype: DataType
    shape: tuple[PrimExpr, ...]
    name: str = label()
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr | None = None
    align_bytes: int = 64
    script_words: ClassVar[frozenset[str]] = frozenset({"scope", "ndim", "vload", "vstore", "full_region"})

    def __post_init__(self) -> None:
        self.set_derived("dtype", DataType(self.dtype))
        self.set_derived("shape", tuple(as_expr(dim) for dim in self.shape))
        self.set_derived("strides", tuple(as_expr(stride) for stride in self.strides))

    @property
    def scope(self) -> str:
        """The storage scope: "global", "local", "shared" and so on."""
        pointer = self.data.type_annotation
        return pointer.storage_scope if isinstance(pointer, PointerType) else "global"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def ty(self) -> Type:
        """The type of its data pointer."""
        return self.data.ty

    def __getitem__(self, indices: Any) -> Any:
        """Return a load at scalar or vector indices. If an index is a slice without a step, return a
        `BufferRegion`."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if any(isinstance(index, slice) for index in given):
            return BufferRegion(
                self, tuple(_slice_range(i, dim) for i, dim in zip(given, self.shape, strict=True))
            )
        return BufferLoad(self, given)

    def vload(self, begin: Any, dtype: str | None = None, predicate: PrimExpr | None = None) -> BufferLoad:
        """Return a load of as many lanes as `dtype` has, from `begin` along the last dimension. Only lanes
        for which `predicate` holds are loaded."""
        return BufferLoad(self, self._vector_index(begin, DataType(dtype or self.dtype)), predicate)

    def vstore(self, begin: Any, value: PrimExpr) -> BufferStore:
        """Return a store of a vector whose first element is stored at `begin`."""
        return BufferStore(self, value, self._vector_index(begin, value.dtype))

    def _vector_index(self, begin: Any, dtype: DataType) -> tuple[Any, ...]:
        index = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
        if dtype.lanes == self.dtype.lanes:
            return index
        return (*index[:-1], Ramp(as_expr(index[-1]), const(1, as_expr(index[-1]).dtype), dtype.lanes))

    def full_region(self) -> BufferRegion:
        """Return the region of all elements."""
        return BufferRegion(
            self, tuple(Range.from_min_extent(constant(0, dim.dtype), dim) for dim in self.shape)
        )


def _slice_range(index: Any, dim: PrimExpr) -> Range:
    if not isinstance(index, slice):
        index = as_expr(index)
        return Range.from_min_extent(index, constant(1, index.dtype))
    begin = as_expr(index.start) if index.start is not None else constant(0, dim.dtype)
    begin, end = match_types(begin, as_expr(index.stop) if index.stop is not None else dim)
    return Range(begin, end)


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = (),
    elem_offset: Any = None,
    scope: str = "global",
    align_bytes: int = 64,
) -> Buffer:
    """Make a buffer with a new pointer variable, or over the pointer `data`."""
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    if data is None:
        data = Var(name, DataType("handle"), PointerType(PrimType(DataType(dtype)), scope))
    offset = None if elem_offset is None else as_expr(elem_offset)
    return Buffer(data, DataType(dtype), tuple(dims), name, tuple(strides or ()), offset, align_bytes)


@node("tir.BufferRegion")
class BufferRegion(Expr):
    """A rectangular region of a buffer: one range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...]

    def __post_init__(self) -> None:
        self.set_derived("region", tuple(self.region))

    @property
    def ty(self) -> None:
        """None, because a region is not a value."""
        return None


@node("tir.BufferLoad")
class BufferLoad(PrimExpr):
    """A load. With a vector index, the result has that many lanes. `predicate` is a bool vector with one
    element per lane, or a scalar bool for all lanes."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("indices", _check_indices(self.buffer, self.indices))
        self.set_derived("predicate", _check_predicate(self.predicate))
        self.set_derived("dtype", _access_dtype(self.buffer, self.indices))


@node("tir.BufferStore")
class BufferStore(Stmt):
    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def __post_init__(self) -> None:
        self.set_derived("indices", _check_indices(self.buffer, self.indices))
        expected = _access_dtype(self.buffer, self.indices)
        value = as_expr(self.value, expected)
        if value.dtype != expected:
            raise IRTypeError(
                T0102, f"store to {self.buffer.name!r} expects {expected}, got {value.dtype}", span=self.span
            )
        self.set_derived("value", value)
        self.set_derived("predicate", _check_predicate(self.predicate))


def _check_predicate(predicate: Any) -> PrimExpr | None:
    return None if predicate is None else as_expr(predicate)


def _check_indices(buffer: Buffer, indices: Any) -> tuple[PrimExpr, ...]:
    given = tuple(as_expr(index) for index in (indices if isinstance(indices, (tuple, list)) else (indices,)))
    if len(given) != len(buffer.shape):
        raise IRTypeError(
            T0101, f"buffer {buffer.name!r} has {len(buffer.shape)} dimensions, got {len(given)} indices"
        )
    return given


def _access_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> DataType:
    lanes = indices[-1].dtype.lanes if indices else 1
    for index in indices[:-1]:
        lanes = max(lanes, index.dtype.lanes)
    return buffer.dtype.with_lanes(buffer.dtype.lanes * lanes) if lanes > 1 else buffer.dtype


@node("tir.Evaluate")
class Evaluate(Stmt):
    """Evaluate an expression for its side effects. A constant is a no-op."""

    value: PrimExpr

    def __post_init__(self) -> None:
        self.set_derived("value", self.value if isinstance(self.value, Expr) else as_expr(self.value))


@node("tir.Bind")
class Bind(Stmt):
    """`var = value` for the rest of the enclosing sequence."""

    var: Var = defines()
    value: PrimExpr


@node("tir.AllocBuffer")
class AllocBuffer(Stmt):
    """Fresh memory for a buffer, for the rest of the enclosing sequence."""

    buffer: Buffer = defines()
    annotations: Map = EMPTY_MAP

    def __post_init__(self) -> None:
        self.set_derived("annotations", Map(self.annotations))


@node("tir.DeclBuffer")
class DeclBuffer(Stmt):
    """Another view of memory whose pointer is defined already, for the rest of the enclosing sequence."""

    buffer: Buffer = defines()


@node("tir.AssertStmt")
class AssertStmt(Stmt):
    """A run-time check. `error_kind` is RuntimeError, ValueError, TypeError or IndexError. In the message,
    `%e` and `%g` stand for the values of `expected` and `got`."""

    condition: PrimExpr
    message: str
    error_kind: str = "RuntimeError"
    expected: PrimExpr | None = None
    got: PrimExpr | None = None

    def __post_init__(self) -> None:
        _check_condition(self.condition, "assert")


@node("tir.SeqStmt")
class SeqStmt(Stmt):
    """Statements in order. A sequence directly inside another one is flattened."""

    seq: tuple[Stmt, ...]

    def __post_init__(self) -> None:
        if any(isinstance(stmt, SeqStmt) for stmt in self.seq):
            self.set_derived("seq", tuple(inner for stmt in self.seq for inner in statements(stmt)))
        else:
            self.set_derived("seq", tuple(self.seq))


@node("tir.IfThenElse")
class IfThenElse(Stmt):
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None

    def __post_init__(self) -> None:
        _check_condition(self.condition, "if")


@node("tir.For")
class For(Stmt):
    """A loop. `annotations` are hints and pragmas by name. `thread_binding` names the thread of a
    THREAD_BINDING loop."""

    loop_var: Var = defines()
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: str | None = None
    annotations: Map = EMPTY_MAP

    def __post_init__(self) -> None:
        dtype = self.loop_var.dtype
        self.set_derived("min", as_expr(self.min, dtype))
        self.set_derived("extent", as_expr(self.extent, dtype))
        self.set_derived("kind", ForKind(self.kind))
        self.set_derived("annotations", Map(self.annotations))
        if not (dtype.is_int and self.min.dtype == dtype == self.extent.dtype):
            raise IRTypeError(
                T0104,
                f"loop {self.loop_var.name!r} of {dtype} has bounds of {self.min.dtype} and "
                f"{self.extent.dtype}",
            )


@node("tir.While")
class While(Stmt):
    condition: PrimExpr
    body: Stmt

    def __post_init__(self) -> None:
        _check_condition(self.condition, "while")


@node("tir.AttrStmt")
class AttrStmt(Stmt):
    """An attribute of `node` that holds inside `body`."""

    node: Any
    attr_key: str
    value: Expr
    body: Stmt


def _check_condition(condition: PrimExpr, where: str) -> None:
    if condition.dtype != "bool":
        raise IRTypeError(T0103, f"the condition of {where} has dtype {condition.dtype}, expected bool")


@node("tir.IterVar")
class IterVar(Node, Operators):
    """An iteration variable with its domain. In an expression it stands for its variable."""

    dom: Range
    var: Var = defines()
    iter_type: IterType = IterType.DataPar
    thread_tag: str = ""

    def __post_init__(self) -> None:
        self.set_derived("iter_type", IterType(self.iter_type))

    def asexpr(self) -> Var:
        """Its variable."""
        return self.var


@node("tir.MatchBufferRegion")
class MatchBufferRegion(Node):
    """A buffer that stands for a region of another buffer, inside a block."""

    buffer: Buffer = defines()
    source: BufferRegion


@node("tir.SBlock")
class SBlock(Stmt):
    iter_vars: tuple[IterVar, ...] = defines()
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str = label()
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = defines(default=())
    match_buffers: tuple[MatchBufferRegion, ...] = defines(default=())
    annotations: Map = EMPTY_MAP

    def __post_init__(self) -> None:
        for name in ("iter_vars", "reads", "writes", "alloc_buffers", "match_buffers"):
            self.set_derived(name, tuple(getattr(self, name) or ()))
        self.set_derived("annotations", Map(self.annotations or {}))


@node("tir.SBlockRealize")
class SBlockRealize(Stmt):
    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: SBlock

    def __post_init__(self) -> None:
        self.set_derived("iter_values", tuple(as_expr(value) for value in self.iter_values))
        self.set_derived("predicate", as_expr(self.predicate))


@node("tir.PrimFunc")
class PrimFunc(BaseFunc):
    """A loop function. Parameters are scalars, pointers, or handles that `buffer_map` maps to buffers. The
    tensors of a call determine the symbolic dimensions of these buffers. `ret_type` is the type of the scalar
    that `ret` returns; without one, the function returns nothing."""

    params: tuple[Var, ...] = defines()
    body: Stmt
    ret_type: Type | None = None
    buffer_map: Map = defines(default=EMPTY_MAP)
    attrs: Attrs = NO_ATTRS

    def __post_init__(self) -> None:
        params, given = [], dict(self.buffer_map or {})
        for param in self.params:
            if isinstance(param, Buffer):
                handle = Var(f"{param.name}_handle", DataType("handle"))
                params.append(handle)
                given[handle] = param
            else:
                params.append(param)
        self.set_derived("params", tuple(params))
        self.set_derived("buffer_map", Map({param: given[param] for param in params if param in given}))
        self.set_derived("attrs", attrs_of(self.attrs))

    @property
    def dialect(self) -> str:
        return "tir"

    @property
    def ty(self) -> FuncType:
        """The types of parameters and result; without a result, the empty tuple."""
        return FuncType(tuple(param.ty for param in self.params), self.ret_type or TupleType(()), False)

    def with_body(self, body: Stmt) -> PrimFunc:
        """Return a copy with another body; the same object if the body is the same."""
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self.ret_type, self.buffer_map, self.attrs, span=self.span)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameter buffers, in order."""
        return tuple(self.buffer_map.values())


def seq(*stmts: Stmt | None) -> Stmt:
    """Join statements to one: nested sequences are flattened, no-ops are dropped, and a single statement is
    returned unchanged."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if stmt is None or is_no_op(stmt):
            continue
        flat.extend(stmt.seq if isinstance(stmt, SeqStmt) else (stmt,))
    if not flat:
        return Evaluate(const(0))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements of a sequence, or the single statement."""
    return stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)


def is_no_op(stmt: Stmt) -> bool:
    """Whether a statement only evaluates a constant."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)
