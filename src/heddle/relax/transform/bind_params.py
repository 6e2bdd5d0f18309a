"""BindParams: replace parameters whose values are known by constants.

    def main(x: R.Tensor((n, 4)), w: R.Tensor((4, m))):           def main(x: R.Tensor((n, 4))):
        return R.matmul(x, w)                               →         return R.matmul(x, metadata[0])

The shape of a value determines the symbolic dimensions of its parameter. Calls of the function in the module,
its own among them, call a private copy that has all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.graph.binding import bind_params
from heddle.ir.bound_function import with_bound_function
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.support.frozen import frozen


@frozen(slots=False)
class BindParams(Pass):
    """`params` maps names or variables of the function's parameters to arrays, tensors or numbers.

    Raises: BindingError R0208 (a ValueError) for an unknown parameter, or a value of another type.
    """

    func_name: str
    params: Mapping[Any, Any]

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        var = mod.get_global_var(self.func_name)
        return with_bound_function(mod, var, bind_params(mod[var], self.params))
