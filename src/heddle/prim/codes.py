"""Diagnostic codes of scalar expressions."""

from heddle.support.diagnostics import declare_code

K0101 = declare_code(
    "K0101",
    "operand dtypes differ",
    "Both operands of a scalar operation must have the same dtype. The Python operators insert the usual "
    "casts; node "
    "constructors do not.",
)
K0102 = declare_code(
    "K0102", "not a scalar expression", "A Python or numpy scalar, or a scalar expression, was expected."
)
K0103 = declare_code(
    "K0103",
    "truth value of an expression",
    "Python asked whether a scalar expression is true. Its value is known only when the program runs.",
)
K0104 = declare_code("K0104", "division by zero", "A constant divisor is zero.")
K0105 = declare_code(
    "K0105", "unknown variable", "An expression was evaluated without a value for one of its variables."
)
K0106 = declare_code(
    "K0106",
    "integer constant out of range",
    "A constant must lie in the range of its dtype. Values that a program computes wrap; constants that are "
    "written do not.",
)
K0107 = declare_code(
    "K0107",
    "floats have no bits or truth here",
    "Bitwise operators and shifts take integers and bools, `and`, `or` and `not` take conditions. A float is "
    "compared first (`x != 0`), or its bits are taken by `reinterpret`.",
)
K0108 = declare_code(
    "K0108",
    "call of an intrinsic does not fit",
    "An intrinsic takes as many arguments, of such kinds and dtypes, as its record says. The builders "
    "(`T.exp`, `T.pow`) convert what they are given; calls that are built by name are not converted.",
)
