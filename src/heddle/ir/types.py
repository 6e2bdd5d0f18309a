"""Types that both graph dialects and the loop IR share. Tensor and shape types belong to the dialects."""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.codes import I0311
from heddle.ir.node import Node, added, added_definitions, defines_sizes, derived, label, node
from heddle.ir.structural import structural_equal, structural_hash
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.support.limits import current_limits, exceeded


class Type(Node):
    """The base of all types. `==` is structural equality; `same_as` asks for one object."""

    __slots__ = ()
    is_type: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        if self is other or self.identity:
            return self is other
        return isinstance(other, Type) and structural_equal(self, other)

    def __hash__(self) -> int:
        return id(self) >> 4 if self.identity else structural_hash(self)


def type_given(value: Any) -> Type:
    """The type that a value is, or stands for: words of scripts such as `R.Tensor((4,))` have `as_type`.

    Raises: IRTypeError I0311.
    """
    if isinstance(value, Type):
        return value
    make = getattr(value, "as_type", None)
    if make is None:
        raise IRTypeError(I0311, f"expected a type, got {type(value).__name__}")
    made: Type = make()
    return made


@node("ir.PrimType")
class PrimType(Type):
    """A scalar of the given element type; `value` is the expression that it equals, where one is stated."""

    dtype: DataType
    value: Any = None

    def __post_init__(self) -> None:
        self.set_derived("dtype", DataType(self.dtype))


@node("ir.PointerType")
class PointerType(Type):
    """A pointer to elements in a storage scope ("global", "local", ...)."""

    element_type: Type
    storage_scope: str = "global"


@node("ir.TupleType", checked=True)
class TupleType(Type):
    """The fields of a tuple in a tuple count as fields of the whole: `t = (t, t)` again and again would be a
    short text of a value that no memory holds. Raises: UsageError S0601 beyond the limit `tuple_fields`.
    """

    fields: tuple[Type, ...]
    num_leaves: int = derived()
    """The fields that are no tuples, at any depth."""

    def __post_init__(self) -> None:
        self.set_derived("fields", tuple(self.fields))
        leaves = sum(item.num_leaves if isinstance(item, TupleType) else 1 for item in self.fields)
        self.set_derived("num_leaves", leaves)
        most = current_limits().tuple_fields
        if leaves > most:
            raise exceeded("tuple_fields", f"a tuple has {leaves} fields, those of tuples inside it included")


@node("ir.AnyType")
class AnyType(Type):
    """Any runtime value: the top of the type lattice."""

    is_top: ClassVar[bool] = True


@node("ir.TypeVar", identity=True, checked=True)
class TypeVar(Type):
    """A variable for types. Two variables of one name are two variables. `kind` is one of
    `ir.type_data.TypeKind`; 0 stands for a type."""

    text_of: ClassVar[str] = "relay"
    name_hint: str = label()
    kind: int = 0


@node("ir.FuncType", checked=True)
class FuncType(Type):
    """`params` is None for a function whose signature is not known (an opaque packed function).

    `type_params` are variables for types that the function is generic in, `type_constraints` relations
    between them. Symbolic dimensions that a type is the first to name are its own.
    """

    opens_scope: ClassVar[bool] = True
    params: tuple[Type, ...] | None = defines_sizes()
    ret: Type
    is_pure: bool = True
    type_params: tuple[Type, ...] = added_definitions(default=())
    type_constraints: tuple[Type, ...] = added(default=())

    def __post_init__(self) -> None:
        if self.params is not None:
            self.set_derived("params", tuple(self.params))
        self.set_derived("type_params", tuple(self.type_params or ()))
        self.set_derived("type_constraints", tuple(self.type_constraints or ()))

    @property
    def arg_types(self) -> tuple[Type, ...]:
        """The types of the parameters; empty where nothing is known of them."""
        return self.params or ()

    @property
    def ret_type(self) -> Type:
        """The same as `ret`."""
        return self.ret

    @staticmethod
    def opaque_func(*, ret: Type | None = None, purity: bool = False) -> FuncType:
        """The type of a function of whose parameters nothing is known. `purity`: it has no effects."""
        return FuncType(None, ret if ret is not None else AnyType(), purity)

    @staticmethod
    def on_memory() -> FuncType:
        """The type of a loop function where graph functions call it: it works on memory and gives nothing."""
        return FuncType(None, TupleType(()), False)

    @property
    def is_opaque(self) -> bool:
        """Whether nothing is known of the parameters."""
        return self.params is None
