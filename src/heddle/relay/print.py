"""Relay programs as text, which `relay.parser` reads back to an equal structure.

Leaves and expressions that are used once, as a result, a bound value or a body, are written in place; other
arguments get a name of the graph, `%0 = ...;`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import GeneratorType
from typing import Any

from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Node
from heddle.ir.op import Op
from heddle.ir.op_def import REQUIRED
from heddle.ir.structural import structural_equal
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeData
from heddle.ir.types import FuncType, TupleType, Type, TypeVar
from heddle.ir.variables import free_vars
from heddle.ir.visitor import walk_distinct
from heddle.relay.functor import methods_by_class
from heddle.relay.nodes import (
    AnyDim,
    Clause,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
)
from heddle.relay.op import find
from heddle.relay.parser import VERSION
from heddle.relay.placement import Placement, Scope, is_leaf, with_own_recursions
from heddle.relay.text_values import CONSTANTS, TextValues
from heddle.relay.unify import instantiate
from heddle.support.trampoline import Recursion, run

Annotate = Callable[[Any], str]
MAX_INDENTED = 40
_OMITTED = "// metadata omitted; show_meta_data=True writes it"


class RelayPrinter(TextValues):
    """Writes the functions and expressions of one text. `annotate(expr)` is what follows an expression."""

    def __init__(self, annotate: Annotate | None = None) -> None:
        super().__init__()
        self.annotate = annotate or self._inferred
        self._graph: dict[int, str] = {}
        self._count = 0
        self._type_vars: dict[GlobalTypeVar, tuple[TypeVar, ...]] = {}
        self._constructors: set[str] = set()
        self._placed: Placement

    def _inferred(self, expr: Any) -> str:
        """The type that inference found, in a comment."""
        ty = getattr(expr, "ty", None)
        if ty is None or isinstance(expr, GlobalVar):
            return ""
        fault, place = self.fault, expr.span.place() if expr.span is not None else ""
        span = f" span={place}" if place and not re.search(r"/\*|\*/", place) else ""
        text = f" /* ty={self.type(ty)}{span} */"
        self.fault = fault  # comments are not read back
        return text

    # ---- programs

    def module(self, mod: IRModule) -> str:
        """Data types, then functions, each sorted by name. Loop functions have no text here and are
        left out."""
        self._type_names = frozenset(header.name_hint for header in mod.type_definitions)
        self._type_vars = {item.header: item.type_vars for item in mod.type_definitions.values()}
        parts = []
        for _, definition in sorted(mod.type_definitions.items(), key=lambda item: item[0].name_hint):
            parts.append(self.type_definition(definition))
            for item in definition.constructors:
                if item.name_hint in self._constructors:
                    self.refuse(f"two data types have a constructor {item.name_hint!r}", span=item.span)
                self._constructors.add(item.name_hint)
        for name, func in sorted(mod.functions.items(), key=lambda item: item[0].name_hint):
            if isinstance(func, Function):
                parts.append(self.definition(func, f"def {self.global_name(name)}"))
        return "\n\n".join(parts) + "\n"

    def definition(self, func: Function, head: str) -> str:
        """A function behind `head`, as in `def @main`; its free variables come first in its body."""
        func = with_own_recursions(func)
        self._placed = Placement(func)
        for var in self._defined:  # a node of several functions is written in each, with names of its own
            del self.names[var]
        self._graph, self._defined = {}, set()
        free = [self._free(var) for var in free_vars(func)]
        self._placed.inner[id(func), 0].lines += free
        return str(run(self._definition(func, head)))

    def expression(self, expr: Any) -> str:
        """An expression alone; its free variables come first."""
        expr = with_own_recursions(expr)
        self._placed = Placement(expr)
        scope = self._placed.root
        scope.lines += (
            [self._free(var) for var in free_vars(expr)] if not isinstance(expr, Constructor) else []
        )
        run(self.sequence(expr, scope))
        return "\n".join(scope.lines)

    def _free(self, var: Var) -> str:
        return f"free_var {self.define(var)}{self._annotation(var.ty)};"

    def _annotation(self, ty: Type | None) -> str:
        return "" if ty is None else f": {self.type(ty)}"

    # ---- sequences

    def sequence(self, expr: Any, scope: Scope, is_open: bool = False) -> Recursion:
        """Write an expression's lets and its result as lines of a scope. `is_open`: the braces of a let that
        stands where a value is expected are written around it."""
        while isinstance(expr, Let) and (is_open or self._placed.is_statement(expr)):
            name = self.define(expr.var) if isinstance(expr.value, Function) else ""  # which may name itself
            value = yield self.inline(expr.value)
            name = name or self.define(expr.var)
            scope.lines.append(f"let {name}{self._annotation(expr.var.ty)} = {value};")
            expr, is_open = expr.body, False
        scope.lines.append((yield self.inline(expr)))
        return None

    def _block(self, expr: Any, scope: Scope, is_open: bool = False) -> Recursion:
        """A sequence in braces."""
        yield self.sequence(expr, scope, is_open)
        space = _space(scope.depth)
        inside = "\n".join(scope.lines).replace("\n", f"\n{space}")
        return f"{{\n{space}{inside}\n}}"

    # ---- expressions

    def inline(self, expr: Any) -> Recursion:
        """An expression where it may be written in place."""
        if not is_leaf(expr) and self._placed.uses.get(id(expr), 0) > 1:
            return (yield self.name(expr))
        return (yield self.form(expr))

    def name(self, expr: Any) -> Recursion:
        """An expression as an argument: a leaf, or the name of the graph that stands for it."""
        if is_leaf(expr):
            return (yield self.form(expr))
        if id(expr) not in self._graph:
            text = yield self.form(expr)
            self._graph[id(expr)] = f"%{self._count}"
            self._count += 1
            self._placed.home[id(expr)].lines.append(f"{self._graph[id(expr)]} = {text};")
        return self._graph[id(expr)]

    def form(self, expr: Any) -> Recursion:
        """An expression written out; a reference to metadata for one that has no text."""
        method = _FORMS.get(type(expr))
        if method is None:
            return self.meta_ref(expr.node_kind, expr)
        text = method(self, expr)
        return (yield text) if isinstance(text, GeneratorType) else text

    def _var(self, expr: Var) -> str:
        return self.variable(expr)

    def _global_var(self, expr: GlobalVar) -> str:
        return self.global_name(expr)

    def _op(self, expr: Op) -> str:
        if expr.name in self._constructors:
            self.refuse(f"an operator and a constructor are called {expr.name!r}", span=expr.span)
        return expr.name

    def _constructor(self, expr: Constructor) -> str:
        return self.constructor_name(expr)

    def _constant(self, expr: Constant) -> str:
        return self.constant(expr) + self.annotate(expr)

    def _tuple(self, expr: Tuple) -> Recursion:
        items = []
        for item in expr.fields:
            items.append((yield self.name(item)))
        text = f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        return text + self.annotate(expr)

    def _tuple_getitem(self, expr: TupleGetItem) -> Recursion:
        value = yield self.name(expr.tuple_value)
        text = f"{value}.{expr.index}" if value.startswith("%") else f"({value}).{expr.index}"
        return text + self.annotate(expr)

    def _call(self, expr: Call) -> Recursion:
        callee = yield self.name(expr.op)
        items = []
        for arg in expr.args:
            items.append((yield self.name(arg)))
        items += self._attrs(expr)
        callee += self._type_args(expr)
        if isinstance(expr.op, Constructor) and not items:
            return callee + self.annotate(expr)
        return f"{callee}({', '.join(items)})" + self.annotate(expr)

    def _type_args(self, expr: Call) -> str:
        """The types that a generic callee is called with, `[int32]`, where the arguments do not say them:
        some have more sizes or others, none has its type yet, or none names a variable. The program around a
        constructor says what its fields do not."""
        if not expr.ty_args or isinstance(expr.op, Op):
            return ""
        generic, given = self._generic(expr.op), tuple(getattr(arg, "ty", None) for arg in expr.args)
        is_said = (
            generic is not None
            and structural_equal(instantiate(generic, expr.ty_args)[0], given)
            and (isinstance(expr.op, Constructor) or not self._unsaid(generic, expr.args))
        )
        return "" if is_said else f"[{', '.join(map(self.type, expr.ty_args))}]"

    def _generic(self, callee: Any) -> FuncType | None:
        """The type of a callee, if it is known."""
        if isinstance(callee, Constructor):
            variables = self._type_vars.get(callee.belong_to)
            return FuncType(callee.inputs, TupleType(()), True, variables) if variables is not None else None
        return callee.ty if isinstance(callee.ty, FuncType) else None

    def _unsaid(self, generic: FuncType, args: tuple[Any, ...], is_inner: bool = False) -> set[Any]:
        """The variables that no argument names. A value of a data type names nothing unless its own
        arguments say all of that type; in these, a constructor alone names nothing."""
        named: set[Any] = set()
        for param, arg in zip(generic.arg_types, args, strict=True):
            is_data = isinstance(arg, Call) and isinstance(arg.op, Constructor)
            own = self._generic(arg.op) if is_data and arg.args and not is_inner else None
            if not is_data or (arg.args and (own is None or not self._unsaid(own, arg.args, is_inner=True))):
                named.update(walk_distinct(param))
        return set(generic.type_params) - named

    def _attrs(self, expr: Call) -> list[str]:
        """Those that are not the operator's defaults."""
        found = find(expr.op.name) if isinstance(expr.op, Op) else None
        defaults = (
            {spec.name: spec.default for spec in found[1].attrs_of(found[0])} if found is not None else {}
        )
        return [
            self.attribute(key, value)
            for key, value in expr.attrs.items()
            if defaults.get(key, REQUIRED) is REQUIRED or not _same(value, defaults[key])
        ]

    def _if(self, expr: If) -> Recursion:
        inner = self._placed.inner
        cond = yield self.name(expr.cond)
        true = yield self._block(expr.true_branch, inner[id(expr), 0])
        false = yield self._block(expr.false_branch, inner[id(expr), 1])
        return f"if ({cond}) {true} else {false}" + self.annotate(expr)

    def _let(self, expr: Let) -> Recursion:
        """A let where a value is expected."""
        return (yield self._block(expr, self._placed.inner[id(expr), 0], is_open=True))

    def _function(self, expr: Function) -> Recursion:
        return (yield self._definition(expr, "fn "))

    def _definition(self, expr: Function, head: str) -> Recursion:
        is_inferred = expr.ty is not None
        params = [
            f"{self.define(param)}{self._annotation(param.ty)}{self.annotate(param) if is_inferred else ''}"
            for param in expr.params
        ]
        types = self.type_params(expr.type_params)
        attrs = [self.attribute(key, value) for key, value in expr.attrs.items()]
        returns = f" -> {self.type(expr.ret_ty)}" if expr.ret_ty is not None else ""
        body = yield self._block(expr.body, self._placed.inner[id(expr), 0])
        return f"{head}{types}({', '.join(params + attrs)}){returns} {body}" + self.annotate(expr)

    def _match(self, expr: Match) -> Recursion:
        data = yield self.name(expr.data)
        lines = [f"match{'' if expr.complete else '?'} ({data}) {{"]
        for place, clause in enumerate(expr.clauses):
            pattern = self.pattern(clause.lhs)
            body = yield self._block(clause.rhs, self._placed.inner[id(expr), place])
            space = _space(self._placed.home[id(expr)].depth)
            text = f"{pattern} => {body},".replace("\n", f"\n{space}")
            lines.append(f"{space}{text}")
        return "\n".join([*lines, "}"]) + self.annotate(expr)

    def pattern(self, pattern: Pattern) -> str:
        """A pattern; the variables that it binds get their names."""
        self.check_depth()
        if isinstance(pattern, PatternVar):
            with self.nested():
                return f"{self.define(pattern.var)}{self._annotation(pattern.var.ty)}"
        if isinstance(pattern, PatternConstructor):
            items = f"({self._patterns(pattern.patterns)})" if pattern.patterns else ""
            return f"{self.constructor_name(pattern.constructor)}{items}"
        if isinstance(pattern, PatternTuple):
            return f"({self._patterns(pattern.patterns)})"
        return "_"

    def _patterns(self, patterns: tuple[Pattern, ...]) -> str:
        with self.nested():
            return ", ".join([self.pattern(item) for item in patterns])

    def _reference(self, expr: Any) -> Recursion:
        word, fields = _REFERENCES[type(expr)]
        items = []
        for field in fields:
            items.append((yield self.name(getattr(expr, field))))
        return f"{word}({', '.join(items)})" + self.annotate(expr)

    _ref_create = _ref_read = _ref_write = _reference


_REFERENCES = {
    RefCreate: ("ref", ("value",)),
    RefRead: ("ref_read", ("ref",)),
    RefWrite: ("ref_write", ("ref", "value")),
}
_FORMS = methods_by_class(RelayPrinter)


def _same(value: Any, default: Any) -> bool:
    """Whether an attribute has its default; a list of one kind of values is one of another."""
    if isinstance(value, (tuple, list)) and isinstance(default, (tuple, list)):
        return tuple(value) == tuple(default)
    return type(value) is type(default) and bool(value == default)


def _space(depth: int) -> str:
    """What a line is indented by against the scope around it: nothing where the nesting is deep, so that the
    text does not grow with its square."""
    return "  " if depth <= MAX_INDENTED else ""


def pattern_text(pattern: Pattern) -> str:
    """A pattern as messages show it."""
    return RelayPrinter().pattern(pattern)


_WRITERS: tuple[tuple[type, Callable[[RelayPrinter, Any], str]], ...] = (
    (IRModule, RelayPrinter.module),
    (TypeData, RelayPrinter.type_definition),
    (Type, RelayPrinter.type),
    (AnyDim, RelayPrinter.dim),
    (Pattern, RelayPrinter.pattern),
    (Clause, lambda printer, node: f"{pattern_text(node.lhs)} => {{ {printer.expression(node.rhs)} }}"),
    (Expr, RelayPrinter.expression),
)


def relay_script(
    node: Node,
    version: bool = False,
    show_meta: bool = False,
    annotate: Annotate | None = None,
    constants: list[Any] | None = None,
    **_options: Any,
) -> str | None:
    """The text of a node of Relay programs; None for one that has none. With `version`, as a file has it;
    with `constants`, a function of a script, whose tensors come after those there.
    """
    printer = RelayPrinter(annotate)
    if constants is not None:
        printer.meta[CONSTANTS] = [*constants]
    write = next((write for kind, write in _WRITERS if isinstance(node, kind)), None)
    if write is None:
        return None
    text = write(printer, node)
    if constants is not None:
        constants += [constant.data for constant in printer.meta.pop(CONSTANTS)[len(constants) :]]
    if not version:
        return text
    if printer.fault is not None:
        raise printer.fault
    text = f'#[version = "{VERSION}"]\n{text.rstrip()}\n'
    if printer.meta:
        text += f"\n#[metadata]\n{printer.metadata_text()}\n" if show_meta else f"\n{_OMITTED}\n"
    return text
