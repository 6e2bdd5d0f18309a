"""What users say that calls of operators become, before a Relay program is compiled: what they register with
`relay.op.register_qnn_legalize`, `register_legalize` and `register_alter_op_layout`."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Sequential
from heddle.relay.op import op_names
from heddle.relay.op_attrs import op_attr
from heddle.relay.transform.alter_op_layout import AlterOpLayout
from heddle.relay.transform.infer_type import InferType
from heddle.relay.transform.legalize import Legalize, QnnLegalize

_PASSES = {
    "FTVMQnnLegalize": QnnLegalize(),
    "FTVMLegalize": Legalize(),
    "FTVMAlterOpLayout": AlterOpLayout(),
}
"""The passes that ask for each, in order."""


def as_users_say(mod: IRModule) -> IRModule:
    """A Relay module with the calls as the hooks of users give them; the same object where there are none.
    The level of the current PassContext says which passes run, as in TVM: AlterOpLayout asks for 3."""
    names = op_names()
    steps = [step for key, step in _PASSES.items() if any(op_attr(name, key) for name in names)]
    return Sequential([InferType(), *steps], "hooks")(mod) if steps else mod
