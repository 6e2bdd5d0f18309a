"""The passes that marked functions of the support library's text go through before LLVM makes code of it.

They are those that look at the same thing more than once, because small functions were put in place of their
calls: is the memory there, which kind is it. All others reach the code generator as they are written: locks
and waiting threads are spelled out, and nothing in between shall be clever about them.
"""

from __future__ import annotations

from typing import Any

SIMPLIFIED = "heddle-simplified"
"""The attribute of marked functions."""


def simplify_marked(llvm: Any, machine: Any, module: Any) -> None:
    """Change a module in place. `llvm` is `llvmlite.binding`. Raises: RuntimeError from LLVM."""
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
