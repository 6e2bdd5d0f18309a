"""DispatchSortScan: lower sorts and cumulative sums and products to loop functions, before other operators.

    y = R.cumsum(x, axis=1)      →      y = R.call_tir(cls.cumsum, (x,), ...)
    z = R.exp(y)                        z = R.exp(y)

On processors nothing is to be chosen: this is what `LegalizeOps` does to them. The default pipeline does
without; pipelines that were written for TVM name it.
"""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.lower.legalize_ops import LegalizeOps


class DispatchSortScan(Pass):
    """Requires the normal form."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return LegalizeOps(dispatch="sort_scan").transform(mod, ctx)
