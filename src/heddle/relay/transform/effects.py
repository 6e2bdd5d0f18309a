"""What computing an expression does beside giving a value."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Call, Function
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor
from heddle.relay.nodes import RefCreate, RefRead, RefWrite
from heddle.relay.placement import parts, post_order
from heddle.relay.transform.rewriting import is_pure_operator


def is_effect(expr: Any) -> bool:
    """Whether a node by itself touches a reference, or calls an operator with effects."""
    if isinstance(expr, (RefCreate, RefRead, RefWrite)):
        return True
    return isinstance(expr, Call) and isinstance(expr.op, Op) and not is_pure_operator(expr.op)


def has_effects(expr: Any) -> bool:
    """Whether computing an expression may have effects. Calls of functions may, those of kernels apart;
    functions that are made have none."""
    todo, seen = [expr], set()
    while todo:
        node = todo.pop()
        if id(node) in seen or isinstance(node, Function):
            continue
        seen.add(id(node))
        if is_effect(node) or (isinstance(node, Call) and not _is_known(node.op)):
            return True
        todo += [child for child, _ in parts(node)]
    return False


def _is_known(callee: Any) -> bool:
    is_kernel = isinstance(callee, Function) and bool(callee.attrs.get("Primitive"))
    return is_kernel or isinstance(callee, (Op, Constructor))


def leads_to_effects(root: Any) -> bool:
    """Whether an expression has effects anywhere, inside of functions too."""
    return any(map(is_effect, post_order(root)))
