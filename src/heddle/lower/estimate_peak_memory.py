"""EstimatePeakMemory: annotate graph functions with an upper bound of their memory.

R.func_attr({})
    →
R.func_attr({"peak_memory": "block(n * 16) + block(n * 4)"})

Runs after kills are placed and before sizes move to the shape heap. Code generation moves the attribute into
the executable's metadata.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.expr import Function
from heddle.ir.transform import FunctionPass, PassContext
from heddle.lower.normal_form import GRAPHS
from heddle.relax.analysis.peak_memory import peak_memory

PEAK_MEMORY = "peak_memory"


class EstimatePeakMemory(FunctionPass):
    """Requires: explicit storages and kills (KillAfterLastUse)."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS
    requires: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return func.with_attr(PEAK_MEMORY, peak_memory(func, mod))  # type: ignore[no-any-return]
