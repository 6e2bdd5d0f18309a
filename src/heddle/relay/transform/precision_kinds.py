"""Which operators are computed in few bits: always, where their operands come so, or never."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from heddle.ir.codes import I0506
from heddle.ir.users_code import given_by
from heddle.relay.op import find
from heddle.relay.op_attrs import op_attr
from heddle.relay.transform.rewriting import works_on_elements
from heddle.support.diagnostics import UsageError

KEY = "FTVMMixedPrecisionConversionType"


class MixedPrecision(IntEnum):
    """What happens to an operator."""

    ALWAYS = 0
    FOLLOW = 1
    NEVER = 2


_ALWAYS = {f"nn.conv{n}d{end}" for n in (1, 2, 3) for end in ("", "_transpose")}
_ALWAYS |= {"nn.dense", "nn.batch_matmul", "nn.matmul"}
_NEVER = {
    *("exp", "fast_exp", "power", "erf", "fast_erf", "arange", "sum", "mean", "variance", "nn.layer_norm"),
    *("nn.softmax", "nn.fast_softmax", "nn.log_softmax", "nn.l2_normalize"),
    *("nn.cross_entropy", "nn.cross_entropy_with_logits"),
    *(f"nn.{kind}_avg_pool{n}d" for kind in ("global", "adaptive") for n in (1, 2, 3)),
}
_FOLLOW = {
    *("reshape", "transpose", "squeeze", "expand_dims", "concatenate", "split", "stack", "strided_slice"),
    *("take", "gather", "gather_nd", "tile", "repeat", "reverse", "broadcast_to", "layout_transform"),
    *("reshape_like", "broadcast_to_like", "slice_like", "zeros_like", "ones_like", "full_like"),
    *("nn.pad", "nn.bias_add", "nn.batch_flatten", "nn.batch_norm", "nn.dropout", "nn.prelu", "max", "min"),
    *("nn.upsampling", "nn.upsampling3d", "nn.depth_to_space", "nn.space_to_depth", "scatter_elements"),
    *("annotation.checkpoint", "nn.space_to_batch_nd", "nn.batch_to_space_nd", "sequence_mask"),
    *(f"nn.{kind}_pool{n}d" for kind in ("max", "avg", "global_max", "adaptive_max") for n in (1, 2, 3)),
}


def kind_of(call: Any, dtype: str) -> tuple[MixedPrecision, str, str] | None:
    """What happens to a call, the dtype that it adds up in, and that of its result; None where nobody said.

    What users register under KEY, `f(call, dtype) -> [kind, sum dtype, result dtype]`, wins.
    """
    name = call.op.name
    hook = op_attr(name, KEY)
    if hook is not None:
        kind, *dtypes = given_by(hook, f"{KEY} of {name}", Sequence, call, dtype) or (-1,)
        if kind not in list(MixedPrecision):
            raise UsageError(I0506, f"{KEY} of {name}: the kind is 0, 1 or 2, got {kind!r}")
        total, result = (*dtypes, dtype, dtype)[:2]
        return MixedPrecision(int(kind)), str(total), str(result)
    for names, kind in ((_ALWAYS, MixedPrecision.ALWAYS), (_NEVER, MixedPrecision.NEVER)):
        if name in names:
            return kind, dtype, dtype
    is_known = name in _FOLLOW or (find(name) is not None and works_on_elements(call.op))
    return (MixedPrecision.FOLLOW, dtype, dtype) if is_known else None
