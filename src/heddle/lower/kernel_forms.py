"""The arguments of loop functions, in the form that code generators need."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.lower.estimate_kernel_cost import KERNEL_COST
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.nodes import BufferStore, PrimFunc
from heddle.vm.relay import KernelForm


def kernel_forms(mod: IRModule) -> dict[str, KernelForm]:
    """The form of each loop function of a module, by the name that calls have."""
    return {
        str(func.attrs.get("global_symbol") or var.name_hint): kernel_form(func)
        for var, func in mod.functions.items()
        if isinstance(func, PrimFunc)
    }


def kernel_form(func: PrimFunc) -> KernelForm:
    """Tensors that the function writes count as outputs where only such ones follow them."""
    buffers = func.buffers
    cost = func.attrs.get(KERNEL_COST)
    if cost is not None and cost["outputs"]:
        written = {buffers[position] for position in cost["outputs"]}
    else:
        written = {node.buffer for node in walk_stmts(func.body) if isinstance(node, BufferStore)}
    count = 0
    for buffer in reversed(buffers):
        if buffer not in written:
            break
        count += 1
    return KernelForm(len(buffers), count)
