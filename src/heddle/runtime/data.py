"""Values of data types, and references, as values of a running program."""

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
    """A value of a data type: `tag` says which constructor made it, `fields` what of. `constructor` is None
    where nobody said which one the tag means."""

    tag: int
    fields: tuple[Any, ...]
    constructor: Any = None

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        """The constructor and what its fields are: a list may be too long to be shown."""
        name = self.constructor.name_hint if self.constructor is not None else f"tag {self.tag}"
        return f"{name}({', '.join(type(item).__name__ for item in self.fields)})"


class Cell(Protocol):
    """Memory of a machine's that a reference stands for."""

    def read(self) -> Any:
        """The value that is there."""

    def write(self, value: Any) -> None:
        """Put a value there."""


class RefValue:
    """A reference; all who have it see what is written. `cell` is None until the reference is passed to
    machine code, which keeps what it holds in memory of its own from then on."""

    __slots__ = ("_held", "cell")

    def __init__(self, value: Any = None, cell: Cell | None = None) -> None:
        self._held = value
        self.cell = cell

    @property
    def value(self) -> Any:
        """What the reference holds now."""
        return self._held if self.cell is None else self.cell.read()

    @value.setter
    def value(self, value: Any) -> None:
        if self.cell is None:
            self._held = value
        else:
            self.cell.write(value)

    def move(self, cell: Cell) -> None:
        """Let the reference stand for memory that holds its value already."""
        self._held, self.cell = None, cell


def map_values(
    value: Any,
    convert: Callable[[Any], Any],
    sequence: Callable[[Iterable[Any]], Any] = tuple,
    constructors: Mapping[int, Any] = MappingProxyType({}),
) -> Any:
    """The value with everything in its data types, tuples and lists converted; tuples and lists become
    `sequence`, and values of data types get the constructors of their tags. Parts that do not change stay
    the same objects, and what is shared stays shared. Raises: TrapTypeError U0407, U0408.

    A long list is nested as deeply as it is long: this works from the inside out, with a stack of its own.
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
    """The value and all that it is made of, each once, and after its parts.

    Raises: TrapTypeError U0407 for a value that is among its own parts.
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
    """What a value is made of; None for what is no value of a data type, tuple or list."""
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
