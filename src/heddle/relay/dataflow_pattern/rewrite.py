"""What is done with matches: rewritten by callbacks, or made functions of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, Function, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.pass_options import fits
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import rebuild
from heddle.relay.builders import without_type
from heddle.relay.codes import Q0101, Q0405
from heddle.relay.dataflow_pattern import patterns as p
from heddle.relay.dataflow_pattern.matcher import Matcher, inner, with_types
from heddle.relay.placement import operands, parts, post_order
from heddle.relay.transform.copying import with_nodes
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen

_ROUNDS = 100
PARTITIONED = "PartitionedFromPattern"
"""The attribute of a function that was made of a match: the operators in it."""


class DFPatternCallback:
    """What a match becomes. Subclasses set `pattern` and override `callback`."""

    pattern: p.DFPattern
    require_type = rewrite_once = False

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type, self.rewrite_once = require_type, rewrite_once

    def rewrite(self, expr: Any) -> Any:
        """An expression with all matches rewritten. Raises: as the function `rewrite`."""
        return rewrite(self, expr)

    def callback(self, pre: Any, post: Any, node_map: Mapping[p.DFPattern, Sequence[Any]]) -> Any:
        """What stands for a match: `pre` is the matched expression, `post` the same with its operands
        rewritten, `node_map` what each pattern fits, rewritten."""
        raise NotImplementedError("override callback")


@frozen
class _Match:
    root: Any
    matcher: Matcher
    inside: frozenset[int]
    """The identities of what the match is made of, its inputs apart."""


def find_matches(
    pattern: p.DFPattern, expr: Any, check: Callable[[Any], bool] = lambda expr: True
) -> list[_Match]:
    """The matches in an expression, the last in the order of operands first: none overlaps another, and
    nothing outside uses what is inside of one, its root apart."""
    order = post_order(expr)
    users: dict[int, set[int]] = {}
    for node in order:
        for child, _ in parts(node):
            users.setdefault(id(child), set()).add(id(node))
    taken: set[int] = set()
    found: list[_Match] = []
    leaves = _leaves(pattern)
    for node in reversed(order):
        if id(node) in taken or isinstance(node, Op):
            continue
        matcher = Matcher()
        if not matcher.fits(pattern, node):
            continue
        inside = _inside(matcher, node, leaves)
        is_closed = all(users.get(each, set()) <= inside for each in inside - {id(node)})
        if is_closed and not inside & taken and check(node):
            taken |= inside
            found.append(_Match(node, matcher, frozenset(inside)))
    return found


def _leaves(pattern: p.DFPattern) -> set[p.DFPattern]:
    """Patterns whose matches are inputs: wildcards and variables, with what is asked of them."""
    wrappers = (p.TypePattern, p.ShapePattern, p.DataTypePattern, p.AttrPattern)

    def is_leaf(each: Any) -> bool:
        while isinstance(each, wrappers):
            each = each.pattern
        if isinstance(each, p.AltPattern):
            return is_leaf(each.left) and is_leaf(each.right)
        is_free = isinstance(each, p.WildcardPattern) and each.pattern is None
        return is_free or isinstance(each, p.VarPattern)

    found = {each for each in inner(pattern) if is_leaf(each)}
    paths = {each.path for each in inner(pattern) if isinstance(each, p.DominatorPattern)}
    return found - paths


def _inside(matcher: Matcher, root: Any, leaves: set[p.DFPattern]) -> set[int]:
    solid = [
        expr
        for pattern, exprs in matcher.found.items()
        if pattern not in leaves and not isinstance(pattern, p.AltPattern)
        for expr in exprs
        if not isinstance(expr, (Op, Var))
    ]
    constants = {id(expr) for expr in solid if isinstance(expr, Constant)}
    return {id(root), *map(id, solid)} - constants  # which belong to no match: each that uses one may have it


def rewrite(callbacks: Any, expr: Any, mod: IRModule | None = None) -> Any:
    """An expression rewritten by callbacks, one after the other, until none changes it.

    A callback with `rewrite_once` runs once. Types are inferred where a callback or its pattern asks.
    Raises: UsageError Q0101 for a callback without a pattern or that gives no expression, Q0405 where 100
    rounds are not enough; IRTypeError where types do not fit.
    """
    given = [callbacks] if isinstance(callbacks, DFPatternCallback) else callbacks
    if not isinstance(given, Sequence) or not fits(given, list[DFPatternCallback]):
        raise UsageError(Q0101, f"expected callbacks, got {type(callbacks).__name__}")
    for each in given:
        if not isinstance(getattr(each, "pattern", None), p.DFPattern):
            raise UsageError(Q0101, f"{type(each).__name__} has no pattern", help="set self.pattern to one")
    wants_types = any(each.require_type for each in given)
    for number in range(_ROUNDS):
        before = expr
        for each in given:
            if each.rewrite_once and number:
                continue
            typed = infer_expr(expr, mod) if wants_types else with_types(each.pattern, expr)
            made = _rewritten(each, typed)
            expr = expr if made is typed else made
        if expr is before or structural_equal(expr, before) or all(each.rewrite_once for each in given):
            return infer_expr(expr, mod) if wants_types else expr
    raise UsageError(Q0405, f"the callbacks still change the expression after {_ROUNDS} rounds")


def _rewritten(each: DFPatternCallback, expr: Any) -> Any:
    matches = {id(found.root): found for found in find_matches(each.pattern, expr)}
    if not matches:
        return expr
    made: dict[int, Any] = {}

    def change(old: Any, new: Any) -> Any:
        new = without_type(new) if new is not old and not each.require_type else new
        found = matches.get(id(old))
        if found is not None:
            node_map = {
                pattern: [new if expr is old else made.get(id(expr), expr) for expr in exprs]
                for pattern, exprs in found.matcher.found.items()
            }
            new = each.callback(old, new, node_map)
            if not isinstance(new, Expr):
                what = f"callback of {type(each).__name__} gives {type(new).__name__}, expected an expression"
                raise UsageError(Q0101, what, help="give `post` where nothing changes", span=old.span)
        made[id(old)] = new
        return new

    return rebuild(expr, change)


def partition(
    pattern: p.DFPattern,
    expr: Any,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Any], bool] = lambda expr: True,
) -> Any:
    """An expression with a call of a function in the place of each match for which `check(root)` is true.

    The function has the attributes `attrs`, and `PartitionedFromPattern`: its operators, joined by `_`. What
    the match takes from outside are its parameters, in the order of visits; constants that the pattern names
    stay inside.
    """
    expr = with_types(pattern, expr)
    matches = find_matches(pattern, expr, check)
    numbered = enumerate(reversed(matches))
    made = {id(found.root): _as_call(found, number, attrs or {}) for number, found in numbered}
    return with_nodes(expr, made) if made else expr


def _as_call(found: _Match, number: int, attrs: Mapping[str, Any]) -> Call:
    kept = {
        id(expr)
        for pattern, exprs in found.matcher.found.items()
        if isinstance(pattern, (p.ConstantPattern, p.ExprPattern))
        for expr in exprs
        if isinstance(expr, Constant)
    }
    params: dict[int, tuple[Var, Any]] = {}
    names: list[str] = []
    body: dict[int, Any] = {}
    for node in _visited(found):
        if id(node) in found.inside:
            if isinstance(node, Call) and isinstance(node.op, Op):
                names.append(node.op.name)
        elif id(node) not in kept and not isinstance(node, Op):
            var = Var(f"FunctionVar_{number}_{len(params)}", getattr(node, "ty", None), dialect="relay")
            params[id(node)] = var, node
            body[id(node)] = var
    result = with_nodes(found.root, body)
    own = {PARTITIONED: "_".join(names) + "_", **attrs}
    func = Function(tuple(var for var, _ in params.values()), result, attrs=attrs_of(own), dialect="relay")
    return Call(func, tuple(node for _, node in params.values()), span=found.root.span)


def _visited(found: _Match) -> list[Any]:
    """What a match is made of and what it takes, operands first."""
    return post_order(found.root, lambda node: operands(node) if id(node) in found.inside else ())


p.USES.add("partition", partition)
