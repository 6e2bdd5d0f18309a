"""The numbers by which compiled code names the exception that an error becomes."""

from __future__ import annotations

from heddle.runtime.codes import U0603, U0604, U1001

ERROR_KINDS = {
    "RuntimeError": 0,
    "ValueError": 1,
    "TypeError": 2,
    "IndexError": 3,
    "BoundsError": int(U0603.name[1:]) << 8 | 3,
    "StepsError": int(U0604.name[1:]) << 8,
}
"""The kinds of `heddle_set_error`: the exception's class and, above it, the number of a code of its own."""
INDEX_ERROR = ERROR_KINDS["IndexError"] | int(U1001.name[1:]) << 8
"""An index that a tensor gives and that is outside its axis."""
