"""Statements of a source, and what flows through them: which locals have values, and whether the end is
reached."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from heddle.systems import nodes as t
from heddle.systems.calls import CallReader
from heddle.systems.codes import Y0101, Y0202, Y0206, Y0302
from heddle.systems.scope import Scope
from heddle.systems.types import SCALARS, BoolType, FunctionType, TupleType, Type
from heddle.systems.words import Linkage, NativeFunction

_NOTHING = TupleType(())


class StatementReader(CallReader):
    """Reads the body of one function."""

    def __init__(
        self,
        scope: Scope,
        params: Sequence[tuple[str, Type]],
        result: Type | None,
        signatures: Callable[[NativeFunction], FunctionType],
        is_inline: bool = False,
    ) -> None:
        super().__init__(scope, dict(params))
        self.may_run_again = is_inline
        self.result = result
        self.signatures = signatures
        self._breaks: list[list[set[str]]] = []

    def body(self, func: ast.FunctionDef) -> tuple[t.Stmt, ...]:
        """The statements of a function. Raises: VerifyError with a Y code."""
        statements = [node for node in func.body if not _is_text(node)]
        read, ends = self.block(statements)
        if not ends and self.result is not None:
            self.refuse(Y0302, f"{func.name} may end without a result", func.body[-1])
        return read

    def block(self, statements: Sequence[ast.stmt]) -> tuple[tuple[t.Stmt, ...], bool]:
        """The statements, and whether control never comes out behind them."""
        read: list[t.Stmt] = []
        left = False
        for node in statements:
            if left:
                self.refuse(Y0302, "nothing ever comes here", node)
            statement, left = self.statement(node)
            if statement is not None:
                read.append(statement)
        return tuple(read), left

    def statement(self, node: ast.stmt) -> tuple[t.Stmt | None, bool]:
        """A statement, None for `pass`, and whether control never comes out behind it. Raises: VerifyError
        with a Y code."""
        if isinstance(node, ast.Pass):
            return None, False
        if isinstance(node, ast.Return):
            return self._return(node), True
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.While):
            return self._while(node)
        if isinstance(node, (ast.Break, ast.Continue)):
            return self._leave(node), True
        if isinstance(node, ast.Expr):
            return t.Evaluate(line=node.lineno, value=self._evaluated(node.value)), False
        if isinstance(node, ast.AnnAssign):
            return self._declare(node), False
        if isinstance(node, ast.AugAssign):
            return self._update(node), False
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self._assign(node.targets[0], node.value, node), False
        self.refuse(Y0101, f"{type(node).__name__} is not part of the systems language", node)

    def _evaluated(self, node: ast.expr) -> t.Expr:
        if not isinstance(node, ast.Call):
            self.refuse(Y0101, "the value is not used", node)
        return self.value(node)

    def _return(self, node: ast.Return) -> t.Stmt:
        if node.value is None or self.result is None:
            if node.value is not None or self.result is not None:
                self.refuse(Y0202, f"expected {self.result!r}, got {ast.unparse(node)}", node)
            return t.Return(line=node.lineno, value=None)
        return t.Return(line=node.lineno, value=self.value(node.value, self.result))

    # ---- assignments

    def _declare(self, node: ast.AnnAssign) -> t.Stmt:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.refuse(Y0101, "a declaration names a local and its value", node)
        kind = self.scope.type(node.annotation)
        if not isinstance(kind, (*SCALARS, BoolType)):
            help = "local(type) gives its address"
            self.refuse(Y0206, f"{kind!r} cannot be the value of a local", node.annotation, help)
        return self._set(node.target, self.value(node.value, kind), node)

    def _assign(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> t.Stmt:
        if isinstance(target, ast.Name):
            return self._set(target, self.value(value, self.types.get(target.id)), node)
        if isinstance(target, ast.Tuple):
            return self._unpack(target, value, node)
        pointer, kind = self.place(target)
        if not isinstance(kind, SCALARS):
            self.refuse(
                Y0202, f"{kind!r} is not assigned as a whole", target, "copy(to, source) copies memory"
            )
        return t.Store(line=node.lineno, pointer=pointer, value=self.value(value, kind))

    def _update(self, node: ast.AugAssign) -> t.Stmt:
        if isinstance(node.target, ast.Name):
            operation = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
            return self._set(node.target, self.value(operation), node)
        pointer, kind = self.place(node.target)
        op = self.operator(node.op, kind, node)
        return t.Update(line=node.lineno, pointer=pointer, op=op, value=self.value(node.value, kind))

    def _set(self, target: ast.Name, value: t.Expr, node: ast.stmt) -> t.Stmt:
        if value.type == _NOTHING or isinstance(value.type, TupleType):
            self.refuse(Y0202, "expected one value", node)
        self._take(target, value.type, node)
        return t.Assign(line=node.lineno, name=target.id, value=value)

    def _take(self, target: ast.Name, kind: Type, node: ast.AST) -> None:
        """A local gets a value of a type. It has no name of the module: constants are looked up there."""
        if target.id not in self.types and self.scope.find(target) is not None:
            self.refuse(Y0101, f"{target.id!r} is a name of the module: a local needs another", target)
        known = self.types.setdefault(target.id, kind)
        if known != kind:
            self.refuse(Y0202, f"{target.id!r} is {known!r}, got {kind!r}", node)
        self.assigned.add(target.id)

    def _unpack(self, target: ast.Tuple, value: ast.expr, node: ast.stmt) -> t.Stmt:
        read = self.value(value)
        names = [item for item in target.elts if isinstance(item, ast.Name)]
        kinds = read.type.elements if isinstance(read.type, TupleType) else ()
        if not kinds or len(kinds) != len(target.elts) or len(names) != len(kinds):
            self.refuse(Y0202, f"{read.type!r} cannot be unpacked into {ast.unparse(target)}", node)
        for name, kind in zip(names, kinds, strict=True):
            self._take(name, kind, name)
        return t.Unpack(line=node.lineno, names=tuple(name.id for name in names), value=read)

    # ---- control flow

    def _if(self, node: ast.If) -> tuple[t.Stmt, bool]:
        test = self.condition(node.test)
        before = set(self.assigned)
        then, then_left = self.block(node.body)
        after_then = self.assigned
        self.assigned = before
        other, other_left = self.block(node.orelse)
        if then_left or other_left:
            self.assigned = self.assigned if then_left else after_then
        else:
            self.assigned = after_then & self.assigned
        return t.If(line=node.lineno, test=test, then=then, other=other), then_left and other_left

    def _while(self, node: ast.While) -> tuple[t.Stmt, bool]:
        if node.orelse:
            self.refuse(Y0101, "a loop has no else", node.orelse[0])
        around, self.may_run_again = self.may_run_again, True
        test = self.condition(node.test)
        before = set(self.assigned)
        self._breaks.append([])
        body, _ = self.block(node.body)
        ways = self._breaks.pop()
        self.may_run_again = around
        is_endless = isinstance(test, t.Const) and test.value == 1
        if not is_endless:
            ways.append(before)
        self.assigned = set.intersection(*ways) if ways else before
        assigned = frozenset(_assigned(body))
        return t.While(line=node.lineno, test=test, body=body, assigned=assigned), not ways

    def _leave(self, node: ast.Break | ast.Continue) -> t.Stmt:
        if isinstance(node, ast.Continue):
            return t.Continue(line=node.lineno)
        self._breaks[-1].append(set(self.assigned))
        return t.Break(line=node.lineno)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _assigned(body: Sequence[t.Stmt]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, t.Assign):
            names.add(statement.name)
        elif isinstance(statement, t.Unpack):
            names.update(statement.names)
        elif isinstance(statement, t.If):
            names |= _assigned(statement.then) | _assigned(statement.other)
        elif isinstance(statement, t.While):
            names |= statement.assigned
    return names


def is_declared_only(declared: NativeFunction) -> bool:
    """Whether a function has no body: it is external, or one instruction of LLVM IR."""
    return declared.linkage in (Linkage.EXTERNAL, Linkage.IR)
