"""KillAfterLastUse: clear a register after the last use of its value, to return memory to the pool.

s = R.memory.alloc_storage(...)          s = R.memory.alloc_storage(...)
t = R.memory.alloc_tensor(s, ...)        t = R.memory.alloc_tensor(s, ...)
_ = cls.f(x, t)                   →      R.vm.kill_object(s)
_ = cls.g(t, y)                          _ = cls.f(x, t)
return y                                 _ = cls.g(t, y)
                                         R.vm.kill_object(t)
                                         return y
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.nodes import Binding, BindingBlock, SeqExpr, VarBinding
from heddle.graph.rewriter import is_call
from heddle.graph.types import ShapeType
from heddle.ir.expr import Call, Constant, Expr, Function, If, Var
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.types import PrimType, TupleType
from heddle.ir.visitor import walk_distinct
from heddle.support.span import Span, at


class KillAfterLastUse(FunctionPass):
    """Requires: no dataflow blocks."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)
    requires: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return replace(func, body=_with_kills(func.body))


def _with_kills(body: Any) -> SeqExpr:
    """The sequence with kills of the variables that it binds itself."""
    assert isinstance(body, SeqExpr)
    bindings = body.bindings()
    result = set(_used_in(body.body))
    last: dict[Var, int] = {}
    for position, binding in enumerate(bindings):
        for var in (binding.var, *_used_in(binding.value)):
            last[var] = position
    own = {binding.var for binding in bindings if _worth_killing(binding)}
    ends: dict[int, list[Var]] = {}
    for var, position in last.items():
        if var in own and var not in result:
            ends.setdefault(position, []).append(var)
    made: list[Binding] = []
    for position, binding in enumerate(bindings):
        made.append(_inside(binding))
        made.extend(_kill(var, binding.span) for var in ends.get(position, ()))
    return replace(body, blocks=(BindingBlock(tuple(made)),) if made else ())


def _used_in(expr: Expr) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(node for node in walk_distinct(expr) if isinstance(node, Var)))


def _worth_killing(binding: Binding) -> bool:
    """Values that hold no memory, and constants, stay."""
    ty = binding.var.ty
    if isinstance(ty, (ShapeType, PrimType)) or (isinstance(ty, TupleType) and not ty.fields):
        return False
    return not isinstance(binding.value, (Constant, Function)) and not is_call(
        binding.value, "relax.vm.kill_object"
    )


def _inside(binding: Binding) -> Binding:
    """Branches kill their own variables."""
    value = binding.value
    if isinstance(value, If):
        branches = _with_kills(value.true_branch), _with_kills(value.false_branch)
        return replace(binding, value=replace(value, true_branch=branches[0], false_branch=branches[1]))
    return binding


def _kill(var: Var, span: Span | None) -> Binding:
    """The kill belongs to the user's node after which the value is not needed."""
    with at(span):
        call = Call(Op.get("relax.vm.kill_object"), (var,), ty=TupleType(()))
        return VarBinding(Var("_", TupleType(())), call)
