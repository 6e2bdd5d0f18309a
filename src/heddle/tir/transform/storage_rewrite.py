"""StorageRewrite: temporaries whose lives do not overlap share memory, taken once at the start of their
region.

    alloc T (1000,)                                alloc T (1000,) {storage: workspace}
    T = f(A); B = g(T)                 →           T = f(A); B = g(T)
    alloc U (1000,)                                declare U (1000,) over T's pointer
    U = h(B); C = k(U)                             U = h(B); C = k(U)

A region is the function's body or the body of a parallel loop (each iteration has memory of its own).
Temporaries that are meant for registers (scope "local", or small) stay where they are. Memory of one scope is
shared: constant sizes by best fit, a smaller one growing where nothing fits; symbolic sizes only with equal
ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.ir.node import Map, children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.nodes import IntImm, PrimExpr, Var
from heddle.prim.ops import const
from heddle.prim.substitute import free_vars
from heddle.tir.allocation import MAX_STACK_BYTES, STORAGE, size_bytes
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    DeclBuffer,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    While,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.transform.unroll_loop import MAX_REGISTER_BUFFER_BYTES

_ROUND_BYTES = 64


class StorageRewrite(FunctionPass):
    """Requires flat buffers. Establishes: every allocation that shares memory says where it lies."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_rewrite_region(func.body))


@dataclass
class _Life:
    """An allocation and the positions between which it is used."""

    alloc: AllocBuffer
    begin: int
    end: int


@dataclass
class _Block:
    """Memory that allocations share one after the other."""

    buffer: Buffer
    size_bytes: int | None
    free_from: int


@dataclass
class _Lives:
    """Numbers the statements of one region and notes the life of each temporary."""

    lives: dict[Var, _Life] = field(default_factory=dict)
    defined: set[Var] = field(default_factory=set)
    _position: int = 0
    _loops: list[tuple[int, list[Var]]] = field(default_factory=list)

    def visit(self, stmt: Stmt) -> None:
        self._position += 1
        if isinstance(stmt, AllocBuffer):
            if is_shareable(stmt):
                self.lives[stmt.buffer.data] = _Life(stmt, self._position, self._position)
            return
        if isinstance(stmt, Bind):
            self.defined.add(stmt.var)
        repeats = isinstance(stmt, (For, While))
        if isinstance(stmt, For):
            self.defined.add(stmt.loop_var)
        if repeats:
            self._loops.append((self._position, []))
        if isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL:
            self._use_all(stmt)
        else:
            for child in children(stmt):
                if isinstance(child, Stmt):
                    self.visit(child)
                else:
                    self._use_all(child)
        self._position += 1
        if repeats:
            self._leave_loop()

    def is_known_at_start(self, dim: PrimExpr) -> bool:
        """Whether a dimension can be computed before the region runs."""
        reads = any(isinstance(node, BufferLoad) for node in walk(dim))
        return not reads and not any(var in self.defined for var in free_vars(dim))

    def _leave_loop(self) -> None:
        """What was there before the loop lives through all of it."""
        begin, used = self._loops.pop()
        for data in used:
            life = self.lives[data]
            if life.begin < begin:
                life.end = max(life.end, self._position)
                if self._loops:
                    self._loops[-1][1].append(data)

    def _use_all(self, node: Any) -> None:
        for part in walk(node):
            data = part.data if isinstance(part, Buffer) else part
            if isinstance(data, Var) and data in self.lives:
                self.lives[data].end = max(self.lives[data].end, self._position)
                if self._loops:
                    self._loops[-1][1].append(data)


def is_shareable(alloc: AllocBuffer) -> bool:
    """Whether an allocation is real memory rather than registers."""
    size = size_bytes(alloc.buffer)
    if size is None:
        return True
    return size > (MAX_STACK_BYTES if alloc.buffer.scope == "local" else MAX_REGISTER_BUFFER_BYTES)


def _rewrite_region(body: Stmt) -> Stmt:
    """Share memory inside one region, inner regions first."""
    body = _InnerRegions().visit(body)
    found = _Lives()
    found.visit(body)
    lives = [
        life
        for life in found.lives.values()
        if all(found.is_known_at_start(dim) for dim in life.alloc.buffer.shape)
    ]
    if not lives:
        return body
    blocks, placed = _assign(sorted(lives, key=lambda life: life.begin))
    body = _Placer(placed).visit(body)
    return seq(*(_allocation(block) for block in blocks), body)


class _InnerRegions(StmtRewriter):
    def visit_For(self, node: For) -> For:
        body = _rewrite_region(node.body) if node.kind is ForKind.PARALLEL else self.visit(node.body)
        return node if body is node.body else replace(node, body=body)


def _assign(lives: list[_Life]) -> tuple[list[_Block], dict[Var, Buffer]]:
    """Give each temporary a block that is free through its life; the buffers over the blocks' pointers."""
    blocks: list[_Block] = []
    placed: dict[Var, Buffer] = {}
    for life in lives:
        buffer = life.alloc.buffer
        size = size_bytes(buffer)
        block = _best_fit(blocks, life, size)
        if block is None:
            block = _Block(buffer, size, 0)
            blocks.append(block)
        elif size is not None and block.size_bytes is not None:
            block.size_bytes = max(block.size_bytes, size)
        block.free_from = life.end + 1
        shared = Buffer(
            block.buffer.data, buffer.dtype, buffer.shape, buffer.name, (), None, buffer.align_bytes
        )
        placed[buffer.data] = shared
    return blocks, placed


def _best_fit(blocks: list[_Block], life: _Life, size: int | None) -> _Block | None:
    buffer = life.alloc.buffer
    free = [b for b in blocks if b.free_from <= life.begin and b.buffer.scope == buffer.scope]
    if size is None:
        same = (b for b in free if b.size_bytes is None and _same_size(b.buffer, buffer))
        return next(same, None)
    known = [b for b in free if b.size_bytes is not None]
    large = [b for b in known if b.size_bytes is not None and b.size_bytes >= size]
    if large:
        return min(large, key=lambda b: b.size_bytes or 0)
    return max(known, key=lambda b: b.size_bytes or 0, default=None)


def _same_size(a: Buffer, b: Buffer) -> bool:
    return a.dtype.itemsize == b.dtype.itemsize and structural_equal(a.shape, b.shape)


def _allocation(block: _Block) -> AllocBuffer:
    buffer = block.buffer
    item, shape = buffer.dtype.itemsize, buffer.shape
    stack = block.size_bytes is not None and block.size_bytes <= MAX_STACK_BYTES
    if block.size_bytes is not None:
        rounded = -(-block.size_bytes // _ROUND_BYTES) * _ROUND_BYTES
        extent: PrimExpr = const(-(-rounded // item))
        first = shape[0]
        shape = shape if isinstance(first, IntImm) and first.value == -(-rounded // item) else (extent,)
    made = Buffer(buffer.data, buffer.dtype, shape, buffer.name, (), None, buffer.align_bytes)
    return AllocBuffer(made, Map({STORAGE: "stack" if stack else "workspace"}))


class _Placer(Rewriter):
    """Turns allocations into declarations over the blocks, and accesses to them."""

    def __init__(self, placed: dict[Var, Buffer]) -> None:
        self._placed = placed
        self._views: dict[Buffer, Buffer] = {}

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        shared = self._placed.get(node.buffer.data)
        return node if shared is None else DeclBuffer(self.visit_Buffer(node.buffer))

    def visit_Buffer(self, node: Buffer) -> Buffer:
        shared = self._placed.get(node.data)
        if shared is None:
            return node
        if node not in self._views:
            self._views[node] = Buffer(
                shared.data,
                node.dtype,
                node.shape,
                node.name,
                node.strides,
                node.elem_offset,
                node.align_bytes,
            )
        return self._views[node]

    def visit_Var(self, node: Var) -> Var:
        shared = self._placed.get(node)
        return node if shared is None else shared.data
