"""LowerIntrin: elementary functions → arithmetic, or calls of C's math library.

    B[i] = exp(A[i])        →       B[i] = let x = A[i] in ... polynomial ... * 2**n

float32: the expressions of `vector_math`, for any number of lanes. float64: C's functions, lane by lane
(sigmoid and rsqrt by the formulas of their records); float32 too, for targets that ask for it. float16 and
bfloat16: computed in float32 and rounded once. Powers of integers: products. An intrinsic of which only a
formula is known becomes it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.intrinsics import Formula, call_pure_extern, intrinsic_of, ldexp
from heddle.prim.nodes import ArithExpr, Call, PrimExpr
from heddle.prim.ops import cast
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.nodes import PrimFunc
from heddle.tir.vector_math import FLOAT32_FUNCTIONS, LDEXP
from heddle.tir.vector_math.division import FLOAT_DIVISIONS
from heddle.tir.vector_math.integer_power import integer_power

_C_NAMES = (
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "erf",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
)
_C_FUNCTIONS = {
    **{name: name for name in _C_NAMES},
    **{name: name for name in ("atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "pow")},
    "fmod": "fmod",
    "nextafter": "nextafter",
}
_ONLY_IN_C = ("nextafter",)
_MACHINE_OPS = (
    "sqrt",
    "fabs",
    "floor",
    "ceil",
    "trunc",
    "round",
    "nearbyint",
    "copysign",
    "fma",
    "fmaximum",
    "fminimum",
)


@frozen(slots=False)
class LowerIntrin(FunctionPass):
    """Replace intrinsics that no machine has. `has_ldexp`: the target scales vectors by powers of two in one
    instruction, as exponentials want it; others do it in two steps, to the same bits. `calls_c`: float32 is
    left to C's functions too."""

    has_ldexp: bool = False
    calls_c: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Lowerer(self.has_ldexp, self.calls_c).visit(func.body))


class _Lowerer(Rewriter):
    def __init__(self, has_ldexp: bool, calls_c: bool) -> None:
        super().__init__()
        self._has_ldexp, self._calls_c = has_ldexp, calls_c

    def visit_Call(self, node: Call) -> Any:
        lowered = self.default(node)
        name = node.op.name.removeprefix("tir.")
        if name == "pow" and isinstance(lowered, Call) and lowered.dtype.is_int:
            return integer_power(*lowered.args)
        if not isinstance(lowered, Call) or not lowered.dtype.is_float:
            return lowered
        args = [arg for arg in lowered.args if isinstance(arg, PrimExpr)]
        if name == "ldexp":
            return self._ldexp(lowered.dtype, *args)
        formula = intrinsic_of(lowered).formula
        if name in FLOAT32_FUNCTIONS or name in _ONLY_IN_C or formula is not None:
            return self._function(name, formula, lowered.dtype, args)
        if name in _MACHINE_OPS and _is_narrow(lowered.dtype):
            wide = DataType("float32").with_lanes(lowered.dtype.lanes)
            return cast(lowered.dtype, Call(wide, lowered.op, tuple(cast(wide, arg) for arg in args)))
        return lowered

    def visit_ArithExpr(self, node: ArithExpr) -> Any:
        """Divisions of floats that give a remainder or a whole number."""
        lowered = self.default(node)
        divide = FLOAT_DIVISIONS.get(type(lowered))
        if divide is None or not lowered.dtype.is_float:
            return lowered
        if not _is_narrow(lowered.dtype):
            return self.visit(divide(lowered.a, lowered.b))
        wide = DataType("float32").with_lanes(lowered.dtype.lanes)
        return cast(lowered.dtype, self.visit(divide(cast(wide, lowered.a), cast(wide, lowered.b))))

    def _function(
        self, name: str, formula: Formula | None, dtype: DataType, args: list[PrimExpr]
    ) -> PrimExpr:
        if _is_narrow(dtype):
            wide = DataType("float32").with_lanes(dtype.lanes)
            return cast(dtype, self._function(name, formula, wide, [cast(wide, arg) for arg in args]))
        is_left_to_c = dtype.bits == 64 or self._calls_c
        if formula is not None and (is_left_to_c or name not in FLOAT32_FUNCTIONS):
            written: PrimExpr = self.visit(formula(*args))
            return written
        if dtype.bits == 64:
            return call_pure_extern(dtype, _C_FUNCTIONS[name], *args)
        if name in _ONLY_IN_C or (self._calls_c and name in _C_FUNCTIONS):
            return call_pure_extern(dtype, f"{_C_FUNCTIONS[name]}f", *args)
        return FLOAT32_FUNCTIONS[name](*args, has_ldexp=self._has_ldexp)  # type: ignore[no-any-return]

    def _ldexp(self, dtype: DataType, x: PrimExpr, n: PrimExpr) -> PrimExpr:
        if dtype.bits == 64:
            return call_pure_extern(dtype, "ldexp", x, n)
        if self._calls_c and dtype.bits == 32:
            return call_pure_extern(dtype, "ldexpf", x, n)
        if _is_narrow(dtype):
            wide = DataType("float32").with_lanes(dtype.lanes)
            return cast(dtype, self._ldexp(wide, cast(wide, x), n))
        scaled: PrimExpr = ldexp(x, n) if self._has_ldexp else LDEXP(x, n)
        return scaled


def _is_narrow(dtype: DataType) -> bool:
    return dtype.bits <= 16
