"""Expressions that do not know their place."""

from __future__ import annotations

import warnings

from heddle.ir.expr import Constant, Function, GlobalVar, is_relay
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.type_data import Constructor
from heddle.relay.codes import Q0504
from heddle.relay.placement import operands, post_order
from heddle.support.diagnostics import Diagnostic, HeddleWarning
from heddle.support.frozen import frozen

_NOT_ASKED = (Op, Constant, GlobalVar, Constructor)


@frozen
class SpanCheck(Pass):
    """Warn, once for each function, of expressions without a place: errors could not point at them.

        tanh(exp(%x))                   # made by a builder

    stays, with the warning Q0504 that 3 expressions have no place, at the nearest one around that has one.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for var, func in mod.functions.items():
            if is_relay(func):
                _check(var.name_hint, func)
        return mod


def _check(name: str, func: Function) -> None:
    nodes = [node for node in post_order(func) if not isinstance(node, _NOT_ASKED)]
    missing = [node for node in nodes if node.span is None]
    if not missing:
        return
    lost = {id(node) for node in missing}
    around = (node.span for node in nodes if node.span and any(id(each) in lost for each in operands(node)))
    what = f"{len(missing)} of {len(nodes)} expressions of @{name} have no place"
    hint = "AnnotateSpans gives all of them one"
    note = Diagnostic(Q0504, what, next(around, None), (), hint, "warning")
    warnings.warn(note.render(), HeddleWarning, stacklevel=2)
