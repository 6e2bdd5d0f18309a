"""What a function does with a value of a data type, constructor by constructor.

def f(xs: R.Any, h):
    fits = R.has_tag(xs, Nil)
    if fits: ...                            # a clause
    else:
        fits_1 = R.has_tag(xs, Cons)
        if fits_1: ...                      # a clause
        else: r = R.fatal(...)              # what is left
"""

from __future__ import annotations

from dataclasses import dataclass

from heddle.graph.nodes import Binding, SeqExpr, VarBinding
from heddle.graph.rewriter import is_call, loop_call
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.node import replace
from heddle.prim.nodes import IntImm
from heddle.support.frozen import frozen


@frozen
class Clause:
    """The branch for the values of one constructor: `test` binds whether a value is one, `branch` what the
    branch gives."""

    tag: int
    test: Binding
    branch: VarBinding

    @property
    def body(self) -> SeqExpr:
        """What the clause computes."""
        assert isinstance(self.branch.value, If) and isinstance(self.branch.value.true_branch, SeqExpr)
        return self.branch.value.true_branch


@frozen
class MatchOfData:
    """A function whose body is a match of its parameter `subject`. `otherwise`: what it does with values that
    no clause takes."""

    func: Function
    subject: int
    clauses: tuple[Clause, ...]
    otherwise: SeqExpr

    @property
    def param(self) -> Var:
        """The parameter that is matched."""
        return self.func.params[self.subject]

    def place_of(self, value: Expr | None) -> int | None:
        """Which field of the matched value an expression reads; None for any other expression."""
        if not is_call(value, "relax.get_field"):
            return None
        assert isinstance(value, Call)
        index = value.args[1]
        return index.value if value.args[0] is self.param and isinstance(index, IntImm) else None


def match_of_data(func: Function) -> MatchOfData | None:
    """The match that a function is; None for any other function."""
    clauses: list[Clause] = []
    subject: int | None = None
    body: Expr = func.body
    while isinstance(body, SeqExpr) and (found := _clause(body)) is not None:
        value = found.test.value.args[0]  # type: ignore[attr-defined]
        place = next((k for k, param in enumerate(func.params) if param is value), None)
        if place is None or subject not in (None, place):
            break
        subject = place
        clauses.append(found)
        body = found.branch.value.false_branch  # type: ignore[attr-defined]
    if subject is None or not isinstance(body, SeqExpr):
        return None
    return MatchOfData(func, subject, tuple(clauses), body)


def _clause(body: SeqExpr) -> Clause | None:
    """The clause that a sequence begins with, where it is a test and a branch and nothing else."""
    bindings = body.bindings()
    if len(bindings) != 2 or body.body is not bindings[1].var:
        return None
    test, branch = bindings
    if not isinstance(branch, VarBinding) or not isinstance(branch.value, If):
        return None
    if not is_call(test.value, "relax.has_tag") or branch.value.cond is not test.var:
        return None
    assert isinstance(test.value, Call)
    tag = test.value.args[1]
    return Clause(tag.value, test, branch) if isinstance(tag, IntImm) else None


@dataclass(slots=True)
class Turn:
    """The bindings of a clause, and what its variables are bound to. Bindings that only give a value another
    name are looked through."""

    bindings: list[VarBinding]
    values: dict[Var, Expr]
    result: Expr

    def leaf(self, expr: Expr) -> Expr:
        """The variable or constant that an expression is."""
        while isinstance(expr, Var) and isinstance(self.values.get(expr), (Var, Tuple, TupleGetItem)):
            value = self.values[expr]
            if isinstance(value, TupleGetItem):
                whole = self.leaf(value.tuple_value)
                if not isinstance(whole, Tuple):
                    break
                value = whole.fields[value.index]
            expr = value
        return expr

    def of_leaves(self, value: Expr) -> Expr:
        """A field of a tuple, or a call of a loop function, without names that the clause gives."""
        if isinstance(value, TupleGetItem):
            return TupleGetItem(self.leaf(value.tuple_value), value.index)
        found = loop_call(value)
        assert found is not None and isinstance(value, Call)
        args = Tuple(tuple(self.leaf(arg) for arg in found[1].fields))
        made: Expr = replace(value, args=(found[0], args, *value.args[2:]))
        return made

    def calls_of(self, callee: GlobalVar) -> list[VarBinding]:
        """The bindings that call a function of the module."""
        return [
            binding
            for binding in self.bindings
            if isinstance(binding.value, Call) and binding.value.op == callee
        ]


def turn_of(clause: Clause) -> Turn | None:
    """The bindings of a clause; None where it branches, or checks sizes."""
    bindings = list(clause.body.bindings())
    made: list[VarBinding] = []
    for binding in bindings:
        if not isinstance(binding, VarBinding) or isinstance(binding.value, (If, Function)):
            return None
        made.append(binding)
    return Turn(made, {binding.var: binding.value for binding in made}, clause.body.body)
