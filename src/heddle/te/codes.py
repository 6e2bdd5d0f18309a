"""Diagnostic codes of tensor expressions."""

from heddle.support.diagnostics import declare_code

E0101 = declare_code(
    "E0101", "malformed tensor expression", "A compute's function, axes and shape do not fit together."
)
E0102 = declare_code(
    "E0102", "reduction in the wrong place", "A reduction must be the whole body of a compute."
)
