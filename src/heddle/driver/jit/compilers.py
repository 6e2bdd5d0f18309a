"""The ways from a graph to a program, for both machines: at once, and as well as can be."""

from __future__ import annotations

from collections.abc import Mapping

from heddle.driver.compile import build_for
from heddle.driver.jit.request import Setup
from heddle.driver.jit.sized import bind_sizes
from heddle.driver.pipeline import default_pipeline, quick_pipeline
from heddle.driver.program_cache import BuildOptions, program_cache
from heddle.driver.relay_vm import executable_of
from heddle.ir.module import IRModule
from heddle.target import Target
from heddle.vm.executable import Executable

QUICK_OPT_LEVEL = "1"
"""LLVM keeps values in registers, and does little else."""


def first_program(graph: IRModule, setup: Setup) -> Executable:
    """What a program begins with: the full one where an earlier process left it in the cache, else a quick
    one."""
    if setup.machine == "relax":
        options = BuildOptions(setup.exec_mode, setup.precision, sanitize=False)
        kept = program_cache().find(graph, Target(setup.target), options)
        if kept is not None:
            return kept
    return quick_program(graph, setup)


def quick_program(graph: IRModule, setup: Setup) -> Executable:
    """A program that is there soon: bytecode, and kernels with plain loops."""
    target = Target(setup.target)
    if int(target.attrs.get("opt-level", 3)) > int(QUICK_OPT_LEVEL):
        target = Target({**target.export(), "opt-level": QUICK_OPT_LEVEL})
    pipeline = quick_pipeline(target)
    if setup.machine == "relay":
        return executable_of(graph, pipeline, target)
    return build_for(graph, target, relax_pipeline=pipeline, exec_mode="bytecode")


def full_program(graph: IRModule, setup: Setup, function: str, sizes: Mapping[str, int]) -> Executable:
    """What `heddle.compile` makes; with `sizes`, of a graph in which the function has these sizes."""
    target = Target(setup.target)
    if sizes:
        graph = bind_sizes(graph, function, sizes)
    if setup.machine == "relay":
        return executable_of(graph, default_pipeline(target, setup.precision, "bytecode"), target)
    return build_for(graph, target, exec_mode=setup.exec_mode, precision=setup.precision)
