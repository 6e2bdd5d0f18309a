"""The passes that the support library's text goes through before LLVM makes code of it.

Functions that the text marks `alwaysinline` are inlined, and functions marked `"heddle-fold"`, which got some
of them, are simplified. All others reach the code generator as they are written: locks and waiting threads
are spelled out, and nothing in between shall be clever about them.
"""

from __future__ import annotations

from typing import Any

FOLDED = b'"heddle-fold"'


def inline_marked(llvm: Any, machine: Any, module: Any) -> None:
    """Change a module in place. `llvm` is `llvmlite.binding`. Raises: RuntimeError from LLVM."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    whole = llvm.create_new_module_pass_manager()
    whole.add_always_inliner_pass()
    whole.run(module, builder)
    each = llvm.create_new_function_pass_manager()
    each.add_sroa_pass()
    each.add_instruction_combine_pass()
    each.add_simplify_cfg_pass()
    each.add_new_gvn_pass()
    each.add_jump_threading_pass()
    each.add_instruction_combine_pass()
    each.add_simplify_cfg_pass()
    for function in module.functions:
        if FOLDED in function.attributes:
            each.run(function, builder)
