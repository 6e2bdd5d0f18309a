"""The expression nodes that both graph dialects share.

    expr = var | @global | constant | (expr, ...) | expr[i] | expr(args; attrs) | if expr: expr else: expr
         | fn (params) -> ty: expr | a scalar expression (`prim`)

`ty` is the inferred type (None before inference). It is not compared, because the other fields imply it. The
type of a variable is part of its definition and is compared there.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar, TypeGuard

import heddle.ir.tensor_values  # noqa: F401  (registers how constants' tensors compare and are saved)
from heddle.ir.attrs import NO_ATTRS, Attrs, attrs_of
from heddle.ir.codes import I0304, I0312
from heddle.ir.expr_operators import ExpressionOperators, TypedParts, check_field, iterate_fields
from heddle.ir.node import Node, added, added_label, children, defines, label, node
from heddle.ir.types import AnyType, Type, type_given
from heddle.ir.visitor import walk_distinct
from heddle.support.diagnostics import IRTypeError, UsageError

DIALECT_FAMILIES = ("relax", "relay")
"""The families of nodes that tell the dialect of the expression around them."""


class Expr(Node, ExpressionOperators):
    """The base class of all expressions, including scalar ones. Each has a type `ty`."""

    __slots__ = ()
    script_words: ClassVar[frozenset[str]] = frozenset({"ty", "dtype", "shape", "ndim", "astype"})
    ty: Any

    def __call__(self, *args: Expr, attrs: dict[str, Any] | None = None) -> Call:
        return Call(self, args, attrs_of(attrs))

    @property
    def operand_dialect(self) -> str:
        return self.text_family if self.text_family in DIALECT_FAMILIES else ""

    @property
    def checked_type(self) -> Type:
        """The type. Raises: UsageError I0304 before inference."""
        if self.ty is None:
            raise UsageError(I0304, "the expression has no type before inference", span=self.span)
        return self.ty  # type: ignore[no-any-return]


class GraphExpr(Expr, TypedParts):
    """The base class of graph expressions. Their values may be tensors or tuples."""

    __slots__ = ()

    def __getitem__(self, index: int) -> Expr:
        """Return a field of a tuple. Raises: TrapIndexError I0310 (an IndexError), UsageError I0310."""
        place = check_field(self.ty, index, self.span)
        fields = getattr(self.ty, "fields", None)
        return TupleGetItem(self, place, None if fields is None else fields[place])

    def __iter__(self) -> Iterator[Expr]:
        return iterate_fields(self)


class BaseFunc(Expr):
    """The base class of functions of all dialects: the values of an IRModule. Each has `attrs`."""

    __slots__ = ()
    opens_scope: ClassVar[bool] = True
    attrs: Attrs

    @property
    def dialect(self) -> str:
        """The name of the function's dialect; empty for a function without one."""
        return ""

    def with_attr(self, name: str | dict[str, Any], value: Any = None) -> Any:
        """Return a copy with one attribute set; also with a dictionary of attributes."""
        attrs = self.attrs
        for key, item in name.items() if isinstance(name, dict) else ((name, value),):
            attrs = attrs.with_attr(key, item)
        return self._with_attrs(attrs)

    def without_attr(self, name: str) -> Any:
        """Return the function without an attribute."""
        return self._with_attrs(self.attrs.without(name))

    def with_attrs(self, attrs: dict[str, Any] | Attrs) -> Any:
        """Return the function with exactly these attributes."""
        return self._with_attrs(attrs_of(attrs))

    def _with_attrs(self, attrs: Attrs) -> Any:
        values = [attrs if name == "attrs" else getattr(self, name) for name in self.init_names]
        return self.make(*values, span=self.span)


@node("ir.Var", identity=True, checked=True)
class Var(GraphExpr):
    """A variable of a graph dialect. Variables of equal name are still different variables. `dialect`
    determines which operators Python's operators on it build."""

    name_hint: str = label()
    ty: Type | None = None
    is_dataflow: bool = False
    dialect: str = added_label(default="relax")

    def __post_init__(self) -> None:
        if self.ty is not None and not isinstance(self.ty, Type):
            self.set_derived("ty", type_given(self.ty))

    @property
    def operand_dialect(self) -> str:
        return self.dialect

    @property
    def name(self) -> str:
        """The same as `name_hint`."""
        return self.name_hint

    @property
    def type_annotation(self) -> Type | None:
        """The same as `ty`."""
        return self.ty


@node("ir.GlobalVar", checked=True)
class GlobalVar(Expr):
    """The name of a function in an IRModule; equal by name."""

    name_hint: str
    ty: Type | None = label(default=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and other.name_hint == self.name_hint

    def __hash__(self) -> int:
        return hash(self.name_hint)


@node("ir.Constant", checked=True)
class Constant(GraphExpr):
    """A tensor known at compile time; `data` is a `runtime.Tensor` on the host."""

    data: Any
    ty: Type | None = label(default=None)

    def __post_init__(self) -> None:
        if not hasattr(self.data, "numpy"):
            raise IRTypeError(
                I0312,
                f"Constant: field 'data' is a tensor, got {type(self.data).__name__}",
                help="`const` makes constants of numbers and arrays",
            )

    @property
    def operand_dialect(self) -> str:
        return "relay" if self.ty is None else ""  # Relax's constants have their type from the start


class _Compound(GraphExpr):
    """The base of shared expressions that are made of others."""

    __slots__ = ()

    @property
    def text_family(self) -> str:
        """That of the first part which belongs to a dialect, else of the first which tells one."""
        for part in walk_distinct(*children(self)):
            if not isinstance(part, (_Compound, Type)) and part.text_family in DIALECT_FAMILIES:
                return part.text_family
        return self.operand_dialect or "ir"

    @property
    def operand_dialect(self) -> str:
        """That of the first part which tells one."""
        for part in walk_distinct(*children(self)):
            if isinstance(part, Expr) and not isinstance(part, _Compound) and part.operand_dialect:
                return part.operand_dialect
        return ""


@node("ir.Tuple", checked=True)
class Tuple(_Compound):
    fields: tuple[Expr, ...]
    ty: Type | None = label(default=None)

    def __post_init__(self) -> None:
        self.set_derived("fields", tuple(self.fields))

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)


@node("ir.TupleGetItem", checked=True)
class TupleGetItem(_Compound):
    tuple_value: Expr
    index: int
    ty: Type | None = label(default=None)

    def __post_init__(self) -> None:
        if type(self.index) is not int:
            if isinstance(self.index, bool) or not isinstance(self.index, Integral):
                given = type(self.index).__name__
                raise IRTypeError(I0312, f"TupleGetItem: field 'index' is int, got {given}")
            self.set_derived("index", int(self.index))


@node("ir.Call", checked=True)
class Call(_Compound):
    """A call of an operator, a global function, a variable that holds a closure, or an external function.

    `ty_args` are type arguments, such as the result type of `call_tir`.
    """

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = NO_ATTRS
    ty_args: tuple[Type, ...] = ()
    ty: Type | None = label(default=None)

    def __post_init__(self) -> None:
        self.set_derived("args", tuple(self.args))
        self.set_derived("ty_args", tuple(self.ty_args or ()))
        if not isinstance(self.attrs, Attrs):
            self.set_derived("attrs", attrs_of(self.attrs))

    @property
    def type_args(self) -> tuple[Type, ...]:
        """The same as `ty_args`."""
        return self.ty_args


@node("ir.If", checked=True)
class If(_Compound):
    cond: Expr
    true_branch: Expr
    false_branch: Expr
    ty: Type | None = label(default=None)


@node("ir.ExternFunc", checked=True)
class ExternFunc(BaseFunc):
    """A packed function that is looked up by name when the program is loaded.

    With the attribute `c_source`, its source is part of the module (`c_source_fmt`: "c", or "cc" for C++).
    """

    global_symbol: str
    ty: Type | None = label(default=None)
    attrs: Attrs = NO_ATTRS

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, Attrs):
            self.set_derived("attrs", attrs_of(self.attrs))


@node("ir.StringImm", checked=True)
class StringImm(Expr):
    value: str

    @property
    def ty(self) -> Type:
        """Nothing is said of the type."""
        return AnyType()


@node("ir.DataTypeImm", checked=True)
class DataTypeImm(Expr):
    value: str

    @property
    def ty(self) -> Type:
        """Nothing is said of the type."""
        return AnyType()


@node("ir.Function", checked=True)
class Function(BaseFunc):
    """A function of a graph dialect. It defines its parameters and the symbolic dimensions in their types."""

    params: tuple[Var, ...] = defines()
    body: Expr
    ret_ty: Type | None = None
    is_pure: bool = True
    attrs: Attrs = NO_ATTRS
    type_params: tuple[Type, ...] = defines(default=())
    ty: Type | None = label(default=None)
    dialect: str = added(default="relax")

    @property
    def text_family(self) -> str:
        return self.dialect

    @property
    def ret_type(self) -> Type | None:
        """The same as `ret_ty`: the stated result type; None if none was stated."""
        return self.ret_ty

    def __post_init__(self) -> None:
        if isinstance(self.params, Node):
            found = type(self.params).__name__
            raise UsageError(
                I0312, f"Function: field 'params' is a list of Var, got a {found}", help="as in [x]"
            )
        self.set_derived("params", tuple(self.params))
        self.set_derived("type_params", tuple(self.type_params or ()))
        if not isinstance(self.attrs, Attrs):
            self.set_derived("attrs", attrs_of(self.attrs))


def is_relay(func: object) -> TypeGuard[Function]:
    """Whether a function is a Relay function."""
    return isinstance(func, Function) and func.dialect == "relay"
