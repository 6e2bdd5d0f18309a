"""Copies of expressions: with variables of their own, and with values in the place of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.ir.codes import I0501
from heddle.ir.expr import Call, Function, If, Tuple, Var
from heddle.ir.node import N, Node, children, map_children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.type_data import Constructor
from heddle.ir.variables import free_vars
from heddle.ir.visitor import post_order_visit, rebuild
from heddle.relay.builders import replace_vars, without_type
from heddle.relay.nodes import Clause, Let, Match, Pattern
from heddle.relay.placement import post_order
from heddle.relay.transform.rewriting import rewrite_nodes
from heddle.support.diagnostics import InternalError
from heddle.support.trampoline import Recursion

Lines = list[tuple[Var, Any]]
"""Lets without their bodies."""


def lets(lines: Lines, body: Any) -> Any:
    """The lets, in this order, around a body."""
    for var, value in reversed(lines):
        body = Let(var, value, body, span=getattr(value, "span", None))
    return body


def with_own_bindings(expr: Any) -> Any:
    """The expression with a new variable for each that it binds: a program binds a variable once."""
    outside = set(free_vars(expr))
    fresh: dict[Var, Var] = {}

    def note(node: Node) -> None:
        if isinstance(node, Var) and node not in outside and node not in fresh:
            fresh[node] = replace(node)

    post_order_visit(expr, note)
    if not fresh:
        return expr

    def change(old: Node, new: Any) -> Any:
        if isinstance(old, Var):
            return fresh.get(old, new)
        return without_type(new) if new is not old else new

    return rebuild(expr, change)


def map_parts(expr: N, change: Callable[[Any], Any]) -> N:
    """An expression with others directly below it, in its clauses and patterns too; the same object where
    all of them stay."""

    def inner(child: Any) -> Any:
        return map_children(child, inner) if isinstance(child, (Clause, Pattern)) else change(child)

    made = map_children(expr, inner)
    return made if made is expr else without_type(made)


def branched(
    expr: Any, subject: Any, scope: Callable[[Any], Recursion], pattern: Callable[[Any], Pattern]
) -> Recursion:
    """A branch or match on another value, with what `scope` and `pattern` make of its bodies and patterns."""
    if isinstance(expr, If):
        true = yield scope(expr.true_branch)
        return If(subject, true, (yield scope(expr.false_branch)), span=expr.span)
    clauses = []
    for clause in expr.clauses:
        lhs = pattern(clause.lhs)
        clauses.append(Clause(lhs, (yield scope(clause.rhs)), span=clause.span))
    return Match(subject, tuple(clauses), expr.complete, span=expr.span)


def applied(func: Function, args: Sequence[Any]) -> Any:
    """The body of a function with arguments in the place of its parameters, and bindings of its own."""
    own = with_own_bindings(func)
    return replace_vars(own.body, dict(zip(own.params, args, strict=True)))


def with_values(root: Any, values: Mapping[Var, Any]) -> Any:
    """An expression with values in the place of variables, in these values too; they must not lead to their
    own variables."""
    return _replaced(root, lambda node: values.get(node) if isinstance(node, Var) else None)


def calls_itself(let: Let) -> bool:
    """Whether a let is of a function that calls itself: no value can stand in the place of its variable."""
    return isinstance(let.value, Function) and any(node is let.var for node in post_order(let.value))


def with_nodes(root: N, made: Mapping[int, Any]) -> N:
    """A function or expression with others in the place of nodes, by the identity of these. What is put in
    may hold other nodes that are replaced."""
    found: N = _replaced(root, lambda node: made.get(id(node)))
    return found


def _replaced(root: Any, stand_in: Callable[[Any], Any]) -> Any:
    """The work grows with the number of distinct nodes."""
    done: dict[int, Any] = {}
    begun: set[int] = set()  # what is not done yet of these, the walk came by
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        other = stand_in(node)
        if not is_ready:
            if id(node) in begun:
                raise InternalError(I0501, f"{type(node).__name__} stands in its own place")
            begun.add(id(node))
            below = children(node) if other is None else [other]
            todo.append((node, True))
            todo += [(child, False) for child in below if id(child) not in done]
        elif other is not None:
            done[id(node)] = done[id(other)]
        else:
            found = map_children(node, lambda child: done[id(child)])
            done[id(node)] = without_type(found) if found is not node else node
    return done[id(root)]


def says_more(let: Let) -> bool:
    """Whether the type of a let's variable is not that of its value alone: sizes that it leaves open, or what
    a value without parts is one of."""
    value, ty = let.value, let.var.ty
    is_bare = ty is not None and _is_bare(value)
    return is_bare or (ty is not None and value.ty is not None and not structural_equal(value.ty, ty))


def _is_bare(value: Any) -> bool:
    """Whether nothing in a value tells of which type it is."""
    todo = [value]
    while todo:
        expr = todo.pop()
        if isinstance(expr, Call) and not expr.args and expr.ty_args:
            return True
        if isinstance(expr, Tuple) or (isinstance(expr, Call) and isinstance(expr.op, Constructor)):
            todo += expr.fields if isinstance(expr, Tuple) else expr.args
        elif isinstance(expr, If):
            todo += (expr.true_branch, expr.false_branch)
    return False


def without_lets(func: Function) -> Function:
    """The function with what lets bind in the places of their variables; lets of local recursion stay, and
    those whose types say more than values."""
    values: dict[Var, Any] = {}

    def change(old: Any, new: Any) -> Any:
        if not isinstance(new, Let) or calls_itself(old) or says_more(old):
            return new
        values[old.var] = new.value
        return new.body

    made = rewrite_nodes(func, change)
    return with_values(made, values) if values else func
