"""Helpers to write loop nests for tensor operations that cannot be written as one expression per element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.arith.sizes import product
from heddle.ir.node import Map
from heddle.prim.nodes import PrimExpr, Var, constant, is_const_int
from heddle.prim.ops import cast, floordiv, floormod
from heddle.runtime.dtype import DataType
from heddle.tir.builder import StmtBuilder
from heddle.tir.grain import GRAIN, grain_of
from heddle.tir.nodes import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    Stmt,
    decl_buffer,
    seq,
)


def loop(
    name: str, extent: PrimExpr, body: Callable[[PrimExpr], Stmt], kind: ForKind = ForKind.SERIAL
) -> Stmt:
    """Return a loop that starts at 0."""
    var = Var(name, extent.dtype)
    return For(var, constant(0, extent.dtype), extent, kind, body(var))


def nest(name: str, shape: Sequence[PrimExpr], body: Callable[[tuple[PrimExpr, ...]], Stmt]) -> Stmt:
    """Return a loop nest over a shape, the first dimension outermost."""
    variables = tuple(Var(f"{name}{k}", dim.dtype) for k, dim in enumerate(shape))
    stmt = body(variables)
    for var, dim in zip(reversed(variables), reversed(list(shape)), strict=True):
        stmt = For(var, constant(0, dim.dtype), dim, ForKind.SERIAL, stmt)
    return stmt


def on_threads(
    name: str, shape: Sequence[PrimExpr], work: PrimExpr, body: Callable[[tuple[PrimExpr, ...]], Stmt]
) -> Stmt:
    """Return a parallel loop nest over a shape. `work` is the cost of an iteration, in elements of
    elementwise work. Local variables must be declared inside `body`, so that each iteration has its own."""
    if not shape:
        return body(())
    at = Var(name, DataType("int64"))
    index, left = list[PrimExpr](), cast("int64", at)
    for size in reversed(shape[1:]):
        dim = constant(1, size.dtype) if is_const_int(size, 0) else size  # then the loop does not run
        index.append(floormod(left, dim))
        left = floordiv(left, dim)
    inside = body((left, *reversed(index)))
    grain = Map({GRAIN: grain_of(work)})
    return For(at, constant(0, "int64"), product(shape), ForKind.PARALLEL, inside, annotations=grain)


class Cell:
    """A scalar variable in memory."""

    def __init__(self, name: str, dtype: str = "int64") -> None:
        self.buffer = decl_buffer((constant(1, "int64"),), dtype, name)

    def declare(self) -> Stmt:
        """Return the statement that allocates the variable."""
        return AllocBuffer(self.buffer)

    @classmethod
    def zero(cls, builder: StmtBuilder, name: str, dtype: str = "int64") -> Cell:
        """Return a variable that is declared where the builder is, and 0."""
        cell = cls(name, dtype)
        builder.emit(cell.declare())
        builder.emit(cell.set(constant(0, dtype)))
        return cell

    def get(self) -> PrimExpr:
        """Return the value."""
        return BufferLoad(self.buffer, (constant(0, "int64"),))

    def set(self, value: Any) -> Stmt:
        """Return the statement that assigns a value."""
        return store(self.buffer, value, (constant(0, "int64"),))


def store(buffer: Buffer, value: Any, index: Sequence[PrimExpr]) -> Stmt:
    """`buffer[index] = value`"""
    return BufferStore(buffer, value, tuple(index))


def load(buffer: Buffer, index: Sequence[PrimExpr]) -> PrimExpr:
    """`buffer[index]`"""
    return BufferLoad(buffer, tuple(index))


def copy_all(name: str, target: Buffer, source: Buffer) -> Stmt:
    """Every element of a buffer into another of the same shape."""
    return nest(name, source.shape, lambda i: store(target, load(source, i), i))


__all__ = ["Cell", "copy_all", "load", "loop", "nest", "on_threads", "seq", "store"]
