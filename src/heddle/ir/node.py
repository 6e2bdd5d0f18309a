"""What every IR node is made of.

A node is a final, frozen, slotted dataclass; its field declarations are the only description of it. From them
come its children, `replace`, structural equality and hash (`ir.structural`), JSON (`ir.json_codec`), visitors
(`ir.visitor`).

    @node("prim.Let")
    class Let(PrimExpr):
        var: Var = defines()        # a definition: structural equality maps it
        value: PrimExpr             # a use
        body: PrimExpr
        dtype: DataType = derived() # computed in __post_init__, in no comparison

Semantics of fields:
- plain fields are compared, hashed, visited and saved;
- `defines()` the same, and variables met for the first time inside are definitions;
- `label()` is saved and visited but not compared (name hints, inferred types);
- `added()` is a plain field that older files lack, `added_label()` a label that they lack;
- `derived()` is recomputed from the other fields.

`span` is the last, keyword-only field of each node; when it is not given, the ambient span is taken.
A node class declared with `identity=True` (variables, buffers) is equal to itself alone; visitors treat it
as a leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from heddle.ir.codes import I0312
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen, reader_of
from heddle.support.registry import Registry
from heddle.support.shown import Shown
from heddle.support.span import Span, ambient_span


class Mode(Enum):
    USE = "use"
    DEF = "def"
    DEF_SIZES = "def sizes"
    LABEL = "label"
    DERIVED = "derived"


Defining = int
"""What a field defines, or what a value that is reached through it does."""
NOTHING, ALL, SIZES = 0, 1, 2
_DEFINING = {Mode.DEF: ALL, Mode.DEF_SIZES: SIZES}
_STORED = {Mode.USE: NOTHING, Mode.DEF_SIZES: SIZES}
_ORDER = {Mode.DEF: 0, Mode.DEF_SIZES: 1}


def is_defined(item: Node, defining: Defining) -> bool:
    """Whether an identity node that is reached so is defined there."""
    return defining == ALL or (defining == SIZES and not item.is_type)


@frozen
class FieldSpec:
    name: str
    mode: Mode


def defines(**options: Any) -> Any:
    """A field whose variables are defined here."""
    return dataclasses.field(metadata={"mode": Mode.DEF}, **options)


def defines_sizes(**options: Any) -> Any:
    """A field whose variables are defined here, but for those that stand for types."""
    return dataclasses.field(metadata={"mode": Mode.DEF_SIZES}, **options)


def label(**options: Any) -> Any:
    """A field that is kept but not compared."""
    return dataclasses.field(metadata={"mode": Mode.LABEL}, **options)


def added(*, default: Any) -> Any:
    """A plain field that came after files were written: JSON leaves it out where it has its default."""
    return dataclasses.field(default=default, metadata={"mode": Mode.USE, "added": True})


def added_definitions(*, default: tuple[()]) -> Any:
    """As `added`, for a tuple of variables that are defined here."""
    return dataclasses.field(default=default, metadata={"mode": Mode.DEF, "added": True})


def added_label(*, default: Any) -> Any:
    """As `label()`, for a field that came after files were written."""
    return dataclasses.field(default=default, metadata={"mode": Mode.LABEL, "added": True})


def derived(*, init: Literal[False] = False) -> Any:
    """A field that `__post_init__` sets from the others."""
    return dataclasses.field(init=init, metadata={"mode": Mode.DERIVED})


NODE_KINDS: Registry[type[Node]] = Registry("node kind")
N = TypeVar("N", bound="Node")
C = TypeVar("C")


@frozen(eq=False, repr=False)
class Node(Shown):
    """The base of all IR nodes; see the module's text."""

    span: Span | None = dataclasses.field(
        default_factory=ambient_span, kw_only=True, metadata={"mode": Mode.LABEL}
    )

    node_kind: ClassVar[str] = ""
    text_of: ClassVar[str] = ""
    """The family of a class that programs of one dialect alone have, where its kind does not say it."""
    identity: ClassVar[bool] = False
    opens_scope: ClassVar[bool] = False
    specs: ClassVar[tuple[FieldSpec, ...]] = ()
    compared: ClassVar[tuple[tuple[str, Defining], ...]] = ()
    """The fields of structural equality, and what they define."""
    stored: ClassVar[tuple[tuple[str, Defining], ...]] = ()
    """These and the labels, the span apart. A label may be the first to name a variable: the type of a
    GlobalVar has those of its function's parameters."""
    init_names: ClassVar[tuple[str, ...]] = ()
    init_values: ClassVar[staticmethod[[Any], tuple[Any, ...]]] = staticmethod(lambda _: ())
    added_defaults: ClassVar[Mapping[str, Any]] = {}
    """The defaults of fields that JSON may lack."""
    script_words: ClassVar[frozenset[str]] = frozenset()
    """The properties and methods that script text may name, beside the fields."""
    is_type: ClassVar[bool] = False
    """A type, or a variable for one."""
    is_leaf: ClassVar[bool] = False
    """No node lies below: an identity node, or one whose fields are plain values by their types."""
    is_plain: ClassVar[bool] = False
    """A leaf of few fields that names nothing, such as an immediate."""

    @classmethod
    def make(cls, *values: Any, span: Span | None) -> Any:
        """Build a node from its fields in order; what visitors, JSON and `replace` use."""
        return cls(*values, span=span)

    def same_as(self, other: object) -> bool:
        """Whether both are one object."""
        return self is other

    def set_derived(self, name: str, value: Any) -> None:
        """Set a derived field; for `__post_init__` alone."""
        object.__setattr__(self, name, value)

    @property
    def text_family(self) -> str:
        """Whose text the node has: a key of `PRINTERS`, `text_of` or the first part of its kind."""
        return self.text_of or self.node_kind.partition(".")[0]

    def script(self, **options: Any) -> str:
        """This node as text of its dialect."""
        return to_text(self, **options)

    def _shown_text(self, **options: Any) -> str:
        return self.script(**options)

    def astext(self, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None) -> str:
        """This node as a file of its dialect has it; `annotate` gives what follows an expression of Relay."""
        return to_text(self, version=True, show_meta=show_meta_data, annotate=annotate)

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return to_text(self)


def _mode(field: dataclasses.Field[Any]) -> Mode:
    mode = field.metadata.get("mode", Mode.USE)
    assert isinstance(mode, Mode)
    return mode


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    field_specifiers=(
        dataclasses.field,
        added,
        added_definitions,
        added_label,
        defines,
        defines_sizes,
        derived,
        label,
    ),
)
def node(
    kind: str, *, identity: bool = False, init: bool = True, checked: bool = False
) -> Callable[[type[C]], type[C]]:
    """Declare a node class under the name that JSON and messages use. With `checked`, what users' programs
    make has its fields checked: IRTypeError I0312 for a value of another class than the annotation's.

    With `init=False` the class writes an `__init__` of its own (users' argument order) and a `make` that
    takes the fields.
    """

    def declare(cls: type[C]) -> type[C]:
        made = frozen(eq=False, repr=False, init=init, refuse=_refuse_field if checked else None)(cls)
        fields = [f for f in dataclasses.fields(made) if f.name != "span"]  # type: ignore[arg-type]
        made.node_kind = kind  # type: ignore[attr-defined]
        made.identity = identity  # type: ignore[attr-defined]
        specs = [FieldSpec(f.name, _mode(f)) for f in fields]
        specs.sort(key=lambda spec: _ORDER.get(spec.mode, 2))  # definitions are compared before their uses
        made.specs = tuple(specs)  # type: ignore[attr-defined]
        compared = [spec for spec in specs if spec.mode not in (Mode.LABEL, Mode.DERIVED)]
        made.compared = tuple((spec.name, _DEFINING.get(spec.mode, NOTHING)) for spec in compared)  # type: ignore[attr-defined]
        stored = [spec for spec in specs if spec.mode is not Mode.DERIVED]
        made.stored = tuple((spec.name, _STORED.get(spec.mode, ALL)) for spec in stored)  # type: ignore[attr-defined]
        made.added_defaults = {f.name: f.default for f in fields if "added" in f.metadata}  # type: ignore[attr-defined]
        made.init_names = tuple(f.name for f in fields if f.init)  # type: ignore[attr-defined]
        made.init_values = staticmethod(reader_of(made.init_names))  # type: ignore[attr-defined]
        made.is_leaf = identity or all(f.type in _PLAIN_TYPES for f in fields if f.init)  # type: ignore[attr-defined]
        has_plain_fields = all(f.type in _PLAIN_TYPES for f in fields)
        made.is_plain = has_plain_fields and not identity and not made.opens_scope  # type: ignore[attr-defined]
        NODE_KINDS.add(kind, made)  # type: ignore[arg-type]
        return made

    return declare


def _refuse_field(made: Any, name: str, expected: str, value: Any) -> None:
    """Put nodes in the place of what stands for them (`as_node`). Raises: IRTypeError I0312 for the rest."""
    if hasattr(value, "as_node"):
        made.set_derived(name, value.as_node())
        return
    if type(value) is tuple and any(hasattr(item, "as_node") for item in value):
        items = tuple(item.as_node() if hasattr(item, "as_node") else item for item in value)
        if all(isinstance(item, Node) for item in items):
            made.set_derived(name, items)
            return
    kind, given = made.node_kind.rpartition(".")[2], type(value).__name__
    if type(value) is tuple:
        given = f"a tuple of {', '.join(sorted({type(item).__name__ for item in value}))}"
    raise IRTypeError(I0312, f"{kind}: field {name!r} is {expected}, got {given}")


_PLAIN_TYPES = ("DataType", "bool", "bytes", "float", "int", "str")


class Map(Mapping[Any, Any]):
    """An immutable mapping that keeps insertion order; keys may be nodes (by identity) or plain values."""

    __slots__ = ("_items",)

    def __init__(
        self, items: Mapping[Any, Any] | Iterator[tuple[Any, Any]] | tuple[tuple[Any, Any], ...] = ()
    ) -> None:
        self._items: dict[Any, Any] = dict(items)

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Map({self._items!r})"

    def __hash__(self) -> int:
        return id(self)

    def with_item(self, key: Any, value: Any) -> Map:
        """The map with one pair more, or another value of a key."""
        return Map({**self._items, key: value})

    def without(self, *keys: Any) -> Map:
        """The map without some keys; those that are not there do not matter."""
        return Map({k: v for k, v in self._items.items() if k not in keys})


EMPTY_MAP = Map()


def children(node: Node) -> list[Node]:
    """The nodes directly below, in field order. Identity nodes have none."""
    found: list[Node] = []
    if node.is_leaf:
        return found
    for value in node.init_values(node):
        if isinstance(value, Node):
            found.append(value)
        elif type(value) is tuple:
            if value:
                _collect(value, found)
        elif type(value) is Map and value:
            for pair in value.items():
                _collect(pair, found)
    return found


def _collect(values: tuple[Any, ...], found: list[Node]) -> None:
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif type(value) is tuple:
            _collect(value, found)
        elif type(value) is Map and value:
            for pair in value.items():
                _collect(pair, found)


def map_value(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply `function` to the nodes in a field's value; the same object where nothing changed."""
    if isinstance(value, Node):
        return function(value)
    if type(value) is tuple:
        if not value:
            return value
        mapped = [map_value(item, function) for item in value]
        for old, new in zip(value, mapped, strict=True):
            if old is not new:
                return tuple(mapped)
        return value
    if type(value) is Map:
        if not value:
            return value
        pairs = [(map_value(k, function), map_value(v, function)) for k, v in value.items()]
        same = all(k is k2 and v is v2 for (k, v), (k2, v2) in zip(value.items(), pairs, strict=True))
        return value if same else Map(tuple(pairs))
    return value


def map_children(node: N, function: Callable[[Any], Any]) -> N:
    """Rebuild `node` with `function` applied to each child; the same object where nothing changed."""
    if node.is_leaf:
        return node
    old = node.init_values(node)
    new: list[Any] | None = None
    for index, value in enumerate(old):
        if isinstance(value, Node):
            made = function(value)
        elif type(value) is tuple or type(value) is Map:
            made = map_value(value, function)
        else:
            continue
        if made is not value:
            new = new or list(old)
            new[index] = made
    return node if new is None else node.make(*new, span=node.span)


def replace(node: N, **changes: Any) -> N:
    """A copy with some fields changed; span kept unless given."""
    span = changes.pop("span", node.span)
    values = [changes.pop(name) if name in changes else getattr(node, name) for name in node.init_names]
    assert not changes, f"{node.node_kind} has no field {sorted(changes)}"
    return node.make(*values, span=span)  # type: ignore[no-any-return]


PRINTERS: Registry[Callable[..., str | None]] = Registry("printer")
"""By family of nodes: gives a node's text, or None where it has none. They lie above: the table asks for
them when something is printed."""


_author: ContextVar[Callable[[Node], str | None] | None] = ContextVar("heddle_author", default=None)


@contextmanager
def said_by(words: Callable[[Node], str | None]) -> Iterator[None]:
    """Inside, nodes for which `words` has a text are shown by it: rules that dialects share name types in
    their messages, and the author of the program knows those of one dialect."""
    token = _author.set(words)
    try:
        yield
    finally:
        _author.reset(token)


def to_text(node: Node, **options: Any) -> str:
    """The node in its dialect's text. `show_meta` writes constants too, `constants` collects them."""
    words = _author.get()
    if words is not None and (said := words(node)) is not None:
        return said
    printer = PRINTERS.get(node.text_family)
    text = printer(node, **options) if printer is not None else None
    if text is not None:
        return text
    fields = ", ".join(f"{name}={getattr(node, name)!r}" for name in node.init_names)
    return f"{node.node_kind}({fields})"
