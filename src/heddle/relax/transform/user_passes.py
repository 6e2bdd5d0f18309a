"""Passes that users write over Relax functions and their dataflow blocks."""

from __future__ import annotations

from typing import Any

from heddle.graph.nodes import BindingBlock
from heddle.graph.normalize import Normalizer
from heddle.ir.expr import Function
from heddle.ir.transform import (
    FunctionChange,
    Pass,
    PassContext,
    PassInfo,
    over_functions,
    pass_decorator,
)
from heddle.ir.visitor import Rewriter

_over_relax = over_functions(Function, "relax")


function_pass = pass_decorator(
    "transform_function",
    _over_relax,
    "Make a pass of `f(func, mod, ctx)` over Relax functions, or of a class with `transform_function`.",
)


class _BlockChanger(Rewriter):
    """Applies a change to the dataflow blocks of a function, inner ones first."""

    def __init__(self, function: FunctionChange, mod: Any, ctx: PassContext) -> None:
        self._function, self._mod, self._ctx = function, mod, ctx

    def visit_BindingBlock(self, node: BindingBlock) -> Any:
        block = self.default(node)
        return self._function(block, self._mod, self._ctx) if block.is_dataflow else block

    def visit_Type(self, node: Any) -> Any:
        return node


def _over_blocks(function: FunctionChange, info: PassInfo) -> Pass:
    def change(func: Function, mod: Any, ctx: PassContext) -> Function:
        made = _BlockChanger(function, mod, ctx).visit(func)
        return func if made is func else Normalizer(mod).normalize_function(made)

    change.__module__ = str(getattr(function, "__module__", ""))
    return _over_relax(change, info)


dataflowblock_pass = pass_decorator(
    "transform_dataflowblock",
    _over_blocks,
    "Make a pass of `f(block, mod, ctx)` over dataflow blocks, or of a class with `transform_dataflowblock`. "
    "A function whose blocks changed is brought into the normal form.",
)
