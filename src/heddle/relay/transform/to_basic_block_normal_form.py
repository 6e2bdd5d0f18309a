"""Values that branches share with what is around them, with names."""

from __future__ import annotations

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.placement import Placement, parts, post_order, with_own_recursions
from heddle.relay.transform.rewriting import map_relay
from heddle.relay.transform.to_a_normal_form import formed, is_atomic
from heddle.support.frozen import frozen


@frozen
class ToBasicBlockNormalForm(Pass):
    """Bind what a function, branch or clause uses of the scopes around it.

        %0 = tanh(%x);
        if (%c) { %0 } else { exp(%0) }

    becomes

        let %x1 = tanh(%x);
        if (%c) { %x1 } else { exp(%x1) }

    Values that are used in one scope alone stay where they are. A function that calls itself and shares what
    names it with the program behind its let gets expressions of its own, as in A-normal form.
    """

    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return map_relay(mod, _blocks)


def crossing(root: Function) -> set[int]:
    """The identities of the expressions that a scope uses from another one around it."""
    placed = Placement(root)
    found: set[int] = set()
    for expr in post_order(root):
        if id(expr) not in placed.home:
            continue
        for child, number in parts(expr):
            scope = placed.scope_of(expr, number)
            if not is_atomic(child) and placed.home.get(id(child)) not in (None, scope):
                found.add(id(child))
    return found


def _blocks(func: Function) -> Function:
    own: Function = with_own_recursions(func)
    named = crossing(own)
    made: Function = formed(own, named) if named else own
    return made
