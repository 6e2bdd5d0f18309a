"""Parallel convolutions and products as one."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.transform.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from heddle.relay.transform.combine_parallel_conv2_d import CombineParallelConv2D
from heddle.relay.transform.combine_parallel_dense import CombineParallelDense
from heddle.support.frozen import frozen


@frozen
class BatchingOps(Pass):
    """CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul, of 3 branches or more.

        (nn.dense(%x, %w1), nn.dense(%x, %w2), nn.dense(%x, %w3))

    becomes slices of one `nn.batch_matmul`.
    """

    opt_level = 4

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for step in (CombineParallelConv2D(3), CombineParallelDense(3), CombineParallelBatchMatmul(3)):
            mod = step.transform(mod, ctx)
        return mod
