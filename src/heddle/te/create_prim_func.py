"""Create a loop function from tensor expressions: one block with loops for every compute, producers before
consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import select
from heddle.prim.substitute import SharedSubstituter, substitute
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.support.names import NameSupply
from heddle.te.codes import E0102
from heddle.te.shared_values import with_shared_values
from heddle.te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Reduce, Tensor, TensorLoad
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.nodes import (
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.substitute import replace_buffers


def create_prim_func(args: Sequence[Any], index_dtype_override: str | None = None) -> PrimFunc:
    """Create a loop function. Its parameters are the given tensors (inputs and outputs) and scalar variables,
    in this order.

    Tensors that are computed but not listed become local buffers of the function.
    """
    return _Creator(args).function(args)


def topological_order(outputs: Sequence[Tensor]) -> list[Operation]:
    """Return the operations on which the outputs depend, producers first, each once."""
    order: dict[Operation, None] = {}
    visiting: list[tuple[Operation, bool]] = [(tensor.op, False) for tensor in reversed(outputs)]
    while visiting:
        op, done = visiting.pop()
        if done:
            order[op] = None
        elif op not in order:
            visiting.append((op, True))
            visiting.extend((tensor.op, False) for tensor in reversed(op.inputs) if tensor.op not in order)
    return list(order)


class _Creator:
    def __init__(self, args: Sequence[Any]) -> None:
        self.names = NameSupply()
        self.block_names = NameSupply(("root",))
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        for arg in args:
            if isinstance(arg, Tensor):
                self.buffers[arg] = self._buffer(arg)

    def _buffer(self, tensor: Tensor) -> Buffer:
        return decl_buffer(tensor.shape, tensor.dtype, self.names.fresh(tensor.name))

    def function(self, args: Sequence[Any]) -> PrimFunc:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        stmts = [
            self._operation(op) for op in topological_order(tensors) if not isinstance(op, PlaceholderOp)
        ]
        params, buffer_map = [], {}
        for arg in args:
            if isinstance(arg, Tensor):
                param = Var(f"var_{self.buffers[arg].name}", DataType("handle"))
                buffer_map[param] = self.buffers[arg]
                params.append(param)
            else:
                params.append(arg)
        root = SBlock((), (), (), "root", seq(*stmts), None, tuple(self.allocated))
        body = SBlockRealize((), constant(True), root)
        attrs: Any = {"global_symbol": "main", "tir.noalias": True}
        return PrimFunc(tuple(params), body, None, buffer_map, attrs)  # type: ignore[arg-type]

    def buffer_of(self, tensor: Tensor) -> Buffer:
        if tensor not in self.buffers:
            self.buffers[tensor] = self._buffer(tensor)
            self.allocated.append(self.buffers[tensor])
        return self.buffers[tensor]

    def _operation(self, op: Operation) -> Stmt:
        for tensor in op.outputs:
            self.buffer_of(tensor)
        if isinstance(op, ExternOp):
            return self._extern(op)
        assert isinstance(op, ComputeOp)
        if any(isinstance(body, Reduce) for body in op.body):
            return self._block(op, op.axis + op.reduce_axis, op.outputs)
        stmts = [self._block(op, op.axis, (tensor,)) for tensor in op.outputs]
        return seq(*stmts)

    def _block(self, op: ComputeOp, axes: tuple[IterVar, ...], outputs: tuple[Tensor, ...]) -> Stmt:
        """Return the loops and the block that store the elements of the outputs."""
        loop_vars = [Var(axis.var.name, axis.var.dtype) for axis in axes]
        iter_vars = tuple(
            IterVar(axis.dom, Var(f"v_{axis.var.name}", axis.var.dtype), axis.iter_type) for axis in axes
        )
        mapping = {axis.var: iter_var.var for axis, iter_var in zip(axes, iter_vars, strict=True)}
        lowered = _ToBuffers(self, mapping)
        index = tuple(mapping[axis.var] for axis in op.axis)
        targets = [self.buffers[tensor] for tensor in outputs]
        bodies = [op.body[tensor.value_index] for tensor in outputs]
        init: Stmt | None = None
        if isinstance(bodies[0], Reduce):
            init, body = _reduce_stmts([b for b in bodies if isinstance(b, Reduce)], targets, index, lowered)
        else:
            stores: list[Stmt] = []
            for target, value in zip(targets, bodies, strict=True):
                binds, made = with_shared_values(lowered.visit(value))
                stores += (*binds, BufferStore(target, made, index))
            body = seq(*stores)
        annotations: Any = {key: value for key, value in op.attrs.items() if value is not None}
        block = SBlock(iter_vars, (), (), self.block_names.fresh(op.name), body, init, (), (), annotations)
        block = with_access_regions(block)
        stmt: Stmt = SBlockRealize(tuple(loop_vars), constant(True), block)
        for var, axis in zip(reversed(loop_vars), reversed(axes), strict=True):
            stmt = For(var, axis.dom.min, axis.dom.extent, ForKind.SERIAL, stmt)
        return stmt

    def _extern(self, op: ExternOp) -> Stmt:
        """Return one opaque block that reads and writes whole buffers."""
        assert op.body is not None
        mapping = {
            old: self.buffer_of(tensor) for old, tensor in zip(op.input_buffers, op.inputs, strict=True)
        }
        mapping.update(
            {old: self.buffers[tensor] for old, tensor in zip(op.output_buffers, op.outputs, strict=True)}
        )
        reads = tuple(self.buffer_of(tensor).full_region() for tensor in op.inputs)
        writes = tuple(self.buffers[tensor].full_region() for tensor in op.outputs)
        body = replace_buffers(op.body, mapping)
        block = SBlock((), reads, writes, self.block_names.fresh(op.name), body)
        return SBlockRealize((), constant(True), block)


class _ToBuffers(SharedSubstituter):
    """Replaces reads of tensors by loads from their buffers, and axes by iteration variables."""

    def __init__(self, creator: _Creator, mapping: Mapping[Var, PrimExpr]) -> None:
        super().__init__(mapping)
        self._creator = creator

    def visit_TensorLoad(self, node: TensorLoad) -> Any:
        indices = tuple(self.visit(index) for index in node.indices)
        return BufferLoad(self._creator.buffer_of(node.producer), indices)

    def visit_Reduce(self, node: Reduce) -> Any:
        raise IRTypeError(
            E0102, "a reduction is part of a larger expression", help="make it a compute of its own"
        )


def _reduce_stmts(
    bodies: list[Reduce], targets: list[Buffer], index: tuple[PrimExpr, ...], lowered: _ToBuffers
) -> tuple[Stmt, Stmt]:
    """Return the init statement (identities) and the update statement of a reduction of one or several
    values."""
    first = bodies[0]
    combiner = first.combiner
    start = first.init or combiner.identity_element
    init = seq(
        *(BufferStore(t, lowered.visit(value), index) for t, value in zip(targets, start, strict=True))
    )
    loads = [BufferLoad(target, index) for target in targets]
    sources = [lowered.visit(source) for source in first.source]
    condition = lowered.visit(first.condition)
    mapping = {**dict(zip(combiner.lhs, loads, strict=True)), **dict(zip(combiner.rhs, sources, strict=True))}
    results = [
        select(condition, substitute(r, mapping), load)
        for r, load in zip(combiner.result, loads, strict=True)
    ]
    if len(targets) == 1:
        return init, BufferStore(targets[0], results[0], index)
    values = [Var(f"v_{target.name}", target.dtype) for target in targets]
    binds = [Bind(var, result) for var, result in zip(values, results, strict=True)]
    return init, seq(
        *binds, *(BufferStore(t, value, index) for t, value in zip(targets, values, strict=True))
    )
