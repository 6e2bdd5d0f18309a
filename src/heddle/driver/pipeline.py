"""The named pipelines: which passes run, in which order, and why."""

from __future__ import annotations

from collections.abc import Callable

from heddle.codegen.backend import backend_of
from heddle.driver.codes import D0103
from heddle.ir.transform import Pass, Sequential
from heddle.lower.contract_in_bytes import ContractInBytes
from heddle.lower.convert_conv1d import ConvertConv1D
from heddle.lower.convert_conv_transpose import ConvertConvTranspose
from heddle.lower.convert_layout import ConvertToBlockedLayout
from heddle.lower.convert_winograd import ConvertToWinograd
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.lower.estimate_kernel_cost import EstimateKernelCost
from heddle.lower.estimate_peak_memory import EstimatePeakMemory
from heddle.lower.fuse_attention import FuseAttention
from heddle.lower.fuse_ops import FuseOps
from heddle.lower.fuse_tir import FuseTIR
from heddle.lower.hoist_subsampling import HoistSubsampling
from heddle.lower.legalize_ops import LegalizeOps
from heddle.lower.loops.fuse_loops import FuseLoops
from heddle.lower.name_sizes import NameSizes
from heddle.lower.pack_weights import PackWeights
from heddle.lower.place_kernels import PlaceKernels
from heddle.lower.prove_indices import ProveIndices
from heddle.lower.recursion.levels_of_trees import LevelsOfTrees
from heddle.lower.recursion.loop_over_lists import LoopOverLists
from heddle.lower.rewrite_dataflow_reshape import RewriteDataflowReshape
from heddle.lower.share_kernels import ShareKernels
from heddle.lower.vm_shape_lower import VMShapeLower
from heddle.lower.widen_groups import WidenGroups
from heddle.relax.transform.attach_global_symbol import AttachGlobalSymbol
from heddle.relax.transform.bind_constant_arguments import BindConstantArguments
from heddle.relax.transform.call_tir_rewrite import CallTIRRewrite
from heddle.relax.transform.canonicalize_bindings import CanonicalizeBindings
from heddle.relax.transform.check_stated_types import CheckStatedTypes
from heddle.relax.transform.contract_in_bfloat16 import ContractInBfloat16
from heddle.relax.transform.contract_quantized import ContractQuantized
from heddle.relax.transform.convert_to_dataflow import ConvertToDataflow
from heddle.relax.transform.copy_written_constants import CopyWrittenConstants
from heddle.relax.transform.dead_code_elimination import DeadCodeElimination
from heddle.relax.transform.decompose_ops_for_inference import DecomposeOpsForInference
from heddle.relax.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.relax.transform.index_whole_rows import IndexWholeRows
from heddle.relax.transform.kill_after_last_use import KillAfterLastUse
from heddle.relax.transform.lambda_lift import LambdaLift
from heddle.relax.transform.lower_alloc_tensor import LowerAllocTensor
from heddle.relax.transform.lower_runtime_builtin import LowerRuntimeBuiltin
from heddle.relax.transform.realize_v_device import RealizeVDevice
from heddle.relax.transform.remove_purity_checking import RemovePurityChecking
from heddle.relax.transform.sink_reshape import SinkReshape
from heddle.relax.transform.static_plan_block_memory import StaticPlanBlockMemory
from heddle.relax.transform.to_non_dataflow import ToNonDataflow
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.target import Target

PRECISIONS = ("fp32", "bf16")
"""The precisions of float32 models. `fp32`, the default, is strict: no value is rounded to a narrower
type.
"""


class OptionError(UsageError, ValueError):
    """A compiler option has an invalid value."""


def _optimize_for_cpu(target: Target, precision: str) -> tuple[Pass, ...]:
    passes = (
        CheckStatedTypes(),  # what is said about a value and not proved is checked when it runs
        LambdaLift(),  # local functions are optimised as all others are
        ConvertToDataflow(),  # pure bindings between control flow form blocks, in which operators fuse
        DecomposeOpsForInference(),  # batch norms become scales and shifts, which fuse
        ContractQuantized(),  # products of quantised tensors are products of integers
        ContractInBytes(target),  # products of 8-bit integers, where the target has them
        ConvertConv1D(),  # a sequence becomes an image of one row
        ConvertConvTranspose(),  # transposed convolutions become plain ones, whose results interleave
        CanonicalizeBindings(True),  # a variable that only renames another is replaced by it
        HoistSubsampling(),  # pixels that strides skip are not computed
        IndexWholeRows(),  # an index that is repeated for each element of a row is read once for the row
        FoldConstant(),  # calls whose operands are constants are computed now
        BindConstantArguments(),  # loops get the weights that callers pass them as constants
        FoldConstant(),  # values computed from weights alone are computed now
        SinkReshape(),  # reshapes move behind elementwise operators, which can then fuse
        EliminateCommonSubexpr(),  # equal calls are made once
        DeadCodeElimination(keep_packed_calls=True),  # bindings that nothing uses are removed
    )
    return (*passes, *precision_passes(precision))


def precision_passes(precision: str) -> tuple[Pass, ...]:
    """Return the passes that lower the precision of products. They run after the passes that compute
    weights.
    """
    if precision not in PRECISIONS:
        raise OptionError(D0103, f"unknown precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
    if precision == "fp32":
        return ()
    return (
        ContractInBfloat16(),  # products with weights take narrow factors
        EliminateCommonSubexpr(),  # an operand of several products is rounded once
        FoldConstant(),  # weights are rounded when the program is compiled
        DeadCodeElimination(keep_packed_calls=True),  # weights that only rounded copies were made of
    )


def _legalize_for_cpu(target: Target, exec_mode: str) -> tuple[Pass, ...]:
    return (
        RealizeVDevice(),  # hints about devices become copies
        LegalizeOps(record_operators=True),  # each operator becomes a loop function
        RealizeVDevice(),  # what operators were taken apart into is where they were
        CanonicalizeBindings(True),  # decompositions leave variables that only rename others
        ProveIndices(),  # indices that cannot be out of range are not checked
        LoopOverLists(),  # recursion over a list becomes a loop, with products of all elements at once
        LevelsOfTrees(exec_mode),  # recursion over a tree becomes a loop, with products of whole levels
        FuseAttention(),  # attention keeps the scores of a few rows at a time, not of all
        FuseOps(record_boundaries=True),  # loop functions that can share a loop nest are grouped
        FuseTIR(),  # and each group becomes one
        RewriteDataflowReshape(),  # reshapes become views of the same memory
        CopyWrittenConstants(),  # what is written over in place is a copy of a constant
        WidenGroups(target),  # groups with fewer channels than a vector has lanes are merged
        ConvertToBlockedLayout(target),  # images are stored in blocks of channels
        NameSizes(),  # sizes that are formulas of free sizes get variables
        EstimateKernelCost(),  # profilers want to know what a kernel does
        ConvertToWinograd(target),  # 3 x 3 convolutions, where that takes fewer products
        PackWeights(target),  # constant weights are stored in the order in which vectors read them
        ApplyDefaultSchedule(
            target, backend_of(target).schedule_rules
        ),  # loops are tiled, put on threads and into vectors
        FuseLoops(),  # a loop of the graph and the kernels that it calls become one kernel
        ShareKernels(),  # kernels that differ only in their sizes are compiled once
        PlaceKernels(),  # each kernel runs on the device of its operands
    )


def _finalize_for_cpu(_: Target) -> tuple[Pass, ...]:
    return (
        ToNonDataflow(),  # dataflow blocks end: later passes add bindings with effects
        RemovePurityChecking(),  # pure functions may have effects inside
        CallTIRRewrite(),  # outputs become allocations
        StaticPlanBlockMemory(),  # tensors that are not alive together share storages
        LowerAllocTensor(),  # allocations become storages and tensors in them
        KillAfterLastUse(),  # registers are cleared, so that storages return to the pool
        EstimatePeakMemory(),  # the most memory that is in use at once, as a formula of the sizes
        LowerRuntimeBuiltin(),  # remaining operators become calls of the machine's builtins
        VMShapeLower(),  # symbolic dimensions become heap slots, types become checks
        AttachGlobalSymbol(),
    )


@frozen
class GraphPasses:
    """The parts of a pipeline: see `optimize_passes`, `legalize_passes`, `finalize_passes`."""

    optimize: Callable[[Target, str], tuple[Pass, ...]]
    legalize: Callable[[Target, str], tuple[Pass, ...]]
    finalize: Callable[[Target], tuple[Pass, ...]]


PIPELINES: dict[str, GraphPasses] = {
    "cpu": GraphPasses(_optimize_for_cpu, _legalize_for_cpu, _finalize_for_cpu),
}
"""The parts by the name that the record of a target's kind states (`heddle.codegen.backend`)."""


def optimize_passes(target: Target, precision: str = "fp32") -> tuple[Pass, ...]:
    """Return the passes that optimise graphs of operators. Raises: OptionError D0103 (a ValueError)."""
    return PIPELINES[backend_of(target).pipeline].optimize(target, precision)


def legalize_passes(target: Target, exec_mode: str = "compiled") -> tuple[Pass, ...]:
    """Return the passes that lower operators to loop functions, fuse them and schedule them. `exec_mode`:
    whether graph functions are to be "compiled", or stay "bytecode", of which each step takes longer."""
    return PIPELINES[backend_of(target).pipeline].legalize(target, exec_mode)


def finalize_passes(target: Target) -> tuple[Pass, ...]:
    """Return the passes that bring graphs of loop functions into the form that the VM code generator
    accepts.
    """
    return PIPELINES[backend_of(target).pipeline].finalize(target)


_TAKES_TIME = (
    FuseAttention,
    WidenGroups,
    ConvertToBlockedLayout,
    EstimateKernelCost,
    ConvertToWinograd,
    PackWeights,
    FuseLoops,
    EstimatePeakMemory,
)
"""Passes of the default pipeline that make programs fast but take long to run, and passes that only reports
need."""


def quick_pipeline(target: Target) -> Sequential:
    """Return a pipeline for programs that must start soon: the graph is optimised and fused as in the default
    pipeline, but loops are simple, and the same for all sizes. Programs run several times to a hundred times
    slower than with the default pipeline."""
    rules = ApplyDefaultSchedule(target, backend_of(target).plain_rules, own_loops=False)
    passes = [
        rules if isinstance(step, ApplyDefaultSchedule) else step
        for step in (*optimize_passes(target), *legalize_passes(target, "bytecode"), *finalize_passes(target))
        if not isinstance(step, _TAKES_TIME)
    ]
    return Sequential(passes, "quick")


def default_pipeline(target: Target, precision: str = "fp32", exec_mode: str = "compiled") -> Sequential:
    """Return the pipeline that `compile` runs on a graph module. `precision` is one of PRECISIONS,
    `exec_mode` as for `legalize_passes`. Raises: OptionError D0103."""
    legalize = legalize_passes(target, exec_mode)
    passes = (*optimize_passes(target, precision), *legalize, *finalize_passes(target))
    return Sequential(passes, "default")
