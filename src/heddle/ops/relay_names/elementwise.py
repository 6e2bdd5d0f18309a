"""Relay's elementwise, broadcasting and logical operators."""

from __future__ import annotations

from collections.abc import Callable

from heddle.graph.op_builder import call_op
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import DATA, LHS_RHS, Given, Rows, alias, attr, tensor_type
from heddle.prim.nodes import constant
from heddle.prim.values import int_range

_UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log2",
    "logical_not",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
_BINARY = [
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
]


def _float_bounds(name: str) -> object:
    """A bound that is a float; of integers it is cut to what their type holds."""

    def bound(given: Given) -> object:
        dtype, value = tensor_type(given["data"]).dtype, float(given[name])
        if dtype is None or dtype.is_float or value != value:
            return value
        low, high = int_range(dtype)
        if low < value < high and not value.is_integer():
            return value
        cut = int(min(max(value, low), high))
        return cut if cut < 1 << 63 else constant(cut, "uint64")

    return bound


def _dtype_of(name: str) -> Callable[[Given], str]:
    return lambda given: str(tensor_type(given[name]).dtype)


def _truncated(given: Given) -> object:
    """The quotient rounded to zero, as that of integers is."""
    quotient = call_op("divide", given["lhs"], given["rhs"])
    dtype = tensor_type(given["lhs"]).dtype
    return call_op("trunc", quotient) if dtype is not None and dtype.is_float else quotient


def aliases() -> Rows:
    """The names of this file."""
    for name in _UNARY:
        yield name, alias(name, DATA, x="data")
    for name in ("exp", "tanh", "erf"):
        yield name, alias(f"fast_{name}", DATA, x="data")
    for name in _BINARY:
        yield name, alias(name, LHS_RHS)
    yield "fmod", alias("mod", LHS_RHS)
    yield "fmod", alias("trunc_mod", LHS_RHS)
    yield "astype", alias("trunc_divide", LHS_RHS, x=_truncated, dtype=_dtype_of("lhs"))
    yield (
        "clip",
        alias(
            "clip",
            DATA,
            (attr("a_min", "float"), attr("a_max", "float")),
            x="data",
            min=_float_bounds("a_min"),
            max=_float_bounds("a_max"),
            function=lambda a, a_min, a_max: {"data": a, "a_min": a_min, "a_max": a_max},
        ),
    )
    yield "astype", alias("cast", DATA, (attr("dtype", "dtype"),), x="data")
    yield (
        "astype",
        alias(
            "cast_like",
            (Input("data"), Input("dtype_like")),
            x="data",
            dtype=_dtype_of("dtype_like"),
        ),
    )
    yield "bitcast", alias("reinterpret", DATA, (attr("dtype", "dtype"),), x="data")
    yield "astype", alias("copy", DATA, x="data", dtype=_dtype_of("data"))
    yield (
        "where",
        alias(
            "where",
            (Input("condition"), Input("x"), Input("y")),
            condition=lambda given: _truth(given["condition"]),
            x1="x",
            x2="y",
        ),
    )


def _truth(condition: object) -> object:
    """A condition as bool: numbers are true where they are not zero."""
    dtype = tensor_type(condition).dtype  # type: ignore[arg-type]
    return condition if dtype is None or dtype.is_bool else call_op("astype", condition, dtype="bool")
