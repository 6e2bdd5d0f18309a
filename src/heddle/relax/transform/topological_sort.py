"""TopologicalSort: reorder the bindings of dataflow blocks; dependences are respected.

    with R.dataflow():                         with R.dataflow():
        a = R.exp(x)                               a = R.exp(x)
        b = R.exp(y)                   →           c = R.add(a, a)
        c = R.add(a, a)                            b = R.exp(y)
        R.output(b, c)                             R.output(b, c)

(`order="depth-first"`, from the inputs: what uses a value follows it as soon as possible.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr
from heddle.graph.type_relations import symbolic_vars
from heddle.ir.expr import Expr, Function, Var
from heddle.ir.node import replace
from heddle.ir.pass_options import option
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.prim.nodes import Var as PrimVar
from heddle.support.frozen import frozen

_ORDERS = ("depth-first", "breadth-first")
_DIRECTIONS = ("from-inputs", "from-outputs")


@frozen(slots=False)
class TopologicalSort(FunctionPass):
    """`direction`: "from-inputs" places each binding after what it needs, "from-outputs" works back
    from what the block gives. Ties keep the order that the program had.
    """

    order: str = option("depth-first", one_of=_ORDERS)
    direction: str = option("from-inputs", one_of=_DIRECTIONS)
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        sorted_: Function = _Sorter(self).visit(func)
        return sorted_


class _Sorter(Rewriter):
    def __init__(self, options: TopologicalSort) -> None:
        self._options = options
        self._results: set[Var] = set()

    def visit_SeqExpr(self, node: SeqExpr) -> Any:
        self._results = {item for item in walk_distinct(node.body) if isinstance(item, Var)}
        return self.default(node)

    def visit_BindingBlock(self, node: BindingBlock) -> Any:
        if not node.is_dataflow:
            return self.default(node)
        order = _sorted(node.bindings, self._options)
        same = all(a is b for a, b in zip(order, node.bindings, strict=True))
        return node if same else replace(node, bindings=tuple(order))


def _uses(binding: Binding, defined: dict[Any, Binding]) -> list[Binding]:
    """The bindings of the block that one needs."""
    types = symbolic_vars(binding.ty) if isinstance(binding, MatchCast) else ()
    items: Iterable[Any] = (*_variables(binding.value), *types)
    return list(
        dict.fromkeys(defined[item] for item in items if item in defined and defined[item] is not binding)
    )


def _variables(expr: Expr) -> list[Any]:
    return [node for node in walk_distinct(expr) if isinstance(node, (Var, PrimVar))]


def _sorted(bindings: tuple[Binding, ...], options: TopologicalSort) -> list[Binding]:
    defined: dict[Any, Binding] = {binding.var: binding for binding in bindings}
    known: set[Any] = set()
    for binding in bindings:
        known |= set(_variables(binding.value))
        if isinstance(binding, MatchCast):  # it gives dimensions that nobody before it knew
            for dim in symbolic_vars(binding.ty):
                if dim not in known:
                    defined.setdefault(dim, binding)
    needs = {binding: _uses(binding, defined) for binding in bindings}
    users: dict[Binding, list[Binding]] = {binding: [] for binding in bindings}
    for binding in bindings:
        for needed in needs[binding]:
            users[needed].append(binding)
    if options.direction == "from-outputs":
        return _visit(list(reversed(bindings)), users, needs, options.order)[::-1]
    return _visit(list(bindings), needs, users, options.order)


def _visit(
    bindings: list[Binding],
    before: dict[Binding, list[Binding]],
    after: dict[Binding, list[Binding]],
    order: str,
) -> list[Binding]:
    """Each binding once all of `before` were visited; what becomes ready is next, or last in line."""
    position = {binding: number for number, binding in enumerate(bindings)}
    missing = {binding: len(before[binding]) for binding in bindings}
    line = [binding for binding in bindings if not missing[binding]]
    done: list[Binding] = []
    while line:
        top = line.pop(0)
        done.append(top)
        ready = []
        for binding in sorted(after[top], key=position.__getitem__):
            missing[binding] -= 1
            if not missing[binding]:
                ready.append(binding)
        line = [*ready, *line] if order == "depth-first" else [*line, *ready]
    return done
