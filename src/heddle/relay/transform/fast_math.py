"""Functions by polynomials of their own."""

from __future__ import annotations

from typing import Any

from heddle.relay.transform.rewriting import RewritePass, is_call, recalled
from heddle.support.frozen import frozen

_FAST = {"exp": "fast_exp", "erf": "fast_erf", "tanh": "fast_tanh", "nn.softmax": "nn.fast_softmax"}


@frozen
class FastMath(RewritePass):
    """Take approximations of `exp`, `erf`, `tanh` and `nn.softmax`.

        exp(%x)

    becomes

        fast_exp(%x)
    """

    opt_level = 4

    def rewrite(self, old: Any, new: Any) -> Any:
        return recalled(old, *new.args, name=_FAST[old.op.name]) if is_call(old, *_FAST) else new
