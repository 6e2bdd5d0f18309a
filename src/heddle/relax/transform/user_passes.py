"""Passes that users write over Relax functions and their dataflow blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.graph.nodes import BindingBlock
from heddle.graph.normalize import Normalizer
from heddle.ir.expr import Function
from heddle.ir.pass_makers import FunctionChange, decorated_pass, over_functions
from heddle.ir.transform import Pass, PassContext, PassInfo
from heddle.ir.visitor import Rewriter

_over_relax = over_functions(Function, "relax")


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or a class of passes of a class with `transform_function`.

    Used as `@function_pass(opt_level=1)`. `traceable` does nothing: every pass is seen by instruments.
    """
    return decorated_pass(pass_func, (opt_level, name, required), "transform_function", _over_relax)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(block, mod, ctx)` over dataflow blocks, or a class of passes of a class with
    `transform_dataflowblock`. A function whose blocks changed is brought into the normal form.
    """
    return decorated_pass(pass_func, (opt_level, name, required), "transform_dataflowblock", _over_blocks)


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
