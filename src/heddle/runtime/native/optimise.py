"""Optimise marked functions of the support library's IR before code generation.

These functions consist of small inlined functions that repeat the same checks (such as "is the memory there?"
or "which kind is it?"), which the passes remove. All other functions reach the code generator unchanged:
their locks and waits are written out explicitly, and no optimisation may reorder them.
"""

from __future__ import annotations

from typing import Any

SIMPLIFIED = "heddle-simplified"
"""The attribute of marked functions."""


def simplify_marked(llvm: Any, machine: Any, module: Any) -> None:
    """Optimise a module in place. `llvm` is `llvmlite.binding`. Raises: RuntimeError from LLVM."""
    mark = f'"{SIMPLIFIED}"'.encode()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_jump_threading_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if mark in function.attributes:
            passes.run(function, builder)
