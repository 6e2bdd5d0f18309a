"""RemovePurityChecking: allow later passes to add side effects inside pure functions.

@R.function                          @R.function
def f(x): ...                 →      def f(x):
                                         R.func_attr({"relax.force_pure": True})
                                         ...
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.expr import Function
from heddle.ir.transform import FunctionPass, PassContext


class RemovePurityChecking(FunctionPass):
    """Establishes: no purity rule inside functions."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Any:
        return func.with_attr("relax.force_pure", True) if func.is_pure else func
