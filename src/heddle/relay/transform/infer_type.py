"""Types for every expression."""

from __future__ import annotations

from typing import Any

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import Type
from heddle.relay.builders import as_expr
from heddle.relay.typed import infer_local, infer_module
from heddle.support.frozen import frozen


@frozen
class InferType(Pass):
    """Find the types of Relay functions.

        def @main(%x: Tensor[(3), float32]) { nn.relu(%x) }

    becomes

        def @main(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { nn.relu(%x) }

    and every expression has its `checked_type`. A function that has its types stays the same object.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return infer_module(mod)


def InferTypeLocal(expr: Any) -> Type:
    """The type of an expression alone."""
    return infer_local(as_expr(expr))
