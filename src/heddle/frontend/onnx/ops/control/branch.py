"""Branches: `If` becomes an If with both branches as sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from onnx import GraphProto

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control import run_time_sequence as run_time
from heddle.frontend.onnx.ops.control.agreement import (
    ANY_RANK,
    NO_TENSOR,
    ImpossibleBranch,
    first_agreement,
)
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.scope import Finish, RanksDiffer, Run
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Expr, If, Tuple, TupleGetItem
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.support.codes import S0601
from heddle.support.diagnostics import ImportModelError
from heddle.support.frozen import frozen


@converts("If")
def branch(ctx: NodeContext) -> Result:
    """A condition that is known chooses its branch now. Otherwise dimensions that differ between the branches
    are read from the results when the model runs."""
    graphs: tuple[GraphProto, GraphProto] = ctx.attr("then_branch"), ctx.attr("else_branch")
    for graph in graphs:
        if len(graph.output) != ctx.num_outputs:
            ctx.malformed(f"a branch gives {len(graph.output)} values, and the node {ctx.num_outputs}")
    runs = (partial(ctx.importer.run_graph, graphs[0]), partial(ctx.importer.run_graph, graphs[1]))
    known = ctx.first(0)
    if known is not None:
        return ctx.importer.inlined(ctx.node, partial(_in_place, ctx, runs[0] if known else runs[1]))
    before = ctx.importer.visible_dims()
    condition = scalar_bool(ctx, ctx.tensor(0))
    (first, values), (second, others) = (branch_sequence(ctx, run) for run in runs)
    if any(a.rank != b.rank or a.rank == ANY_RANK for a, b in zip(values, others, strict=True)):
        raise RanksDiffer(ctx.node, partial(with_rest, ctx, runs, condition))
    return _joined(ctx, condition, (first, second), (values, others), before)


def _in_place(ctx: NodeContext, run: Run, finish: Finish | None) -> list[Value]:
    with ctx.importer.nested_names():
        return run(finish)


def _joined(
    ctx: NodeContext,
    condition: Expr,
    sequences: tuple[SeqExpr, SeqExpr],
    outcomes: tuple[list[_Outcome], list[_Outcome]],
    visible: frozenset[PrimVar],
) -> list[Value]:
    made = ctx.builder.emit(If(condition, *sequences))
    parts: list[Expr] = [made]
    if len(outcomes[0]) != 1:
        parts = [ctx.builder.emit(TupleGetItem(made, index)) for index in range(len(outcomes[0]))]
    return [_result(ctx, part, a, b, visible) for part, a, b in zip(parts, *outcomes, strict=True)]


def with_rest(
    ctx: NodeContext,
    runs: tuple[Run, Run],
    condition: Expr,
    rest: Sequence[Node],
    outputs: Sequence[str],
    finish: Finish | None,
    needs_then: bool = True,
) -> list[Value]:
    """Branches that give other ranks, each with the nodes behind it: up to the first place where what is used
    later has the same ranks again, or to the end of the graph.

    Where these nodes cannot follow one of the branches, the model never takes it. That is checked when it
    runs; unless `needs_then` the second branch stands in for the first."""
    importer, before = ctx.importer, ctx.importer.visible_dims()
    ends = first_agreement(ctx, runs, rest, outputs)
    if isinstance(ends, ImpossibleBranch):
        if needs_then or not ends.is_then:
            _require(ctx, condition, not ends.is_then)
        follow = importer.going_on(ctx.node, rest, outputs, finish)
        return _in_place(ctx, runs[int(ends.is_then)], follow)
    if ends is None:
        follow = importer.going_on(ctx.node, rest, outputs, finish)
        if not needs_then and not is_possible(ctx, runs[0], follow):
            return _in_place(ctx, runs[1], follow)
        return both(ctx, condition, runs, follow, before)
    follow = importer.going_on(ctx.node, rest[: ends.num_nodes], ends.live, None)
    for name, value in zip(ends.live, both(ctx, condition, runs, follow, before), strict=True):
        importer.bind(name, value)
    return importer.run_nodes(rest[ends.num_nodes :], outputs, finish)


def both(
    ctx: NodeContext,
    condition: Expr,
    runs: tuple[Run, Run],
    follow: Finish | None,
    visible: frozenset[PrimVar],
) -> list[Value]:
    """An If of two branches, each with what follows it; `visible` are the dimensions known before."""
    (first, values), (second, others) = (branch_sequence(ctx, run, follow) for run in runs)
    return _joined(ctx, condition, (first, second), (values, others), visible)


def is_possible(ctx: NodeContext, run: Run, finish: Finish | None) -> bool:
    """Whether a branch can be imported with what follows it."""
    try:
        with ctx.importer.dropped():
            run(finish)
    except ImportModelError as error:
        if any(item.code == S0601 for item in error.diagnostics):
            raise
        return False
    return True


def _require(ctx: NodeContext, condition: Expr, value: bool) -> None:
    """Check when the model runs that a condition has a value."""
    number = ctx.reshape(ctx.astype(condition, "int64"), (1,))
    shape = ctx.importer.call("tensor_to_shape", number)
    ctx.builder.match_cast(shape, ShapeType((constant(int(value), "int64"),)), "condition")


@frozen
class _Outcome:
    """What a branch gives: a tensor's type, or what else it is."""

    kind: run_time.AnyKind
    type: TensorType | None

    @property
    def rank(self) -> int:
        """That of a tensor; NO_TENSOR for anything else."""
        return self.type.ndim if self.type is not None else NO_TENSOR


def _result(ctx: NodeContext, expr: Expr, a: _Outcome, b: _Outcome, visible: frozenset[PrimVar]) -> Value:
    if a.type is not None and b.type is not None:
        return unified(ctx, expr, a.type, b.type, visible)
    return Value(expr=expr, kind=run_time.kind_of_either(ctx, a.kind, b.kind))


def scalar_bool(ctx: NodeContext, condition: Expr) -> Expr:
    """A condition as a tensor of rank 0; files have it of one element in any rank."""
    return condition if ctx.type_of(condition).ndim == 0 else ctx.reshape(condition, ())


def branch_sequence(
    ctx: NodeContext, run: Run, finish: Finish | None = None
) -> tuple[SeqExpr, list[_Outcome]]:
    """A branch and what follows it, as a sequence of one value or a tuple, and what its values are."""
    with ctx.importer.branch(), ctx.builder.seq_scope() as scope:
        values = run(finish)
        results = [ctx.importer.tensor_of(value) for value in values]
        outcomes = [_outcome(ctx, value, expr) for value, expr in zip(values, results, strict=True)]
        body = results[0] if len(results) == 1 else ctx.builder.leaf(Tuple(tuple(results)))
        scope.close_block()
        return SeqExpr(tuple(scope.blocks), body, type_of(body)), outcomes


def _outcome(ctx: NodeContext, value: Value, expr: Expr) -> _Outcome:
    is_tensor = not run_time.is_data_structure(value)
    return _Outcome(run_time.kind_of_value(ctx, value), ctx.type_of(expr) if is_tensor else None)


def unified(ctx: NodeContext, expr: Expr, a: TensorType, b: TensorType, visible: frozenset[PrimVar]) -> Value:
    """A branch's result with known dimensions: those that both branches give, and fresh ones where they
    differ."""
    if a.dtype != b.dtype:
        ctx.malformed(f"the branches give {a.dtype} and {b.dtype}")
    if a.ndim != b.ndim or a.ndim < 0:
        return tensor_value(expr)
    dims: list[PrimExpr] = []
    for axis, (x, y) in enumerate(zip(a.dims or (), b.dims or (), strict=True)):
        same = ctx.importer.simplify.equal(x, y) and set(free_vars(x)) <= visible
        dims.append(x if same else ctx.importer.fresh_dim(f"{ctx.node.label}_d{axis}"))
    ty = type_of(expr)
    if isinstance(ty, TensorType) and ty.dims is not None and ctx.importer.same_dims(ty.dims, dims):
        return tensor_value(expr)
    return tensor_value(ctx.builder.match_cast(expr, TensorType(ShapeExpr(tuple(dims)), a.dtype)))
