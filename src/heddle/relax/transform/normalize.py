"""Normalize: bind nested expressions to variables, and infer the type of every expression.

return R.multiply(R.add(x, y), x)      →      lv = R.add(x, y)
                                              lv1 = R.multiply(lv, x)
                                              return lv1
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.nodes import Binding
from heddle.ir.expr import Call, Constant, Function, If, Tuple, TupleGetItem, Var
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk_distinct

_TYPED = (Call, Constant, Function, If, Tuple, TupleGetItem, Var)


class Normalize(FunctionPass):
    """Establishes the normal form."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        builder = BlockBuilder(mod)
        for node in walk_distinct(func):
            if isinstance(node, Binding):
                builder.names.reserve(node.var.name_hint)
        made = builder.normalize_function(func)
        is_typed = all(node.ty is not None for node in walk_distinct(func) if isinstance(node, _TYPED))
        return func if is_typed and structural_equal(made, func) else made
