"""EstimatePeakMemory: annotate graph functions with an upper bound of their memory.

R.func_attr({})
    →
R.func_attr({"peak_memory": "block(n * 16) + block(n * 4)"})

Runs after kills are placed and before sizes move to the shape heap. Code generation moves the attribute into
the executable's metadata.
"""

from __future__ import annotations

from typing import ClassVar

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.lower.normal_form import GRAPHS
from heddle.relax.analysis.peak_memory import PeakMemories

PEAK_MEMORY = "peak_memory"


class EstimatePeakMemory(Pass):
    """Requires: explicit storages and kills (KillAfterLastUse)."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS
    requires: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        peaks = PeakMemories(mod)
        return map_functions(
            mod, self.dialects, lambda var, func: func.with_attr(PEAK_MEMORY, peaks.text(func))
        )
