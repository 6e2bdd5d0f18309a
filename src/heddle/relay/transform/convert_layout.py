"""Operators in the layouts that somebody wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.ir.expr import Expr, Function
from heddle.ir.module import IRModule
from heddle.ir.users_code import given_by
from heddle.relay.layout_hooks import HOOKS
from heddle.relay.op import lookup
from heddle.relay.op_attrs import op_attr
from heddle.relay.transform.arranged import arranged
from heddle.relay.transform.rewriting import TypedPass
from heddle.support.frozen import frozen


@frozen(slots=False)
class ConvertLayout(TypedPass):
    """Compute operators in other layouts: `desired_layouts` has those of data and kernel by operator, and
    `"default"` is the usual layout of a kernel beside that of the data.

        nn.relu(nn.conv2d(%x, %w))

    becomes, with `{"nn.conv2d": ["NHWC", "default"]}`,

        %0 = nn.conv2d(layout_transform(%x, src_layout="NCHW", dst_layout="NHWC"),
                       layout_transform(%w, src_layout="OIHW", dst_layout="HWIO"),
                       data_layout="NHWC", kernel_layout="HWIO");
        layout_transform(nn.relu(%0), src_layout="NHWC", dst_layout="NCHW")

    What lies between follows: operators on elements, pools, reductions, and others whose axes are attributes.
    Users say with `register_convert_op_layout` what else is computed in other layouts.
    """

    desired_layouts: Mapping[str, Sequence[str]]
    opt_level = 3

    def change(self, func: Function, mod: IRModule) -> Function:
        for name in self.desired_layouts:
            lookup(name)
        return arranged(func, self._alter)

    def _alter(self, old: Any) -> Any:
        desired = self.desired_layouts.get(old.op.name)
        hook = op_attr(old.op.name, "FTVMConvertOpLayout") or HOOKS.get(old.op.name)
        if desired is None or hook is None:
            return None
        given = old.attrs, list(old.args), [*(arg.ty for arg in old.args), old.ty], list(desired)
        return given_by(hook, f"FTVMConvertOpLayout of {old.op.name}", Expr | None, *given)
