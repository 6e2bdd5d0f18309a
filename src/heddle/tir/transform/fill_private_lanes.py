"""FillPrivateLanes: temporaries that are only used under one mask are used in all lanes.

    mask = ramp(at * 32, 1, 32) < broadcast(w, 32)
    s = alloc(32)                                          s = alloc(32)
    s[r where mask] = 0.0                                  s[r] = 0.0
    for k in 0 .. c:                               →       for k in 0 .. c:
        s[r where mask] = s[r where mask] + x[q where mask]    s[r] = s[r] + x[q where mask]
    y[p where mask] = s[r where mask]                      y[p where mask] = s[r]

What lies in the other lanes is read into the other lanes alone, and never leaves them. Processors keep a
vector in a register then, or hand a store to the next load: of a store under a mask they don't.

Only where every use is a vector of the same width, at a multiple of it, under a mask that is the same while
the memory lives; and of integers only where no vector of integers is divided by another one, which would end
the process for a lane of zero. Requires: flat buffers. Runs after VectorizeLoop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.nodes import (
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Var,
    is_const_int,
)
from heddle.prim.ops import const
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import AllocBuffer, Bind, Buffer, BufferLoad, BufferStore, DeclBuffer, For, PrimFunc
from heddle.tir.vector_algebra import scalar_of

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class FillPrivateLanes(FunctionPass):
    """See the module."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        stores = (stmt for stmt in walk_stmts(func.body) if isinstance(stmt, BufferStore))
        if all(store.predicate is None for store in stores):
            return func
        uses = _Uses()
        uses.read(func)
        private = {data: uses.whole_buffer(data) for data in uses.allocated if uses.is_private(data)}
        return func.with_body(_Filled(private).visit(func.body)) if private else func


@dataclass(slots=True)
class _Uses:
    """The memory that a function allocates, how it is used, and what variables and masks stand for."""

    allocated: dict[Var, AllocBuffer] = field(default_factory=dict)
    accesses: dict[Var, list[BufferLoad | BufferStore]] = field(default_factory=dict)
    bound: dict[Var, PrimExpr] = field(default_factory=dict)
    inside: dict[Var, set[Var]] = field(default_factory=dict)
    """Memory → the variables that are defined while it lives."""
    divides_integers: bool = False
    elsewhere: set[Any] = field(default_factory=set)
    """Memory that is used in other ways than by loads and stores, or has other views."""

    def read(self, func: PrimFunc) -> None:
        defined: list[Var] = []
        opened: dict[Var, int] = {}
        for node in walk(func.body):
            if isinstance(node, AllocBuffer):
                self.allocated[node.buffer.data] = node
                opened[node.buffer.data] = len(defined)
            elif isinstance(node, (BufferLoad, BufferStore)):
                self.accesses.setdefault(node.buffer.data, []).append(node)
            elif isinstance(node, Bind):
                self.bound[node.var] = node.value
                defined.append(node.var)
            elif isinstance(node, For):
                defined.append(node.loop_var)
            elif isinstance(node, DeclBuffer):
                self.elsewhere.add(node.buffer.data)
            elif isinstance(node, _DIVISIONS):
                self.divides_integers |= (
                    node.dtype.is_int and node.dtype.lanes > 1 and not isinstance(scalar_of(node.b), IntImm)
                )
            elif isinstance(node, Call):
                self.elsewhere |= {arg.data if isinstance(arg, Buffer) else arg for arg in node.args}
        for data, begin in opened.items():
            self.inside[data] = set(defined[begin:])

    def is_private(self, data: Var) -> bool:
        alloc, accesses = self.allocated[data], self.accesses.get(data, [])
        if data in self.elsewhere or not accesses:
            return False
        if not alloc.buffer.dtype.is_float and (alloc.buffer.dtype.is_bool or self.divides_integers):
            return False
        first, lanes = accesses[0].predicate, _lanes(accesses[0])
        if first is None or lanes < 2 or not _has_whole_vectors(alloc.buffer.shape[0], accesses, lanes):
            return False
        mask = self._resolved(first)
        if any(isinstance(node, BufferLoad) for node in walk(mask)):
            return False
        return self.inside[data].isdisjoint(free_vars(mask)) and all(
            access.predicate is not None
            and _lanes(access) == lanes
            and structural_equal(self._resolved(access.predicate), mask)
            for access in accesses
        )

    def whole_buffer(self, data: Var) -> Buffer:
        """The buffer, of one vector at least."""
        buffer, lanes = self.allocated[data].buffer, _lanes(self.accesses[data][0])
        if _is_multiple(buffer.shape[0], lanes):
            return buffer
        return replace(buffer, shape=(const(lanes, buffer.shape[0].dtype),))

    def _resolved(self, mask: PrimExpr) -> PrimExpr:
        """A mask in terms of what is not bound to a mask."""
        while isinstance(mask, Var) and mask in self.bound:
            mask = self.bound[mask]
        masks = {var: self.bound[var] for var in free_vars(mask) if var in self.bound and var.dtype.is_bool}
        return substitute(mask, masks) if masks else mask


def _lanes(access: BufferLoad | BufferStore) -> int:
    """The width of an access to whole vectors in order, at a multiple of the width; 0 for others."""
    index = access.indices[0]
    if len(access.indices) != 1 or not isinstance(index, Ramp) or not is_const_int(index.stride, 1):
        return 0
    return index.lanes if _is_multiple(index.base, index.lanes) else 0


def _has_whole_vectors(size: PrimExpr, accesses: Sequence[BufferLoad | BufferStore], lanes: int) -> bool:
    """Whether memory is made of vectors, or is less than one, which can be made longer."""
    if _is_multiple(size, lanes):
        return True
    indices = [access.indices[0] for access in accesses]
    is_short = isinstance(size, IntImm) and size.value < lanes
    return is_short and all(isinstance(index, Ramp) and is_const_int(index.base, 0) for index in indices)


def _is_multiple(size: PrimExpr, lanes: int) -> bool:
    if isinstance(size, IntImm):
        return size.value % lanes == 0
    return isinstance(size, Mul) and any(
        isinstance(factor, IntImm) and factor.value % lanes == 0 for factor in (size.a, size.b)
    )


class _Filled(Rewriter):
    def __init__(self, private: dict[Var, Buffer]) -> None:
        self._private = private

    def visit_AllocBuffer(self, node: AllocBuffer) -> Any:
        made = self._private.get(node.buffer.data, node.buffer)
        return node if made is node.buffer else replace(node, buffer=made)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self._in_all_lanes(node)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        return self._in_all_lanes(node)

    def _in_all_lanes(self, node: BufferLoad | BufferStore) -> Any:
        made, buffer = self.default(node), self._private.get(node.buffer.data)
        return made if buffer is None else replace(made, buffer=buffer, predicate=None)
