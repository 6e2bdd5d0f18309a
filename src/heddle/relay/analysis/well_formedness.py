"""The rules of Relay programs, as findings: a variable is bound at one place, and used where it is seen."""

from __future__ import annotations

from collections import Counter
from typing import Any

from heddle.ir.expr import Function, Var
from heddle.ir.module import IRModule
from heddle.relay.codes import Q0307, Q0309
from heddle.relay.nodes import Let, Match
from heddle.relay.placement import bound_by, bound_here, operands, post_order
from heddle.relay.typed import infer_local
from heddle.support.diagnostics import Diagnostic, HeddleError


def well_formed(expr: Any) -> bool:
    """Whether each variable is bound once (a node that is shared counts once) and used inside its scope
    only. Free variables are no fault of an expression."""
    return not scope_findings(expr)


def scope_findings(expr: Any) -> list[Diagnostic]:
    """What is wrong with the variables of an expression. The work grows with the number of distinct nodes."""
    binders = Counter(var for node in reversed(post_order(expr)) for var in bound_by(node))
    findings = [
        Diagnostic(
            Q0309,
            f"variable %{var.name_hint} is bound {count} times",
            var.span,
            help="variables of equal names may differ: make one for each place",
        )
        for var, count in binders.items()
        if count > 1
    ]
    return findings + _escapes(expr, set(binders))


def _escapes(expr: Any, bound: set[Var]) -> list[Diagnostic]:
    """Uses of bound variables outside their scopes: those that are still free at the top."""
    needed: dict[int, frozenset[Var]] = {}
    for node in post_order(expr):
        needed[id(node)] = _needs(node, needed, bound)
    return [
        Diagnostic(
            Q0307,
            f"variable %{var.name_hint} is used outside its scope",
            var.span,
            help="make it a parameter, or bind it around all uses",
        )
        for var in needed[id(expr)]
    ]


def _needs(node: Any, needed: dict[int, frozenset[Var]], bound: set[Var]) -> frozenset[Var]:
    if isinstance(node, Var):
        return frozenset((node,)) if node in bound else frozenset()
    below = [needed[id(child)] for child in operands(node)]
    if isinstance(node, Function):
        return below[0] - set(node.params)
    if isinstance(node, Let):
        value = below[0] - {node.var} if isinstance(node.value, Function) else below[0]
        return _union([value, below[1] - {node.var}])
    if isinstance(node, Match):
        groups = bound_here(node)
        return _union([below[0], *(part - set(group) for part, group in zip(below[1:], groups, strict=True))])
    return _union(below)


def _union(parts_needed: list[frozenset[Var]]) -> frozenset[Var]:
    """The union; one of the sets itself where it holds the others."""
    whole = max(parts_needed, key=len, default=frozenset())
    for part in parts_needed:
        if not part <= whole:
            whole |= part
    return whole


def verify_relay_function(func: Function, mod: IRModule) -> list[Diagnostic]:
    """The findings for one function: its variables, then its types."""
    findings = scope_findings(func)
    if not findings:
        try:
            infer_local(func, mod)
        except HeddleError as error:
            findings += error.diagnostics
    return findings
