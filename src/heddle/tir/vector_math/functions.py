"""Elementary functions of float32 as scalar or vector expressions: range reduction and polynomials.

Each function takes an expression of float32 (any lanes) and gives one of the same dtype. Values that are used
more than once are bound by `Let`. Ends are exact: NaN in, NaN out; infinities, overflow and results below the
normal range as IEEE 754 has them. Errors over the whole range are measured by
`tests/unit/tir/test_vector_math.py`: at most 4 units in the last place. Polynomials come from
`tools/fit_vector_math.py`; `fma` keeps the reductions exact.

sin, cos and tan reduce by pi/2 in three parts up to 100000; above that, and only if some lane is, C's
functions serve. `fmod` is exact; C's serves where the quotient is 2**29 or more. `fmod`, `pow`, `hypot` and
`atan2`'s tail use float64 inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.tir.vector_math.build import LOG2E, LOG10_2_HI, LOG10_2_LO, ldexp_in_two_steps, scoped
from heddle.tir.vector_math.division import remainder
from heddle.tir.vector_math.exponential import cosh, erf, exp, exp2, exp10, sigmoid, sinh, tanh
from heddle.tir.vector_math.logarithm import acosh, asinh, atanh, log, log1p, log_base
from heddle.tir.vector_math.power import hypot, pow, rsqrt
from heddle.tir.vector_math.trigonometric import acos, asin, atan, atan2, cos, sin, tan

FLOAT32_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": exp,
    "exp2": scoped(exp2),
    "exp10": scoped(exp10),
    "log": scoped(log),
    "log2": scoped(log_base(LOG2E, 1.0, 0.0)),
    "log10": scoped(log_base(0.4342944819032518, LOG10_2_HI, LOG10_2_LO)),
    "log1p": scoped(log1p),
    "tanh": scoped(tanh),
    "sigmoid": scoped(sigmoid),
    "erf": scoped(erf),
    "sin": scoped(sin),
    "cos": scoped(cos),
    "tan": scoped(tan),
    "asin": scoped(asin),
    "acos": scoped(acos),
    "atan": scoped(atan),
    "atan2": scoped(atan2),
    "sinh": scoped(sinh),
    "cosh": scoped(cosh),
    "asinh": scoped(asinh),
    "acosh": scoped(acosh),
    "atanh": scoped(atanh),
    "rsqrt": scoped(rsqrt),
    "hypot": scoped(hypot),
    "pow": scoped(pow),
    "fmod": scoped(remainder),
}
"""Intrinsic name → its expression for float32."""
RARELY_IN_C = frozenset({"sin", "cos", "tan", "fmod"})
"""Those that leave some operands to C's functions."""
LDEXP = scoped(ldexp_in_two_steps)
"""What `ldexp` becomes where no instruction does it."""
