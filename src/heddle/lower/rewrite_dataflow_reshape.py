"""RewriteDataflowReshape: replace loop functions that only reshape by views, without a copy.

y = R.call_tir(cls.reshape, (x,), out_ty=R.Tensor((n * 4,), "float32"))
    →
y = R.memory.view_reshape(x, R.shape([n * 4]))
"""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.graph.infer import type_of
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import PrimExpr, constant
from heddle.tir.analysis.blocks import producers_and_consumers
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock, SBlockRealize


class RewriteDataflowReshape(Pass):
    """Requires: calls of loop functions. Runs after fusion, which may have put a reshape into another
    loop."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        reshapes = {
            var
            for var, func in mod.functions.items()
            if isinstance(func, PrimFunc) and has_reshape_pattern(func)
        }
        if not reshapes:
            return mod
        rewriter = _Rewriter(mod, reshapes)
        return map_functions(mod, GRAPHS, lambda _var, func: rewriter.run(func))


class _Rewriter(BindingRewriter):
    def __init__(self, mod: IRModule, reshapes: set[GlobalVar]) -> None:
        super().__init__(mod)
        self._reshapes = reshapes

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if (
            not isinstance(value, Call)
            or not is_call(value, "relax.call_tir")
            or value.args[0] not in self._reshapes
        ):
            return value
        ty, args = type_of(value), value.args[1]
        assert isinstance(args, Tuple)
        if not isinstance(ty, TensorType) or not isinstance(ty.shape, ShapeExpr) or len(args.fields) != 1:
            return value
        op = Op.get("relax.memory.view_reshape")
        return Call(op, (args.fields[0], ty.shape), attrs_of({}), span=value.span)


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether a function copies one buffer to another with every element at the same row-major position, in
    one step or in several."""
    if not isinstance(func.body, SBlockRealize) or len(func.buffers) != 2:
        return False
    source, result = func.buffers
    for realize in producers_and_consumers(func.body.block):
        store = realize.block.body
        if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
            return False
        if store.value.buffer is not source or not _keeps_positions(realize.block, store, store.value):
            return False
        source = store.buffer
    return source is result


def _keeps_positions(block: SBlock, store: BufferStore, load: BufferLoad) -> bool:
    if load.buffer is store.buffer or load.buffer.dtype != store.buffer.dtype:
        return False
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    position = _flat(load.buffer, load.indices)
    same = analyzer.can_prove_equal(position, _flat(store.buffer, store.indices))
    return same and _same_size(store, analyzer)


def _flat(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    position: PrimExpr = constant(0, "int64")
    for index, dim in zip(indices, buffer.shape, strict=True):
        position = position * dim + index
    return position


def _same_size(store: BufferStore, analyzer: Analyzer) -> bool:
    """A slice at the start copies in place too, but is no reshape."""
    assert isinstance(store.value, BufferLoad)
    sizes = []
    for buffer in (store.buffer, store.value.buffer):
        size: PrimExpr = constant(1, "int64")
        for dim in buffer.shape:
            size = size * dim
        sizes.append(size)
    return analyzer.can_prove_equal(sizes[0], sizes[1])
