"""EstimateKernelCost: annotate loop functions with their numbers of operations and of bytes moved.

T.func_attr({"operators": ("relax.exp",)})
    →
T.func_attr({"kernel_cost": {"operators": ("relax.exp",), "shapes": (("n", "4"), ("n", "4")), "outputs": (1,),
                             "flops": "0", "size_bytes": "n * 32", "written_bytes": "n * 16", ...}})

Runs before functions are scheduled: padding and tiles do not count. Code generation moves the attribute into
the executable's metadata, where profilers find it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.fuse_ops import FUSION_BOUNDARY
from heddle.lower.legalize_ops import OPERATORS
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import minimum
from heddle.prim.size_text import size_text
from heddle.support.diagnostics import UsageError
from heddle.support.names import NameSupply
from heddle.tir.analysis.work import Work, work_of
from heddle.tir.nodes import Buffer, BufferStore, PrimFunc, SBlock
from heddle.vm.insight.kernel_cost import KernelCost

KERNEL_COST = "kernel_cost"


class EstimateKernelCost(FunctionPass):
    """Requires: loop functions of blocks (LegalizeOps, FuseTIR), not scheduled yet."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        cost = kernel_cost(func)
        bare = func.without_attr(OPERATORS).without_attr(FUSION_BOUNDARY)
        return bare.with_attr(KERNEL_COST, asdict(cost))  # type: ignore[no-any-return]


def kernel_cost(func: PrimFunc) -> KernelCost:
    """What a loop function costs, in the names of its symbolic sizes."""
    names = size_names(func)
    buffers = func.buffers
    shapes = tuple(tuple(size_text(dim, names) or "?" for dim in buffer.shape) for buffer in buffers)
    scalars = tuple(names[p] for p in func.params if p not in func.buffer_map and p in names)
    operators = tuple(str(name) for name in func.attrs.get(OPERATORS, ()))
    boundaries = tuple(str(reason) for reason in func.attrs.get(FUSION_BOUNDARY, ()))
    try:
        work = work_of(func)
    except UsageError:
        return KernelCost(operators, shapes, scalars, boundaries=boundaries)
    read, written = _moved_bytes(buffers, _without_sums(func, work))
    return KernelCost(
        operators,
        shapes,
        scalars,
        tuple(position for position, buffer in enumerate(buffers) if buffer in work.writes),
        size_text(work.flops, names),
        size_text(Analyzer().simplify(read + written), names),
        boundaries=boundaries,
        written_bytes=size_text(written, names),
    )


def size_names(func: PrimFunc) -> dict[Var, str]:
    """A name for each size that a call tells: dimensions that stand alone, and scalar parameters."""
    dims = [dim for buffer in func.buffers for dim in buffer.shape if isinstance(dim, Var)]
    scalars = [param for param in func.params if param not in func.buffer_map]
    supply = NameSupply(("min", "max"))
    return {var: supply.fresh(var.name) for var in dict.fromkeys((*dims, *scalars))}


def _without_sums(func: PrimFunc, work: Work) -> Work:
    """The work without the reads of what a reduction has begun itself: its sums need not come from memory."""
    begun = {
        store.buffer
        for block in walk(func.body)
        if isinstance(block, SBlock) and block.init is not None
        for store in walk(block.init)
        if isinstance(store, BufferStore)
    }
    return replace(work, reads={buffer: n for buffer, n in work.reads.items() if buffer not in begun})


def _moved_bytes(buffers: tuple[Buffer, ...], work: Work) -> tuple[PrimExpr, PrimExpr]:
    """What is read and what is written: each parameter's elements once, where fewer are accessed only
    those.
    """
    analyzer = Analyzer()
    totals: list[PrimExpr] = []
    for table in (work.reads, work.writes):
        total: PrimExpr = constant(0, "int64")
        for buffer in buffers:
            size: PrimExpr = constant(1, "int64")
            for dim in buffer.shape:
                size = size * dim.astype("int64")
            if buffer in table:
                total = total + minimum(size, table[buffer]) * buffer.dtype.itemsize
        totals.append(analyzer.simplify(total))
    return totals[0], totals[1]
