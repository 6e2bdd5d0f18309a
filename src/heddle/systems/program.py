"""A program of the systems language: the functions of some source modules, and all that they use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from heddle.support.diagnostics import Diagnostic, VerifyError
from heddle.support.span import places_text
from heddle.systems import nodes as t
from heddle.systems.codes import Y0101, Y0205, Y0206, Y0207, Y0303
from heddle.systems.scope import Scope, symbol_of
from heddle.systems.statements import StatementReader, is_declared_only
from heddle.systems.types import FunctionType, TupleType, Type
from heddle.systems.words import Global, NativeFunction, Text


class Program:
    """`functions` maps names to trees: those of the modules and those that they call, in order of the text.
    `globals` and `texts` are the modules' memory."""

    def __init__(self, scopes: dict[str, Scope]) -> None:
        self._scopes = scopes
        self.functions: dict[str, t.FunctionTree] = {}
        self.globals: dict[str, Global] = {}
        self.texts: dict[str, Text] = {}
        self._owners: dict[str, NativeFunction | Global | Text] = {}
        self._signatures: dict[NativeFunction, FunctionTreeHead] = {}
        self._callees: dict[str, set[NativeFunction]] = {}

    def head(self, declared: NativeFunction) -> FunctionTreeHead:
        """The parameters and the result of a declared function."""
        if declared not in self._signatures:
            scope = self.scope(declared.module)
            self._signatures[declared] = _head(scope, scope.functions[declared.name])
        return self._signatures[declared]

    def scope(self, module: str) -> Scope:
        """The scope of an imported module, read when it is first asked for."""
        if module not in self._scopes:
            self._scopes[module] = Scope(sys.modules[module])
        return self._scopes[module]

    def signature(self, declared: NativeFunction) -> FunctionType:
        """The type of a declared function's address."""
        head = self.head(declared)
        return FunctionType(tuple(kind for _, kind in head.params), head.result)

    def add_module(self, module: ModuleType) -> Iterator[Diagnostic]:
        """Read a module; gives what is wrong in it."""
        scope = self.scope(module.__name__)
        for value in vars(module).values():
            if isinstance(value, (Global, Text)) and value.module == module.__name__:
                yield from self._add_memory(value)
        for name, node in scope.functions.items():
            declared = vars(module)[name]
            if declared.module == module.__name__:
                yield from self._add(declared, node, scope, is_used=not is_declared_only(declared))

    def _add_memory(self, declared: Global | Text) -> Iterator[Diagnostic]:
        name = symbol_of(declared)
        yield from self._claim(name, declared)
        table: dict[str, Global] | dict[str, Text]
        table = self.globals if isinstance(declared, Global) else self.texts
        table.setdefault(name, declared)  # type: ignore[arg-type]

    def _claim(self, name: str, declared: NativeFunction | Global | Text) -> Iterator[Diagnostic]:
        """Functions, globals and texts share the names of one text: what has one first keeps it."""
        owner = self._owners.setdefault(name, declared)
        if owner is not declared:
            first = places_text(self.scope(owner.module).place_of(name)) or owner.module
            place = self.scope(declared.module).place_of(name)
            yield Diagnostic(Y0207, f"{name} is declared by {first}, too", place)

    def _add(
        self, declared: NativeFunction, node: ast.FunctionDef, scope: Scope, *, is_used: bool = True
    ) -> Iterator[Diagnostic]:
        """Read a function and all that it uses. One that is only declared, and not used, stays out."""
        if declared.name in self.functions:
            yield from self._claim(declared.name, declared)
            return
        try:
            tree, reader = self._read(declared, scope, node)
        except VerifyError as error:
            yield from error.diagnostics
            return
        if not is_used:
            return
        yield from self._claim(declared.name, declared)
        self.functions[declared.name] = tree
        self._callees[declared.name] = reader.callees
        for memory in reader.memory:
            yield from self._add_memory(memory)
        for callee in sorted(reader.callees, key=lambda item: item.name):
            home = self.scope(callee.module)
            yield from self._add(callee, home.functions[callee.name], home)

    def _read(
        self, declared: NativeFunction, scope: Scope, node: ast.FunctionDef
    ) -> tuple[t.FunctionTree, StatementReader]:
        head = self.head(declared)
        reader = StatementReader(scope, head.params, head.result, self.signature, declared.is_inline)
        body: tuple[t.Stmt, ...] = ()
        if is_declared_only(declared):
            _check_no_body(scope, node)
        else:
            body = reader.body(node)
        tree = t.FunctionTree(
            declared=declared,
            params=head.params,
            result=head.result,
            body=body,
            file=scope.source.name,
            line=node.lineno,
            doc=ast.get_docstring(node) or "",
        )
        return tree, reader

    def check_inlining(self) -> Iterator[Diagnostic]:
        """Functions that would be put into themselves."""
        for tree in self.functions.values():
            if tree.declared.is_inline and tree.declared in self._inlined_into(tree.name, set()):
                scope = self.scope(tree.declared.module)
                span = scope.span(scope.functions[tree.name])
                yield Diagnostic(Y0303, f"{tree.name} is inline and calls itself", span)

    def _inlined_into(self, name: str, found: set[NativeFunction]) -> set[NativeFunction]:
        for callee in self._callees.get(name, ()):
            if callee.is_inline and callee not in found:
                found.add(callee)
                self._inlined_into(callee.name, found)
        return found


class FunctionTreeHead:
    __slots__ = ("params", "result")

    def __init__(self, params: tuple[tuple[str, Type], ...], result: Type | None) -> None:
        self.params = params
        self.result = result


def _head(scope: Scope, node: ast.FunctionDef) -> FunctionTreeHead:
    given = node.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults:
        scope.refuse(Y0101, "parameters have names and types, no more", node)
    params = []
    for arg in given.args:
        if arg.annotation is None:
            scope.refuse(Y0206, f"parameter {arg.arg!r} has no type", arg)
        if scope.find(ast.Name(arg.arg)) is not None:
            scope.refuse(Y0101, f"{arg.arg!r} is a name of the module: a parameter needs another", arg)
        params.append((arg.arg, scope.type(arg.annotation)))
    if node.returns is None:
        scope.refuse(
            Y0206, f"{node.name} does not say what it gives", node, "write -> None if it gives nothing"
        )
    elements = scope.tuple_types(node.returns)
    if elements is not None:
        return FunctionTreeHead(tuple(params), TupleType(elements))
    is_none = isinstance(node.returns, ast.Constant) and node.returns.value is None
    return FunctionTreeHead(tuple(params), None if is_none else scope.type(node.returns))


def _check_no_body(scope: Scope, node: ast.FunctionDef) -> None:
    for statement in node.body:
        is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_constant:
            scope.refuse(Y0205, f"{node.name} is declared only: its body is ...", statement)


def read_program(modules: Sequence[ModuleType]) -> Program:
    """Read source modules, in this order. They were imported before; their functions are never run.

    Raises: VerifyError with every finding; codes Y0101 to Y0304.
    """
    program = Program({})
    found = list(dict.fromkeys(d for module in modules for d in program.add_module(module)))
    found += [] if found else program.check_inlining()
    if found:
        raise VerifyError(found)
    return program
