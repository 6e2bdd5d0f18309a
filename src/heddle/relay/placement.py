"""Where the text of a program has its shared expressions.

A program is a graph, and its text is a tree with names: an expression that is used more than once is written
once, in the innermost scope around all its uses. Scopes are bodies of functions, branches, clauses, and lets
that stand where a value is expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from heddle.ir import visitor
from heddle.ir.attrs import Attrs
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.node import children, map_children, replace
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type
from heddle.ir.variables import bound_vars, free_vars
from heddle.relay.nodes import Clause, Let, Match, Pattern, RefCreate, RefRead, RefWrite

_LEAVES = (Var, GlobalVar, Constant, Op, Constructor)


def is_leaf(expr: Any) -> bool:
    """Whether an expression is written where it is used, however often that is."""
    return isinstance(expr, _LEAVES) or (
        isinstance(expr, Call) and isinstance(expr.op, Constructor) and not expr.args
    )


def parts(expr: Any) -> list[tuple[Expr, int | None]]:
    """The expressions directly below, each with the number of the scope that it opens, or None."""
    below = _PARTS.get(type(expr))
    return below(expr) if below is not None else []


_PARTS: dict[type, Callable[[Any], list[tuple[Expr, int | None]]]] = {
    Call: lambda expr: [(expr.op, None), *((arg, None) for arg in expr.args)],
    Tuple: lambda expr: [(item, None) for item in expr.fields],
    Let: lambda expr: [(expr.value, None), (expr.body, None)],
    TupleGetItem: lambda expr: [(expr.tuple_value, None)],
    Function: lambda expr: [(expr.body, 0)],
    If: lambda expr: [(expr.cond, None), (expr.true_branch, 0), (expr.false_branch, 1)],
    Match: lambda expr: [(expr.data, None), *((clause.rhs, n) for n, clause in enumerate(expr.clauses))],
    RefCreate: lambda expr: [(expr.value, None)],
    RefRead: lambda expr: [(expr.ref, None)],
    RefWrite: lambda expr: [(expr.ref, None), (expr.value, None)],
}


def operands(expr: Any) -> list[Any]:
    """The expressions directly below."""
    return [child for child, _ in parts(expr)]


def post_order(root: Any, below: Callable[[Any], Iterable[Any]] = operands) -> list[Any]:
    """Each distinct expression at or below, operands before what uses them, to any depth of nesting."""
    return visitor.post_order(root, below)


def post_order_visit(expr: Any, fvisit: Callable[[Any], None]) -> None:
    """Call `fvisit` once for each distinct expression at or below, parameters and operands first."""

    def below(node: Any) -> list[Any]:
        return [child for child in children(node) if not isinstance(child, (Attrs, Type))]

    for each in visitor.post_order(expr, below):
        if isinstance(each, Expr):
            fvisit(each)


def with_own_recursions(root: Any) -> Any:
    """The program with expressions of its own in each function that a let binds and that names itself, as far
    as they name what is bound there and the program behind the let shares them: no place is seen from both.
    The same object where there are none.
    """
    while (found := _shared_recursion(root)) is not None:
        let, own = found
        root = _rebuilt(root, {id(let): replace(let, value=_copied(let.value, own))})
    return root


def _shared_recursion(root: Any) -> tuple[Let, set[int]] | None:
    """A let of a function that names itself, and the expressions of the function that name its variable or
    others that are bound around them in it, of which some are shared."""
    exprs = post_order(root)
    lets = [expr for expr in exprs if isinstance(expr, Let) and isinstance(expr.value, Function)]
    uses = Counter(id(child) for expr in exprs for child, _ in parts(expr)) if lets else Counter[int]()
    for let in lets:
        free = set(free_vars(let.value))
        if let.var not in free:
            continue
        own = _own_parts(let.value, free - {let.var})
        within = Counter(id(child) for expr in post_order(let.value) for child, _ in parts(expr))
        within[id(let.value)] += 1
        if any(uses[key] > within[key] for key in own):
            return let, own
    return None


def _own_parts(func: Any, outside: set[Var]) -> set[int]:
    """The expressions of a function that name what is bound in it, but for blocks that bind all of it."""
    named: dict[int, set[Var]] = {}
    for expr in post_order(func):
        below = [named[id(child)] for child in operands(expr)]
        found = {expr} - outside if isinstance(expr, Var) else set[Var]().union(*below)
        named[id(expr)] = found if expr is func else found.difference(bound_by(expr))
    own: set[int] = set()
    todo = [func]
    while todo:
        expr = todo.pop()
        if named[id(expr)] and id(expr) not in own and not isinstance(expr, Var):
            own.add(id(expr))
            todo += operands(expr)
    return own


def bound_here(expr: Any) -> list[tuple[Var, ...]]:
    """The variables that an expression binds, for each of its parts that sees them."""
    if isinstance(expr, Function):
        return [expr.params]
    if isinstance(expr, Let):
        return [(expr.var,)]
    return [bound_vars(clause.lhs) for clause in expr.clauses] if isinstance(expr, Match) else []


def bound_by(expr: Any) -> Iterable[Var]:
    """All variables that an expression binds."""
    return chain.from_iterable(bound_here(expr))


def _copied(func: Any, own: set[int]) -> Any:
    """A function with copies of some of its expressions, which bind variables of their own."""
    copied = [expr for expr in post_order(func) if id(expr) in own]
    bound = {id(var): replace(var) for expr in copied for var in bound_by(expr)}
    return _rebuilt(func, bound, own)


def _rebuilt(root: Any, changed: dict[int, Any], copied: Collection[int] = ()) -> Any:
    """An expression with others in it, by identity of the old ones, and copies of some."""
    made = dict(changed)

    def new(child: Any) -> Any:
        is_inner = isinstance(child, (Clause, Pattern))
        return map_children(child, new) if is_inner else made.get(id(child), child)

    for expr in post_order(root):
        if id(expr) not in made:
            other = map_children(expr, new)
            made[id(expr)] = replace(expr) if other is expr and id(expr) in copied else other
    return made[id(root)]


@dataclass(slots=True, eq=False)
class Scope:
    """`opener` is the expression whose part the scope is, and `lines` are those written so far."""

    parent: Scope | None = None
    opener: Any = None
    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def inner(self, opener: Any) -> Scope:
        """A new scope inside this one, without lines."""
        return Scope(self, opener, self.depth + 1)


def common(a: Scope, b: Scope) -> Scope:
    """The innermost scope around both."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


class Placement:
    """The scopes and uses of the expressions of one program."""

    def __init__(self, root: Any) -> None:
        self.root = Scope()
        self.home: dict[int, Scope] = {id(root): self.root}
        self.uses: dict[int, int] = {}
        self.inner: dict[tuple[int, int | None], Scope] = {}
        """The scopes that an expression opens, by its identity and their number."""
        self._statements = {id(root)}
        """Lets that stand in a sequence of a scope."""
        for expr in reversed(post_order(root)):
            self._place(expr)

    def is_statement(self, expr: Any) -> bool:
        """Whether a let is written as a line of its scope, not in braces."""
        return id(expr) in self._statements and self.uses.get(id(expr), 0) <= 1

    def scope_of(self, expr: Any, number: int | None) -> Scope:
        """The scope in which a part of an expression stands, by the number that `parts` gives it."""
        is_block = number is None and isinstance(expr, Let)
        return self.inner.get((id(expr), 0 if is_block else number), self.home[id(expr)])

    def _place(self, expr: Any) -> None:
        if id(expr) not in self.home:  # a leaf, which is written wherever it is used
            return
        here = self.home[id(expr)]
        is_let = isinstance(expr, Let)
        if is_let and not self.is_statement(expr):
            self.inner[id(expr), 0] = here.inner(expr)
        for child, number in parts(expr):
            if number is None and is_leaf(child) and not isinstance(child, Call):
                continue
            if number is not None:
                self.inner[id(expr), number] = here.inner(expr)
            scope = self.scope_of(expr, number)
            if number is not None or (is_let and child is expr.body):
                self._statements.add(id(child))
            key = id(child)
            self.uses[key] = self.uses.get(key, 0) + 1
            self.home[key] = common(self.home[key], scope) if key in self.home else scope
