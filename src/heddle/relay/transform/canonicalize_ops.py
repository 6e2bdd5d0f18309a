"""Operators that others say as well, in the others' words."""

from __future__ import annotations

from typing import Any

from heddle.relay.transform.rewriting import RewritePass, along, call, is_call, rank
from heddle.support.frozen import frozen


@frozen
class CanonicalizeOps(RewritePass):
    """Write `nn.bias_add` as an addition.

        nn.bias_add(%x, %b, axis=1)

    becomes

        add(%x, expand_dims(%b, axis=1, num_newaxis=2))
    """

    opt_level = 3

    def rewrite(self, old: Any, new: Any) -> Any:
        if not is_call(old, "nn.bias_add"):
            return new
        data, bias = new.args
        return call("add", data, along(bias, old.attrs.axis, rank(old.args[0])))
