"""When a program computes its shared expressions.

An expression that is used more than once is computed once for each time that the innermost scope around its
uses is entered, where the text of the program has it: a write that two branches share is done before the
branch is chosen. Machines have that order from A-normal form; the interpreter has it from here.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Expr, Function
from heddle.relay.nodes import Let
from heddle.relay.placement import Placement, Scope, is_leaf, parts, post_order, with_own_recursions


class Sharing:
    """The order of one program. Its tables name expressions by their identities."""

    def __init__(self, root: Any) -> None:
        self.root = with_own_recursions(root)
        """The program that is run."""
        self.before: dict[int, list[Expr]] = {}
        """What is computed before an expression enters its scopes, in order."""
        self.captured: dict[int, list[int]] = {}
        """What a function has from the scopes around it, beside variables."""
        placed = Placement(self.root)
        self.shared = {key for key, uses in placed.uses.items() if uses > 1}
        """What is used more than once."""
        if self.shared:
            self._fill(placed)

    def _fill(self, placed: Placement) -> None:
        exprs = post_order(self.root)
        scopes: dict[int, list[Scope]] = {key: [] for key in self.shared}
        for user in exprs:
            for child, number in parts(user):
                if id(child) in scopes and not is_leaf(child):
                    scopes[id(child)].append(placed.scope_of(user, number))
        for expr in exprs:
            for scope in scopes.get(id(expr), ()):
                self._use(expr, scope, placed.home[id(expr)])

    def _use(self, expr: Expr, scope: Scope, home: Scope) -> None:
        """Note a use in a scope. The lines of a let where a value is expected are those of the scope around
        it: it computes its parts in their turn."""
        outermost = None
        while scope is not home:
            assert scope.parent is not None
            if not isinstance(scope.opener, Let):
                outermost = scope.opener
            if isinstance(scope.opener, Function):
                self.captured.setdefault(id(scope.opener), []).append(id(expr))
            scope = scope.parent
        if outermost is not None:
            before = self.before.setdefault(id(outermost), [])
            if not before or before[-1] is not expr:
                before.append(expr)
