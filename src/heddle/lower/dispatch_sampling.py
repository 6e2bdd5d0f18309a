"""DispatchSampling: lower sampling operators to calls of loop functions, before all other operators.

    y = R.multinomial_from_uniform(p, u, rows)   →   y = R.call_tir(cls.multinomial_from_uniform, ...)

On processors nothing is to be chosen: this is what `LegalizeOps` does to them. The default pipeline does
without; pipelines that were written for TVM name it.
"""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.lower.legalize_ops import LegalizeOps


class DispatchSampling(Pass):
    """Requires the normal form."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return LegalizeOps(dispatch="sampling").transform(mod, ctx)
