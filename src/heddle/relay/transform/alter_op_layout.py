"""Operators in the layouts that users say for their target."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Expr, Function
from heddle.ir.module import IRModule
from heddle.ir.users_code import given_by
from heddle.relay.op_attrs import op_attr
from heddle.relay.transform.arranged import arranged
from heddle.relay.transform.rewriting import TypedPass
from heddle.support.frozen import frozen


@frozen
class AlterOpLayout(TypedPass):
    """Let functions of users say in which layouts calls are computed.

        nn.conv2d(%x, %w)

    becomes, after `register_alter_op_layout("nn.conv2d", f)` with `f(attrs, inputs, types, out_type)` that
    gives a convolution of the inputs in layout NCHW8c and OIHW8i8o, one of `layout_transform` of both, and
    its result is moved back where that has to be. None leaves a call as it is.
    """

    opt_level = 3

    def change(self, func: Function, mod: IRModule) -> Function:
        return arranged(func, _alter)


def _alter(old: Any) -> Any:
    hook = op_attr(old.op.name, "FTVMAlterOpLayout")
    given = old.attrs, list(old.args), [arg.ty for arg in old.args], old.ty
    return (
        None if hook is None else given_by(hook, f"FTVMAlterOpLayout of {old.op.name}", Expr | None, *given)
    )
