"""AttachGlobalSymbol: every function gets its name in the module as linker symbol."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, map_functions


class AttachGlobalSymbol(Pass):
    """Establishes: every function has the attribute global_symbol."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return map_functions(
            mod,
            None,
            lambda var, func: (
                func if "global_symbol" in func.attrs else func.with_attr("global_symbol", var.name_hint)
            ),
        )
