"""What a program uses: operators, element types, constants."""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, Tuple
from heddle.ir.module import IRModule, checked_module
from heddle.ir.op import Op
from heddle.ir.visitor import walk_distinct


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """How often each operator is called. Raises: UsageError I0509 for what is no module."""
    checked_module(mod, "list_op_freqs")
    calls = (
        node for func in mod.functions.values() for node in walk_distinct(func) if isinstance(node, Call)
    )
    return dict(Counter(call.op.name for call in calls if isinstance(call.op, Op)))


def all_dtypes(expr: Any) -> set[str]:
    """The element types of the tensors in an expression that has its types."""
    return {str(node.dtype) for node in _with_types(expr) if isinstance(node, TensorType) and node.dtype}


def _with_types(expr: Any) -> Any:
    for node in walk_distinct(expr):
        yield node
        ty = getattr(node, "ty", None) if isinstance(node, Expr) else None
        if ty is not None:
            yield from walk_distinct(ty)


def check_constant(expr: Any) -> bool:
    """Whether an expression is made of constants alone: a constant, a tuple of them, or a primitive function
    of such."""
    todo = [expr]
    while todo:
        node = todo.pop()
        if isinstance(node, Tuple):
            todo += node.fields
        elif isinstance(node, Call) and isinstance(node.op, Function):
            todo += node.args
        elif not isinstance(node, Constant):
            return False
    return True
