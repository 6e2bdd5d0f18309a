"""Copies of statements with variables and buffers of their own, so that each is still defined once."""

from __future__ import annotations

from typing import Any, TypeVar

from heddle.ir.node import Node
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.nodes import Let, PrimExpr, Var
from heddle.prim.substitute import Substituter
from heddle.tir.nodes import AllocBuffer, Bind, Buffer, DeclBuffer, For, SBlock

Code = TypeVar("Code", bound=Node)


def definitions(stmt: Any) -> tuple[Var | Buffer, ...]:
    """The variables and buffers that are defined at or below a node."""
    return tuple(name for node in walk(stmt) for name in defined_by(node))


def defined_by(node: Any) -> tuple[Var | Buffer, ...]:
    """The variables and buffers that a node itself defines."""
    if isinstance(node, (Bind, Let)):
        return (node.var,)
    if isinstance(node, For):
        return (node.loop_var,)
    if isinstance(node, (AllocBuffer, DeclBuffer)):
        return (node.buffer,)
    if isinstance(node, SBlock):
        axes = (axis.var for axis in node.iter_vars)
        return (*axes, *node.alloc_buffers, *(match.buffer for match in node.match_buffers))
    return ()


class _Renamer(Rewriter):
    def __init__(self, fresh: dict[Any, Any]) -> None:
        self._fresh = fresh

    def visit_Var(self, node: Var) -> Any:
        return self._fresh.get(node, node)

    def visit_Buffer(self, node: Buffer) -> Any:
        return self._fresh.get(node, node)


def with_fresh_definitions(stmt: Code, defined: tuple[Var | Buffer, ...] | None = None) -> Code:
    """A copy in which everything that `stmt` defines is new; `stmt` itself where it defines nothing."""
    names = definitions(stmt) if defined is None else defined
    if not names:
        return stmt
    fresh: dict[Any, Any] = {}
    for old in names:
        if isinstance(old, Buffer):
            fresh.setdefault(old.data, copy_var(old.data))
        else:
            fresh[old] = copy_var(old)
    owned = {node.buffer.data for node in walk(stmt) if isinstance(node, AllocBuffer)}
    for block in (node for node in walk(stmt) if isinstance(node, SBlock)):
        owned |= {b.data for b in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers))}
    for old in names:
        if isinstance(old, Buffer):
            if old.data not in owned:
                fresh.pop(old.data, None)
            fresh[old] = rebuilt_buffer(old, fresh)
    result: Code = _Renamer(fresh).visit(stmt)
    return result


def copy_var(var: Var) -> Var:
    """Another variable with the same name and type."""
    return Var(var.name, var.dtype, var.type_annotation, var.is_size)


def rebuilt_buffer(buffer: Buffer, mapping: dict[Any, Any]) -> Buffer:
    """A new buffer like `buffer`, with the variables in its description replaced."""
    scalars = {var: value for var, value in mapping.items() if isinstance(value, PrimExpr)}
    replace = Substituter(scalars).visit
    offset = None if buffer.elem_offset is None else replace(buffer.elem_offset)
    return Buffer(
        mapping.get(buffer.data, buffer.data),
        buffer.dtype,
        tuple(replace(dim) for dim in buffer.shape),
        buffer.name,
        tuple(replace(stride) for stride in buffer.strides),
        offset,
        buffer.align_bytes,
    )
