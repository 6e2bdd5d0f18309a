"""The passes between scheduled loops and a target's code."""

from __future__ import annotations

from heddle.codegen.backend import backend_of
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, Sequential
from heddle.target import Target

OPTIONAL_LOOP_PASSES = (
    "CompactBuffers",
    "Simplify",
    "RunInLanes",
    "PeelLastPair",
    "CountRows",
    "HoistDivisions",
    "HoistIndexChecks",
    "HoistIfThenElse",
    "MoveWholeVectors",
    "StorageRewrite",
    "UnrollLoop",
    "RemoveNoOp",
)
"""Passes between scheduled loops and machine code without which kernels are slower, and give the same."""


def lowering_passes(target: Target) -> tuple[Pass, ...]:
    """From scheduled functions, blocks and all, to what the target's emitter takes."""
    return backend_of(target).loop_passes(target)


def is_whole(target: Target) -> bool:
    """Whether the current PassContext runs every pass: only then is code what the kernel cache holds."""
    ctx = PassContext.current()
    return all(ctx.allows(step.info) for step in lowering_passes(target))


def lower(mod: IRModule, target: Target) -> IRModule:
    """Run `lowering_passes` under the current PassContext."""
    return Sequential(lowering_passes(target), "lower_to_machine")(mod)
