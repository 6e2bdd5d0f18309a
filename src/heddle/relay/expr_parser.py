"""Expressions of Relay text.

The recursion of the grammar runs on `support.trampoline`, so a program may be nested as deeply as it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import GeneratorType
from typing import Any

import numpy as np

from heddle.graph.virtual_device import device_attribute
from heddle.ir.attrs import Attrs, attrs_of
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.node import Node
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type
from heddle.relay.codes import Q0202, Q0205, Q0207
from heddle.relay.lexer import is_type_name, is_word
from heddle.relay.nodes import (
    Clause,
    IncompleteType,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
)
from heddle.relay.op import PARAM_DEVICES, RESULT_DEVICE, default_attrs, find, op_names
from heddle.relay.type_parser import TypeParser
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import tensor
from heddle.support.diagnostics import did_you_mean
from heddle.support.span import Source, at
from heddle.support.trampoline import Recursion

_BINARY = {
    "*": (12, "multiply"),
    "/": (12, "divide"),
    "+": (10, "add"),
    "-": (10, "subtract"),
    "<": (8, "less"),
    "<=": (8, "less_equal"),
    ">": (8, "greater"),
    ">=": (8, "greater_equal"),
    "==": (7, "equal"),
    "!=": (7, "not_equal"),
}
_REFERENCES = {"ref": (RefCreate, 1), "ref_read": (RefRead, 1), "ref_write": (RefWrite, 2)}


class ExprParser(TypeParser):
    """Parses expressions. `constructors` are those that the text may name."""

    def __init__(self, source: Source, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(source, metadata)
        self.constructors: dict[str, Constructor] = {}
        self.scopes: list[dict[str, Var]] = [{}]
        self.graphs: list[dict[int, Expr]] = [{}]

    # ---- functions

    def _function(self, start: int) -> Recursion:
        """From the type parameters on."""
        self.type_vars.append({})
        type_params = self.type_params()
        self.expect("(")
        scope: dict[str, Var] = {}
        params: list[Var] = []
        devices: list[Any] = []
        attrs: dict[str, Any] = {}
        for _ in self.until(")"):
            if self.is_attribute():
                word, (key, value) = self.word, self.attribute()
                if key == word.text == "virtual_device":
                    key, value = RESULT_DEVICE, device_attribute(value)
                if key in attrs:
                    self.fail(Q0207, f"attribute {word.text} comes twice", word)
                attrs[key] = value
            else:
                params.append(self._parameter(scope, devices))
        ret = self._annotation("->")
        self.scopes.append(scope)
        body = yield self._block()
        self.scopes.pop()
        self.type_vars.pop()
        span = self.span_from(start)
        if any(each is not None for each in devices):
            attrs[PARAM_DEVICES] = tuple(devices)
        is_pure = True
        return Function(
            tuple(params), body, ret, is_pure, attrs_of(attrs), type_params, dialect="relay", span=span
        )

    def _parameter(self, scope: dict[str, Var], devices: list[Any] | None = None) -> Var:
        word = self.word
        made = self._local_definition(devices)
        if word.value in scope:
            self.fail(Q0207, f"parameter {word.text} comes twice", word)
        scope[word.value] = made
        return made

    def _local_definition(self, devices: list[Any] | None = None) -> Var:
        """A variable and its type; `devices` gets what stands in braces behind a parameter's name."""
        start = self.place
        name = self.expect_kind("local", "a variable, as in %x")
        span = self.span_from(start)
        if devices is not None:
            devices.append(self._device())
        return Var(name.value, self._annotation(":"), span=span, dialect="relay")

    def _device(self) -> Any:
        """`{virtual_device=...}`, if it comes."""
        if not self.accept("{"):
            return None
        word = self.word
        key, value = self.attribute()
        if key != "virtual_device":
            self.fail(Q0202, f"expected virtual_device, got {key}", word)
        self.expect("}")
        with at(self.lexer.span(word.start, word.end)):
            return device_attribute(value)

    def _annotation(self, mark: str) -> Type | None:
        """A type after a mark; None for `_` and where there is none: inference finds it."""
        ty = self.type() if self.accept(mark) else None
        return None if isinstance(ty, IncompleteType) else ty

    # ---- sequences

    def body(self) -> Recursion:
        """Bindings, then an expression."""
        self.scopes.append({})
        self.graphs.append({})
        lets: list[tuple[Var, Expr, int]] = []
        while True:
            start = self.place
            if self.is_name("let"):
                lets.append((yield self._let()))
            elif self.word.kind == "graph" and self.is_mark("=", 1):
                word = self.next()
                self.next()
                value = yield self.binary()
                self.expect(";")
                if word.value in self.graphs[-1]:
                    self.fail(Q0207, f"{word.text} is bound twice in one scope", word)
                self.graphs[-1][word.value] = value
            elif self.is_name("free_var"):
                self.next()
                word = self.word
                self.scopes[-1][str(word.value)] = self._local_definition()
                self.expect(";")
            else:
                result = yield self.binary()
                if not self.accept(";"):
                    break
                lets.append((Var("_", None, span=self.span_from(start), dialect="relay"), result, start))
        for var, value, start in reversed(lets):
            result = Let(var, value, result, span=self.span_from(start))
        self.scopes.pop()
        self.graphs.pop()
        return result

    def _block(self) -> Recursion:
        """A body in braces."""
        self.expect("{")
        body = yield self.body()
        self.expect("}")
        return body

    def _let(self) -> Recursion:
        start = self.place
        self.next()
        var = self._local_definition()
        self.expect("=")
        is_function = self.is_name("fn")
        if is_function:  # which may call itself
            self.scopes[-1][var.name_hint] = var
        value = yield self.binary()
        self.scopes[-1][var.name_hint] = var
        self.expect(";")
        return var, value, start

    # ---- expressions

    def binary(self) -> Recursion:
        """Operators by their precedence, all left associative."""
        starts = [self.place]
        operands = [(yield self.postfix())]
        marks: list[str] = []

        def reduce(least: int) -> None:
            while marks and _BINARY[marks[-1]][0] >= least:
                name = _BINARY[marks.pop()][1]
                rhs = operands.pop()
                starts.pop()
                span = self.span_from(starts[-1])
                operands[-1] = Call(
                    Op(name, span=span), (operands[-1], rhs), default_attrs(name, {}), span=span
                )

        while self.word.kind == "mark" and self.word.text in _BINARY:
            mark = self.word.text
            reduce(_BINARY[mark][0])
            self.next()
            marks.append(mark)
            starts.append(self.place)
            operands.append((yield self.postfix()))
        reduce(0)
        return operands[0]

    def postfix(self) -> Recursion:
        """An expression with the calls and projections behind it."""
        start = self.place
        found = yield self.atom()
        while True:
            if self.is_mark("(") or (self.is_mark("[") and not isinstance(found, Op)):
                found = yield self._call(found, start)
            elif self.is_mark(".") and self.peek().kind == "number":
                self.next()
                number = self.next()
                if number.value[1] != "int32" or number.value[0] < 0 or not number.text.isdigit():
                    self.fail(Q0202, f"expected the number of a field, got {number.text}", number)
                found = TupleGetItem(found, number.value[0], span=self.span_from(start))
            else:
                break
        if isinstance(found, Constructor) and not found.inputs:
            return Call(found, (), span=self.span_from(start))
        return found

    def atom(self) -> Recursion:
        """An expression that no operator, call or projection ends: a literal, a name, what stands in
        parentheses or braces, or what a keyword begins. Raises: ParseError Q02..."""
        start, word = self.place, self.word
        if word.kind == "number":
            value, dtype = self.next().value
            return self._constant(value, dtype, start)
        if word.kind == "local":
            return self._local()
        if word.kind == "graph":
            return self._graph_variable()
        if word.kind == "global":
            self.next()
            return GlobalVar(word.value, span=self.span_from(start))
        if self.accept("("):
            return (yield self._parenthesis(start))
        if self.is_mark("{"):
            return (yield self._block())
        if word.kind != "name":
            return self.fail(Q0202, f"expected an expression, got {word.text!r}")
        if word.text in _KEYWORDS:
            found = _KEYWORDS[word.text](self, start)
            return (yield found) if isinstance(found, GeneratorType) else found
        return self._named()

    def _constant(self, value: Any, dtype: str, start: int) -> Constant:
        data = tensor(np.asarray(value, DataType(dtype).numpy()), dtype=dtype)
        return Constant(data, span=self.span_from(start))

    def _truth(self, start: int) -> Constant:
        return self._constant(self.next().text == "True", "bool", start)

    def _local(self) -> Expr:
        word = self.next()
        for scope in reversed(self.scopes):
            if word.value in scope:
                return scope[word.value]
        known = [name for scope in self.scopes for name in scope]
        return self.fail(Q0205, f"no variable is called {word.text}", word, did_you_mean(word.value, known))  # type: ignore[no-any-return]

    def _graph_variable(self) -> Expr:
        word = self.next()
        for scope in reversed(self.graphs):
            if word.value in scope:
                return scope[word.value]
        return self.fail(Q0205, f"{word.text} is not bound before this place", word)  # type: ignore[no-any-return]

    def _parenthesis(self, start: int) -> Recursion:
        items = []
        for _ in self.until(")"):
            items.append((yield self.body()))
        return items[0] if self.is_one(items) else Tuple(tuple(items), span=self.span_from(start))

    def _named(self) -> Expr:
        """A constructor or an operator."""
        start = self.place
        word = self.next()
        name = word.text
        while self.is_mark(".") and self.peek().kind == "name":
            self.next()
            name += f".{self.next().text}"
        if name in self.constructors:
            return self.constructors[name]
        if find(name) is None:
            if word.text == name and (word.text in self.types or not is_type_name(name)):
                self.fail(Q0202, f"expected a value, got the type {name}", word)
            near = did_you_mean(name, [*_WORDS, *self.constructors, *op_names()])
            self.fail(Q0205, f"no operator or constructor is called {name!r}", word, near)
        return Op(name, span=self.span_from(start))

    # ---- calls

    def _call(self, callee: Expr, start: int) -> Recursion:
        """From the type arguments on, or from the arguments; a constructor without fields takes no others."""
        types = self.type_args()
        if types and isinstance(callee, Constructor) and not callee.inputs and not self.is_mark("("):
            return Call(callee, (), ty_args=types, span=self.span_from(start))
        self.expect("(")
        args: list[Any] = []
        given: dict[str, Any] = {}
        for _ in self.until(")"):
            if self.is_attribute():
                word, (key, value) = self.word, self.attribute()
                if key in given:
                    self.fail(Q0207, f"attribute {key} comes twice", word)
                given[key] = value
                if key == word.text == "attrs_type_key" and not isinstance(callee, Op):
                    del given[key]  # what TVM calls the class of the attributes
            else:
                args.append((yield self.body()))
        span = self.span_from(start)
        attrs = self._attrs(callee, args, given, span)
        return Call(callee, tuple(args), attrs, ty_args=types, span=span)

    def _attrs(self, callee: Expr, args: list[Any], given: dict[str, Any], span: Any) -> Attrs:
        """The attributes of a call: those written, or an object of metadata that comes last."""
        if args and isinstance(args[-1], Attrs):
            given = {**dict(args.pop().items()), **given}
        if isinstance(callee, Op):
            with at(span):
                return default_attrs(callee.name, given)
        return attrs_of(given)

    # ---- keywords

    def _fn(self, start: int) -> Recursion:
        self.next()
        return (yield self._function(start))

    def _if(self, start: int) -> Recursion:
        self.next()
        self.expect("(")
        cond = yield self.body()
        self.expect(")")
        true = yield self._block()
        self.expect_name("else")
        false = yield self._if(self.place) if self.is_name("if") else self._block()
        return If(cond, true, false, span=self.span_from(start))

    def _match(self, start: int) -> Recursion:
        self.next()
        complete = not self.accept("?")
        self.expect("(")
        data = yield self._parenthesis(self.place - 1)
        self.expect("{")
        clauses = []
        for _ in self.until("}"):
            first = self.place
            scope: dict[str, Var] = {}
            pattern = self.pattern(scope)
            self.expect("=>")
            self.scopes.append(scope)
            value = yield self.body()
            self.scopes.pop()
            clauses.append(Clause(pattern, value, span=self.span_from(first)))
        return Match(data, tuple(clauses), complete, span=self.span_from(start))

    def pattern(self, scope: dict[str, Var]) -> Pattern:
        """A pattern, whose variables go into `scope`. Raises: ParseError Q0202, Q0205, Q0207, Q0208."""
        return self.nested(lambda: self._pattern(scope))  # type: ignore[no-any-return]

    def _pattern(self, scope: dict[str, Var]) -> Pattern:
        start, word = self.place, self.word
        if word.kind == "local":
            return PatternVar(self._parameter(scope), span=self.span_from(start))
        if self.accept("("):
            items = self.listed(")", lambda: self.pattern(scope))
            return PatternTuple(tuple(items), span=self.span_from(start))
        name = self.expect_kind("name", "a pattern").text
        if name == "_":
            return PatternWildcard(span=self.span_from(start))
        if name not in self.constructors:
            near = did_you_mean(name, self.constructors)
            self.fail(Q0205, f"no constructor is called {name!r}", word, near)
        items = self.listed(")", lambda: self.pattern(scope)) if self.accept("(") else []
        return PatternConstructor(self.constructors[name], tuple(items), span=self.span_from(start))

    def _reference(self, start: int) -> Recursion:
        cls, count = _REFERENCES[self.next().text]
        self.expect("(")
        parts = []
        for index in range(count):
            parts.append((yield self.body()))
            if index + 1 < count:
                self.expect(",")
        self.accept(",")
        self.expect(")")
        return cls(*parts, span=self.span_from(start))

    def _meta(self, _start: int) -> Any:
        return self._node(Node, "an expression")


_KEYWORDS = {
    "True": ExprParser._truth,
    "False": ExprParser._truth,
    "fn": ExprParser._fn,
    "if": ExprParser._if,
    "match": ExprParser._match,
    "ref": ExprParser._reference,
    "ref_read": ExprParser._reference,
    "ref_write": ExprParser._reference,
    "meta": ExprParser._meta,
}
_WORDS = (*_KEYWORDS, "let", "free_var")
"""What may begin an expression, or what stands before one."""


def is_constructor_name(text: str) -> bool:
    """Whether a constructor may be called so: a name that means nothing else in expressions and patterns."""
    return is_word(text, "name") and text not in (*_WORDS, "_")
