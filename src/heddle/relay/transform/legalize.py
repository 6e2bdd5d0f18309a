"""What users say that operators are for their target."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Expr
from heddle.ir.users_code import given_by
from heddle.relay.op_attrs import op_attr
from heddle.relay.transform.rewriting import RewritePass, is_call
from heddle.support.frozen import frozen


@frozen
class Legalize(RewritePass):
    """Let functions of users say what calls become.

        nn.relu(%x)

    becomes, after `register_legalize("nn.relu", lambda attrs, args, types: relay.maximum(args[0], zero))`,

        maximum(%x, 0f)

    `types` are those of the arguments and of the result. None leaves a call as it is.
    """

    legalize_map_attr_name: str = "FTVMLegalize"
    opt_level = 1

    def rewrite(self, old: Any, new: Any) -> Any:
        hook = op_attr(old.op.name, self.legalize_map_attr_name) if is_call(old) else None
        if hook is None:
            return new
        what, types = f"{self.legalize_map_attr_name} of {old.op.name}", [*(a.ty for a in old.args), old.ty]
        made = given_by(hook, what, Expr | None, old.attrs, list(new.args), types)
        return new if made is None else made


def QnnLegalize() -> Legalize:
    """Let functions of users (`register_qnn_legalize`) say what calls become, before `qnn` is written out."""
    return Legalize("FTVMQnnLegalize")
