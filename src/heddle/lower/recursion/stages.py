"""The loops that one loop over a list becomes: one after the other where that makes products of all elements.

    f(xs, h, k) = ... f(rest, g(matmul(x, a), h), g(matmul(h', b), k))       (h' is the new h)

    m = matmul(rows, a);  loop 1: h' = g(m[i], h), which it collects;  n = matmul(all h', b);
    loop 2: k' = g(n[i], k)

A later loop reads what an earlier one computes as rows. Where no product gains by that, it stays one loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from heddle.graph.infer import type_of
from heddle.graph.nodes import VarBinding
from heddle.graph.rewriter import is_call, loop_call
from heddle.ir.expr import Constant, Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk_distinct
from heddle.lower.recursion.list_loop import ListLoop
from heddle.lower.recursion.rows import RowsCall, is_small, rows_call


@dataclass(slots=True)
class Stage:
    """One loop. `carried` are the parameters that it changes, in order; of a backward loop, none.

    `bindings` are computed in its turns, `ahead` before it for all elements at once. Later stages read the
    values of `collected`, which are variables of the turn, or parameters as they are when a turn begins.
    """

    carried: list[int]
    bindings: list[VarBinding] = field(default_factory=list)
    ahead: list[RowsCall] = field(default_factory=list)
    collected: list[Var] = field(default_factory=list)
    reads: Collection[Var] = ()
    """The variables that its turns read, from wherever they come."""


def stages_of(mod: IRModule, loop: ListLoop) -> list[Stage]:
    """The loops in order."""
    groups = _groups(loop)
    several = _staged(mod, loop, groups) if len(groups) > 1 else None
    return several or _staged(mod, loop, [loop.carried]) or []


def _staged(mod: IRModule, loop: ListLoop, groups: list[list[int]]) -> list[Stage] | None:
    """The stages for groups of parameters; None where only one of them should be."""
    made: list[Stage] = []
    rows: set[Expr] = set(loop.fields)
    done: set[Var] = {*loop.fields, *(binding.var for binding in loop.fixed)}
    params = loop.match.func.params
    gains = len(groups) == 1
    for group in groups:
        stage = Stage(group)
        bindings = [binding for binding in _needed(loop, _results(loop, group)) if binding.var not in done]
        inside = {binding.var for binding in bindings} | {params[k] for k in group}
        given = set(loop.steady) | done
        earlier = {var for other in made for var in (*_made(other), *(params[k] for k in other.carried))}
        for var in _leaves(loop, bindings, _results(loop, group)):
            if var in earlier and var not in inside and var not in rows:
                if not is_small(type_of(var)):
                    return None
                _maker(made, var, params).collected.append(var)
                rows.add(var)
            elif len(groups) > 1 and var not in earlier | inside | given | rows:
                return None
        found = _ahead(mod, loop, bindings, rows)
        stage.ahead = found if any(item.gains for item in found) else []
        gains |= any(
            item.gains and not earlier.isdisjoint(_leaves(loop, [item.binding], [])) for item in found
        )
        before = {item.binding.var for item in stage.ahead}
        rows |= before
        stage.bindings = [binding for binding in bindings if binding.var not in before]
        done |= {binding.var for binding in bindings}
        made.append(stage)
    for stage in made:
        stage.reads = _leaves(loop, stage.bindings, [*_results(loop, stage.carried), *stage.collected])
    return made if gains else None


def _made(stage: Stage) -> Iterator[Var]:
    return (item.var for item in (*stage.bindings, *(item.binding for item in stage.ahead)))


def _maker(stages: list[Stage], var: Var, params: tuple[Var, ...]) -> Stage:
    """The stage in whose turns a variable has its value."""
    return next(stage for stage in stages if var in {*_made(stage), *(params[k] for k in stage.carried)})


def _results(loop: ListLoop, group: list[int]) -> list[Expr]:
    """What turns give for parameters; the result of a turn of a backward loop."""
    return [loop.turn.result] if loop.is_backward else [loop.arguments[k] for k in group]


def _turn_bindings(loop: ListLoop) -> list[VarBinding]:
    """All that a turn computes. Of a loop that goes forward nothing follows the call of itself."""
    bindings = loop.turn.bindings
    if not loop.is_backward:
        bindings = list(takewhile(lambda binding: binding is not loop.again, bindings))
    return [binding for binding in bindings if not is_call(binding.value, "relax.get_field")]


def _needed(loop: ListLoop, results: list[Expr]) -> list[VarBinding]:
    """The bindings that some results depend on, in order."""
    wanted = {node for value in results for node in walk_distinct(value) if isinstance(node, Var)}
    found: list[VarBinding] = []
    for binding in reversed(_turn_bindings(loop)):
        if binding.var in wanted:
            found.append(binding)
            wanted |= {node for node in walk_distinct(binding.value) if isinstance(node, Var)}
    return found[::-1]


def _leaves(loop: ListLoop, bindings: list[VarBinding], results: list[Expr]) -> dict[Var, None]:
    """The variables that bindings and results use, with those that these are other names of, in order."""
    values = [*(binding.value for binding in bindings if binding is not loop.again), *results]
    used = [node for value in values for node in walk_distinct(value) if isinstance(node, Var)]
    return dict.fromkeys(leaf for var in used for leaf in (var, loop.turn.leaf(var)) if isinstance(leaf, Var))


def _groups(loop: ListLoop) -> list[list[int]]:
    """The changed parameters in groups, each of which depends on itself and those before alone."""
    params = loop.match.func.params
    index = {params[k]: k for k in loop.carried}
    reach: dict[int, set[int]] = {}
    for k in loop.carried:
        results = _results(loop, [k])
        reach[k] = {index[var] for var in _leaves(loop, _needed(loop, results), results) if var in index}
    for _ in loop.carried:
        for k in loop.carried:
            reach[k] = reach[k].union(*(reach[other] for other in reach[k]))
    groups: list[list[int]] = []
    for k in sorted(loop.carried, key=lambda k: len(reach[k] | {k})):
        same = next((group for group in groups if group[0] in reach[k] and k in reach[group[0]]), None)
        if same is None:
            groups.append([k])
        else:
            same.append(k)
    return groups


def _ahead(mod: IRModule, loop: ListLoop, bindings: list[VarBinding], rows: set[Expr]) -> list[RowsCall]:
    """The calls that depend on rows and on what stays the same alone."""
    steady: set[Expr] = {*loop.steady, *(binding.var for binding in loop.fixed)}
    many: set[Expr] = set(rows)
    found: list[RowsCall] = []
    for binding in bindings:
        call = loop_call(binding.value)
        if call is None or not is_small(type_of(binding.var)):
            continue
        leaves = [loop.turn.leaf(arg) for arg in call[1].fields]
        if not all(isinstance(leaf, Constant) or leaf in steady or leaf in many for leaf in leaves):
            continue
        made = rows_call(mod, binding, [leaf in many for leaf in leaves])
        if made is not None:
            many.add(binding.var)
            found.append(made)
    return found
