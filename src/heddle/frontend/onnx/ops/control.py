"""Branches: `If` becomes an If with both branches as sequences."""

from __future__ import annotations

from onnx import GraphProto

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.ir.expr import Expr, If, Tuple, TupleGetItem
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.relax.infer import type_of
from heddle.relax.nodes import SeqExpr
from heddle.relax.types import ShapeExpr, TensorType


@converts("If")
def branch(ctx: NodeContext) -> Result:
    """A condition that is known chooses its branch now. Otherwise dimensions that differ between the branches
    are read
    from the results when the model runs."""
    graphs: tuple[GraphProto, GraphProto] = ctx.attr("then_branch"), ctx.attr("else_branch")
    for graph in graphs:
        if len(graph.output) != ctx.num_outputs:
            ctx.malformed(f"a branch gives {len(graph.output)} values, and the node {ctx.num_outputs}")
    known = ctx.array(0)
    if known is not None:
        with ctx.importer.nested_names():
            return ctx.importer.run_graph(graphs[0] if bool(known.reshape(-1)[0]) else graphs[1])
    before = ctx.importer.visible_dims()
    condition = scalar_bool(ctx, ctx.tensor(0))
    sequences = (branch_sequence(ctx, graphs[0]), branch_sequence(ctx, graphs[1]))
    made = ctx.builder.emit(If(condition, sequences[0], sequences[1]))
    count = ctx.num_outputs
    parts: list[Expr] = [made]
    if count > 1:
        parts = [ctx.builder.emit(TupleGetItem(made, index)) for index in range(count)]
    kinds = [[_result_type(ctx, seq, index, count) for seq in sequences] for index in range(count)]
    return [unified(ctx, part, a, b, before) for part, (a, b) in zip(parts, kinds, strict=True)]


def scalar_bool(ctx: NodeContext, condition: Expr) -> Expr:
    """A condition as a tensor of rank 0; files have it of one element in any rank."""
    return condition if ctx.type_of(condition).ndim == 0 else ctx.reshape(condition, ())


def branch_sequence(ctx: NodeContext, graph: GraphProto) -> SeqExpr:
    """A subgraph without inputs as a sequence that gives one value or a tuple."""
    with ctx.importer.branch(), ctx.builder.seq_scope() as scope:
        results = [ctx.importer.tensor_of(value) for value in ctx.importer.run_graph(graph)]
        body = results[0] if len(results) == 1 else ctx.builder.leaf(Tuple(tuple(results)))
        scope.close_block()
        return SeqExpr(tuple(scope.blocks), body, type_of(body))


def _result_type(ctx: NodeContext, sequence: SeqExpr, index: int, count: int) -> TensorType:
    body = sequence.body
    assert count == 1 or isinstance(body, Tuple)
    return ctx.type_of(body if count == 1 else body.fields[index])  # type: ignore[attr-defined]


def unified(ctx: NodeContext, expr: Expr, a: TensorType, b: TensorType, visible: frozenset[PrimVar]) -> Value:
    """A branch's result with known dimensions: those that both branches give, and fresh ones where they
    differ."""
    if a.dtype != b.dtype:
        ctx.malformed(f"the branches give {a.dtype} and {b.dtype}")
    if a.ndim != b.ndim:
        ctx.unsupported(
            f"the branches give {a.ndim} and {b.ndim} dimensions", "give both branches the same rank"
        )
    dims: list[PrimExpr] = []
    for axis, (x, y) in enumerate(zip(a.dims or (), b.dims or (), strict=True)):
        same = ctx.importer.simplify.equal(x, y) and set(free_vars(x)) <= visible
        dims.append(x if same else ctx.importer.fresh_dim(f"{ctx.node.label}_d{axis}"))
    ty = type_of(expr)
    if isinstance(ty, TensorType) and ty.dims is not None and ctx.importer.same_dims(ty.dims, dims):
        return tensor_value(expr)
    return tensor_value(ctx.builder.match_cast(expr, TensorType(ShapeExpr(tuple(dims)), a.dtype)))
