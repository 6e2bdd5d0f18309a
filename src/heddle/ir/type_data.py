"""Algebraic data types and variables for types.

    type List[A] { Cons(A, List[A]), Nil }

is a `TypeData` with the header `GlobalTypeVar("List")`, the variable A and two constructors. `TypeCall`
applies the name to types: `List[int32]`. A constructor as a value is a function that is generic in the
variables.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from hashlib import blake2b
from typing import ClassVar

from heddle.ir.codes import I0307
from heddle.ir.expr import Expr
from heddle.ir.node import Mode, defines, label, node
from heddle.ir.types import Type, TypeVar
from heddle.support.diagnostics import IRTypeError


class TypeKind(IntEnum):
    """What a variable for types stands for."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


@node("ir.GlobalTypeVar", checked=True)
class GlobalTypeVar(Type):
    """The name of a data type of an IRModule; equal by name."""

    text_of: ClassVar[str] = "relay"
    name_hint: str
    kind: int = label(default=TypeKind.AdtHandle)

    def __call__(self, *args: Type) -> TypeCall:
        return TypeCall(self, args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalTypeVar) and other.name_hint == self.name_hint

    def __hash__(self) -> int:
        return hash(self.name_hint)


@node("ir.TypeCall", checked=True)
class TypeCall(Type):
    """A data type, or a variable for one, applied to types."""

    text_of: ClassVar[str] = "relay"
    func: Type
    args: tuple[Type, ...] = ()

    def __post_init__(self) -> None:
        self.set_derived("args", tuple(self.args or ()))


@node("ir.Constructor", checked=True)
class Constructor(Expr):
    """A constructor of a data type; equal by its name and that of the type.

    `tag` tells constructors apart when a program runs: eight bits of the type's name, then the place in the
    definition. It is -1 before the type is defined.
    """

    text_of: ClassVar[str] = "relay"
    name_hint: str
    inputs: tuple[Type, ...] = label()
    belong_to: GlobalTypeVar
    tag: int = label(default=-1)

    def __post_init__(self) -> None:
        self.set_derived("inputs", tuple(self.inputs))

    @property
    def ty(self) -> Type | None:
        """None: a constructor's type is that of its data type."""
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constructor):
            return False
        return other.name_hint == self.name_hint and other.belong_to == self.belong_to

    def __hash__(self) -> int:
        return hash((self.name_hint, self.belong_to))


@node("ir.TypeData", checked=True)
class TypeData(Type):
    """The definition of a data type. Raises: IRTypeError I0307 for two constructors of one name."""

    text_of: ClassVar[str] = "relay"
    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...] = defines()
    constructors: tuple[Constructor, ...]
    signatures: tuple[tuple[Type, ...], ...] = dataclasses.field(init=False, metadata={"mode": Mode.USE})
    """What the constructors take: they themselves are compared by name."""

    def __post_init__(self) -> None:
        self.set_derived("type_vars", tuple(self.type_vars))
        self.set_derived("constructors", tuple(self.constructors))
        self.set_derived("signatures", tuple(item.inputs for item in self.constructors))
        names: set[str] = set()
        for place, item in enumerate(self.constructors):
            if item.name_hint in names:
                raise IRTypeError(
                    I0307,
                    f"constructor {item.name_hint} of {self.header.name_hint} is defined twice",
                    span=item.span,
                )
            names.add(item.name_hint)
            item.set_derived("tag", type_prefix(self.header.name_hint) << 24 | place)

    def constructor(self, name: str) -> Constructor | None:
        """The constructor of a name; None where there is none."""
        return next((item for item in self.constructors if item.name_hint == name), None)


def type_prefix(name: str) -> int:
    """Eight bits that depend on the name of a data type."""
    return blake2b(name.encode(), digest_size=1).digest()[0]
