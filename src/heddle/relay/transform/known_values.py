"""What is known of values when a program is evaluated before it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from heddle.ir.expr import Constant, Function, Tuple, Var
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type
from heddle.relay.nodes import Pattern, PatternConstructor, PatternTuple, PatternVar
from heddle.relay.transform.rewriting import array_of
from heddle.relay.unify import replace_type_vars
from heddle.support.frozen import frozen


@frozen(eq=False)
class Value:
    """What stands for a value in the new program, and what is known of it.

    `known` is the fields of a tuple, `Data`, `Closure` or `Cell`; a constant is known by its `atom`.
    `size` becomes smaller where functions that call themselves come to an end.
    """

    atom: Any
    known: Any = None
    size: float = math.inf


@frozen(eq=False)
class Data:
    constructor: Constructor
    fields: tuple[Value, ...]


@frozen(eq=False)
class Cell:
    """A reference; what is in it stands in the store."""


@dataclass(slots=True, eq=False)
class Closure:
    """A function of the old program with the values of its free variables and type variables."""

    func: Function
    values: dict[Var, Value]
    types: dict[Any, Type]
    calls_itself: bool = False


@dataclass(slots=True)
class Frame:
    """A function that is being evaluated: its variables and type variables."""

    values: dict[Var, Value]
    types: dict[Any, Type]

    def type(self, ty: Any) -> Any:
        """A type with those that the type variables stand for."""
        return None if ty is None else replace_type_vars(ty, self.types)


def fits(pattern: Pattern, value: Value, bound: dict[Var, Value]) -> bool | None:
    """Whether a value fits, with the variables of the pattern; None where that is not known."""
    if isinstance(pattern, PatternVar):
        bound[pattern.var] = value
        return True
    if isinstance(pattern, PatternConstructor):
        if not isinstance(value.known, Data):
            return None
        made = value.known.constructor
        if (made.belong_to, made.name_hint) != (pattern.constructor.belong_to, pattern.constructor.name_hint):
            return False
        parts = value.known.fields
    elif isinstance(pattern, PatternTuple):
        if not isinstance(value.known, tuple):
            return None
        parts = value.known
    else:
        return True
    answers = [fits(item, part, bound) for item, part in zip(pattern.patterns, parts, strict=True)]
    return False if False in answers else None if None in answers else True


def constant_value(expr: Any) -> Value:
    """A constant. A number that counts down to 0 is smaller at each step."""
    value = array_of(expr)
    is_count = value.ndim == 0 and value.dtype.kind in "iu" and value >= 0
    return Value(expr, None, int(value) if is_count else math.inf)


def size_of(parts: tuple[Value, ...]) -> float:
    """The size of what has these parts: that of those that have one."""
    return sum(part.size for part in parts if part.size < math.inf)


def constant_parts(value: Value) -> Any:
    """A value of constants as an expression; None for any other."""
    if isinstance(value.atom, Constant):
        return value.atom
    if not isinstance(value.known, tuple):
        return None
    parts = [constant_parts(part) for part in value.known]
    return None if None in parts else Tuple(tuple(parts))
