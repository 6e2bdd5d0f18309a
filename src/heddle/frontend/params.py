"""Taking the parameters of an imported model out of its module."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.runtime.tensor import Tensor


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """The module without the attribute `params` of its functions, and these parameters by function name."""
    functions, params = dict(mod.functions_items()), {}
    for var, func in functions.items():
        if "params" in func.attrs:
            params[var.name_hint] = list(func.attrs["params"])
            functions[var] = func.without_attr("params")
    return mod.with_functions(functions), params
