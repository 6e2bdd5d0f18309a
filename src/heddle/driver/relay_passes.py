"""The passes over Relay programs that TVM's `relay.build` runs in front of its code generators, for
`relay.optimize`. `relay.build` needs none of them here but those that ask users' hooks (`relay_hooks`): what
it compiles is optimised in the shared normal form."""

from __future__ import annotations

from heddle.ir.transform import Sequential
from heddle.lower.relay_fuse_ops import FuseOps
from heddle.relay.transform.alter_op_layout import AlterOpLayout
from heddle.relay.transform.canonicalize_cast import CanonicalizeCast
from heddle.relay.transform.canonicalize_ops import CanonicalizeOps
from heddle.relay.transform.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from heddle.relay.transform.combine_parallel_conv2_d import CombineParallelConv2D
from heddle.relay.transform.combine_parallel_dense import CombineParallelDense
from heddle.relay.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from heddle.relay.transform.fast_math import FastMath
from heddle.relay.transform.flatten_atrous_conv import FlattenAtrousConv
from heddle.relay.transform.fold_constant import FoldConstant
from heddle.relay.transform.fold_scale_axis import FoldScaleAxis
from heddle.relay.transform.infer_type import InferType
from heddle.relay.transform.inline import Inline
from heddle.relay.transform.legalize import Legalize, QnnLegalize
from heddle.relay.transform.qnn_canonicalize_ops import QnnCanonicalizeOps
from heddle.relay.transform.remove_unused_functions import RemoveUnusedFunctions
from heddle.relay.transform.simplify_expr import SimplifyExpr
from heddle.relay.transform.simplify_inference import SimplifyInference
from heddle.relay.transform.to_basic_block_normal_form import ToBasicBlockNormalForm


def relay_passes() -> Sequential:
    """The passes in TVM's order. Those above the level of the current PassContext do not run."""
    return Sequential(
        (
            RemoveUnusedFunctions(),
            ToBasicBlockNormalForm(),
            QnnLegalize(),
            QnnCanonicalizeOps(),
            Legalize(),
            SimplifyInference(),
            EliminateCommonSubexpr(),
            CombineParallelConv2D(3),
            CombineParallelDense(3),
            CombineParallelBatchMatmul(3),
            FoldConstant(),
            FoldScaleAxis(),
            SimplifyExpr(),
            CanonicalizeCast(),
            CanonicalizeOps(),
            FlattenAtrousConv(),
            AlterOpLayout(),
            FastMath(),
            FoldConstant(),
            FuseOps(),
            Inline(),
            InferType(),
        ),
        "optimize_relay",
    )
