"""The named pipelines: which passes run, in which order, and why."""

from __future__ import annotations

from heddle.ir.transform import Pass, Sequential
from heddle.lower.legalize_ops import LegalizeOps
from heddle.lower.vm_shape_lower import VMShapeLower
from heddle.relax.transform.attach_global_symbol import AttachGlobalSymbol
from heddle.relax.transform.call_tir_rewrite import CallTIRRewrite
from heddle.relax.transform.kill_after_last_use import KillAfterLastUse
from heddle.relax.transform.lower_alloc_tensor import LowerAllocTensor
from heddle.relax.transform.lower_runtime_builtin import LowerRuntimeBuiltin
from heddle.relax.transform.to_non_dataflow import ToNonDataflow
from heddle.target import Target


def legalize_passes(target: Target) -> tuple[Pass, ...]:
    """Operators to loops."""
    return (LegalizeOps(),)


def finalize_passes(target: Target) -> tuple[Pass, ...]:
    """Graphs of loop functions to what the machine's code generator takes."""
    return (
        ToNonDataflow(),  # from here on bindings have effects
        CallTIRRewrite(),  # outputs become allocations
        LowerAllocTensor(),  # allocations become storages and tensors in them
        KillAfterLastUse(),  # registers are cleared, so that storages return to the pool
        LowerRuntimeBuiltin(),  # what is left of operators becomes builtins
        VMShapeLower(),  # symbolic dimensions become heap slots, types become checks
        AttachGlobalSymbol(),
    )


def default_pipeline(target: Target) -> Sequential:
    """What `compile` runs on a graph module."""
    return Sequential((*legalize_passes(target), *finalize_passes(target)), "default")
