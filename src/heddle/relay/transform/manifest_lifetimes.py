"""Where the names of values end."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Function, Var
from heddle.ir.module import IRModule
from heddle.relay.builders import var
from heddle.relay.nodes import Let
from heddle.relay.placement import operands, post_order
from heddle.relay.transform.copying import Lines, lets
from heddle.relay.transform.rewriting import TypedPass, call, is_call, is_of_tensors, rewrite_nodes
from heddle.support.frozen import frozen

KILL = "memory.kill"


@frozen
class ManifestLifetimes(TypedPass):
    """Say behind the last use of a let's variable that it is not needed any more.

        let %y = tanh(%x); let %z = exp(%y); add(%z, %z)

    becomes

        let %y = tanh(%x); let %z = exp(%y); let %_ = memory.kill(%y); add(%z, %z)

    A let ends in its own scope: what a branch uses last ends behind the branch. Parameters, what the
    expression behind the lets uses, and what are no tensors or tuples of them do not end. It is told for
    readers and machines; a kill does nothing by itself, and memory is planned in the normal form.
    """

    def change(self, func: Function, mod: IRModule) -> Function:
        ends = _ends(func)

        def end(old: Any, new: Any) -> Any:
            names = ends.get(id(old)) if isinstance(old, Let) else None
            if not names:
                return new
            kills: Lines = [(var("_"), call(KILL, name)) for name in names]
            return Let(new.var, new.value, lets(kills, new.body), span=new.span)

        return rewrite_nodes(func, end)


def _ends(func: Function) -> dict[int, list[Var]]:
    """For each let, by identity, the variables of its chain that are used last in its value."""
    found = [node for node in post_order(func) if isinstance(node, Let)]
    inner = {id(node.body) for node in found}
    killed = {node.args[0] for node in post_order(func) if is_call(node, KILL)}
    ends: dict[int, list[Var]] = {}
    for head in found:
        if id(head) in inner:
            continue
        chain: list[Let] = []
        current: Any = head
        while isinstance(current, Let):
            chain.append(current)
            current = current.body
        number = {
            let.var: place
            for place, let in enumerate(chain)
            if let.var not in killed and is_of_tensors(let.var.ty)
        }
        seen: set[int] = set()
        _first_reached(current, seen)
        for let in reversed(chain):  # from behind: a use that is reached first is the last one
            used = {node for node in _first_reached(let.value, seen) if node in number}
            if id(let.var) not in seen and let.var in number and not is_call(let.value, KILL):
                used.add(let.var)
            ends[id(let)] = sorted(used, key=number.__getitem__)
    return ends


def _first_reached(root: Any, seen: set[int]) -> list[Var]:
    """The variables at or below an expression that nothing in `seen` leads to, which grows."""
    found, todo = [], [root]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found += [node] if isinstance(node, Var) else []
            todo += operands(node)
    return found
