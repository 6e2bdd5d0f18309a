"""Relay programs from text; `relay.print` writes what this reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.ir.expr import Expr
from heddle.ir.module import IRModule
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeData
from heddle.relay.codes import Q0202, Q0203, Q0207
from heddle.relay.expr_parser import ExprParser, is_constructor_name
from heddle.relay.lexer import Word
from heddle.support.diagnostics import did_you_mean
from heddle.support.span import Source, at
from heddle.support.trampoline import Recursion, run

VERSION = "0.0.5"
_HELP = "parse_expr reads a single expression"


class RelayParser(ExprParser):
    """Parses one text."""

    def __init__(
        self, source: Source, mod: IRModule | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(source, metadata)
        self.mod = mod.clone() if mod is not None else IRModule()
        for definition in self.mod.type_definitions.values():
            self._add_type(definition)

    # ---- programs

    def module(self) -> IRModule:
        """The definitions of a text, types first: they may be used before they are defined."""
        self.version(required=True)
        functions: list[int] = []
        self._headers()
        while self.word.kind != "end":
            if self.is_name("def"):
                functions.append(self.place)
                self._skip_function()
            elif self.is_name("type") or self.is_name("extern"):
                self._type_definition()
            else:
                near = did_you_mean(self.word.text, ("def", "type", "extern")) or _HELP
                self.fail(Q0202, f"expected def, type or extern, got {self.word.text!r}", help=near)
        seen: set[str] = set()
        for place in functions:
            self.place = place
            word = self.peek()
            name, func = run(self._definition())
            if name in seen:
                self.fail(Q0207, f"function @{name} is defined twice", word)
            seen.add(name)
            self.mod[name] = func
        return self.mod

    def expression(self) -> Expr:
        """A text that is one expression."""
        self.version(required=False)
        found: Expr = run(self.body())
        if self.word.kind != "end":
            self.fail(Q0202, f"expected the end of the text, got {self.word.text!r}")
        return found

    def version(self, required: bool) -> None:
        """Take `#[version = ...]`. Raises: ParseError Q0203 for another version, or none where one is
        required."""
        word = self.word
        if word.kind == "section" and word.text.startswith("#[version"):
            if word.text.replace(" ", "") != f'#[version="{VERSION}"]':
                self.fail(Q0203, f"expected version {VERSION}, got {word.text}")
            self.next()
        elif required:
            self.fail(Q0203, "the text has no version", help=f'it begins with #[version = "{VERSION}"]')

    def _headers(self) -> None:
        """Take down the names of all data types, so that a definition may name a later one."""
        for index, word in enumerate(self.words):
            if word.kind == "name" and word.text == "type" and self._is_definition(index):
                name = self.words[index + 1]
                if name.text in self.types:
                    self.fail(Q0207, f"type {name.text} is defined twice", name)
                self.types[name.text] = TypeData(GlobalTypeVar(name.text, span=None), (), (), span=None)

    def _is_definition(self, index: int) -> bool:
        return self.words[index + 1].kind == "name" and (index == 0 or self.words[index - 1].text != "=")

    def _add_type(self, definition: TypeData, word: Word | None = None) -> None:
        self.types[definition.header.name_hint] = definition
        for item in definition.constructors:
            known = self.constructors.get(item.name_hint)
            if known is not None and known.belong_to != item.belong_to:
                self.fail(
                    Q0207,
                    f"constructor {item.name_hint} belongs to {known.belong_to.name_hint} already",
                    word,
                )
            self.constructors[item.name_hint] = item

    def _type_definition(self) -> None:
        """A data type; an external one has no constructors."""
        start = self.place
        is_external = self.next().text == "extern"
        if is_external:
            self.expect_name("type")
        name = self.expect_type_name("a type's name")
        header = GlobalTypeVar(name.text, span=self.lexer.span(name.start, name.end))
        self.type_vars.append({})
        params = self.type_params()
        if is_external and self.is_mark("{"):
            self.fail(Q0202, f"the external type {name.text} cannot have constructors")
        constructors = []
        if not is_external:
            self.expect("{")
            constructors = self.listed("}", lambda: self._constructor(header))
        self.type_vars.pop()
        with at(self.span_from(start)):
            definition = TypeData(header, params, tuple(constructors))
        self._add_type(definition, name)
        self.mod[header] = definition

    def _constructor(self, header: GlobalTypeVar) -> Constructor:
        start = self.place
        word = self.expect_kind("name", "a constructor")
        name = word.text
        if not is_constructor_name(name):
            self.fail(Q0202, f"expected a constructor, got {name!r}", word, "that word is a keyword")
        inputs = self.listed(")", self.type) if self.accept("(") else []
        return Constructor(name, tuple(inputs), header, span=self.span_from(start))

    def _skip_function(self) -> None:
        """Parameters, which may have braces in attributes, then the body."""
        for opening, closing in (("(", ")"), ("{", "}")):
            while not self.is_mark(opening) and self.word.kind != "end":
                self.next()
            depth = 0
            while self.word.kind != "end":
                depth += self.is_mark(opening) - self.is_mark(closing)
                self.next()
                if depth == 0:
                    break
            else:
                self.fail(Q0202, f"expected {closing!r}, got the end of the text")

    def _definition(self) -> Recursion:
        start = self.place
        self.next()
        name = self.expect_kind("global", "a function's name, as in @main")
        func = yield self._function(start)
        return name.value, func
