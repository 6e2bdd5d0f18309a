"""The named pipelines: which passes run, in which order, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from heddle.lower.legalize_ops import LegalizeOps
from heddle.lower.loops.fuse_loops import FuseLoops
from heddle.lower.name_sizes import NameSizes
from heddle.lower.pack_weights import PackWeights
from heddle.lower.place_kernels import PlaceKernels
from heddle.lower.prove_indices import ProveIndices
from heddle.lower.rewrite_dataflow_reshape import RewriteDataflowReshape
from heddle.lower.share_kernels import ShareKernels
from heddle.lower.vm_shape_lower import VMShapeLower
from heddle.lower.widen_groups import WidenGroups
from heddle.relax.transform.attach_global_symbol import AttachGlobalSymbol
from heddle.relax.transform.bind_constant_arguments import BindConstantArguments
from heddle.relax.transform.call_tir_rewrite import CallTIRRewrite
from heddle.relax.transform.canonicalize_bindings import CanonicalizeBindings
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
from heddle.target import Target

PRECISIONS = ("fp32", "bf16")
"""What float32 models may be computed in. `fp32`, the default, is strict: no value is rounded to less."""


class OptionError(UsageError, ValueError):
    """An option of the compiler with a value that it does not have."""


def _optimize_for_cpu(target: Target, precision: str) -> tuple[Pass, ...]:
    passes = (
        LambdaLift(),  # local functions are optimised as all others are
        ConvertToDataflow(),  # pure bindings between control flow form blocks, in which operators fuse
        DecomposeOpsForInference(),  # batch norms become scales and shifts, which fuse
        ContractQuantized(),  # products of quantised tensors are products of integers
        ContractInBytes(target),  # of bytes, where the target multiplies bytes
        ConvertConv1D(),  # sequences are images of one row
        ConvertConvTranspose(),  # images that grow are several images, whose pixels alternate
        CanonicalizeBindings(True),  # names for names go, so that later passes see through them
        IndexWholeRows(),  # an index that is repeated for each element of a row is that of the row
        FoldConstant(),  # what is known is computed
        BindConstantArguments(),  # bodies of loops know their weights
        FoldConstant(),  # and so does what is computed of them
        SinkReshape(),  # maps follow what makes their operands, and fuse with it
        EliminateCommonSubexpr(),  # what is computed twice is computed once
        DeadCodeElimination(keep_packed_calls=True),  # what nothing needs goes
    )
    return (*passes, *precision_passes(precision))


def precision_passes(precision: str) -> tuple[Pass, ...]:
    """Products of float32 to products of less, after everything that computes weights."""
    if precision not in PRECISIONS:
        raise OptionError(D0103, f"unknown precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
    if precision == "fp32":
        return ()
    return (
        ContractInBfloat16(),  # products with weights take narrow factors
        EliminateCommonSubexpr(),  # what several products take is rounded once
        FoldConstant(),  # weights are rounded when the program is compiled
        DeadCodeElimination(keep_packed_calls=True),  # weights that are not used in full go
    )


def _legalize_for_cpu(target: Target) -> tuple[Pass, ...]:
    return (
        RealizeVDevice(),  # hints about devices become copies
        LegalizeOps(record_operators=True),  # each operator becomes a loop function
        CanonicalizeBindings(True),  # decompositions leave names for names
        ProveIndices(),  # indices that cannot be out of range are not checked
        FuseAttention(),  # scores of attention live no longer than a few rows
        FuseOps(record_boundaries=True),  # loop functions that can share a loop nest are grouped
        FuseTIR(),  # and each group becomes one
        RewriteDataflowReshape(),  # what only renumbers elements becomes a view
        CopyWrittenConstants(),  # a constant is not written over
        WidenGroups(target),  # groups of channels that fill no vector are read together
        ConvertToBlockedLayout(target),  # images lie as convolutions make and take them
        NameSizes(),  # sizes of free tensors that are formulas get names
        EstimateKernelCost(),  # profilers want to know what a kernel does
        ConvertToWinograd(target),  # convolutions that multiply less
        PackWeights(target),  # constant weights lie as the vector lanes read them
        ApplyDefaultSchedule(
            target, backend_of(target).schedule_rules
        ),  # loops are tiled, put on threads and into vectors
        FuseLoops(),  # and a loop of the graph around them is one with them
        ShareKernels(),  # loops that differ in sizes alone are compiled once
        PlaceKernels(),  # and each runs on one device
    )


def _finalize_for_cpu(_: Target) -> tuple[Pass, ...]:
    return (
        ToNonDataflow(),  # from here on bindings have effects
        RemovePurityChecking(),  # pure functions may have effects inside
        CallTIRRewrite(),  # outputs become allocations
        StaticPlanBlockMemory(),  # tensors that are not alive together share storages
        LowerAllocTensor(),  # allocations become storages and tensors in them
        KillAfterLastUse(),  # registers are cleared, so that storages return to the pool
        EstimatePeakMemory(),  # how much memory is alive at once, as a formula
        LowerRuntimeBuiltin(),  # what is left of operators becomes builtins
        VMShapeLower(),  # symbolic dimensions become heap slots, types become checks
        AttachGlobalSymbol(),
    )


@dataclass(frozen=True, slots=True)
class GraphPasses:
    """The parts of a pipeline: see `optimize_passes`, `legalize_passes`, `finalize_passes`."""

    optimize: Callable[[Target, str], tuple[Pass, ...]]
    legalize: Callable[[Target], tuple[Pass, ...]]
    finalize: Callable[[Target], tuple[Pass, ...]]


PIPELINES: dict[str, GraphPasses] = {
    "cpu": GraphPasses(_optimize_for_cpu, _legalize_for_cpu, _finalize_for_cpu),
}
"""By the name that the record of a target's kind gives (`heddle.codegen.backend`)."""


def optimize_passes(target: Target, precision: str = "fp32") -> tuple[Pass, ...]:
    """Graphs of operators to smaller graphs of operators. Raises: OptionError D0103 (a ValueError)."""
    return PIPELINES[backend_of(target).pipeline].optimize(target, precision)


def legalize_passes(target: Target) -> tuple[Pass, ...]:
    """Operators to loops, and few loop functions out of many."""
    return PIPELINES[backend_of(target).pipeline].legalize(target)


def finalize_passes(target: Target) -> tuple[Pass, ...]:
    """Graphs of loop functions to what the machine's code generator takes."""
    return PIPELINES[backend_of(target).pipeline].finalize(target)


def default_pipeline(target: Target, precision: str = "fp32") -> Sequential:
    """What `compile` runs on a graph module; `precision` is one of PRECISIONS."""
    passes = (*optimize_passes(target, precision), *legalize_passes(target), *finalize_passes(target))
    return Sequential(passes, "default")
