"""Functions that no entry leads to, left out."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.ir.call_graph import reachable, with_functions_of
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
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
        names = ("main",) if self.entry_functions is None else self.entry_functions
        entries = [mod.get_global_var(name) for name in names]
        return with_functions_of(mod, reachable(mod, entries))
