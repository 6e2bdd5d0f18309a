"""Weights that come transposed already."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Function, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.variables import free_vars
from heddle.relay.builders import TensorType, var
from heddle.relay.placement import post_order
from heddle.relay.transform.copying import with_nodes
from heddle.relay.transform.rewriting import TypedPass, is_call
from heddle.support.frozen import frozen


@frozen(slots=False)
class SimplifyFCTranspose(TypedPass):
    """Take parameters of these names transposed, where `nn.dense` transposes them.

        def @main(%x, %w: Tensor[(4, 6), float32]) { nn.dense(%x, transpose(%w)) }

    becomes, with `["w"]`,

        def @main(%x, %w.T: Tensor[(6, 4), float32]) { nn.dense(%x, %w.T) }

    A parameter that has other uses stays beside the new one. `analysis.search_fc_transpose` gives the names.
    """

    target_weight_name: tuple[str, ...]

    def change(self, func: Function, mod: IRModule) -> Function:
        turned: dict[Any, Any] = {}
        made: dict[int, Any] = {}
        for node in post_order(func):
            weight = _turned(node, func)
            if weight is not None and weight.name_hint in self.target_weight_name:
                dims = weight.ty.dims[::-1]
                turned.setdefault(
                    weight, var(f"{weight.name_hint}.T", TensorType(dims, str(weight.ty.dtype)))
                )
                made[id(node.args[1])] = turned[weight]
        if not made:
            return func
        body = with_nodes(func.body, made)
        used, params = set(free_vars(body)), list[Var]()
        for param in func.params:
            params += [param] if param in used or param not in turned else []
            params += [turned[param]] if param in turned else []
        return replace(func, params=tuple(params), body=body, ty=None)


def _turned(node: Any, func: Function) -> Any:
    """The parameter that `nn.dense` transposes; None for any other node."""
    if not is_call(node, "nn.dense") or not is_call(node.args[1], "transpose"):
        return None
    axes, weight = node.args[1].attrs.axes, node.args[1].args[0]
    is_swap = not axes or [axis % 2 for axis in axes] == [1, 0]
    return weight if is_swap and any(weight is param for param in func.params) else None
