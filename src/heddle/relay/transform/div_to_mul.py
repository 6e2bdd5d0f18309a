"""Products in the place of quotients by constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.relay.builders import const
from heddle.relay.transform.rewriting import RewritePass, array_of, call, dtype_of, is_call
from heddle.support.frozen import frozen


@frozen
class DivToMul(RewritePass):
    """Multiply with the reciprocal of a constant of floats.

        divide(%x, 4f)

    becomes

        multiply(%x, 0.25f)

    A constant with a zero stays a divisor. Results may differ in the last bit.
    """

    def rewrite(self, old: Any, new: Any) -> Any:
        value = array_of(old.args[1]) if is_call(old, "divide") else None
        if value is None or not np.issubdtype(value.dtype, np.floating) or not np.all(value):
            return new
        inverse = const(np.asarray(1 / value, value.dtype), dtype_of(old.args[1]))
        return call("multiply", new.args[0], inverse)
