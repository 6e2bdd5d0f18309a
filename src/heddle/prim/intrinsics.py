"""The intrinsics of scalar expressions: one record each, from which builders, evaluation and effect checks
derive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.ir.expr import StringImm
from heddle.ir.op import OP_RECORDS, Op
from heddle.prim import ops, values
from heddle.prim.nodes import Broadcast, Call, FloatImm, PrimExpr, as_expr, constant
from heddle.prim.ops import cast, match_types, maximum, minimum, select
from heddle.prim.signatures import Signature
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen

PURE, READS, WRITES = "pure", "reads", "writes"
SAFE, FOREIGN_CODE, RAW_MEMORY, PROMISE = "", "foreign code", "raw memory", "unchecked promise"
"""What an intrinsic can do beyond computing: nothing; run code that is not the program's; use memory by
address; tell the compiler what it then believes without a check."""


Formula = Callable[..., PrimExpr]
"""What an intrinsic of float operands is, in terms of others."""


@frozen
class Intrinsic:
    """`signature` says what a call takes and gives. `evaluate` works on numpy scalars or arrays of the
    result's dtype, and is None for what only a machine can do; `effect` says what the call does to memory.
    `capability` names what the call can do beyond computing a value, "" for nothing: text from outside may
    not use it. `formula` makes the same value of others: `LowerIntrin` writes it where it knows nothing
    better, so that an intrinsic that has one needs nothing of a code generator. `is_costly`: a call takes
    tens of instructions."""

    name: str
    signature: Signature
    effect: str
    evaluate: Callable[..., Any] | None
    meaning: str
    capability: str
    formula: Formula | None = None
    is_costly: bool = False

    @property
    def is_pure(self) -> bool:
        """Whether a call neither reads nor writes memory."""
        return self.effect == PURE


_COSTLY = frozenset(
    ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp", "exp10", "exp2")
    + ("hypot", "ldexp", "log", "log10", "log1p", "log2", "pow", "sigmoid", "sin", "sinh", "tan", "tanh")
)


def _declare(
    name: str,
    signature: Signature,
    effect: str,
    evaluate: Callable[..., Any] | None,
    meaning: str,
    capability: str = SAFE,
    formula: Formula | None = None,
) -> None:
    record = Intrinsic(
        f"tir.{name}", signature, effect, evaluate, meaning, capability, formula, name in _COSTLY
    )
    OP_RECORDS.add(f"tir.{name}", record)


def _erf(x: Any) -> Any:
    """erf in float64: below 3 exp(-x*x) times a series of positive terms, above by the continued fraction of
    erfc; to about 1e-15.
    """
    x64 = np.asarray(x, dtype=np.float64)
    size = np.abs(x64)
    small = np.minimum(size, 3.0)
    term, total = small.copy(), small.copy()
    for n in range(1, 80):
        term = term * (2 * small * small / (2 * n + 1))
        total = total + term
    large = np.maximum(size, 3.0)
    fraction = np.zeros_like(large)
    for n in range(60, 0, -1):
        fraction = (n / 2) / (large + fraction)
    tail = np.exp(-large * large) / ((large + fraction) * np.sqrt(np.pi))
    value = np.where(size < 3.0, 2 / np.sqrt(np.pi) * np.exp(-small * small) * total, 1.0 - tail)
    value = np.where(np.isnan(x64), np.nan, np.copysign(value, x64))
    return value.astype(np.asarray(x).dtype)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in the next wider float, so that (but for rare double rounding) only the result is
    rounded."""
    dtype = np.asarray(a).dtype
    wide = np.float64 if dtype.itemsize <= 4 else np.longdouble
    return (np.asarray(a, wide) * np.asarray(b, wide) + np.asarray(c, wide)).astype(dtype)


def _sigmoid(x: Any) -> Any:
    x64 = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        return (1.0 / (1.0 + np.exp(-x64))).astype(np.asarray(x).dtype)


_UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "exp": (np.exp, "e to the x"),
    "exp2": (np.exp2, "2 to the x"),
    "exp10": (lambda x: values.power(np.asarray(10, np.asarray(x).dtype), x), "10 to the x"),
    "log": (np.log, "natural logarithm"),
    "log2": (np.log2, "logarithm to base 2"),
    "log10": (np.log10, "logarithm to base 10"),
    "log1p": (np.log1p, "log(1 + x)"),
    "sqrt": (np.sqrt, "square root"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "1 / sqrt(x)"),
    "sin": (np.sin, "sine"),
    "cos": (np.cos, "cosine"),
    "tan": (np.tan, "tangent"),
    "asin": (np.arcsin, "arc sine"),
    "acos": (np.arccos, "arc cosine"),
    "atan": (np.arctan, "arc tangent"),
    "sinh": (np.sinh, "hyperbolic sine"),
    "cosh": (np.cosh, "hyperbolic cosine"),
    "tanh": (np.tanh, "hyperbolic tangent"),
    "asinh": (np.arcsinh, "inverse hyperbolic sine"),
    "acosh": (np.arccosh, "inverse hyperbolic cosine"),
    "atanh": (np.arctanh, "inverse hyperbolic tangent"),
    "sigmoid": (_sigmoid, "1 / (1 + exp(-x))"),
    "erf": (_erf, "error function"),
    "fabs": (np.abs, "absolute value"),
    "floor": (np.floor, "round down"),
    "ceil": (np.ceil, "round up"),
    "trunc": (np.trunc, "round to zero"),
    "round": (np.rint, "round half to even, as nearbyint"),
    "nearbyint": (np.rint, "round half to even"),
}
_BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "pow": (values.power, "x to the y"),
    "atan2": (np.arctan2, "angle of the point (y, x)"),
    "fmod": (np.fmod, "remainder of a float division that rounds to zero"),
    "fmaximum": (np.maximum, "the greater of x and y, NaN where one is NaN"),
    "fminimum": (np.minimum, "the lesser of x and y, NaN where one is NaN"),
    "copysign": (np.copysign, "x with the sign of y"),
    "hypot": (np.hypot, "length of (x, y)"),
    "nextafter": (np.nextafter, "the float after x towards y"),
    "bitwise_and": (np.bitwise_and, "bitwise and"),
    "bitwise_or": (np.bitwise_or, "bitwise or"),
    "bitwise_xor": (np.bitwise_xor, "bitwise exclusive or"),
    "shift_left": (values.shift_left, "shift left"),
    "shift_right": (values.shift_right, "arithmetic or logical shift right"),
}


def _call(name: str, x: PrimExpr) -> PrimExpr:
    return Call(x.dtype, Op.get(f"tir.{name}"), (x,))


def _inverse(x: PrimExpr) -> PrimExpr:
    return ops.div(constant(1.0, x.dtype), x)


_FORMULAS: dict[str, Formula] = {
    "rsqrt": lambda x: _inverse(_call("sqrt", x)),
    "sigmoid": lambda x: _inverse(_call("exp", -x) + 1.0),
}
_FORMS = {"pow": "number", **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), "bits")}
_FORMS |= dict.fromkeys(("shift_left", "shift_right"), "integer")
"""Of the operands of binary intrinsics that take others than floats."""
_CALL, _TEST = Signature(("text",), "operand"), Signature(("real",), None, "bools")
for _name, (_function, _meaning) in _UNARY.items():
    _declare(_name, Signature(("float",)), PURE, _function, _meaning, formula=_FORMULAS.get(_name))
for _name, (_function, _meaning) in _BINARY.items():
    _declare(_name, Signature((_FORMS.get(_name, "float"),) * 2), PURE, _function, _meaning)
_declare("bitwise_not", Signature(("bits",)), PURE, np.invert, "bitwise complement")
_declare("isnan", _TEST, PURE, np.isnan, "whether x is NaN")
_declare("isinf", _TEST, PURE, np.isinf, "whether x is infinite")
_declare("isfinite", _TEST, PURE, np.isfinite, "whether x is neither NaN nor infinite")
_declare("popcount", Signature(("integer",)), PURE, None, "number of set bits")
_declare("fma", Signature(("float",) * 3), PURE, _fma, "a * b + c rounded once")
_declare(
    "ldexp",
    Signature(("float", "count")),
    PURE,
    np.ldexp,
    "x * 2**n for an int32 n in [-252, 254], rounded once",
)
_declare(
    "if_then_else",
    Signature(("condition", "same", "same")),
    PURE,
    None,
    "one of two values, only that one evaluated",
)
_declare("likely", Signature(("bool",)), PURE, lambda x: x, "the condition, expected to hold")
_declare(
    "reinterpret",
    Signature(("value",), None, "bits"),
    PURE,
    None,
    "the same bits as another dtype of the same size",
)
_declare(
    "as_computed",
    Signature(("same",)),
    PURE,
    lambda x: x,
    "the value that the machine gets for x; nothing else is known of it",
)
_declare(
    "address_of",
    Signature(("element",), None, "handle"),
    PURE,
    None,
    "the address of a buffer element",
    RAW_MEMORY,
)
_declare(
    "tvm_access_ptr",
    Signature(("value", "pointer", "index", "index", "index"), None, "handle"),
    READS,
    None,
    "a pointer into a buffer: dtype, data, offset, extent, access mask",
    RAW_MEMORY,
)
_declare("call_extern", _CALL, WRITES, None, "a C function by name; arguments follow the name", FOREIGN_CODE)
_declare("call_pure_extern", _CALL, PURE, None, "a C function without effects by name", FOREIGN_CODE)
_declare("call_llvm_intrin", _CALL, WRITES, None, "an LLVM intrinsic by name", FOREIGN_CODE)
_declare(
    "call_llvm_pure_intrin", _CALL, PURE, None, "an LLVM intrinsic without effects by name", FOREIGN_CODE
)
_declare("call_packed", _CALL, WRITES, None, "a packed function by name", FOREIGN_CODE)
_declare("ret", Signature(("same",)), WRITES, None, "return from the function")
_declare(
    "prefetch",
    Signature(("pointer", "literal", "literal", "literal")),
    WRITES,
    None,
    "ask for a cache line: address, rw, locality, kind",
    RAW_MEMORY,
)
_declare(
    "assume",
    Signature(("condition",)),
    WRITES,
    None,
    "a condition that the compiler may take as given",
    PROMISE,
)
_declare("undef", Signature(()), PURE, None, "any value")


def is_prefetch(node: Any) -> bool:
    """Whether a node asks for a cache line: it names a buffer element that it does not access."""
    return isinstance(node, Call) and node.op.name == "tir.prefetch"


def intrinsic_of(call: Call) -> Intrinsic:
    """The record of the intrinsic that is called."""
    record = call.op.record
    assert isinstance(record, Intrinsic)
    return record


def _float_argument(x: Any) -> PrimExpr:
    x = as_expr(x)
    return x if x.dtype.is_float else cast(DataType("float32").with_lanes(x.dtype.lanes), x)


def _unary_builder(name: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        return _call(name, _float_argument(x))

    build.__name__, build.__doc__ = (
        name,
        f"{_UNARY[name][1].capitalize()}; integers are converted to float32.",
    )
    return build


def _binary_builder(name: str) -> Callable[[Any, Any], PrimExpr]:
    def build(x: Any, y: Any) -> PrimExpr:
        x, y = match_types(x, y)
        return Call(x.dtype, Op.get(f"tir.{name}"), (x, y))

    build.__name__, build.__doc__ = name, f"{_BINARY[name][1].capitalize()}."
    return build


exp, exp2, exp10 = map(_unary_builder, ("exp", "exp2", "exp10"))
log, log2, log10, log1p = map(_unary_builder, ("log", "log2", "log10", "log1p"))
fabs = _unary_builder("fabs")
sqrt, rsqrt, erf, sigmoid = map(_unary_builder, ("sqrt", "rsqrt", "erf", "sigmoid"))
sin, cos, tan, asin, acos, atan = map(_unary_builder, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(
    _unary_builder, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
)
atan2, fmod, copysign, hypot, nextafter = map(
    _binary_builder, ("atan2", "fmod", "copysign", "hypot", "nextafter")
)


def _extreme(name: str, of_numbers: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], PrimExpr]:
    """Beside a constant that is a number, `max` and `min` do: they give their second operand for NaN."""

    def build(x: Any, y: Any) -> PrimExpr:
        x, y = match_types(x, y)
        if not x.dtype.is_float:
            return of_numbers(x, y)
        for one, other in ((x, y), (y, x)):
            value = one.value if isinstance(one, Broadcast) else one
            if isinstance(value, FloatImm):
                return one if math.isnan(value.value) else of_numbers(one, other)
        return Call(x.dtype, Op.get(f"tir.{name}"), (x, y))

    build.__name__, build.__doc__ = name, f"{_BINARY[name][1].capitalize()}; of integers too."
    return build


fmaximum, fminimum = _extreme("fmaximum", maximum), _extreme("fminimum", minimum)


def power(x: Any, y: Any) -> PrimExpr:
    """x to the y in their common dtype. Of integers it wraps; with a negative exponent it is 1 / x**-y,
    rounded to zero (0 of 0). Bools are converted to float32."""
    x, y = match_types(x, y)
    if x.dtype.is_bool:
        x, y = _float_argument(x), _float_argument(y)
    return Call(x.dtype, Op.get("tir.pow"), (x, y))


pow = power


def abs(x: Any) -> PrimExpr:
    """Absolute value; of an integer by selection."""
    x = as_expr(x)
    if x.dtype.is_float:
        if isinstance(x, FloatImm):
            return constant(math.fabs(x.value), x.dtype)
        return Call(x.dtype, Op.get("tir.fabs"), (x,))
    return select(x >= 0, x, -x) if x.dtype.is_signed else x


def _rounding(name: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        x = as_expr(x)
        return Call(x.dtype, Op.get(f"tir.{name}"), (x,)) if x.dtype.is_float else x

    build.__name__, build.__doc__ = (
        name,
        f"{_UNARY[name][1].capitalize()}; integers are returned as they are.",
    )
    return build


floor, ceil, trunc, round, nearbyint = map(_rounding, ("floor", "ceil", "trunc", "round", "nearbyint"))


def _float_test(name: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        x = as_expr(x)
        bools = DataType("bool").with_lanes(x.dtype.lanes)
        if not x.dtype.is_float:
            return constant(name == "isfinite", bools)
        return Call(bools, Op.get(f"tir.{name}"), (x,))

    build.__name__, build.__doc__ = name, f"Whether x {name[2:]}, for floats; integers are always finite."
    return build


isnan, isinf, isfinite = map(_float_test, ("isnan", "isinf", "isfinite"))


def fma(a: Any, b: Any, c: Any) -> PrimExpr:
    """a * b + c with one rounding."""
    a = as_expr(a)
    return Call(a.dtype, Op.get("tir.fma"), (a, as_expr(b, a.dtype), as_expr(c, a.dtype)))


def ldexp(x: Any, n: Any) -> PrimExpr:
    """x * 2**n with one rounding, for an int32 n in [-252, 254]."""
    x = as_expr(x)
    return Call(x.dtype, Op.get("tir.ldexp"), (x, as_expr(n, DataType("int32").with_lanes(x.dtype.lanes))))


def popcount(x: Any) -> PrimExpr:
    """How many bits of an integer are set, in its dtype. Raises: IRTypeError K0107 for a float."""
    x = as_expr(x)
    ops.not_floats("popcount", x)
    return Call(x.dtype, Op.get("tir.popcount"), (x,))


def as_computed(value: Any) -> PrimExpr:
    """The value as the machine computed it, overflow and all: no pass reasons about it."""
    value = as_expr(value)
    return Call(value.dtype, Op.get("tir.as_computed"), (value,))


def is_as_computed(node: Any) -> bool:
    """Whether a node is a call of `as_computed`."""
    return isinstance(node, Call) and node.op.name == "tir.as_computed"


def likely(condition: Any) -> PrimExpr:
    """The condition, which is expected to hold."""
    condition = as_expr(condition)
    return Call(condition.dtype, Op.get("tir.likely"), (condition,))


def reinterpret(dtype: str, value: Any) -> PrimExpr:
    """The bits of a value read as another dtype of the same size."""
    return Call(DataType(dtype), Op.get("tir.reinterpret"), (as_expr(value),))


def call_extern(dtype: str, name: str, *args: Any) -> PrimExpr:
    """A call of a C function by name, which may have effects."""
    return Call(DataType(dtype), Op.get("tir.call_extern"), (StringImm(name), *args))


def call_pure_extern(dtype: str, name: str, *args: Any) -> PrimExpr:
    """A call of a C function without effects, by name."""
    return Call(DataType(dtype), Op.get("tir.call_pure_extern"), (StringImm(name), *args))


def call_packed(name: str, *args: Any) -> PrimExpr:
    """A call of a packed function by name; int32."""
    return Call(DataType("int32"), Op.get("tir.call_packed"), (StringImm(name), *args))


def call_llvm_intrin(dtype: str, name: str, *args: Any) -> PrimExpr:
    """A call of an LLVM intrinsic by name, which may have effects."""
    return Call(DataType(dtype), Op.get("tir.call_llvm_intrin"), (StringImm(name), *args))


def call_llvm_pure_intrin(dtype: str, name: str, *args: Any) -> PrimExpr:
    """A call of an LLVM intrinsic without effects, by name."""
    return Call(DataType(dtype), Op.get("tir.call_llvm_pure_intrin"), (StringImm(name), *args))


def ret(value: Any = 0) -> PrimExpr:
    """Return a value from the function."""
    value = as_expr(value)
    return Call(value.dtype, Op.get("tir.ret"), (value,))
