"""Types and attribute values of Relay text, over the words of one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.json_codec import load_json
from heddle.ir.node import Map, Node
from heddle.ir.type_data import GlobalTypeVar, TypeCall, TypeData
from heddle.ir.types import FuncType, TupleType, Type, TypeVar
from heddle.prim.nodes import PrimExpr
from heddle.relay.codes import Q0202, Q0205, Q0206, Q0208
from heddle.relay.lexer import SCALAR, Lexer, Word, is_type_name
from heddle.relay.nodes import AnyDim, IncompleteType, RefType
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Code, FormatError, ParseError, did_you_mean
from heddle.support.span import Source, SourceSpan

MAX_NESTING = 100

_NAMED = ("Tensor", "bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
"""Types that are meant, perhaps, by a name that is unknown."""


class TypeParser:
    """Reads words one after the other. `types` are the data types that the text may name."""

    def __init__(self, source: Source, metadata: Mapping[str, Any] | None = None) -> None:
        self.lexer = Lexer(source)
        self.words = self.lexer.words()
        self.place = 0
        self.depth = 0
        self.types: dict[str, TypeData] = {}
        self.type_vars: list[dict[str, TypeVar]] = [{}]
        self.metadata: dict[str, list[Any]] = self._metadata()
        for key, items in (metadata or {}).items():
            self.metadata.setdefault(key, []).extend(items)

    # ---- words

    @property
    def word(self) -> Word:
        """The word at the present place."""
        return self.words[self.place]

    def peek(self, distance: int = 1) -> Word:
        """The word `distance` places on; behind the last one, the end of the text."""
        return self.words[min(self.place + distance, len(self.words) - 1)]

    def next(self) -> Word:
        """Take the word at the present place; the end of the text stays."""
        word = self.words[self.place]
        if word.kind != "end":
            self.place += 1
        return word

    def is_mark(self, text: str, distance: int = 0) -> bool:
        """Whether a mark stands `distance` places on."""
        word = self.peek(distance)
        return word.kind == "mark" and word.text == text

    def is_name(self, text: str, distance: int = 0) -> bool:
        """Whether a name stands `distance` places on."""
        word = self.peek(distance)
        return word.kind == "name" and word.text == text

    def accept(self, text: str) -> bool:
        """Take the mark if it comes."""
        if self.is_mark(text):
            self.place += 1
            return True
        return False

    def expect(self, text: str) -> Word:
        """Take a mark. Raises: ParseError Q0202 for any other word."""
        if not self.is_mark(text):
            self.fail(Q0202, f"expected {text!r}, got {self.word.text!r}")
        return self.next()

    def expect_name(self, text: str) -> Word:
        """Take a keyword. Raises: ParseError Q0202 for any other word."""
        if not self.is_name(text):
            near = did_you_mean(self.word.text, [text])
            self.fail(Q0202, f"expected {text}, got {self.word.text!r}", help=near)
        return self.next()

    def expect_kind(self, kind: str, what: str) -> Word:
        """Take a word of a kind, which messages call `what`. Raises: ParseError Q0202 for any other word."""
        if self.word.kind != kind:
            self.fail(Q0202, f"expected {what}, got {self.word.text!r}")
        return self.next()

    def span_from(self, start: int) -> SourceSpan:
        """From the word at place `start` to the one before the present place."""
        return self.lexer.span(self.words[start].start, self.words[max(start, self.place - 1)].end)

    def fail(self, code: Code, message: str, word: Word | None = None, help: str | None = None) -> Any:
        """Raises: ParseError at a word, by default the one at the present place."""
        at = word or self.word
        raise self.lexer.error(code, message, at.start, at.end, help)

    def until(self, close: str) -> Iterator[None]:
        """A round for each item up to a closing mark, with commas between them; one may stand behind the
        last."""
        while not self.accept(close):
            yield
            if not self.accept(","):
                self.expect(close)
                return

    def listed(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """What `item` gives for each item up to a closing mark."""
        return [item() for _ in self.until(close)]

    def is_one(self, items: list[Any]) -> bool:
        """Whether what stood in the parentheses that end here is one item, and no tuple of it."""
        return len(items) == 1 and not self.is_mark(",", -2)

    def dotted(self, what: str) -> str:
        """A name that may have dots; messages call it `what`."""
        name = self.expect_kind("name", what).text
        while self.accept("."):
            name += f".{self.expect_kind('name', 'a name').text}"
        return name

    def expect_type_name(self, what: str) -> Word:
        """Take a name that a type may have, which messages call `what`. Raises: ParseError Q0202."""
        word = self.expect_kind("name", what)
        if not is_type_name(word.text):
            self.fail(Q0202, f"expected {what}, got {word.text!r}", word, "that word is a type")
        return word

    def nested(self, read: Callable[[], Any]) -> Any:
        """What `read` gives, one level deeper. Raises: ParseError Q0208 below MAX_NESTING levels."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(Q0208, f"types and attributes are nested more than {MAX_NESTING} deep")
        try:
            return read()
        finally:
            self.depth -= 1

    # ---- types

    def type(self) -> Any:
        """A type. Raises: ParseError Q0202, Q0205, Q0206, Q0208."""
        return self.nested(self._type)

    def _type(self) -> Any:
        word = self.word
        if self.accept("("):
            return self._tuple_type()
        if word.kind != "name":
            self.fail(Q0202, f"expected a type, got {word.text!r}")
        if word.text == "meta":
            return self._node(Type, "a type")
        self.next()
        if word.text == "_":
            return IncompleteType()
        if word.text == "Tensor":
            return self._tensor_type()
        if word.text == "fn":
            return self._function_type()
        if word.text == "ref":
            self.expect("(")
            value = self.type()
            self.expect(")")
            return RefType(value)
        if SCALAR.match(word.text):
            return TensorType((), DataType(word.text))
        return self._named_type(word)

    def _tuple_type(self) -> Type:
        items = self.listed(")", self.type)
        return items[0] if self.is_one(items) else TupleType(tuple(items))

    def _tensor_type(self) -> Type:
        self.expect("[")
        self.expect("(")
        dims = self.listed(")", self._dim)
        self.expect(",")
        dtype = self.expect_kind("name", "an element type")
        if not SCALAR.match(dtype.text):
            self.fail(Q0202, f"expected an element type, got {dtype.text!r}", dtype)
        self.expect("]")
        return TensorType(tuple(dims), DataType(dtype.text))

    def _dim(self) -> Any:
        if self.accept("?"):
            return AnyDim()
        if self.is_name("meta"):
            return self._node(PrimExpr, "a dimension")
        word = self.expect_kind("number", "a dimension: an integer or ?")
        if not isinstance(word.value[0], int) or word.value[0] < 0:
            self.fail(Q0202, f"a dimension is an integer from 0, got {word.text}", word)
        return word.value[0]

    def _function_type(self) -> Type:
        self.type_vars.append({})
        params = self.type_params()
        self.expect("(")
        args = self.listed(")", self.type)
        self.expect("->")
        result = self.type()
        self.type_vars.pop()
        return FuncType(tuple(args), result, True, params)

    def type_params(self) -> tuple[TypeVar, ...]:
        """`[A, B]`, if it comes: variables that are seen from here on."""
        return tuple(self.listed("]", self._type_param)) if self.accept("[") else ()

    def _type_param(self) -> TypeVar:
        start = self.place
        word = self.expect_type_name("a variable for a type")
        made = TypeVar(word.text, span=self.span_from(start))
        self.type_vars[-1][word.text] = made
        return made

    def _named_type(self, word: Word) -> Type:
        for scope in reversed(self.type_vars):
            if word.text in scope:
                found: Type = scope[word.text]
                return TypeCall(found, self.type_args()) if self.is_mark("[") else found
        args = self.type_args()
        if word.text not in self.types:
            near = did_you_mean(
                word.text, [*_NAMED, *self.types, *(name for scope in self.type_vars for name in scope)]
            )
            self.fail(Q0205, f"no type is called {word.text!r}", word, near)
        return TypeCall(GlobalTypeVar(word.text), args)

    def type_args(self) -> tuple[Any, ...]:
        """`[int32, A]`, if it comes."""
        if not self.accept("["):
            return ()
        if self.is_mark("]"):
            self.fail(Q0202, "expected a type, got ']'")
        return tuple(self.listed("]", self.type))

    # ---- attributes

    def attribute(self) -> tuple[str, Any]:
        """`key=value`; a key may have dots, or stand in quotes."""
        key = self.next().value if self.word.kind == "string" else self.dotted("an attribute's name")
        self.expect("=")
        return key, self.value()

    def is_attribute(self) -> bool:
        """Whether `key=` comes."""
        distance = 1
        while self.is_mark(".", distance) and self.peek(distance + 1).kind == "name":
            distance += 2
        return self.word.kind in ("name", "string") and self.is_mark("=", distance)

    def value(self) -> Any:
        """The value of an attribute; lists come as tuples. Raises: ParseError Q0202, Q0206, Q0208."""
        return self.nested(self._value)

    def _value(self) -> Any:
        word = self.word
        if word.kind == "number":
            return self.next().value[0]
        if word.kind == "string":
            return self.next().value
        if self.accept("["):
            return tuple(self.listed("]", self.value))
        if self.accept("("):
            return tuple(self.listed(")", self.value))
        if self.accept("{"):
            return Map(tuple(self.listed("}", self._item)))
        if word.kind == "name" and word.text in ("True", "False", "None", "nullptr"):
            self.next()
            return {"True": True, "False": False}.get(word.text)
        if word.kind == "name" and word.text == "meta":
            return self._node(object, "a value")
        return self.fail(Q0202, f"expected the value of an attribute, got {word.text!r}")

    def _item(self) -> tuple[str, Any]:
        key = self.expect_kind("string", "a key in quotes").value
        self.expect(":")
        return key, self.value()

    # ---- metadata

    def _metadata(self) -> dict[str, list[Any]]:
        text = self.lexer.metadata
        if not text:
            return {}
        start = self.lexer.metadata_start
        if re.search(r"^\s*#\[metadata", text, re.MULTILINE):  # strings of JSON have no line ends
            raise self.lexer.error(Q0206, "a second section of metadata", start, start + 1)
        try:
            table = load_json(text)
        except FormatError as error:
            raise self._damaged(start, str(error.diagnostics[0].message)) from error
        if not isinstance(table, Map) or not all(isinstance(items, tuple) for items in table.values()):
            raise self._damaged(start, "expected lists by name")
        return {str(key): list(items) for key, items in table.items()}

    def _damaged(self, start: int, what: str) -> ParseError:
        return self.lexer.error(Q0206, f"the metadata cannot be read: {what}", start, start + 11)

    def _node(self, cls: Any, what: str) -> Any:
        """`meta[key][index]`"""
        start = self.next()
        self.expect("[")
        key = self.dotted("a kind of metadata")
        self.expect("]")
        self.expect("[")
        index = self.expect_kind("number", "a number")
        self.expect("]")
        items = self.metadata.get(key, [])
        if not isinstance(index.value[0], int) or not 0 <= index.value[0] < len(items):
            self.fail(
                Q0206, f"the metadata has {len(items)} entries {key}, and this is number {index.text}", start
            )
        found = items[index.value[0]]
        if cls is not object and not isinstance(found, cls):
            kind = found.node_kind if isinstance(found, Node) else type(found).__name__
            self.fail(Q0206, f"meta[{key}][{index.text}] is {kind}, expected {what}", start)
        return found
