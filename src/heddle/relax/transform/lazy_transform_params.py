"""LazyTransformParams: a function that transforms the model's parameters fetches and stores them one by one.

    def transform_params(params):                  def transform_params():
        w = params[0]                                  a = R.call_packed("get_item", 0)
        wt = R.permute_dims(w)                  →      w = R.match_cast(a, R.Tensor((4, 8)))
        return (wt,)                                   wt = R.permute_dims(w)
                                                       _ = R.call_packed("set_item", 0, wt)
                                                       return ()

So the whole model need not be in memory at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.graph.op_builder import graph_expr
from heddle.ir.expr import Call, Expr, ExternFunc, Function, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.ir.types import AnyType
from heddle.prim.nodes import constant
from heddle.relax.lazy_params import Fetch, Give, LazyRewriter
from heddle.support.frozen import frozen


@frozen(slots=False)
class LazyTransformParams(Pass):
    """Applies to functions whose name ends in `transform_params`; inputs (`num_input`) stay parameters.

    `fget_item(*extra_get_item_params, index)` gives a parameter, `fset_item(*extra_set_item_params, index,
    value)` takes a result; a name that is None leaves that side alone. Items of a tuple count one by one.
    Variables among the extra parameters become the function's first parameters.
    """

    fget_item: str | None = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: Sequence[Any] = ()
    extra_set_item_params: Sequence[Any] = ()

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return map_functions(
            mod,
            ("relax",),
            lambda var, func: self._lazy(mod, func) if var.name_hint.endswith("transform_params") else func,
        )

    def _lazy(self, mod: IRModule, func: Function) -> Function:
        getters = tuple(graph_expr(item) for item in self.extra_get_item_params)
        setters = tuple(graph_expr(item) for item in self.extra_set_item_params)
        fetch: Fetch | None = None
        give: Give | None = None
        if self.fget_item is not None:
            get = ExternFunc(self.fget_item)

            def fetch(number: int, name: str) -> Expr:
                return Call(get, (*getters, constant(number, "int64")), ty_args=(AnyType(),))

        if self.fset_item is not None:
            put = ExternFunc(self.fset_item)

            def give(number: int, value: Expr) -> Expr:
                return Call(put, (*setters, constant(number, "int64"), value), ty_args=(AnyType(),))

        made = LazyRewriter(mod, func, fetch, give).rewritten(())
        extra = dict.fromkeys(item for item in (*getters, *setters) if isinstance(item, Var))
        return replace(made, params=(*extra, *made.params), ty=None) if extra else made
