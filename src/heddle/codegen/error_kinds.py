"""The numbers by which compiled code names the exception that an error becomes."""

from __future__ import annotations

from heddle.runtime.codes import U0603, U0604, U1001
from heddle.runtime.native.abi import Family, error_word

ERROR_KINDS = {
    "RuntimeError": int(Family.TRAP),
    "ValueError": int(Family.VALUE),
    "TypeError": int(Family.TYPE),
    "IndexError": int(Family.INDEX),
    "BoundsError": error_word(U0603, Family.INDEX),
    "StepsError": error_word(U0604),
}
"""The kinds of `heddle_set_error`: the exception's class and, above it, the number of a code of its own."""
INDEX_ERROR = error_word(U1001, Family.INDEX)
"""An index that a tensor gives and that is outside its axis."""
