"""Loops: `Loop` and `Scan` become private functions that call themselves.

    loop(i, n, go_on, carried..., collected..., dims, captured...) =
        if i < n and go_on:
            (go_on', carried'..., row...) = body(i, go_on, carried...)
            loop(i + 1, n, go_on', carried'..., (collected, row)..., dims, captured...)
        else:
            (carried..., collected...)
    stack_chain(collected)...

What is collected is a chain of pairs, so that a row costs the same however many there are; the caller makes a
tensor of it.

What the body uses from around it comes as parameters: tensors one by one, symbolic dimensions as one shape. A
dimension of a carried value that an iteration may change is a fresh variable of the parameter, so each call
binds its own.

Over 450 lines: one rewrite, whose steps share the plan of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, helper

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control import run_time_sequence as run_time
from heddle.frontend.onnx.ops.control.branch import scalar_bool
from heddle.frontend.onnx.ops.control.turns import counted_turns
from heddle.frontend.onnx.order import outer_names
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import Value, array_value, tensor_value
from heddle.graph.contents import object_array
from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.op_builder import const
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.attrs import NO_ATTRS, attrs_of
from heddle.ir.expr import Call, Expr, ExternFunc, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.op import Op
from heddle.ir.types import AnyType, FuncType, TupleType, Type
from heddle.prim.nodes import PrimExpr, constant, is_const_int
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.names import identifier

MAX_ATTEMPTS = 8
Rows = Callable[["_Body", Expr], list[Value]]


@dataclass(slots=True)
class _Plan:
    """What a loop function takes: types of carried and collected values, captured values, outer
    dimensions."""

    graph: GraphProto
    carried: list[Value]
    first: list[Expr]
    captured: dict[str, Value]
    extra: list[Expr]
    rows: Rows
    num_collected: int
    has_condition: bool
    kinds: list[Any] = field(default_factory=list)
    """Of carried values that are no tensors: what they are; None for tensors."""
    collected_types: list[TensorType | None] = field(default_factory=list)
    collected_varying: list[list[bool]] = field(default_factory=list)
    """Of rows: which of their sizes are known only inside of the loop."""
    varying: list[list[bool]] = field(default_factory=list)


@converts("Loop")
def loop(ctx: NodeContext) -> Result:
    """Inputs: the most iterations, the first condition, the carried values; each may be left out."""
    graph: GraphProto = ctx.attr("body")
    num_carried = max(0, ctx.num_inputs - 2)
    if len(graph.input) != num_carried + 2 or len(graph.output) < num_carried + 1:
        ctx.malformed(
            f"the body takes {len(graph.input)} values and gives {len(graph.output)}, "
            f"and {num_carried} are carried"
        )
    trips = _scalar(ctx, 0, "int64") if ctx.has(0) else const(np.asarray(np.iinfo(np.int64).max), "int64")
    condition = scalar_bool(ctx, ctx.tensor(1)) if ctx.has(1) else const(True, "bool")
    carried = [ctx.value(index) for index in range(2, ctx.num_inputs)]
    plan = _plan(ctx, graph, carried, [], lambda body, i: [])
    with counted_turns(ctx, graph):
        return _run(ctx, plan, trips, condition)


_INNER = "heddle.scan"
"""The domain of the form of operator set 9 in what older ones are written as."""


@converts("Scan", since=8)
def scan_8(ctx: NodeContext) -> Result:
    """States, inputs and outputs have a batch in front: a scan over the batch, whose body is the scan over
    one sequence. Input 0, the lengths of sequences, is refused."""
    if ctx.has(0):
        ctx.unsupported("lengths of sequences", "export for operator set 9")
    body: GraphProto = ctx.attr("body")
    count, directions = ctx.attr("num_scan_inputs"), ctx.attr("directions", None)
    names = [value.name for value in body.input]
    attrs = {"num_scan_inputs": count, **({"scan_input_directions": directions} if directions else {})}
    results = [f"{value.name}_of_all" for value in body.output]
    inner = helper.make_node("Scan", names, results, domain=_INNER, body=body, **attrs)
    graph = helper.make_graph(
        [inner],
        f"{body.name}_of_one",
        body.input,
        [helper.make_empty_tensor_value_info(name) for name in results],
    )
    whole = Node(
        "Scan",
        _INNER,
        ctx.node.name,
        ctx.node.inputs[1:],
        ctx.node.outputs,
        {"body": graph, "num_scan_inputs": len(names)},
    )
    made: Result = scan(NodeContext(ctx.importer, whole, ctx.inputs[1:], 9))
    return made


@converts("Scan", since=9)
@converts("Scan", domain=_INNER)
def scan(ctx: NodeContext) -> Result:
    """Each iteration gets one slice of every scanned input; the trip count is their length."""
    graph, count = ctx.attr("body"), ctx.attr("num_scan_inputs")
    num_state = ctx.num_inputs - count
    if num_state < 0 or len(graph.input) != ctx.num_inputs or len(graph.output) < num_state:
        ctx.malformed(f"the body takes {len(graph.input)} values, and the node {ctx.num_inputs}")
    if count < 1:
        ctx.malformed(f"num_scan_inputs must be at least 1, got {count}")
    axes = [
        ctx.axis(axis, ctx.ndim(num_state + i)) for i, axis in enumerate(_each(ctx, "scan_input_axes", count))
    ]
    backwards = _each(ctx, "scan_input_directions", count)
    scanned = [ctx.tensor(index) for index in range(num_state, ctx.num_inputs)]
    length = ctx.dims_of(scanned[0])[axes[0]]
    for index, axis in enumerate(axes):
        if axis:
            rank = ctx.type_of(scanned[index]).ndim
            order = (axis, *(i for i in range(rank) if i != axis))
            scanned[index] = ctx.call("permute_dims", scanned[index], axes=order)
        if backwards[index]:
            scanned[index] = ctx.call("flip", scanned[index], axis=0)
        scanned[index] = ctx.cast_shape(scanned[index], (length, *ctx.dims_of(scanned[index])[1:]))

    def rows(body: _Body, i: Expr) -> list[Value]:
        mode = "fast" if is_const_int(length, 0) else "clip"  # rows that there are not, nobody reads
        return [tensor_value(ctx.call("take", item, i, axis=0, mode=mode)) for item in body.extra]

    plan = _plan(ctx, graph, [ctx.value(index) for index in range(num_state)], scanned, rows, is_scan=True)
    trips = ctx.importer.tensor_of(Value(content=object_array([length], ()), dtype="int64"))
    made = _run(ctx, plan, trips, const(True, "bool"))
    states, collected = made[:num_state], made[num_state:]
    collected = [_length_known(ctx, value, length) for value in collected]
    return [*states, *_arranged(ctx, collected)]


def _length_known(ctx: NodeContext, value: Value, length: PrimExpr) -> Value:
    expr = ctx.importer.tensor_of(value)
    return tensor_value(ctx.cast_shape(expr, (length, *ctx.dims_of(expr)[1:])))


def _each(ctx: NodeContext, name: str, count: int) -> Sequence[int]:
    """An attribute with a number for each of so many values, all 0 by default."""
    found: Sequence[int] = ctx.attr(name, (0,) * count)
    if len(found) != count:
        ctx.malformed(f"{name} has {len(found)} entries for {count} values")
    return found


def _arranged(ctx: NodeContext, collected: list[Value]) -> list[Value]:
    """Scan outputs in their direction, along their axis."""
    count = len(collected)
    backwards, axes = (_each(ctx, f"scan_output_{what}", count) for what in ("directions", "axes"))
    made: list[Value] = []
    for value, back, axis in zip(collected, backwards, axes, strict=True):
        expr = ctx.importer.tensor_of(value)
        expr = ctx.call("flip", expr, axis=0) if back else expr
        rank = ctx.type_of(expr).ndim
        to = ctx.axis(axis, rank)
        if to:
            expr = ctx.call("permute_dims", expr, axes=(*range(1, to + 1), 0, *range(to + 1, rank)))
        made.append(tensor_value(expr))
    return made


def _scalar(ctx: NodeContext, index: int, dtype: str) -> Expr:
    return ctx.astype(scalar_bool(ctx, ctx.tensor(index)), dtype)


def _plan(
    ctx: NodeContext,
    graph: GraphProto,
    carried: list[Value],
    extra: list[Expr],
    rows: Rows,
    is_scan: bool = False,
) -> _Plan:
    captured = {name: ctx.importer.lookup(name) for name in outer_names(graph)}
    first = [ctx.importer.tensor_of(value) for value in carried]
    collected = len(graph.output) - len(carried) - (0 if is_scan else 1)
    plan = _Plan(graph, carried, first, captured, extra, rows, collected, not is_scan)
    plan.collected_types = [None] * collected
    plan.collected_varying = [[] for _ in range(collected)]
    plan.kinds = [
        run_time.kind_of_value(ctx, value) if run_time.is_data_structure(value) else None for value in carried
    ]
    plan.varying = [
        [] if kind is not None else [False] * ctx.type_of(expr).ndim
        for expr, kind in zip(first, plan.kinds, strict=True)
    ]
    return plan


def _run(ctx: NodeContext, plan: _Plan, trips: Expr, condition: Expr) -> list[Value]:
    """Build the function, again with more varying dimensions until the body keeps its types; then call it."""
    name = ctx.builder.global_names.fresh(f"loop_{identifier(ctx.node.label)}")
    for _ in range(MAX_ATTEMPTS):
        body = _Body(ctx, plan, name)
        if body.build():
            break
    else:
        ctx.unsupported("the types of carried values change with every iteration")
    empty = [
        ctx.call("zeros", (0, *body.outer_dims(ty.dims or ())[1:]), dtype=str(ty.dtype))
        for ty in body.collected_types
    ]
    start = const(np.asarray(0), "int64")
    args = [start, trips, condition, *plan.first, *empty, *plan.extra, *body.outer_args]
    made = ctx.builder.emit(Call(GlobalVar(name, body.type), tuple(args)))
    parts = [
        ctx.builder.emit(TupleGetItem(made, index)) for index in range(len(plan.first) + plan.num_collected)
    ]
    for index, ty in enumerate(body.collected_types, len(plan.first)):
        varies = any(plan.collected_varying[index - len(plan.first)])
        parts[index] = ctx.builder.emit(_stacked(parts[index], ty, varies))
    return [_with_dims(ctx, body, part, index) for index, part in enumerate(parts)]


def _stacked(chain: Expr, ty: TensorType, varies: bool) -> Call:
    """The rows of a chain as one tensor; rows whose sizes only they know say it themselves."""
    made = TensorType(None, ty.dtype, None, ty.ndim)
    callee = ExternFunc("vm.builtin.stack_rows" if varies else "vm.builtin.stack_chain")
    return Call(Op.get("relax.call_pure_packed"), (callee, chain), NO_ATTRS, (made,))


def _with_dims(ctx: NodeContext, body: _Body, part: Expr, index: int) -> Value:
    """A result with known dimensions: those that no iteration changes, and fresh ones."""
    ty = body.result_types[index]
    if not isinstance(ty, TensorType):
        return Value(expr=part, kind=body.plan.kinds[index])
    dims = [
        ctx.importer.fresh_dim(f"{ctx.node.label}_{index}_d{axis}") if vary else dim
        for axis, (dim, vary) in enumerate(
            zip(body.outer_dims(ty.dims or ()), body.result_varies[index], strict=True)
        )
    ]
    return tensor_value(ctx.cast_shape(part, dims))


class _Body:
    """One attempt at the loop function."""

    def __init__(self, ctx: NodeContext, plan: _Plan, name: str) -> None:
        self.ctx, self.plan, self.name = ctx, plan, name
        self.importer, self.builder = ctx.importer, ctx.builder
        self.inner_dims: dict[PrimVar, PrimVar] = {}
        self.outer_args: list[Expr] = []
        self.collected_types: list[TensorType] = []
        self.result_types: list[Type] = []
        self.result_varies: list[list[bool]] = []
        self.extra: list[Var] = []
        self.type: Type | None = None
        self.made: list[Value] = []

    def outer_dims(self, dims: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Dimensions of the function in terms of the caller's."""
        back = {inner: outer for outer, inner in self.inner_dims.items()}
        return tuple(substitute(dim, back) for dim in dims)

    def _inner(self, expr: Any) -> Any:
        """An expression over the caller's dimensions in terms of the function's own."""
        for var in free_vars(expr):
            if var not in self.inner_dims:
                self.inner_dims[var] = self.importer.fresh_dim(var.name, var.is_size)
        return substitute(expr, self.inner_dims)

    def _param(self, hint: str, ty: TensorType, varying: Sequence[bool] | None = None) -> Var:
        assert ty.dims is not None
        dims = [
            self.importer.fresh_dim(f"{hint}_d{axis}")
            if varying is not None and varying[axis]
            else self._inner(dim)
            for axis, dim in enumerate(ty.dims)
        ]
        return Var(identifier(hint), TensorType(ShapeExpr(tuple(dims)), ty.dtype))

    # ---- building

    def build(self) -> bool:
        """Add the function to the module. False where a carried value turned out to change its shape: the
        plan then says so."""
        plan, tensor = self.plan, self.ctx.type_of
        kinds = (("i", "int64"), ("n", "int64"), ("go_on", "bool"))
        scalars = [Var(name, TensorType((), DataType(dtype))) for name, dtype in kinds]
        graph_names = [value.name for value in plan.graph.input][2 if plan.has_condition else 0 :]
        carried = [
            self._param(name, tensor(expr), vary) if kind is None else Var(identifier(name), AnyType())
            for name, expr, vary, kind in zip(graph_names, plan.first, plan.varying, plan.kinds, strict=False)
        ]
        collected = [Var(f"collected_{index}", AnyType()) for index in range(plan.num_collected)]
        self.extra = [self._param(f"scanned_{i}", tensor(expr)) for i, expr in enumerate(plan.extra)]
        names, captured = self._captures()
        dims = self._dims_param()
        params = [*scalars, *carried, *collected, *self.extra, *dims, *captured]
        self._declare(params, carried)
        with self.importer.closed(names, own_bindings=True), self.builder.seq_scope() as scope:
            body, steady = self._recursion(params, scalars, carried, collected)
            scope.close_block()
            sequence = SeqExpr(tuple(scope.blocks), body, type_of(body))
        late = [var for var in self.inner_dims if not dims or var not in self._dims_passed]
        if late or not steady:
            return False
        ret = self.type.ret  # type: ignore[union-attr]
        func = Function(tuple(params), sequence, ret, True, attrs_of({}))
        self.builder.update_func(GlobalVar(self.name), self.builder.normalize_function(func))
        return True

    def _captures(self) -> tuple[dict[str, Value], list[Var]]:
        """Outer values as the body sees them: constants as they are, contents over own dimensions, tensors as
        parameters."""
        names: dict[str, Value] = {}
        params: list[Var] = []
        for name, value in self.plan.captured.items():
            names[name] = self._captured(name, value, params)
        return names, params

    def _captured(self, name: str, value: Value, params: list[Var]) -> Value:
        if value.items is not None:
            return Value(items=tuple(self._captured(name, item, params) for item in value.items))
        if value.array is not None and (
            self.importer.params is None or (value.expr is None and value.array.size <= 1)
        ):
            return array_value(value.array, value.dtype, value.name)
        if value.content is not None and value.expr is None:
            items = [self._inner(item) for item in value.content.reshape(-1)]
            return Value(content=object_array(items, value.content.shape), dtype=value.dtype, name=name)
        expr = self.importer.tensor_of(value)
        is_tensor = value.kind is None
        param = self._param(name, self.ctx.type_of(expr)) if is_tensor else Var(identifier(name), AnyType())
        params.append(param)
        self.outer_args.append(expr)
        return tensor_value(param, name) if is_tensor else Value(expr=param, kind=value.kind, name=name)

    def _dims_param(self) -> list[Var]:
        """Outer dimensions that parameters mention, as one shape before the captured tensors."""
        self._dims_passed = dict(self.inner_dims)
        if not self._dims_passed:
            return []
        self.outer_args.insert(0, ShapeExpr(tuple(self._dims_passed)))
        return [Var("dims", ShapeType(tuple(self._dims_passed.values())))]

    def _declare(self, params: list[Var], carried: list[Var]) -> None:
        """The function's type: results have the parameters' types, varying dimensions forgotten. The first
        attempt finds out what rows look like.
        """
        unknown = TensorType((constant(0, "int64"),), DataType("float32"))
        self.collected_types = [ty if ty is not None else unknown for ty in self.plan.collected_types]
        own = [
            type_of(var) if kind is not None else self.ctx.type_of(var)
            for var, kind in zip(carried, self.plan.kinds, strict=True)
        ]
        self.result_types = [*own, *self.collected_types]
        self.result_varies = [
            *self.plan.varying,
            *(
                [True, *(flags or [False] * (ty.ndim - 1))]
                for ty, flags in zip(self.collected_types, self.plan.collected_varying, strict=True)
            ),
        ]
        results: list[Type] = [
            TensorType(None, ty.dtype, None, ty.ndim) if isinstance(ty, TensorType) and any(vary) else ty
            for ty, vary in zip(own, self.plan.varying, strict=True)
        ]
        results += [AnyType()] * len(self.collected_types)
        self.type = FuncType(tuple(type_of(var) for var in params), TupleType(tuple(results)), True)

    def _recursion(
        self, params: list[Var], scalars: list[Var], carried: list[Var], collected: list[Var]
    ) -> tuple[Expr, bool]:
        i, n, go_on = scalars
        call = self.importer.call
        again = call("logical_and", call("less", i, n), go_on)
        with self.importer.branch(), self.builder.seq_scope() as scope:
            values, rows, condition = self._iteration(i, go_on, carried)
            steady = self._steady(values, carried, rows)
            if steady:
                chains = [
                    self.builder.emit(Tuple((old, row))) for old, row in zip(collected, rows, strict=True)
                ]
                after = params[3 + len(carried) + len(collected) :]
                following = call("add", i, const(np.asarray(1), "int64"))
                args = (following, n, condition, *values, *chains, *after)
                result: Expr = self.builder.emit(Call(GlobalVar(self.name, self.type), args))
            else:
                result = i
            scope.close_block()
            yes = SeqExpr(tuple(scope.blocks), result, type_of(result))
        if not steady:
            return i, False
        done = self.builder.leaf(Tuple((*carried, *collected)))
        no = SeqExpr((), done, type_of(done))
        return self.builder.emit(If(again, yes, no)), True

    def _iteration(self, i: Expr, go_on: Expr, carried: list[Var]) -> tuple[list[Expr], list[Expr], Expr]:
        """The body's carried values, rows to collect, and condition."""
        plan, importer = self.plan, self.importer
        given = [
            tensor_value(var) if kind is None else Value(expr=var, kind=kind)
            for var, kind in zip(carried, plan.kinds, strict=True)
        ]
        if plan.has_condition:
            given = [tensor_value(i), tensor_value(go_on), *given]
        given += plan.rows(self, i)
        with importer.nested_names():
            for formal, value in zip(plan.graph.input, given, strict=True):
                importer.bind(formal.name, value)
            values = importer.run_graph(plan.graph)
            self.made = values[1:] if plan.has_condition else values
            outputs = [importer.tensor_of(value) for value in values]
        condition: Expr = go_on
        if plan.has_condition:
            condition, outputs = scalar_bool(self.ctx, outputs[0]), outputs[1:]
        return outputs[: len(carried)], outputs[len(carried) :], condition

    def _keeps_kind(self, index: int, value: Value) -> bool:
        """Whether a carried sequence or optional is what it was; if not, the plan learns what it becomes."""
        old = self.plan.kinds[index]
        if old is None:
            self.ctx.malformed(f"carried value {index} changes from a tensor to a sequence")
        new = run_time.kind_of_either(self.ctx, old, run_time.kind_of_value(self.ctx, value))
        self.plan.kinds[index] = new
        return run_time.same_kind(new, old)

    def _steady(self, values: list[Expr], carried: list[Var], rows: list[Expr]) -> bool:
        """Whether the body keeps the carried types and the guessed row types; if not, the plan learns the
        difference."""
        plan, ctx, steady = self.plan, self.ctx, True
        for index, (value, param) in enumerate(zip(values, carried, strict=True)):
            if plan.kinds[index] is not None or run_time.is_data_structure(self.made[index]):
                steady = self._keeps_kind(index, self.made[index]) and steady
                continue
            new, old = ctx.type_of(value), ctx.type_of(param)
            if new.dtype != old.dtype or new.ndim != old.ndim:
                ctx.unsupported(f"carried value {index} changes from {old} to {new}")
            for axis, (x, y) in enumerate(zip(new.dims or (), old.dims or (), strict=True)):
                if not plan.varying[index][axis] and not self.importer.simplify.equal(x, y):
                    plan.varying[index][axis], steady = True, False
        for index, row in enumerate(rows):
            steady = self._keeps_row(index, ctx.type_of(row)) and steady
        return steady

    def _keeps_row(self, index: int, ty: TensorType) -> bool:
        """Whether a collected row is what it was guessed to be; if not, the plan learns it."""
        plan, outer = self.plan, set(self.inner_dims.values())
        unknown = [bool(set(free_vars(dim)) - outer) for dim in ty.dims or ()]
        flags = [a or b for a, b in zip(unknown, plan.collected_varying[index] or unknown, strict=True)]
        dims = [
            constant(0, "int64") if flag else dim
            for dim, flag in zip(self.outer_dims(ty.dims or ()), flags, strict=True)
        ]
        known = plan.collected_types[index]
        if (
            known is not None
            and known.dtype == ty.dtype
            and flags == plan.collected_varying[index]
            and self.importer.same_dims((known.dims or ())[1:], dims)
        ):
            return True
        guess = TensorType((constant(0, "int64"), *dims), ty.dtype)
        plan.collected_types[index], plan.collected_varying[index] = guess, flags
        return False
