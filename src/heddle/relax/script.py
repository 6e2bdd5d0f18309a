"""The namespace `R` of scripts: types, keywords of graph functions, and all operators by name.

Operators such as `R.add` and `R.nn.conv2d` are looked up in the operator table, so every declared operator is
available in scripts. Import it as a module: `from heddle.script import relax as R`.
"""

from __future__ import annotations

from collections.abc import Callable as _Function
from typing import Any as _Value

from heddle.graph.op_builder import const, graph_expr, shape_expr
from heddle.graph.op_words import operator as _operator
from heddle.graph.op_words import operator_names as _operator_names
from heddle.graph.types import ShapeExpr, ShapeType, TensorType, VDevice
from heddle.graph.vdevices import vdevice_of
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, DataTypeImm, Expr, ExternFunc, StringImm
from heddle.ir.op import Op
from heddle.ir.types import AnyType, FuncType, PrimType, TupleType, Type
from heddle.prim.nodes import PrimExpr, as_expr
from heddle.relax.dim_text import NamedDims
from heddle.relax.metadata import raw_const
from heddle.support.frozen import frozen

Dim = _Function[[_Value], _Value]
is_script_namespace = True


@frozen
class TypeWord:
    """A type whose dimensions may still be strings. `build` converts them to expressions with `dim`."""

    build: _Function[[Dim], Type]
    options: _Function[..., TypeWord] | None = None

    def __call__(self, *args: _Value, **kwargs: _Value) -> TypeWord:
        """Make a more precise type: `R.Tensor` alone is a type too."""
        assert self.options is not None
        return self.options(*args, **kwargs)

    def as_type(self) -> Type:
        """The type, outside of a script. A name among the sizes is a new symbolic variable: `"n"` is one
        inside of a word, and another one in the next word.

        Raises: ParseError R0401 for a size that is no expression.
        """
        return self.build(NamedDims())


def _resolve(value: _Value, dim: Dim) -> Type:
    return value.build(dim) if isinstance(value, TypeWord) else value


def _tensor(
    shape: _Value = None, dtype: str | None = None, vdevice: _Value = None, ndim: int = -1
) -> TypeWord:
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape

    device = None if vdevice is None else vdevice_of(vdevice)

    def build(dim: Dim) -> Type:
        known = shape
        if isinstance(known, (tuple, list)):
            known = ShapeExpr(tuple(dim(value) for value in known))
        return TensorType(known, dtype, device, ndim)  # type: ignore[arg-type]

    return TypeWord(build)


def _shape(values: _Value = None, ndim: int = -1) -> TypeWord:
    return TypeWord(lambda dim: ShapeType(None if values is None else tuple(dim(v) for v in values), ndim))


def _tuple(*fields: _Value) -> TypeWord:
    items = fields[0] if len(fields) == 1 and isinstance(fields[0], (list, tuple)) else fields
    return TypeWord(lambda dim: TupleType(tuple(_resolve(item, dim) for item in items)))


def _callable(
    params: _Value = None, ret: _Value = None, purity: bool = True, derive_func: _Value = None
) -> TypeWord:
    def build(dim: Dim) -> Type:
        result = AnyType() if ret is None else _resolve(ret, dim)
        if params is None:
            return FuncType(None, result, purity)
        return FuncType(tuple(_resolve(param, dim) for param in params), result, purity)

    return TypeWord(build)


Tensor = TypeWord(lambda _dim: TensorType(), _tensor)
Shape = TypeWord(lambda _dim: ShapeType(), _shape)
Tuple = TypeWord(lambda _dim: TupleType(()), _tuple)
Callable = TypeWord(lambda _dim: FuncType(None, AnyType(), False), _callable)


def _any() -> TypeWord:
    return TypeWord(lambda _dim: AnyType(), _any)


Any = Object = _any()


def Prim(dtype: str = "int64", value: _Value = None) -> TypeWord:
    """A scalar type. `value` names a symbolic variable for the scalar, or an expression that it equals."""

    def build(dim: Dim) -> Type:
        stated = None if value is None else as_expr(dim(value), dtype)
        return PrimType(dtype if stated is None else stated.dtype, stated)  # type: ignore[arg-type]

    return TypeWord(build)


@frozen
class DataflowFrame:
    """`with R.dataflow():`"""


@frozen
class OutputWord:
    """`R.output(...)` at the end of a dataflow block."""


@frozen
class FuncAttrs:
    values: dict[str, _Value]


@frozen
class MatchCastWord:
    value: _Value
    ty: _Value


@frozen
class PackedCallWord:
    """`R.call_packed("name", x, ty_args=[...])`: a call of a packed function, pure or not."""

    is_pure: bool

    def build(self, args: list[_Value], kwargs: dict[str, _Value], types: tuple[Type, ...]) -> Call:
        """The call of the packed function that the first argument is or names, with types for the result."""
        callee = args[0] if isinstance(args[0], Expr) else ExternFunc(args[0])
        attrs = attrs_of(kwargs.pop("attrs", None) or kwargs)
        values = tuple(graph_expr(arg) for arg in args[1:])
        if self.is_pure:
            return Call(Op.get("relax.call_pure_packed"), (callee, *values), attrs, types)
        return Call(callee, values, attrs, types)


call_packed = PackedCallWord(False)
call_pure_packed = PackedCallWord(True)


def dataflow() -> DataflowFrame:
    """Begin a dataflow block, `with R.dataflow():`. Its bindings have no side effects."""
    return DataflowFrame()


def output(*_vars: _Value) -> OutputWord:
    """Declare the variables of a dataflow block that are visible outside it: `R.output(a, b)`."""
    return OutputWord()


def func_attr(values: dict[str, _Value]) -> FuncAttrs:
    """Set attributes of the function: `R.func_attr({...})`."""
    return FuncAttrs(values)


def match_cast(value: _Value, ty: _Value) -> MatchCastWord:
    """Check at run time that a value has a type, and return it: `R.match_cast(value, type)`."""
    return MatchCastWord(value, ty)


def shape(values: _Value) -> Expr:
    """Make a shape value: `R.shape([n, 4])`."""
    return shape_expr(values)


def prim_value(value: _Value) -> PrimExpr:
    """Make a scalar value of the graph. A Python int becomes an int64."""
    return as_expr(value, "int64" if type(value) is int else None)


def str_(value: _Value) -> StringImm:
    """Make a string value of the graph."""
    return StringImm(value)


def dtype_(value: _Value) -> DataTypeImm:
    """Make a dtype value of the graph."""
    return DataTypeImm(value)


def tuple_(*fields: _Value) -> Expr:
    """Make a tuple of values of the graph."""
    return graph_expr(list(fields))


def op(name: str) -> Op:
    """Return the operator with a full name such as "relax.add". Raises: MissingNameError S0202."""
    return Op.get(name)


def lookup(name: str) -> _Value:
    """The operator or namespace of operators of a name. Raises: AttributeError where there is none."""
    return _operator(name, "R")


_RENAMED = {"str": str_, "tuple": tuple_, "dtype": dtype_}


def __getattr__(name: str) -> _Value:
    return _RENAMED[name] if name in _RENAMED else lookup(name)


def __dir__() -> list[str]:
    own = [name for name in globals() if not name.startswith("_")]
    return own + _operator_names()
