"""Diagnostic codes of tensor expressions."""

from heddle.support.diagnostics import declare_code

E0101 = declare_code(
    "E0101", "malformed tensor expression", "A compute's function, axes and shape do not fit together."
)
E0102 = declare_code(
    "E0102", "reduction in the wrong place", "A reduction must be the whole body of a compute."
)
E0103 = declare_code(
    "E0103", "constant needed", "A tensor operation needs this size as a constant; a symbolic one was given."
)
E0104 = declare_code(
    "E0104",
    "argument of a tensor operation out of range",
    "An axis, size, layout or mode is not one of those possible.",
)
