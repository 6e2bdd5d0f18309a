"""Dataclasses that are frozen and have slots, declared in a quarter of the time.

    @frozen
    class Interval:
        begin: int
        end: int = 0

`dataclass(frozen=True, slots=True)` writes and compiles up to seven methods for each class; for some 300
classes that was a third of the time in which the compiler is imported. Here one is compiled, `__init__`. The
others are the same functions for all classes, and go by the names of the fields. `fields`, `replace` and
`field` of `dataclasses` serve such a class as any other.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
Refusal = Callable[[Any, str, str, Any], None]
"""Mends the field of an instance, or raises; takes the instance, the field's name, what was expected, and the
value."""


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    slots: bool = True,
    kw_only: bool = False,
    refuse: Refusal | None = None,
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(
    cls: type[Any] | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    slots: bool = True,
    kw_only: bool = False,
    refuse: Refusal | None = None,
) -> Any:
    """Declare a class whose instances have the fields that it names, and keep them. The options are those of
    `dataclasses.dataclass`. With `refuse`, fields that are annotated with a class, or a tuple of one, are
    checked as an instance is made: `refuse(instance, field, expected, value)` raises for another value.

    Raises: TypeError for a field without a default behind one that has it.
    """

    def declare(cls: type[Any]) -> type[Any]:
        given = vars(cls)
        has_hash = given.get("__hash__") is not None
        if not cls.__doc__:  # dataclass would make a signature up
            cls.__doc__ = cls.__name__
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        known = dataclasses.fields(made)
        shared: dict[str, Any] = {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        if init:
            shared["__init__"] = _init_of(made, known, refuse)
        if repr:
            shared["__repr__"] = _repr
        if eq:
            made._compared = staticmethod(reader_of([f.name for f in known if f.compare]))
            shared["__eq__"] = _eq
        if slots:
            shared |= {"__getstate__": _get_state, "__setstate__": _set_state}
        for name, function in shared.items():
            if name not in given:
                setattr(made, name, function)
        if eq and not has_hash:
            made.__hash__ = _hash  # type: ignore[assignment]
        return made

    return declare if cls is None else declare(cls)


def _init_of(
    cls: type[Any], fields: tuple[dataclasses.Field[Any], ...], refuse: Refusal | None
) -> Callable[..., None]:
    """`__init__`, which sets the slots past what refuses it."""
    values: dict[str, Any] = {"set_": object.__setattr__, "MADE": _MADE, "refuse": refuse}
    before, behind, lines = list[str](), list[str](), list[str]()
    for field in fields:
        name = field.name
        has_factory = field.default_factory is not dataclasses.MISSING
        has_default = field.default is not dataclasses.MISSING
        if has_factory:
            values[f"make_{name}"] = field.default_factory
        elif has_default:
            values[f"default_{name}"] = field.default
        default = "MADE" if has_factory else f"default_{name}" if has_default else ""
        if field.init:
            if not default and not field.kw_only and any("=" in text for text in before):
                raise TypeError(f"field {name!r} has no default, but one before it has")
            (behind if field.kw_only else before).append(f"{name}={default}" if default else name)
            given = f"make_{name}() if {name} is MADE else {name}" if has_factory else name
            lines.append(f"set_(self, {name!r}, {given})")
        elif default:
            lines.append(f"set_(self, {name!r}, {f'make_{name}()' if has_factory else default})")
    checked = [] if refuse is None else [field for field in fields if field.init]
    lines += [line for field in checked for line in _check_of_several(field)]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    lines += [line for field in checked for line in _check_of(field)]
    parameters = ", ".join(["self", *before, *(["*", *behind] if behind else [])])
    body = "\n  ".join(lines or ["pass"])
    text = f"def make({', '.join(values)}):\n def __init__({parameters}):\n  {body}\n return __init__"
    written: dict[str, Any] = {}
    module = sys.modules.get(cls.__module__)
    exec(text, {} if module is None else vars(module), written)  # annotations mean the module's names
    made: Callable[..., None] = written["make"](**values)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields if field.init}
    return made


def _check_of_several(field: dataclasses.Field[Any]) -> list[str]:
    """A line of `__init__` that looks whether a value has items, before it is made a tuple."""
    found = _ANNOTATION.fullmatch(str(field.type))
    if found is None or not found["several"]:
        return []
    lacks = found["lack"] or field.default is not dataclasses.MISSING
    may_lack = f" and {field.name} is not None" if lacks else ""
    call = f"refuse(self, {field.name!r}, {str(field.type)!r}, {field.name})"
    return [f"if not hasattr({field.name}, '__iter__'){may_lack}: {call}"]


def _check_of(field: dataclasses.Field[Any]) -> list[str]:
    """Lines of `__init__` that look at a field's value, where its annotation is simple enough."""
    found = _ANNOTATION.fullmatch(str(field.type))
    if found is None or found["name"] in _UNCHECKED:
        return []
    name, value, may_lack = found["name"], f"self.{field.name}", found["lack"]
    call = f"refuse(self, {field.name!r}, {str(field.type)!r}, {value})"
    if not found["several"]:
        lacks = f" and {value} is not None" if may_lack else ""
        return [f"if not isinstance({value}, {name}){lacks}: {call}"]
    items = f"{value} or ()" if may_lack else value
    return [
        f"if type({value}) is not tuple{f' and {value} is not None' if may_lack else ''}: {call}",
        f"for item in {items}:",
        f" if not isinstance(item, {name}):",
        f"  {call}",
        "  break",
    ]


_UNCHECKED = ("Any", "DataType", "Span", "bool", "float", "int")
_ANNOTATION = re.compile(r"(?P<several>tuple\[)?(?P<name>\w+)(?(several), \.\.\.\])(?P<lack> \| None)?")

_MADE = object()
"""The default of a parameter whose value is made at each call."""


def reader_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes of an object, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    read = attrgetter(names[0])
    return lambda item: (read(item),)


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _eq(self: Any, other: Any) -> Any:
    if self is other:
        return True
    if other.__class__ is self.__class__:
        return self._compared(self) == self._compared(other)
    return NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
