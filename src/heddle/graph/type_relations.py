"""Relations between types: the symbolic variables of a type, the common supertype of two, and subtyping."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from heddle.arith import Analyzer
from heddle.graph.types import UNKNOWN_NDIM, ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Expr
from heddle.ir.structural import structural_equal
from heddle.ir.types import AnyType, FuncType, PrimType, TupleType, Type
from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import free_vars, substitute


class BaseCheck(IntEnum):
    """How a value's type relates to an expected type: never matches, may match in part, may match (a run-time
    check decides), always matches."""

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


def symbolic_vars(ty: Type) -> tuple[Var, ...]:
    """The symbolic dimensions that a type mentions, each once, in order."""
    return tuple(dict.fromkeys(free_vars(ty)))


def sizes_of_type(ty: object) -> tuple[PrimExpr, ...] | None:
    """The sizes of a tensor or a shape, where its type says them."""
    if isinstance(ty, TensorType):
        return ty.dims
    return ty.values if isinstance(ty, ShapeType) else None


def definable_vars(ty: Type) -> tuple[Var, ...]:
    """The symbolic dimensions that matching a value against a type can bind: those that stand alone as a
    dimension."""
    found: list[Var] = []
    for item in ty.fields if isinstance(ty, TupleType) else (ty,):
        if isinstance(item, TupleType):
            found.extend(definable_vars(item))
            continue
        values = sizes_of_type(item)
        if isinstance(item, PrimType) and item.value is not None:
            values = (item.value,)
        found.extend(value for value in values or () if isinstance(value, Var))
    return tuple(dict.fromkeys(found))


def erase_vars(ty: Type, gone: Collection[Var]) -> Type:
    """The type without knowledge that mentions some symbolic dimensions: shapes become ranks."""
    if not gone or not any(var in gone for var in symbolic_vars(ty)):
        return ty
    if isinstance(ty, TensorType):
        return TensorType(None, ty.dtype, ty.vdevice, ty.ndim)
    if isinstance(ty, ShapeType):
        return ShapeType(None, ty.ndim)
    if isinstance(ty, TupleType):
        return TupleType(tuple(erase_vars(item, gone) for item in ty.fields))
    return PrimType(ty.dtype) if isinstance(ty, PrimType) else ty


def type_lca(a: Type, b: Type, analyzer: Analyzer) -> Type:
    """Return the most precise common supertype of two types (lowest common ancestor)."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        dtype = a.dtype if a.dtype == b.dtype else None
        if a.dims is not None and b.dims is not None and _same_dims(a.dims, b.dims, analyzer):
            return TensorType(a.shape, dtype, a.vdevice)
        if a.shape is not None and a.shape is b.shape:
            return TensorType(a.shape, dtype, a.vdevice, a.ndim)
        return TensorType(None, dtype, a.vdevice, a.ndim if a.ndim == b.ndim else UNKNOWN_NDIM)
    if isinstance(a, ShapeType) and isinstance(b, ShapeType):
        if a.values is not None and b.values is not None and _same_dims(a.values, b.values, analyzer):
            return a
        return ShapeType(None, a.ndim if a.ndim == b.ndim else UNKNOWN_NDIM)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        return TupleType(tuple(type_lca(x, y, analyzer) for x, y in zip(a.fields, b.fields, strict=True)))
    return a if structural_equal(a, b) else AnyType()


def _same_dims(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...], analyzer: Analyzer) -> bool:
    return len(a) == len(b) and all(analyzer.can_prove_equal(x, y) for x, y in zip(a, b, strict=True))


def base_check(base: Type, derived: Type, analyzer: Analyzer) -> BaseCheck:
    """Compare the type `derived` of a value with the expected type `base`."""
    if isinstance(base, AnyType):
        return BaseCheck.PASS
    if isinstance(derived, AnyType):
        return BaseCheck.FAIL_L2
    if isinstance(base, TensorType) and isinstance(derived, TensorType):
        return min(
            _dtype_check(base, derived),
            _shape_check(base.dims, base.ndim, derived.dims, derived.ndim, analyzer),
        )
    if isinstance(base, ShapeType) and isinstance(derived, ShapeType):
        return _shape_check(base.values, base.ndim, derived.values, derived.ndim, analyzer)
    if isinstance(base, PrimType) and isinstance(derived, PrimType):
        return _prim_check(base, derived, analyzer)
    if isinstance(base, TupleType) and isinstance(derived, TupleType):
        if len(base.fields) != len(derived.fields):
            return BaseCheck.FAIL_L0
        checks = [base_check(x, y, analyzer) for x, y in zip(base.fields, derived.fields, strict=True)]
        return min(checks, default=BaseCheck.PASS)
    if isinstance(base, FuncType) and isinstance(derived, FuncType):
        if base.params is None or structural_equal(base, derived, map_free_vars=True):
            return BaseCheck.PASS
        return BaseCheck.FAIL_L2
    return BaseCheck.FAIL_L0


def _prim_check(base: PrimType, derived: PrimType, analyzer: Analyzer) -> BaseCheck:
    if base.dtype != derived.dtype:
        return BaseCheck.FAIL_L0
    if base.value is None:
        return BaseCheck.PASS
    if derived.value is None:
        return BaseCheck.FAIL_L2
    return _shape_check((base.value,), 1, (derived.value,), 1, analyzer)


def _dtype_check(base: TensorType, derived: TensorType) -> BaseCheck:
    if base.dtype is None or base.dtype == derived.dtype:
        return BaseCheck.PASS
    return BaseCheck.FAIL_L2 if derived.dtype is None else BaseCheck.FAIL_L0


def _shape_check(
    base: tuple[PrimExpr, ...] | None,
    base_ndim: int,
    derived: tuple[PrimExpr, ...] | None,
    derived_ndim: int,
    analyzer: Analyzer,
) -> BaseCheck:
    if base_ndim == UNKNOWN_NDIM:
        return BaseCheck.PASS
    if derived_ndim == UNKNOWN_NDIM:
        return BaseCheck.FAIL_L2
    if base_ndim != derived_ndim:
        return BaseCheck.FAIL_L0
    if base is None:
        return BaseCheck.PASS
    if derived is None:
        return BaseCheck.FAIL_L2
    result = BaseCheck.PASS
    for x, y in zip(base, derived, strict=True):
        if analyzer.can_prove_equal(x, y):
            continue
        if symbolic_differs(x, y, analyzer):
            return BaseCheck.FAIL_L0
        result = BaseCheck.FAIL_L2
    return result


def is_base_of(base: Type, derived: Type) -> bool:
    """Whether `derived` is provably a subtype of `base`."""
    return base_check(base, derived, Analyzer()) is BaseCheck.PASS


def match_dims(
    param: Type, given: Type, arg: Expr, mapping: dict[Var, PrimExpr], analyzer: Analyzer
) -> str | None:
    """Fit an argument to a parameter, binding the parameter's symbolic dimensions in `mapping`.

    Gives what is wrong in words, or None. What only running can tell is no fault here.
    """
    if isinstance(param, TupleType) and isinstance(given, TupleType):
        if len(param.fields) != len(given.fields):
            return f"expected a tuple of {len(param.fields)}, got {len(given.fields)}"
        for x, y in zip(param.fields, given.fields, strict=True):
            problem = match_dims(x, y, arg, mapping, analyzer)
            if problem:
                return problem
        return None
    if isinstance(param, PrimType) and isinstance(arg, PrimExpr):
        if isinstance(param.value, Var) and param.dtype == arg.dtype:
            mapping.setdefault(param.value, arg)
        return None if param.dtype == arg.dtype else f"expected {param.dtype}, got {arg.dtype}"
    if isinstance(param, PrimType) and isinstance(given, PrimType) and isinstance(param.value, Var):
        if given.value is not None and param.dtype == given.dtype:
            mapping.setdefault(param.value, given.value)
    expected = (
        param.dims
        if isinstance(param, TensorType)
        else param.values
        if isinstance(param, ShapeType)
        else None
    )
    values = (
        given.dims
        if isinstance(given, TensorType)
        else given.values
        if isinstance(given, ShapeType)
        else None
    )
    if expected is not None and values is not None and len(expected) == len(values):
        for want, got in zip(expected, values, strict=True):
            if isinstance(want, Var):
                mapping.setdefault(want, got)
        values_wanted = ShapeExpr(tuple(substitute(want, mapping) for want in expected))
        for want, got in zip(values_wanted.values, values, strict=True):
            if not symbolic_differs(want, got, analyzer):
                continue
            return f"expected {param}, got {given}"
    if base_check(_without_dims(param), given, analyzer) is BaseCheck.FAIL_L0:
        return f"expected {param}, got {given}"
    return None


def symbolic_differs(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> bool:
    """Whether two dimensions are different whatever the symbolic ones are."""
    difference = analyzer.simplify(a - b)
    bound = analyzer.const_int_bound(difference)
    return bound.min_value > 0 or bound.max_value < 0


def _without_dims(ty: Type) -> Type:
    if isinstance(ty, TensorType):
        return TensorType(None, ty.dtype, ty.vdevice, ty.ndim)
    if isinstance(ty, PrimType):
        return PrimType(ty.dtype)
    return ShapeType(None, ty.ndim) if isinstance(ty, ShapeType) else ty
