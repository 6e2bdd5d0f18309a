"""Which functions go through a list, element by element: see `loop_over_lists`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heddle.graph.infer import type_of
from heddle.graph.nodes import VarBinding
from heddle.graph.rewriter import loop_call
from heddle.graph.types import TensorType
from heddle.ir.call_graph import names_in
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk_distinct
from heddle.lower.recursion.match_of_data import Clause, MatchOfData, Turn, match_of_data, turn_of
from heddle.lower.recursion.rows import MOST_ROW_BYTES, fixed_bindings, fixed_bytes, flat_types
from heddle.tir.nodes import PrimFunc


@dataclass(slots=True)
class ListLoop:
    """A function that goes through a list.

    `step` is the clause of an element, `again` its call of itself, `rest` the field with the rest of the
    list. `fields` are the tensors of an element that a turn needs. `is_backward`: the turn goes on with what
    the call gives. `carried` are the parameters that a turn changes, in order; of a backward loop, none.
    """

    var: GlobalVar
    match: MatchOfData
    step: Clause
    turn: Turn
    again: VarBinding
    rest: int
    fields: dict[Var, int] = field(default_factory=dict)
    row_bytes: int = 0
    is_backward: bool = False
    carried: list[int] = field(default_factory=list)
    fixed: list[VarBinding] = field(default_factory=list)
    """What is the same for all elements, and computed once."""

    @property
    def arguments(self) -> tuple[Expr, ...]:
        """What the call of itself is given."""
        assert isinstance(self.again.value, Call)
        return self.again.value.args

    @property
    def steady(self) -> list[Var]:
        """The parameters that stay the same in all turns."""
        params = enumerate(self.match.func.params)
        return [param for k, param in params if k not in self.carried and k != self.match.subject]


def list_loop(mod: IRModule, var: GlobalVar, func: Any) -> ListLoop | None:
    """The loop over a list that a function is; None for any other."""
    match = match_of_data(func) if isinstance(func, Function) and func.is_pure else None
    if match is None:
        return None
    steps = [clause for clause in match.clauses if var in names_in(clause.body)]
    turn = turn_of(steps[0]) if len(steps) == 1 else None
    calls = turn.calls_of(var) if turn is not None else []
    if turn is None or len(calls) != 1 or var in names_in(match.otherwise):
        return None
    rest = match.place_of(turn.values.get(_var(turn.leaf(calls[0].value.args[match.subject]))))  # type: ignore[attr-defined]
    if rest is None:
        return None
    loop = ListLoop(var, match, steps[0], turn, calls[0], rest)
    if not (_classify(loop) and _takes_turn(mod, loop)):
        return None
    loop.fixed = fixed_bindings(mod, loop.turn, loop.steady)
    return loop


def _var(expr: Expr) -> Any:
    return expr if isinstance(expr, Var) else None


def _classify(loop: ListLoop) -> bool:
    """Whether the call of itself is one of the two forms; notes which."""
    params, turn = loop.match.func.params, loop.turn
    changed = [
        k
        for k, (param, arg) in enumerate(zip(params, loop.arguments, strict=True))
        if k != loop.match.subject and turn.leaf(arg) is not param
    ]
    uses = sum(_count(binding.value, loop.again.var) for binding in turn.bindings)
    gives_call = turn.leaf(turn.result) is loop.again.var
    aliases = sum(1 for value in turn.values.values() if value is loop.again.var)
    if gives_call and uses == aliases:
        loop.carried = changed
        types = [(params[k].ty, type_of(loop.arguments[k])) for k in changed]
        return bool(changed) and all(
            flat_types(own) is not None and structural_equal(own, new) for own, new in types
        )
    loop.is_backward = True
    given = type_of(turn.result)
    return not changed and flat_types(given) is not None and structural_equal(given, loop.match.func.ret_ty)


def _count(value: Expr, var: Var) -> int:
    return sum(1 for node in walk_distinct(value) if node is var)


def _takes_turn(mod: IRModule, loop: ListLoop) -> bool:
    """Whether a turn reads fields of fixed sizes and calls loop functions, and nothing else."""
    size_bytes = 0
    for binding in loop.turn.bindings:
        value = binding.value
        place = loop.match.place_of(value)
        if place == loop.rest:
            continue
        if place is not None:
            ty = type_of(binding.var)
            if not isinstance(ty, TensorType) or (size := fixed_bytes(ty)) is None:
                return False
            loop.fields[binding.var] = place
            size_bytes += size
        elif (found := loop_call(value)) is not None:
            if not isinstance(mod[found[0]], PrimFunc) or len(value.args) > 2:  # type: ignore[attr-defined]
                return False  # sizes that are variables
        elif binding is not loop.again and not isinstance(value, (Var, Constant, Tuple, TupleGetItem)):
            return False
    loop.row_bytes = size_bytes
    return bool(loop.fields) and size_bytes <= MOST_ROW_BYTES
