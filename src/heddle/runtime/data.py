"""Runtime values of algebraic data types, and references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from heddle.runtime.codes import U0407, U0408
from heddle.runtime.shape import Shape
from heddle.support.diagnostics import TrapTypeError


@dataclass(slots=True, eq=False, repr=False)
class ConstructorValue:
    """A value of an algebraic data type: `tag` is the number of its constructor, `fields` are the
    constructor's arguments. `constructor` is None if the caller did not say which constructor the tag belongs
    to.
    """

    tag: int
    fields: tuple[Any, ...]
    constructor: Any = None

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        """Show the constructor and the types of the fields. The values are not shown, because a list may be
        very long.
        """
        name = self.constructor.name_hint if self.constructor is not None else f"tag {self.tag}"
        return f"{name}({', '.join(type(item).__name__ for item in self.fields)})"


class Cell(Protocol):
    """Memory of a virtual machine that holds the value of a `RefValue`."""

    def read(self) -> Any:
        """Return the value that is stored."""

    def write(self, value: Any) -> None:
        """Store a value."""


class RefValue:
    """A mutable reference. All holders of the reference see each write. `cell` is None until the reference is
    passed to machine code; from then on the value is kept in memory of the machine.
    """

    __slots__ = ("_held", "cell")

    def __init__(self, value: Any = None, cell: Cell | None = None) -> None:
        self._held = value
        self.cell = cell

    @property
    def value(self) -> Any:
        """The value that the reference holds now."""
        return self._held if self.cell is None else self.cell.read()

    @value.setter
    def value(self, value: Any) -> None:
        if self.cell is None:
            self._held = value
        else:
            self.cell.write(value)

    def move(self, cell: Cell) -> None:
        """Keep the value in `cell` from now on. The cell already holds the value."""
        self._held, self.cell = None, cell


def map_values(
    value: Any,
    convert: Callable[[Any], Any],
    sequence: Callable[[Iterable[Any]], Any] = tuple,
    constructors: Mapping[int, Any] = MappingProxyType({}),
) -> Any:
    """Convert every leaf of a nested value (data types, tuples and lists).

    Tuples and lists become `sequence`. Values of data types get the constructor that `constructors` has for
    their tag. Unchanged parts stay the same objects, and shared parts stay shared. The traversal is
    iterative, because a linked list is as deeply nested as it is long.

    Raises: TrapTypeError U0407 for a value that contains itself, U0408 for fields that are malformed.
    """
    done: dict[int, Any] = {}
    for top in inside_out(value, _parts):
        parts = _parts(top)
        if parts is None:
            done[id(top)] = convert(top)
            continue
        made = [done[id(item)] for item in parts]
        is_same = all(new is old for new, old in zip(made, parts, strict=True))
        if not isinstance(top, ConstructorValue):
            done[id(top)] = top if is_same and type(top) is sequence else sequence(made)
        else:
            constructor = constructors.get(top.tag, top.constructor)
            is_same &= constructor is top.constructor
            done[id(top)] = top if is_same else ConstructorValue(top.tag, tuple(made), constructor)
    return done[id(value)]


def inside_out(value: Any, parts: Callable[[Any], Sequence[Any] | None]) -> Iterator[Any]:
    """Yield a value and all of its parts, each once, parts before the values that contain them.

    Raises: TrapTypeError U0407 for a value that contains itself.
    """
    done: set[int] = set()
    around: set[int] = set()  # what the value on top of `todo` is a part of
    todo = [value]
    while todo:
        top = todo[-1]
        missing = [item for item in parts(top) or () if id(item) not in done] if id(top) not in done else []
        if missing:
            around.add(id(top))
            if any(id(item) in around for item in missing):
                raise TrapTypeError(U0407, "a value that is among its own parts cannot be passed on")
            todo += missing
            continue
        todo.pop()
        if id(top) not in done:
            yield top
            around.discard(id(top))
            done.add(id(top))


def _parts(value: Any) -> Sequence[Any] | None:
    """Return the parts of a value; None for a leaf (not a data type, tuple or list)."""
    if isinstance(value, ConstructorValue):
        return _checked_fields(value)
    return value if isinstance(value, (tuple, list)) and not isinstance(value, Shape) else None


def _checked_fields(value: ConstructorValue) -> Sequence[Any]:
    """Raises: TrapTypeError U0408."""
    tag, fields = getattr(value, "tag", None), getattr(value, "fields", None)
    if not isinstance(tag, int) or not -(1 << 63) <= tag < 1 << 63:
        raise TrapTypeError(U0408, f"expected an integer of 64 bits as tag, got {tag!r:.40}")
    if not isinstance(fields, (tuple, list)):
        raise TrapTypeError(U0408, f"expected a tuple of fields, got {type(fields).__name__}")
    return fields
