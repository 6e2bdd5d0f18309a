"""ConvertToDataflow: put consecutive pure bindings into dataflow blocks.

x1 = R.add(x, x)                       with R.dataflow():
x2 = R.multiply(x1, x1)        →           x1 = R.add(x, x)
_ = R.print(x2)                            x2 = R.multiply(x1, x1)
                                           R.output(x2)
                                       _ = R.print(x2)
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.nodes import Binding, BindingBlock, SeqExpr
from heddle.graph.normalize import is_impure_call
from heddle.ir.expr import Expr, Function, If, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.pass_options import option
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.support.frozen import frozen


@frozen(slots=False)
class ConvertToDataflow(FunctionPass):
    """Runs of fewer than `min_size` bindings stay as they are; so do existing dataflow blocks next to which
    there is nothing to take in.

    Requires the normal form. A function with `relax.force_pure` is left alone: effects hide in it.
    """

    min_size: int = option(2, at_least=1)
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if func.attrs.get("relax.force_pure"):
            return func
        grouped: Function = _Grouper(mod, self.min_size).visit(func)
        return func if grouped is func else _without_inner_outputs(grouped)


class _Grouper(Rewriter):
    """Splits sequences into dataflow blocks and the rest; variables stay what they are."""

    def __init__(self, mod: IRModule, min_size: int) -> None:
        self._mod, self._min_size = mod, min_size

    def visit_SeqExpr(self, node: SeqExpr) -> SeqExpr:
        blocks: list[BindingBlock] = []
        run: list[Binding] = []
        joined = 0

        def close() -> None:
            nonlocal joined
            if run:
                known = [block for block in node.blocks if block.is_dataflow and block.bindings == tuple(run)]
                is_dataflow = joined > 0 or len(run) >= self._min_size
                blocks.append(known[0] if known else BindingBlock(tuple(run), is_dataflow))
            run.clear()
            joined = 0

        for block in node.blocks:
            joined += block.is_dataflow
            for binding in block.bindings:
                if self._is_dataflow(binding):
                    run.append(binding)
                    continue
                close()
                inside = self.visit(binding)
                blocks.append(BindingBlock((inside,)))
        close()
        merged = _merged(blocks)
        same = len(merged) == len(node.blocks) and all(
            a is b or (not a.is_dataflow and not b.is_dataflow and a.bindings == b.bindings)
            for a, b in zip(merged, node.blocks, strict=True)
        )
        return node if same else replace(node, blocks=tuple(merged))

    def _is_dataflow(self, binding: Binding) -> bool:
        value = binding.value
        return not isinstance(value, (If, Function)) and not is_impure_call(value, self._mod)


def _merged(blocks: list[BindingBlock]) -> list[BindingBlock]:
    """Ordinary blocks next to each other as one."""
    made: list[BindingBlock] = []
    for block in blocks:
        if made and not made[-1].is_dataflow and not block.is_dataflow:
            made[-1] = BindingBlock((*made[-1].bindings, *block.bindings))
        else:
            made.append(block)
    return made


def _without_inner_outputs(func: Function) -> Function:
    """Variables that only their dataflow block uses become its own."""
    users: dict[Var, set[int]] = {}

    def note(expr: Expr, block: int) -> None:
        if isinstance(expr, If):
            expr = expr.cond  # what branches use, their own blocks note
        elif isinstance(expr, Function):
            return
        for node in walk_distinct(expr):
            if isinstance(node, Var):
                users.setdefault(node, set()).add(block)

    homes: dict[Var, int] = {}
    for node in walk_distinct(func):
        if isinstance(node, SeqExpr):
            note(node.body, -1)
        if isinstance(node, BindingBlock):
            for binding in node.bindings:
                note(binding.value, id(node))
                if node.is_dataflow:
                    homes[binding.var] = id(node)
    inner = {var for var, home in homes.items() if users.get(var, set()) <= {home}}
    outer = set(homes) - inner
    changed = {var: replace(var, is_dataflow=True) for var in inner if not var.is_dataflow}
    changed |= {var: replace(var, is_dataflow=False) for var in outer if var.is_dataflow}
    return func if not changed else _Redefined(changed).visit(func)


class _Redefined(Rewriter):
    def __init__(self, mapping: dict[Var, Var]) -> None:
        self._mapping = mapping

    def visit_Var(self, node: Any) -> Any:
        return self._mapping.get(node, node)
