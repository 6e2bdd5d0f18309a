"""Lets as sharing: each variable is the value that it stands for."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.transform.copying import without_lets
from heddle.relay.transform.effects import leads_to_effects
from heddle.relay.transform.rewriting import map_relay
from heddle.support.frozen import frozen


@frozen
class ToGraphNormalForm(Pass):
    """Write values in the place of their variables.

        let %y = tanh(%x); add(%y, %y)

    becomes

        %0 = tanh(%x);
        add(%0, %0)

    Lets of functions that call themselves stay, and those whose variable leaves sizes open that are known of
    its value. A program with effects stays: lets keep their order.
    """

    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        is_ordered = any(map(leads_to_effects, mod.functions.values()))
        return mod if is_ordered else map_relay(mod, without_lets)
