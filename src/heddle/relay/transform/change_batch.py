"""Programs for batches of another size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.codes import I0508
from heddle.ir.expr import Function, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.pass_options import option
from heddle.ir.transform import Pass, PassContext
from heddle.prim.nodes import constant
from heddle.relay.builders import replace_vars
from heddle.relay.transform.rewriting import map_relay
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen(slots=False)
class ChangeBatch(Pass):
    """Give parameters another size of batches. `data` maps each to the number of its axis of batches.

        def @main(%x: Tensor[(1, 3), float32]) { tanh(%x) }

    becomes, with `{x: 0}` and 16,

        def @main(%x: Tensor[(16, 3), float32]) { tanh(%x) }

    Types of all else follow. Sizes in attributes stay: a program with such that do not fit is refused by
    inference.
    """

    data: Mapping[Any, int]
    batch_size: int = option(16, at_least=0)
    opt_level = 1

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """A function with these parameters changed; the same object where it has none of them."""
        changed = {
            param: replace(param, ty=self._resized(param.ty, self.data[param]))
            for param in func.params
            if param in self.data
        }
        if not changed:
            return func
        params = tuple(changed.get(param, param) for param in func.params)
        return replace(func, params=params, body=replace_vars(func.body, changed), ret_ty=None, ty=None)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        params = {param for func in mod.functions.values() if is_relay(func) for param in func.params}
        for key, axis in self.data.items():
            if key not in params or not 0 <= axis < key.ty.ndim:
                raise UsageError(I0508, f"ChangeBatch: no parameter {key} of the module has an axis {axis}")
        return map_relay(mod, lambda func: self.transform_function(func, mod, ctx))

    def _resized(self, ty: Any, axis: int) -> TensorType:
        dims = list(ty.dims)
        dims[axis] = constant(self.batch_size, "int64")
        return TensorType(tuple(dims), ty.dtype)
