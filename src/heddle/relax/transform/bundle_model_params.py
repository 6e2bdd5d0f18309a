"""BundleModelParams: pass the model's parameters as one tuple.

def main(x, w, b):                             def main(x, model_params):
    R.func_attr({"num_input": 1})                  R.func_attr({"num_input": 1})
    return R.add(R.matmul(x, w), b)      →         w = model_params[0]
                                                   b = model_params[1]
                                                   return R.add(R.matmul(x, w), b)
"""

from __future__ import annotations

from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.graph.nodes import BindingBlock, VarBinding, body_of
from heddle.graph.num_input import NUM_INPUT, num_inputs
from heddle.ir.expr import Call, Function, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.ir.types import TupleType
from heddle.ir.visitor import Rewriter
from heddle.support.frozen import frozen


@frozen(slots=False)
class BundleModelParams(Pass):
    """Applies to functions with `num_input`; calls of them inside the module pass the tuple."""

    param_tuple_name: str = "model_params"

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        counts = {
            var: num_inputs(func)
            for var, func in mod.functions.items()
            if func.dialect == "relax" and NUM_INPUT in func.attrs
        }
        if not counts:
            return mod
        calls = _Calls(counts)
        mod = map_functions(mod, ("relax",), lambda _var, func: calls.visit(func))
        builder = BlockBuilder(mod)
        for var in counts:
            builder.update_func(var, self._bundled(builder, mod[var]))
        for var, func in mod.functions.items():
            if func.dialect == "relax" and var not in counts:
                builder.update_func(var, builder.normalize_function(func))
        return builder.get()

    def _bundled(self, builder: BlockBuilder, func: Function) -> Function:
        count = num_inputs(func)
        inputs, params = func.params[:count], func.params[count:]
        whole = Var(self.param_tuple_name, TupleType(tuple(type_of(param) for param in params)))
        items = tuple(VarBinding(param, TupleGetItem(whole, k)) for k, param in enumerate(params))
        body = body_of(func)
        blocks = (BindingBlock(items), *body.blocks) if items else body.blocks
        made = replace(func, params=(*inputs, whole), body=replace(body, blocks=blocks), ty=None)
        return builder.normalize_function(made)


class _Calls(Rewriter):
    """Calls of bundled functions."""

    def __init__(self, counts: dict[GlobalVar, int]) -> None:
        self._counts = counts

    def visit_Call(self, node: Any) -> Any:
        changed = self.default(node)
        if not isinstance(node, Call) or node.op not in self._counts:
            return changed
        assert isinstance(node.op, GlobalVar)
        count, args = self._counts[node.op], changed.args
        callee = GlobalVar(node.op.name_hint, span=node.op.span)
        return replace(changed, op=callee, args=(*args[:count], Tuple(args[count:])))
