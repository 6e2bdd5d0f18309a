"""Types of the systems language, and where the fields of structures lie.

    type = bool | i8 | i16 | i32 | i64 | u8 | u16 | u32 | u64 | f64
         | Pointer[type]            (an address; `Address` is one of nobody knows what)
         | Array[type, count]
         | Atomic[integer or pointer]
         | Function[[type, ...], type or None]
         | a subclass of Struct

Layout is C's on machines of 64 bits: a field starts at the next multiple of its alignment, and a structure's
size is a multiple of its own. Integers are two's complement and wrap around. `bool` lives in locals,
arguments and results, never in memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from inspect import get_annotations
from typing import Any, ClassVar

POINTER_BYTES = 8


class _Word:
    """A type that equals another one with the same parts. Dataclasses would do the same; to make them takes
    longer than all else that a start of the runtime does here."""

    __slots__: tuple[str, ...] = ()

    def parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash((type(self), self.parts()))


class IntType(_Word):
    __slots__ = ("bits", "is_signed", "name")

    def __init__(self, name: str, bits: int, is_signed: bool) -> None:
        self.name = name
        self.bits = bits
        self.is_signed = is_signed

    @property
    def size_bytes(self) -> int:
        """Its size in memory."""
        return self.bits // 8

    @property
    def align_bytes(self) -> int:
        """Its alignment in memory."""
        return self.size_bytes

    @property
    def least(self) -> int:
        """The least value."""
        return -(1 << self.bits - 1) if self.is_signed else 0

    @property
    def most(self) -> int:
        """The greatest value."""
        return self.least + (1 << self.bits) - 1

    def wrap(self, value: int) -> int:
        """The value of the type that has the same low bits."""
        return ((value - self.least) & (1 << self.bits) - 1) + self.least

    def __repr__(self) -> str:
        return self.name


class BoolType(_Word):
    __slots__ = ()

    def __repr__(self) -> str:
        return "bool"


class FloatType(_Word):
    """A float of 64 bits, for those who compute with it: here it is loaded, stored, passed and returned."""

    __slots__ = ()
    size_bytes: ClassVar[int] = 8
    align_bytes: ClassVar[int] = 8

    def __repr__(self) -> str:
        return "f64"


class PointerType(_Word):
    """`target` is None where nobody knows what lies there; a name stands for the structure being declared."""

    __slots__ = ("target",)
    size_bytes: ClassVar[int] = POINTER_BYTES
    align_bytes: ClassVar[int] = POINTER_BYTES

    def __init__(self, target: Sized | str | None) -> None:
        self.target = target

    def __repr__(self) -> str:
        return "Address" if self.target is None else f"Pointer[{self.target!r}]"


class ArrayType(_Word):
    __slots__ = ("count", "element")

    def __init__(self, element: Sized, count: int) -> None:
        self.element = element
        self.count = count

    @property
    def size_bytes(self) -> int:
        """The size of all elements."""
        return self.element.size_bytes * self.count

    @property
    def align_bytes(self) -> int:
        """The alignment of an element."""
        return self.element.align_bytes

    def __repr__(self) -> str:
        return f"Array[{self.element!r}, {self.count}]"


class AtomicType(_Word):
    """Memory that threads share: it is read and written by its methods only, each with a memory order."""

    __slots__ = ("element",)

    def __init__(self, element: IntType | PointerType) -> None:
        self.element = element

    @property
    def size_bytes(self) -> int:
        """The size of what it holds."""
        return self.element.size_bytes

    @property
    def align_bytes(self) -> int:
        """The alignment of what it holds."""
        return self.element.align_bytes

    def __repr__(self) -> str:
        return f"Atomic[{self.element!r}]"


class FunctionType(_Word):
    """The address of a function. `result` is None for one that gives nothing."""

    __slots__ = ("params", "result")
    size_bytes: ClassVar[int] = POINTER_BYTES
    align_bytes: ClassVar[int] = POINTER_BYTES

    def __init__(self, params: tuple[Type, ...], result: Type | None) -> None:
        self.params = params
        self.result = result

    def __repr__(self) -> str:
        return f"Function[[{', '.join(map(repr, self.params))}], {self.result!r}]"


class TupleType(_Word):
    """Several results of one function. Never in memory."""

    __slots__ = ("elements",)

    def __init__(self, elements: tuple[Type, ...]) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return f"tuple[{', '.join(map(repr, self.elements))}]"


class Field(_Word):
    """A field of a structure."""

    __slots__ = ("name", "offset_bytes", "type")

    def __init__(self, name: str, type: Sized, offset_bytes: int) -> None:
        self.name = name
        self.type = type
        self.offset_bytes = offset_bytes


class StructType:
    """The layout of a structure. Two with the same fields are still two."""

    def __init__(self, name: str, annotations: dict[str, Any]) -> None:
        self.name = name
        self.fields: dict[str, Field] = {}
        self.size_bytes: int
        self.align_bytes: int
        end, align = 0, 1
        for field_name, given in annotations.items():
            field_type = sized(type_of_word(given))
            if isinstance(field_type, PointerType) and field_type.target == name:
                field_type = PointerType(self)
            at = -(-end // field_type.align_bytes) * field_type.align_bytes
            self.fields[field_name] = Field(field_name, field_type, at)
            end, align = at + field_type.size_bytes, max(align, field_type.align_bytes)
        self.align_bytes = align
        self.size_bytes = -(-end // align) * align

    def __repr__(self) -> str:
        return self.name


Sized = IntType | FloatType | PointerType | ArrayType | AtomicType | FunctionType | StructType
Type = Sized | BoolType | TupleType
SCALARS = (IntType, FloatType, PointerType, FunctionType)
"""What is loaded and stored whole; other memory is named by its address."""

BOOL = BoolType()
i8, i16, i32, i64 = (IntType(f"i{bits}", bits, True) for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (IntType(f"u{bits}", bits, False) for bits in (8, 16, 32, 64))
f64 = FloatType()
Address = PointerType(None)


class Pointer:
    def __class_getitem__(cls, target: Any) -> PointerType:
        return PointerType(target if isinstance(target, str) else sized(type_of_word(target)))


class Array:
    def __class_getitem__(cls, item: tuple[Any, int]) -> ArrayType:
        return ArrayType(sized(type_of_word(item[0])), item[1])


class Atomic:
    def __class_getitem__(cls, element: Any) -> AtomicType:
        found = type_of_word(element)
        if not isinstance(found, (IntType, PointerType)):
            raise TypeError(f"expected an integer or a pointer as Atomic's element, got {found!r}")
        return AtomicType(found)


class Function:
    def __class_getitem__(cls, item: tuple[list[Any], Any]) -> FunctionType:
        params, result = item
        return FunctionType(
            tuple(map(type_of_word, params)), None if result is None else type_of_word(result)
        )


class Struct:
    """Declare a structure: a subclass with one annotation a field, in the order they have in memory."""

    layout: ClassVar[StructType]

    def __init_subclass__(cls) -> None:
        cls.layout = StructType(cls.__name__, get_annotations(cls))


def type_of_word(word: Any) -> Type:
    """The type that a word of a declaration means. Raises: TypeError for another object."""
    if word is bool:
        return BOOL
    if isinstance(word, type) and issubclass(word, Struct) and word is not Struct:
        return word.layout
    if isinstance(word, Type):
        return word
    if isinstance(word, str):
        raise TypeError(f"expected a type, got the text {word!r}: sources do not postpone annotations")
    raise TypeError(f"expected a type of the systems language, got {word!r}")


def sized(found: Type) -> Sized:
    """Raises: TypeError for a type that cannot be in memory."""
    if isinstance(found, (BoolType, TupleType)):
        raise TypeError(f"{found!r} cannot be in memory")
    return found


def passes_alike(a: FunctionType, b: FunctionType) -> bool:
    """Whether a function of one type can be called as one of the other: all values are passed the same way,
    which the sign of an integer and what an address points to do not change."""
    return [*map(_passed, a.params), _passed(a.result)] == [*map(_passed, b.params), _passed(b.result)]


def _passed(kind: Type | None) -> Any:
    if isinstance(kind, IntType):
        return kind.bits
    if isinstance(kind, TupleType):
        return tuple(map(_passed, kind.elements)) or None
    return kind if kind is None or isinstance(kind, (BoolType, FloatType)) else "address"


def scalars_of(found: Sized, at: int = 0) -> Iterator[tuple[int, Sized]]:
    """Where the scalars of a type lie in it."""
    if isinstance(found, StructType):
        for item in found.fields.values():
            yield from scalars_of(item.type, at + item.offset_bytes)
    elif isinstance(found, ArrayType):
        element = sized(found.element)
        for index in range(found.count):
            yield from scalars_of(element, at + index * element.size_bytes)
    else:
        yield at, found


def ctype_of(word: Any) -> Any:
    """The ctypes type with the same layout. That of a structure has the same field names."""
    found = type_of_word(word)
    if isinstance(found, IntType):
        return getattr(ctypes, f"c_{'' if found.is_signed else 'u'}int{found.bits}")
    if isinstance(found, FloatType):
        return ctypes.c_double
    if isinstance(found, AtomicType):
        return ctype_of(found.element)
    if isinstance(found, ArrayType):
        element = ctypes.c_char if found.element is u8 else ctype_of(found.element)
        return element * found.count
    if isinstance(found, StructType):
        fields = [(item.name, ctype_of(item.type)) for item in found.fields.values()]
        return type(found.name, (ctypes.Structure,), {"_fields_": fields})
    return ctypes.c_void_p
