"""The walk over a graph: values by name, nodes through their converters, shapes as scalar expressions.

Names live in scopes: a branch of `If` sees the names around it; the body of a loop or function sees only what
it is given. What was made from a value on demand (the tensor of a content, the elements of a run-time shape)
is remembered as long as its bindings are visible.

Over 450 lines: one class whose methods share the scopes of the walk.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto

from heddle.frontend.codes import N0105, N0106, N0201, N0203, N0301
from heddle.frontend.onnx.bodies import FunctionTable, of_one_dtype
from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.float_dims import scaled_dim, scaling
from heddle.frontend.onnx.folding import folded
from heddle.frontend.onnx.order import in_order
from heddle.frontend.onnx.proto import LoadedModel, Node, tensor_array
from heddle.frontend.onnx.registry import find_converter, find_symbolic, reason_against
from heddle.frontend.onnx.scope import Finish, Parameters, RanksDiffer, Scope
from heddle.frontend.onnx.values import Value, array_of_content, array_value, tensor_value
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.contents import Simplifier, is_long, size_tensor, vector
from heddle.graph.infer import type_of
from heddle.graph.op_builder import build_call, const
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Constant, Expr, Tuple, Var
from heddle.ir.op import GRAPH_PREFIX, OP_RECORDS
from heddle.ir.op_def import OpDef
from heddle.prim import ops as prim_ops
from heddle.prim.nodes import IntImm, PrimExpr, SizeVar, constant, is_const_int
from heddle.prim.nodes import Var as PrimVar
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import tensor
from heddle.support.diagnostics import HeddleError, ImportModelError
from heddle.support.limits import current_limits, exceeded
from heddle.support.names import NameSupply, identifier
from heddle.support.span import ModelSpan, at

MOST_SIZES = 1024
"""Elements of a shape, or of a list of axes, that is computed when the model runs. Each gets a variable."""


class GraphImporter:
    """Builds calls with `builder`, whose open function is the one that is being imported."""

    def __init__(self, model: LoadedModel, builder: BlockBuilder, functions: FunctionTable) -> None:
        self.model = model
        self.builder = builder
        self.functions = functions
        self.opsets: Mapping[str, int] = functions.model_opsets
        self._in_specification = False  # whether the nodes are those of a body that ONNX wrote
        self.simplify = Simplifier()
        self.dim_names = NameSupply()
        self.scope = Scope()
        self.params: Parameters | None = None
        self.is_straight = False
        self.unpacked_bytes = 0  # of constants that take fewer bits in the model
        self.turns = 1  # of all loops around what is imported, as far as the model states them
        self._made: ChainMap[Any, tuple[Any, Any]] = ChainMap()
        self._dims: list[PrimVar] = []
        self._nodes_left = current_limits().nodes

    # ---- scopes

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Names and bindings made inside are not seen outside."""
        outer, made = self.scope, self._made
        self.scope, self._made = Scope(parent=outer), made.new_child()
        try:
            yield
        finally:
            self.scope, self._made = outer, made

    @contextmanager
    def nested_names(self) -> Iterator[None]:
        """Names defined inside are not seen outside; bindings are."""
        outer = self.scope
        self.scope = Scope(parent=outer)
        try:
            yield
        finally:
            self.scope = outer

    def know_dims(self, dims: Iterable[PrimVar]) -> None:
        """Tell of symbolic variables that the parameters define."""
        self._dims.extend(dims)

    def visible_dims(self) -> frozenset[PrimVar]:
        """The symbolic variables that exist so far."""
        return frozenset(self._dims)

    @contextmanager
    def closed(self, names: Mapping[str, Value], own_bindings: bool = False) -> Iterator[None]:
        """Only `names` are seen inside. `own_bindings`: inside is another function of ours, so no binding is
        shared, and parameters of the main function are not seen."""
        outer, made, params = self.scope, self._made, self.params
        self.scope = Scope(dict(names))
        if own_bindings:
            self._made, self.params = ChainMap(), None
        try:
            yield
        finally:
            self.scope, self._made, self.params = outer, made, params

    @contextmanager
    def dropped(self) -> Iterator[None]:
        """What is imported inside is not kept: it makes no parameters."""
        params, self.params = self.params, None
        try:
            with self.branch(), self.builder.seq_scope():
                yield
        finally:
            self.params = params

    def lookup(self, name: str) -> Value:
        """The value of a name. Raises: ImportModelError N0105 where none is visible."""
        found = self.scope.find(name)
        if found is None:
            raise ImportModelError(N0105, f"value {name!r} is used and not defined")
        return found

    def bind(self, name: str, value: Value) -> None:
        """Give a name a value, in the scope that is open."""
        if name:
            self.scope.names[name] = value
            value.name = value.name or name

    # ---- graphs and nodes

    def run_graph(self, graph: GraphProto, finish: Finish | None = None) -> list[Value]:
        """Import initializers and nodes into the open scope; give the outputs, or what `finish` makes of
        them."""
        for stored in graph.initializer:
            array = tensor_array(stored, self.model.folder)
            self.bind(stored.name, array_value(array, self._stored_dtype(stored), stored.name))
        nodes = in_order(graph.node, folder=self.model.folder)
        return self.run_nodes(nodes, [output.name for output in graph.output], finish)

    def run_nodes(
        self, nodes: Sequence[Node], outputs: Sequence[str], finish: Finish | None = None
    ) -> list[Value]:
        """Import nodes in their order; give their outputs, or what `finish` makes of them."""
        for index, node in enumerate(nodes):
            try:
                self.run_node(node)
            except RanksDiffer as differ:
                if differ.node is not node:
                    raise
                return differ.resume(nodes[index + 1 :], outputs, finish)
        values = [self.lookup(name) for name in outputs]
        return values if finish is None else finish(values)

    def _stored_dtype(self, stored: Any) -> str:
        return self.functions.dtype_of(stored)

    def run_node(self, node: Node) -> None:
        """Import a node. A survey goes on after one that fails."""
        self.run_strictly(node)

    def run_strictly(self, node: Node) -> None:
        """Import one node. Every failure is an ImportModelError at the node."""
        with at(ModelSpan(self.model.name, node.label, node.op_type)):
            try:
                self._nodes_left -= 1
                if self._nodes_left < 0:  # bodies of loops are imported until their types are steady
                    raise exceeded("nodes", f"{self.model.name} takes more nodes to import")
                inputs = [self.lookup(name) if name else None for name in node.inputs]
                results = self.convert(node, inputs)
            except ImportModelError:
                raise
            except HeddleError as error:
                raise ImportModelError(error.diagnostics) from error
            except RecursionError as error:
                raise ImportModelError(N0105, "the model nests too deeply") from error
            for index, name in enumerate(node.outputs):
                if index < len(results):
                    self.bind(name, results[index])
                elif name:
                    raise ImportModelError(N0203, f"{node.op_type}: output {index} is not supported")

    def convert(self, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
        """The values of a node's outputs."""
        opset = self.opsets.get(node.domain, 1)
        if self._in_specification and (schema := self.functions.schema(node, opset)) is not None:
            inputs = of_one_dtype(schema, inputs, self._cast)
        ctx = NodeContext(self, node, inputs, opset)
        rule = find_symbolic(node.domain, node.op_type)
        known = rule(ctx) if rule is not None else None
        if known is not None:
            return [known]
        body = self.functions.local(node)
        converter = None if body is not None else find_converter(node.domain, node.op_type, opset)
        if converter is not None:
            return as_values(converter(ctx))
        is_local, before = body is not None, self._in_specification
        body = body or self.functions.specified(node, opset, inputs)
        if body is None:
            reason, rewrite = reason_against(node.domain, node.op_type) or ("", "")
            why = f": {reason}" if reason else ""
            raise ImportModelError(
                N0201, f"operator {node.op_type} is not supported{why}", help=rewrite or None
            )
        self._in_specification = not is_local
        try:
            return self.run_function(body, node, inputs)
        finally:
            self._in_specification = before

    def _cast(self, value: Value, dtype: str) -> Value:
        """A value in another element type."""
        if value.array is not None:
            return array_value(value.array.astype(DataType(dtype).numpy()), dtype)
        return tensor_value(self.call("astype", self.tensor_of(value), dtype=dtype))

    def run_function(self, body: FunctionProto, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
        """A call of a function of the model or of an operator's specification, inlined."""
        return self.inlined(node, partial(self._function_inlined, body, node, inputs))

    def inlined(self, node: Node, run: Callable[[Finish | None], list[Value]]) -> list[Value]:
        """What `run` imports in place of a node. Raises: RanksDiffer where a value can have several ranks."""
        values = run(None)
        if any(_has_any_rank(value) for value in values):
            raise RanksDiffer(
                node,
                lambda rest, outputs, finish: run(self.going_on(node, rest, outputs, finish)),
            )
        return values

    def _function_inlined(
        self, body: FunctionProto, node: Node, inputs: Sequence[Value | None], finish: Finish | None
    ) -> list[Value]:
        names = {name: value for name, value in zip(body.input, inputs, strict=False) if value is not None}
        given = {**self.functions.defaults(body, node), **node.attrs}
        wanted = [inner for inner, outer in zip(body.output, node.outputs, strict=False) if outer]

        def outputs_of_node(values: list[Value]) -> list[Value]:
            found = iter(values)
            all_values = [next(found) if outer else Value() for outer in node.outputs[: len(body.output)]]
            return all_values if finish is None else finish(all_values)

        opsets = self.opsets
        self.opsets = self.functions.opsets_of(body, opsets)
        try:
            with self.closed(names):
                nodes = in_order(body.node, given, self.model.folder)
                return self.run_nodes(nodes, wanted, outputs_of_node)
        finally:
            self.opsets = opsets

    def going_on(
        self, node: Node, rest: Sequence[Node], outputs: Sequence[str], finish: Finish | None
    ) -> Finish:
        """What gives the outputs of a node their values, and imports the nodes behind it where it stands."""
        scope, opsets = self.scope, self.opsets

        def follow(values: list[Value]) -> list[Value]:
            inner = self.scope, self.opsets
            self.scope, self.opsets = Scope(parent=scope), opsets
            try:
                for name, value in zip(node.outputs, values, strict=True):
                    self.bind(name, value)
                return self.run_nodes(rest, outputs, finish)
            finally:
                self.scope, self.opsets = inner

        return follow

    # ---- values on demand

    def tensor_of(self, value: Value) -> Expr:
        """The value as a typed tensor expression."""
        if value.expr is not None:
            return value.expr
        key = id(value)
        if key in self._made:
            return self._made[key][1]  # type: ignore[no-any-return]
        if value.items is not None:
            expr: Expr = self.builder.leaf(Tuple(tuple(self.tensor_of(item) for item in value.items)))
        else:
            expr = self._constant(value) or self._tensor_of_content(value)
        self._made[key] = (value, expr)
        return expr

    def _constant(self, value: Value) -> Expr | None:
        array = self.array_of(value)
        if array is None:
            return None
        if self.params is not None and id(value) in self.params.of_value:
            return self.params.of_value[id(value)][1]
        is_constant = self.params is None or not value.name or value.array is None
        # Arrays of the importer are its own; those of constants are not written to, so they are shared.
        dtype = None if array.dtype.name == value.dtype else value.dtype
        data = tensor(array, dtype=dtype, copy=not is_constant)
        made = const(data)
        if self.params is None or is_constant:
            return made
        var = Var(self.builder.get_unique_name(identifier(value.name)), made.ty)
        self.params.vars.append(var)
        self.params.data.append(data)
        self.params.of_value[id(value)] = (value, var)
        return var

    def _tensor_of_content(self, value: Value) -> Expr:
        content = value.content
        assert content is not None
        items = list(content.reshape(-1))
        if value.dtype == "bool":
            items = [prim_ops.select(item, constant(1, "int64"), constant(0, "int64")) for item in items]
        factors = None
        if DataType(value.dtype).is_float:
            pairs = [scaled_dim(item, value.dtype) for item in items]
            items, factors = [dim for dim, _ in pairs], [factor for _, factor in pairs]
        made: Expr = self.builder.emit(size_tensor(vector(items)))
        if value.dtype != "int64":
            made = self.call("astype", made, dtype=value.dtype)
        for op, numbers in scaling(factors) if factors is not None else ():
            made = self.call(op, made, const(np.asarray(numbers).astype(value.dtype)))
        return (
            made
            if content.ndim == 1
            else self.call(
                "reshape", made, ShapeExpr(tuple(constant(size, "int64") for size in content.shape))
            )
        )

    def array_of(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The value as a constant array, where it is constant."""
        if value.array is not None:
            return value.array
        if isinstance(value.expr, Constant):
            found: np.ndarray[Any, Any] = value.expr.data.numpy()
            return found
        return array_of_content(value.content, value.dtype) if value.content is not None else None

    def elements_of(self, value: Value, sizes: bool = True) -> np.ndarray[Any, Any]:
        """The elements of an integer value of rank 0 or 1: known ones, or symbolic ones read when the model
        runs."""
        known = value.elements()
        if known is not None:
            return known
        key = ("elements", id(value))
        if key not in self._made:
            self._made[key] = (value, self._read_elements(value, sizes))
        return self._made[key][1]  # type: ignore[no-any-return]

    def _read_elements(self, value: Value, sizes: bool) -> np.ndarray[Any, Any]:
        expr = self.tensor_of(value)
        ty = type_of(expr)
        if not isinstance(ty, TensorType):
            raise ImportModelError(
                N0106, "expected a tensor of integers, got a sequence, optional or strings"
            )
        if ty.dims is None or ty.ndim > 1 or (ty.ndim == 1 and not isinstance(ty.dims[0], IntImm)):
            raise ImportModelError(
                N0301,
                f"a shape that is computed when the model runs must have a known number of elements, got "
                f"{ty}",
            )
        count = 1 if ty.ndim == 0 else int(ty.dims[0])  # type: ignore[call-overload]
        if count > MOST_SIZES:
            raise ImportModelError(
                N0301,
                f"a shape that is computed when the model runs has at most {MOST_SIZES} elements, "
                f"got {count}",
            )
        if ty.ndim == 0:
            expr = self.call("reshape", expr, (1,))
        if ty.dtype != "int64":
            expr = self.call("astype", expr, dtype="int64")
        shape = self.call("tensor_to_shape", expr)
        dims = tuple(self.fresh_dim(f"{identifier(value.name)}_{index}", sizes) for index in range(count))
        self.builder.match_cast(shape, ShapeType(dims), identifier(value.name or "sizes"))
        return vector(dims) if ty.ndim else vector(dims).reshape(())

    def fresh_dim(self, hint: str, size: bool = True) -> PrimVar:
        """A new symbolic dimension, or a new symbolic integer of any sign."""
        name = self.dim_names.fresh(identifier(hint))
        made = SizeVar(name) if size else PrimVar(name, DataType("int64"))
        self._dims.append(made)
        return made

    def named_dims(self, dims: Sequence[PrimExpr], hint: str, sizes: bool = True) -> tuple[PrimExpr, ...]:
        """Scalar expressions, each but constants computed once when the model runs, as fresh variables."""
        known = self.simplify.dims(dims)
        made = tuple(
            dim if isinstance(dim, (IntImm, PrimVar)) else self.fresh_dim(hint, sizes) for dim in known
        )
        if made != known:
            self.builder.match_cast(ShapeExpr(known), ShapeType(made), hint)
        return made

    def short_dims(self, dims: Sequence[PrimExpr], hint: str) -> tuple[PrimExpr, ...]:
        """Scalar expressions as formulas; where one of them is long, as `named_dims`."""
        known = self.simplify.dims(dims)
        return self.named_dims(dims, hint) if any(map(is_long, known)) else known

    # ---- building

    def call(self, op: str, *args: Any, **attrs: Any) -> Expr:
        """Bind a call of a graph operator. Raises: ImportModelError N0201 where it is not declared."""
        record = OP_RECORDS.get(f"{GRAPH_PREFIX}{op}")
        if not isinstance(record, OpDef):
            raise ImportModelError(N0201, f"the graph dialect has no operator {op!r}")
        made = build_call(record, args, attrs)
        return folded(record, made) or self._with_short_dims(self.builder.emit(made))

    def _with_short_dims(self, expr: Expr) -> Expr:
        """The value, long dimensions read into symbolic variables when the model runs."""
        ty = type_of(expr)
        if not isinstance(ty, TensorType) or not any(is_long(dim) for dim in ty.dims or ()):
            return expr
        dims = [self.fresh_dim("long_dim") if is_long(dim) else dim for dim in ty.dims or ()]
        return self.bind_dims(expr, dims)

    def cast_shape(self, expr: Expr, dims: Sequence[PrimExpr]) -> Expr:
        """The value checked against a shape when it runs; the value itself where its shape is known to be
        that."""
        ty = type_of(expr)
        assert isinstance(ty, TensorType)
        if ty.dims is not None and self.same_dims(ty.dims, dims):
            return expr
        return self.builder.match_cast(expr, TensorType(ShapeExpr(tuple(dims)), ty.dtype))

    def bind_dims(self, expr: Expr, dims: Sequence[PrimExpr]) -> Expr:
        """The value with its dimensions read into symbolic variables when the model runs."""
        ty = type_of(expr)
        assert isinstance(ty, TensorType)
        return self.builder.match_cast(expr, TensorType(ShapeExpr(tuple(dims)), ty.dtype))

    def same_dims(self, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
        """Whether two shapes are known to be equal."""
        return len(a) == len(b) and all(self.simplify.equal(x, y) for x, y in zip(a, b, strict=True))

    def require_equal(self, pairs: Sequence[tuple[PrimExpr, PrimExpr]], what: str) -> None:
        """Check when the model runs that pairs of scalars (expected, got) are equal. Messages name `what`."""
        if pairs:
            expected, got = zip(*pairs, strict=True)
            self.builder.match_cast(ShapeExpr(got), ShapeType(expected), identifier(what))

    def common_dim(self, dims: Sequence[PrimExpr]) -> PrimExpr:
        """The dimension that the others must equal: a constant, else a variable, else the first."""
        real = [dim for dim in dims if not is_const_int(dim, 1)] or list(dims)
        for kind in (IntImm, PrimVar):
            found = next((dim for dim in real if isinstance(dim, kind)), None)
            if found is not None:
                return found
        return real[0]


def _has_any_rank(value: Value) -> bool:
    ty = type_of(value.expr) if value.expr is not None else None
    return isinstance(ty, TensorType) and ty.ndim < 0


def as_values(results: Any) -> list[Value]:
    """What a converter gave, as values."""
    items = list(results) if isinstance(results, (tuple, list)) else [results]
    return [item if isinstance(item, Value) else tensor_value(item) for item in items]
