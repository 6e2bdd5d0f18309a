"""Marks around what other compilers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.expr import Call, Function, Tuple, TupleGetItem
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.relay.op_attrs import op_attr
from heddle.relay.placement import post_order
from heddle.relay.transform.compiler_regions import BEGIN, END, inputs_of
from heddle.relay.transform.copying import map_parts
from heddle.relay.transform.merge_composite import COMPOSITE
from heddle.relay.transform.rewriting import TypedPass, call, is_call, rewrite_nodes
from heddle.support.frozen import frozen


@frozen(slots=False)
class AnnotateTarget(TypedPass):
    """Mark the calls that a compiler takes, each as a region of its own.

        nn.relu(%x)

    becomes, after `register_op_attr("nn.relu", "target.dnn", lambda expr: True)`, with `targets="dnn"`,

        annotation.compiler_end(nn.relu(annotation.compiler_begin(%x, compiler="dnn")), compiler="dnn")

    A compiler takes a call of an operator where the operator's attribute `target.NAME`, a function of the
    call, says so, and a call of a function whose attribute `Composite` begins with `NAME.`. The first of
    several targets wins. With `include_non_call_ops`, tuples and their fields go where what they are made of
    went, if that is one target.
    """

    targets: str | Sequence[str]
    include_non_call_ops: bool = True

    def change(self, func: Function, mod: IRModule) -> Function:
        names = (self.targets,) if isinstance(self.targets, str) else tuple(self.targets)
        if func.attrs.get(COMPOSITE):
            return func
        inside = {
            id(part)
            for expr in post_order(func)
            if isinstance(expr, Function) and expr.attrs.get(COMPOSITE)
            for part in post_order(expr.body)
        }

        def mark(old: Any, new: Any) -> Any:
            if id(old) in inside or is_call(old, BEGIN, END):
                return new
            target = self._target(old, new, names)
            return new if target is None else _marked(new, target)

        return rewrite_nodes(func, mark)

    def _target(self, old: Any, new: Any, names: Sequence[str]) -> str | None:
        if isinstance(old, Call):
            return next((name for name in names if _takes(name, old)), None)
        if not self.include_non_call_ops or not isinstance(old, (Tuple, TupleGetItem)):
            return None
        values = inputs_of(new)
        found = {value.attrs.compiler if is_call(value, END) else None for value in values}
        return found.pop() if len(found) == 1 else None


def _takes(name: str, expr: Call) -> bool:
    if isinstance(expr.op, Op):
        check = op_attr(expr.op.name, f"target.{name}")
        return check is not None and bool(check(expr))
    composite = expr.op.attrs.get(COMPOSITE) if isinstance(expr.op, Function) else None
    return composite is not None and str(composite).startswith(f"{name}.")


def _marked(expr: Any, target: str) -> Any:
    inputs = set(map(id, inputs_of(expr)))

    def begun(child: Any) -> Any:
        return call(BEGIN, child, compiler=target) if id(child) in inputs else child

    return call(END, map_parts(expr, begun), compiler=target)
