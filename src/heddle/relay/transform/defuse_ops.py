"""Primitive functions that are called in place, as their bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heddle.ir.expr import Call, Function
from heddle.relay.builders import replace_vars
from heddle.relay.transform.rewriting import RewritePass
from heddle.relay.transform.to_a_normal_form import PRIMITIVE


@dataclass(frozen=True, slots=True)
class DefuseOps(RewritePass):
    """Undo fusion.

        (fn (%p0: float32, Primitive=1) { exp(tanh(%p0)) })(%x)

    becomes

        exp(tanh(%x))

    Functions of another compiler stay.
    """

    opt_level = 3

    def rewrite(self, old: Any, new: Any) -> Any:
        func = new.op if isinstance(new, Call) else None
        if not isinstance(func, Function) or not func.attrs.get(PRIMITIVE) or "Compiler" in func.attrs:
            return new
        return replace_vars(func.body, dict(zip(func.params, new.args, strict=True)))
