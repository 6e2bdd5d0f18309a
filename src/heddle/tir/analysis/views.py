"""Find memory that several buffers or pointers share."""

from __future__ import annotations

from heddle.ir.visitor import walk
from heddle.prim.nodes import Var
from heddle.tir.nodes import Buffer, Stmt


def viewed_memory(stmt: Stmt) -> frozenset[Var]:
    """Pointers to memory that more than one buffer is over (`T.decl_buffer(data=H.data)`), or that
    expressions name: what is done with it cannot be seen at one buffer's accesses."""
    first: dict[Var, Buffer] = {}
    viewed: set[Var] = set()
    for node in walk(stmt):
        if isinstance(node, Buffer):
            if first.setdefault(node.data, node) is not node:
                viewed.add(node.data)
        elif isinstance(node, Var):
            viewed.add(node)
    return frozenset(viewed & first.keys())
