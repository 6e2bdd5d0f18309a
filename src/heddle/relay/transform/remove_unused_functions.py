"""Functions that no entry leads to, left out."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.transform.recursion import reached_from
from heddle.support.frozen import frozen


@frozen
class RemoveUnusedFunctions(Pass):
    """Keep the functions of `entry_functions`, and what these call, to any depth.

        def @unused(%x: float32) { %x }
        def @main(%x: float32) { tanh(%x) }

    becomes

        def @main(%x: float32) -> float32 { tanh(%x) }
    """

    entry_functions: Sequence[str] | None = None
    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        names = ("main",) if self.entry_functions is None else tuple(self.entry_functions)
        entries = [var for var in mod.functions if var.name_hint in names]
        used = {var.name_hint for var in entries} | reached_from(mod, entries)
        if all(var.name_hint in used for var in mod.functions):
            return mod
        return mod.with_functions({var: f for var, f in mod.functions.items() if var.name_hint in used})
