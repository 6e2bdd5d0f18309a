"""ScopeBuilder: lets and branches one after the other, as statements are written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from heddle.ir.expr import Expr, If, Var
from heddle.ir.types import Type
from heddle.relay.builders import as_expr
from heddle.relay.builders import var as new_var
from heddle.relay.codes import Q0101, Q0103
from heddle.relay.nodes import Let
from heddle.support.diagnostics import Trap, UsageError

_ORDER = "with sb.if_scope(cond): ..., and with sb.else_scope(): ... directly behind it"


@dataclass(slots=True)
class _Scope:
    """`cond` and `true` are those of an if whose second branch is still missing."""

    lets: list[tuple[Var, Expr]] = field(default_factory=list)
    result: Expr | None = None
    cond: Expr | None = None
    true: Expr | None = None


class WithScope:
    """A `with` block that gives a value, and calls a function without arguments as it ends."""

    def __init__(self, enter_value: Any, exit_cb: Callable[[], Any]) -> None:
        self._enter_value, self._exit_cb = enter_value, exit_cb

    def __enter__(self) -> Any:
        return self._enter_value

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """The function is not called where the block failed."""
        if error is None:
            self._exit_cb()


class ScopeBuilder:
    """
    sb = ScopeBuilder()
    y = sb.let("y", relay.add(x, x))
    with sb.if_scope(cond):
        sb.ret(y)
    with sb.else_scope():
        sb.ret(x)
    body = sb.get()

    Misuse raises Trap (a RuntimeError) Q0103.
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: Var | str | tuple[str, Type], value: Any) -> Var:
        """Bind a value: to a variable, or to a new one of this name, and type if it is given."""
        if not isinstance(var, (tuple, str, Var)):
            raise UsageError(Q0101, f"let takes a variable or a name, got {type(var).__name__}")
        made = var if isinstance(var, Var) else new_var(var) if isinstance(var, str) else new_var(*var)
        self._open("let")
        self._scopes[-1].lets.append((made, as_expr(value)))
        return made

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """The branch for a condition that holds."""
        scope = self._open("if_scope")
        result = yield from self._branch()
        scope.cond, scope.true = as_expr(cond), result

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The other branch; the if is what the scope around it gives."""
        scope = self._scopes[-1]
        if scope.cond is None or scope.true is None or scope.result is not None:
            raise Trap(Q0103, "else_scope needs an if_scope before it", help=_ORDER)
        result = yield from self._branch()
        scope.result = If(scope.cond, scope.true, result)
        scope.cond = scope.true = None

    def _branch(self) -> Generator[None, None, Expr]:
        self._scopes.append(_Scope())
        try:
            yield
        finally:
            inner = self._scopes.pop()
        return self._finished(inner)

    def ret(self, value: Any) -> None:
        """What the scope gives; once in each."""
        self._open("ret").result = as_expr(value)

    def get(self) -> Expr:
        """The expression. Only at the outermost scope."""
        if len(self._scopes) != 1:
            raise Trap(Q0103, "get is called inside a branch", help="call it behind the with blocks")
        return self._finished(self._scopes[0])

    def type_of(self, expr: Any) -> Type | None:
        """The type of an expression, where it has one already."""
        return getattr(expr, "ty", None)

    def _open(self, what: str) -> _Scope:
        scope = self._scopes[-1]
        if scope.result is not None:
            raise Trap(Q0103, f"{what} in a scope that has returned", help="ret comes last, once in a scope")
        if scope.cond is not None:
            raise Trap(Q0103, f"{what} between if_scope and else_scope", help=_ORDER)
        return scope

    @staticmethod
    def _finished(scope: _Scope) -> Expr:
        if scope.result is None:
            raise Trap(Q0103, "a scope ends without ret", help="say with ret(value) what it gives")
        result = scope.result
        for name, value in reversed(scope.lets):
            result = Let(name, value, result)
        return result
