"""Names, types and attribute values as Relay text, and the metadata that a text refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from heddle.graph.types import TensorType
from heddle.ir.expr import Constant, Var
from heddle.ir.json_codec import save_json
from heddle.ir.node import Map, Node
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall, TypeData
from heddle.ir.types import FuncType, TupleType, Type, TypeVar
from heddle.prim.nodes import IntImm
from heddle.relay.codes import Q0208, Q0209
from heddle.relay.expr_parser import is_constructor_name
from heddle.relay.lexer import SCALAR, is_type_name, is_word
from heddle.relay.nodes import AnyDim, IncompleteType, RefType, TypeRelation
from heddle.relay.type_parser import MAX_NESTING
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Code, UsageError
from heddle.support.span import Span

_SUFFIXES = {"int16": "i16", "int32": "", "int64": "i64", "float16": "f16", "float32": "f", "float64": "f64"}
_FLOAT_LIMIT = 3.4e38
CONSTANTS = "relay.Constant"
_OWN_KEYS = ("virtual_device", "attrs_type_key")


def is_plain(text: Any) -> bool:
    """Whether a text may stand in quotes."""
    return isinstance(text, str) and "\r" not in text and is_word(f'"{text}"', "string")


class TextValues:
    """What the words of one text stand for."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self._taken: dict[str, int] = {}
        self._depth = 0
        self._type_names: frozenset[str] = frozenset()
        self._defined: set[Var] = set()
        self.meta: dict[str, list[Any]] = {}
        self._meta_places: dict[int, tuple[str, int, Any]] = {}
        self.fault: UsageError | None = None
        """The first thing that the text shows and that is not read back."""

    def refuse(
        self, message: str, span: Span | None = None, code: Code = Q0209, help: str = "give it another name"
    ) -> None:
        """Keep the first fault of the text."""
        self.fault = self.fault or UsageError(code, message, span=span, help=help)

    # ---- names

    def quoted(self, text: Any, what: str, span: Span | None = None) -> str:
        """A name in quotes."""
        if not is_plain(text):
            self.refuse(f"{what} cannot be called {text!r}: quotes and line ends have no text", span)
        return f'"{text}"'

    def global_name(self, var: Any) -> str:
        """As in `@main`, or `@"a name"`."""
        name = f"@{var.name_hint}"
        return name if is_word(name, "global") else f"@{self.quoted(var.name_hint, 'a function', var.span)}"

    def type_name(self, header: GlobalTypeVar) -> str:
        """The name of a data type."""
        if not is_type_name(header.name_hint):
            self.refuse(f"a data type cannot be called {header.name_hint!r}", span=header.span)
        return header.name_hint

    def constructor_name(self, item: Constructor) -> str:
        """The name of a constructor."""
        if not is_constructor_name(item.name_hint):
            self.refuse(f"a constructor cannot be called {item.name_hint!r}", span=item.span)
        return item.name_hint

    def _fresh(self, hint: str, may_be: Callable[[str], bool] = lambda name: True) -> str:
        name = re.sub(r"[^A-Za-z0-9_/]", "_", hint)
        if not name[:1].isalpha():
            name = f"v{name}"
        count = self._taken.get(name, None if may_be(name) else 1)
        while count is not None and (f"{name}{count}" in self._taken or not may_be(f"{name}{count}")):
            count += 1
        if count is not None:
            self._taken[name] = count + 1
            name = f"{name}{count}"
        self._taken[name] = 1
        return name

    def define(self, var: Var) -> str:
        """The name of a variable where it is bound. One that is bound twice is shown to be."""
        if var in self._defined:
            return f"%{self.names[var]}-malformed-ir"
        self._defined.add(var)
        return self.variable(var)

    def variable(self, var: Var) -> str:
        """The name of a variable, as in `%x`."""
        if var not in self.names:
            self.names[var] = self._fresh(var.name_hint)
        return f"%{self.names[var]}"

    def type_variable(self, var: TypeVar) -> str:
        """The name of a variable for a type, as in `A`: none that means another type where it stands."""
        if var not in self.names:
            self.names[var] = self._fresh(var.name_hint, self._may_be_type_variable)
        return self.names[var]

    def _may_be_type_variable(self, name: str) -> bool:
        return is_type_name(name) and name not in self._type_names

    @contextmanager
    def _inner_names(self, params: tuple[Any, ...]) -> Iterator[None]:
        """Names that are seen inside a type only: others may have them again."""
        new = [item for item in params if item not in self.names]
        taken = dict(self._taken) if new else self._taken
        yield
        for item in new:
            self.names.pop(item, None)
        self._taken = taken

    # ---- metadata

    def meta_ref(self, key: str, value: Any) -> str:
        """What stands for a value that has no text."""
        known = self._meta_places.get(id(value))
        if known is None:
            items = self.meta.setdefault(key, [])
            items.append(value)
            known = self._meta_places[id(value)] = key, len(items) - 1, value
        return f"meta[{known[0]}][{known[1]}]"

    def metadata_text(self) -> str:
        """The values that `meta_ref` stands for, as JSON."""
        return save_json(Map({key: tuple(items) for key, items in self.meta.items()}))

    # ---- types

    def type(self, ty: Type | None) -> str:
        """A type; `_` for one that is not known, a reference to metadata for one that has no text."""
        self.check_depth()
        if ty is None or isinstance(ty, IncompleteType):
            return "_"
        if isinstance(ty, TensorType) and ty.dims is not None and ty.dtype is not None:
            if not SCALAR.match(str(ty.dtype)):
                self.refuse(f"the text has no element type {ty.dtype}", help="use a type of single numbers")
            if not ty.dims:
                return str(ty.dtype)
            return f"Tensor[({', '.join(self.dim(dim) for dim in ty.dims)}), {ty.dtype}]"
        if isinstance(ty, TupleType):
            return f"({self._types(ty.fields)}{',' if len(ty.fields) == 1 else ''})"
        if isinstance(ty, FuncType) and ty.params is not None:
            with self._inner_names(ty.type_params):
                params = self.type_params(ty.type_params)
                return f"fn {params}({self._types(ty.params)}) -> {self._types((ty.ret,))}"
        if isinstance(ty, TypeVar):
            return self.type_variable(ty)
        if isinstance(ty, GlobalTypeVar):
            return self.type_name(ty)
        if isinstance(ty, TypeCall):
            return f"{self.type(ty.func)}{f'[{self._types(ty.args)}]' if ty.args else ''}"
        if isinstance(ty, RefType):
            return f"ref({self._types((ty.value,))})"
        if isinstance(ty, TypeRelation):
            return f"{ty.func}({self._types(ty.args)})"
        return self.meta_ref(ty.node_kind, ty)

    def _types(self, types: Iterable[Type | None]) -> str:
        """Types inside another."""
        with self.nested():
            return ", ".join([self.type(item) for item in types])

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A level of types, patterns and attributes, as the parser counts them."""
        self._depth += 1
        yield
        self._depth -= 1

    def check_depth(self) -> None:
        """Refuse a type, pattern or attribute that the parser finds too deep."""
        if self._depth >= MAX_NESTING:
            message = f"types, patterns and attributes are nested more than {MAX_NESTING} deep"
            self.refuse(message, code=Q0208, help="a data type may hold itself")

    def type_params(self, params: tuple[Any, ...]) -> str:
        """Type parameters in brackets, as in `[A, B]`; empty where there are none."""
        return f"[{', '.join(self.type_variable(item) for item in params)}]" if params else ""

    def dim(self, dim: Any) -> str:
        """A size: a number, `?`, or a reference to metadata."""
        if isinstance(dim, AnyDim):
            return "?"
        return str(dim.value) if isinstance(dim, IntImm) else self.meta_ref(dim.node_kind, dim)

    def type_definition(self, definition: TypeData) -> str:
        """A data type with its constructors; one that has none is external."""
        self._type_names |= {definition.header.name_hint}
        with self._inner_names(definition.type_vars):
            return self._type_definition(definition)

    def _type_definition(self, definition: TypeData) -> str:
        head = f"{self.type_name(definition.header)}{self.type_params(definition.type_vars)}"
        if not definition.constructors:
            return f"extern type {head}"
        lines = [f"type {head} {{"]
        for item in definition.constructors:
            inputs = f"({', '.join(self.type(ty) for ty in item.inputs)})" if item.inputs else ""
            lines.append(f"  {self.constructor_name(item)}{inputs},")
        return "\n".join([*lines, "}"])

    # ---- values

    def constant(self, node: Constant) -> str:
        """A literal for a number, else a reference to metadata."""
        data, dtype = node.data, str(node.data.dtype)
        is_number = not tuple(data.shape) and (dtype in _SUFFIXES or dtype == "bool")
        text = self._scalar(np.asarray(data.numpy()), dtype) if is_number else None
        return self.meta_ref(CONSTANTS, node) if text is None else text

    @staticmethod
    def _scalar(array: Any, dtype: str) -> str | None:
        """The literal of a number; None for a NaN with bits of its own."""
        value = array[()]
        if dtype == "bool":
            return "True" if value else "False"
        if dtype.startswith("int"):
            return f"{int(value)}{_SUFFIXES[dtype]}"
        if np.isnan(value):
            plain = np.asarray(np.nan, array.dtype)
            return f"nan{_SUFFIXES[dtype]}" if plain.tobytes() == array.tobytes() else None
        return f"{str(value).removesuffix('.0')}{_SUFFIXES[dtype]}"

    def attribute(self, key: Any, value: Any) -> str:
        """`key=value`; a key stands in quotes where it is no name, or one that means more than itself."""
        parts = key.split(".") if isinstance(key, str) and key not in _OWN_KEYS else [""]
        is_name = all(is_word(part, "name") for part in parts)
        return f"{key if is_name else self.quoted(key, 'an attribute')}={self.value(value)}"

    def value(self, value: Any) -> str:
        """The value of an attribute."""
        self.check_depth()
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, (int, np.integer)) and -(1 << 63) <= value < 1 << 63:
            return str(int(value))
        if isinstance(value, (float, np.floating)):
            number = float(value)
            return f"{number!r}{'f64' if _FLOAT_LIMIT < abs(number) < np.inf else 'f'}"
        if isinstance(value, DataType):
            return f'"{value}"'
        if is_plain(value):
            return f'"{value}"'
        if isinstance(value, (tuple, list)):
            with self.nested():
                return f"[{', '.join([self.value(item) for item in value])}]"
        if isinstance(value, Mapping) and all(map(is_plain, value)):
            with self.nested():
                return "{" + ", ".join([f'"{key}": {self.value(item)}' for key, item in value.items()]) + "}"
        return self.meta_ref(value.node_kind if isinstance(value, Node) else type(value).__name__, value)


def type_text(ty: Type) -> str:
    """A type as messages show it."""
    return TextValues().type(ty)
