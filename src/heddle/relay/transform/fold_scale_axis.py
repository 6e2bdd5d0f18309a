"""Factors of channels as part of weights."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.transform.backward_fold_scale_axis import BackwardFoldScaleAxis
from heddle.relay.transform.fold_constant import FoldConstant
from heddle.relay.transform.forward_fold_scale_axis import ForwardFoldScaleAxis
from heddle.support.frozen import frozen


@frozen
class FoldScaleAxis(Pass):
    """BackwardFoldScaleAxis, ForwardFoldScaleAxis and FoldConstant: what a normalisation leaves behind a
    convolution with constant weights becomes part of them.

        multiply(nn.conv2d(%x, meta[relay.Constant][0]), meta[relay.Constant][1])

    becomes

        nn.conv2d(%x, meta[relay.Constant][0])
    """

    opt_level = 3

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for step in (BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()):
            mod = step.transform(mod, ctx)
        return mod
