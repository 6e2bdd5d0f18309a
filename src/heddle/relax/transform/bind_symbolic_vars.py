"""BindSymbolicVars: replace symbolic dimensions by numbers.

x: R.Tensor((n, m), "float32")      →      x: R.Tensor((16, m), "float32")        # {"n": 16}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.graph.binding import BindingError, bind_symbolic_vars, symbolic_dims
from heddle.graph.codes import R0208
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.support.diagnostics import did_you_mean
from heddle.support.frozen import frozen


@frozen(slots=False)
class BindSymbolicVars(Pass):
    """`binding_map` maps names or variables to numbers or expressions. Without `func_name`, it applies to
    every function, as far as the function has these dimensions.

    Raises: BindingError R0208 (a ValueError) for a dimension that none of these functions has.
    """

    binding_map: Mapping[Any, Any]
    func_name: str | None = None

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if self.func_name is not None:
            var = mod.get_global_var(self.func_name)
            bound = bind_symbolic_vars(mod[var], self.binding_map)
            return mod if bound is mod[var] else mod.with_functions(mod.functions.with_item(var, bound))
        self._require_known(mod)
        return map_functions(mod, ("relax",), lambda _var, func: bind_symbolic_vars(func, self._of(func)))

    def _of(self, func: Function) -> dict[Any, Any]:
        """The bindings that concern a function."""
        known = symbolic_dims(func)
        names = {var.name for var in known}
        return {key: value for key, value in self.binding_map.items() if key in known or key in names}

    def _require_known(self, mod: IRModule) -> None:
        functions = [func for func in mod.functions.values() if func.dialect == "relax"]
        used = {key for func in functions for key in self._of(func)}
        for key in self.binding_map:
            if key not in used:
                names = [var.name for func in functions for var in symbolic_dims(func)]
                shown = str(getattr(key, "name", key))
                raise BindingError(
                    R0208, f"no function has a dimension {shown!r}", help=did_you_mean(shown, names)
                )
