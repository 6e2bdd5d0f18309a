"""LSTM, GRU and RNN: a `Scan` over time steps whose body is the cell; the input's products are made for all
steps at once.

The cell is written as ONNX nodes, so that it takes the road of every other loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.tensor.rearrange import joined
from heddle.frontend.onnx.proto import DTYPES, Node
from heddle.frontend.onnx.registry import converts
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm, PrimExpr

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_ACTIVATIONS = {
    "sigmoid": ("Sigmoid", ()),
    "tanh": ("Tanh", ()),
    "relu": ("Relu", ()),
    "softsign": ("Softsign", ()),
    "softplus": ("Softplus", ()),
    "hardsigmoid": ("HardSigmoid", ("alpha", "beta")),
    "leakyrelu": ("LeakyRelu", ("alpha",)),
    "elu": ("Elu", ("alpha",)),
    "thresholdedrelu": ("ThresholdedRelu", ("alpha",)),
}
_FAR = (1 << 63) - 1
_NUMBERS = {name: number for number, name in DTYPES.items()}


@dataclass(slots=True)
class _Cell:
    """Nodes under construction. `call` adds one and gives the name of its output. `is_quantized`: weights are
    integers, and states are quantised at each step."""

    nodes: list[NodeProto]
    clip: float | None
    is_quantized: bool = False

    def call(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def product(self, state: str, weight: str) -> str:
        """A state times recurrent weights."""
        if not self.is_quantized:
            return self.call("MatMul", state, weight)
        names = [f"{weight}_{part}" for part in ("quantized", "factor", "offset")]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [state], names))
        made = self.call("MatMulInteger", names[0], weight, names[2], f"{weight}_zero")
        scale = self.call("Mul", names[1], f"{weight}_scale")
        return self.call("Mul", self.call("Cast", made, to=_NUMBERS["float32"]), scale)

    def split(self, x: str, names: Sequence[str]) -> None:
        self.nodes.append(helper.make_node("Split", [x], list(names), axis=-1, num_outputs=len(names)))

    def cut(self, x: str, names: tuple[str, str], sizes: tuple[int, int]) -> tuple[str, str]:
        """Two parts of the last axis."""
        self.nodes.insert(0, helper.make_node("Constant", [], [f"{x}_sizes"], value_ints=sizes))
        self.nodes.append(helper.make_node("Split", [x, f"{x}_sizes"], list(names), axis=-1))
        return names

    def activate(self, function: tuple[str, dict[str, float]], x: str) -> str:
        if self.clip is not None:
            x = self.call("Max", self.call("Min", x, "clip_high"), "clip_low")
        return self.call(function[0], x, **function[1])

    def constant(self, name: str, value: float, dtype: str) -> None:
        array = numpy_helper.from_array(np.asarray(value, dtype))
        self.nodes.insert(0, helper.make_node("Constant", [], [name], value=array))


class Weights:
    """Those of a node: floats with the outputs first."""

    is_quantized = False

    def hidden(self, ctx: NodeContext) -> int:
        """The size of the hidden state, which must be known."""
        return ctx.static_dim(2, 2, "the size of the hidden state")

    def projected(self, ctx: NodeContext, x: Expr, way: int) -> Expr:
        """Rows of inputs times the weights of a direction."""
        weight = ctx.call("permute_dims", part_of(ctx, ctx.tensor(1), way), axes=(1, 0))
        return ctx.call("matmul", x, weight)

    def recurrent(self, ctx: NodeContext, way: int) -> dict[str, Value]:
        """What the cell multiplies its state with, by name."""
        return {"r": tensor_value(ctx.call("permute_dims", part_of(ctx, ctx.tensor(2), way), axes=(1, 0)))}


@converts("LSTM", "GRU", "RNN", since=7)
def recurrent(ctx: NodeContext) -> Result:
    """Inputs: x, w, r, bias, lengths, initial_h (and for LSTM initial_c and peepholes)."""
    return recurrent_layer(ctx, ctx.node.op_type, Weights())


def recurrent_layer(ctx: NodeContext, kind: str, weights: Weights) -> Result:
    """A layer of one of the kinds, whose inputs but for the weights are those of `recurrent`."""
    direction = ctx.attr("direction", "forward")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if ways is None:
        ctx.malformed(f"unknown direction {direction!r}")
    if ctx.dtype(0) not in ("float32", "float64", "float16"):
        ctx.malformed(f"elements of {ctx.dtype(0)}")
    x = ctx.tensor(0)
    if ctx.ndim(0) != 3 or ctx.ndim(1) != 3 or ctx.ndim(2) != 3:
        ctx.malformed("x, w and r must have 3 dimensions")
    batch_first = ctx.flag("layout")
    if batch_first:
        x = ctx.call("permute_dims", x, axes=(1, 0, 2))
    steps = ctx.dims_of(x)[0]
    if _may_be_shorter(ctx, steps) and not weights.is_quantized:  # the range of what is quantised is x's
        x = _cut_to_longest(ctx, x)
    running = _running(ctx, ctx.dims_of(x)[0])
    runs = [_direction(ctx, x, way, backwards, kind, running, weights) for way, backwards in enumerate(ways)]
    outputs = [joined(ctx, [ctx.call("expand_dims", run[0], axis=(1,)) for run in runs], 1)]
    outputs[0] = _filled_up(ctx, outputs[0], steps)
    outputs += [
        joined(ctx, [ctx.call("expand_dims", run[part], axis=(0,)) for run in runs], 0)
        for part in range(1, len(runs[0]))
    ]
    if batch_first:
        outputs = [
            ctx.call("permute_dims", item, axes=(2, 0, 1, 3) if index == 0 else (1, 0, 2))
            for index, item in enumerate(outputs)
        ]
    return outputs


def _may_be_shorter(ctx: NodeContext, steps: PrimExpr) -> bool:
    """Whether a sequence may be over before the last step."""
    known = ctx.array(4) if ctx.has(4) else None
    if known is not None and isinstance(steps, IntImm):
        return bool((known != int(steps)).any())
    return ctx.has(4)


def _cut_to_longest(ctx: NodeContext, x: Expr) -> Expr:
    """The steps (steps, batch, size) in which any sequence is running."""
    longest = ctx.call("max", ctx.call("astype", ctx.tensor(4), dtype="int64"), axis=(0,), keepdims=True)
    rest = ctx.const([_FAR, _FAR], "int64")
    end = ctx.call("concat", (longest, rest), axis=0)
    cut = ctx.known_dims(
        ctx.call("dynamic_strided_slice", x, ctx.const([0] * 3, "int64"), end, ctx.const([1] * 3, "int64"))
    )
    return ctx.cast_shape(cut, (ctx.dims_of(cut)[0], *ctx.dims_of(x)[1:]))


def _filled_up(ctx: NodeContext, outputs: Expr, steps: PrimExpr) -> Expr:
    """Zeros for the steps in which no sequence runs."""
    made, *rest = ctx.dims_of(outputs)
    if ctx.importer.same_dims((made,), (steps,)):
        return outputs
    zeros = ctx.call("zeros", (steps - made, *rest), dtype=ctx.dtype(0))
    return ctx.cast_shape(ctx.call("concat", (outputs, zeros), axis=0), (steps, *rest))


def _running(ctx: NodeContext, steps: PrimExpr) -> Expr | None:
    """Which sequences of the batch are not over at each step: (steps, batch, 1). None where all have every
    step."""
    if not _may_be_shorter(ctx, steps):
        return None
    lengths = ctx.call("expand_dims", ctx.call("astype", ctx.tensor(4), dtype="int64"), axis=(0, 2))
    step = ctx.call("arange", 0, steps, 1, dtype="int64")
    return ctx.call("less", ctx.call("expand_dims", step, axis=(1, 2)), lengths)


def _direction(
    ctx: NodeContext,
    x: Expr,
    way: int,
    backwards: bool,
    kind: str,
    running: Expr | None,
    weights: Weights,
) -> list[Expr]:
    """One direction's outputs: all hidden states, the last one, and for LSTM the last cell state. A sequence
    that is over keeps its states and gives zeros; backwards, one that has not begun."""
    hidden = weights.hidden(ctx)
    steps, batch, size = ctx.dims_of(x)
    flat = ctx.reshape(x, (steps * batch, size))  # one product for all steps
    product = weights.projected(ctx, flat, way)
    projected = ctx.reshape(product, (steps, batch, ctx.dims_of(product)[1]))
    names = weights.recurrent(ctx, way)
    rows, dtype = _GATES[kind] * hidden, ctx.dtype(0)
    own = ctx.call("zeros", (rows,), dtype=dtype)
    if ctx.has(3):
        bias = part_of(ctx, ctx.tensor(3), way)
        own, first = _cut(ctx, bias, rows, 2 * rows), _cut(ctx, bias, 0, rows)
        projected = ctx.call(
            "add", projected, first if _keeps_bias(ctx, kind) else ctx.call("add", first, own)
        )
    if _keeps_bias(ctx, kind):
        names["rb"] = tensor_value(own)
    elif kind == "GRU":
        _cut_weights(ctx, names, hidden)
    if kind == "LSTM" and ctx.has(7):
        for index, name in enumerate(("pi", "po", "pf")):
            part = part_of(ctx, ctx.tensor(7), way)
            names[name] = tensor_value(_cut(ctx, part, index * hidden, (index + 1) * hidden))
    cell = _Cell([], ctx.attr("clip", None), weights.is_quantized)
    functions = _functions(ctx, way, kind)
    _BUILDERS[kind](ctx, cell, functions)
    if cell.clip is not None:
        cell.constant("clip_high", cell.clip, ctx.dtype(0))
        cell.constant("clip_low", -cell.clip, ctx.dtype(0))
    states = [_initial(ctx, 5, way, x, hidden)]
    if kind == "LSTM":
        states.append(_initial(ctx, 6, way, x, hidden))
    made = _scan(
        ctx, cell, names, states, [projected, *([running] if running is not None else [])], backwards
    )
    return [made[-1], *made[:-1]]


def _cut_weights(ctx: NodeContext, names: dict[str, Value], hidden: int) -> None:
    """A GRU's recurrent weights in two: those of the gates, and those of what the gates let through."""
    whole = ctx.importer.tensor_of(names.pop("r"))
    names["r_gates"] = tensor_value(_cut(ctx, whole, 0, 2 * hidden, 1))
    names["r_inner"] = tensor_value(_cut(ctx, whole, 2 * hidden, 3 * hidden, 1))


def _keeps_bias(ctx: NodeContext, kind: str) -> bool:
    """Whether the bias of the recurrent products is not simply added to that of the inputs' products."""
    return kind == "GRU" and ctx.flag("linear_before_reset")


def _scan(
    ctx: NodeContext,
    cell: _Cell,
    names: dict[str, Value],
    states: list[Expr],
    steps: list[Expr],
    backwards: bool,
) -> list[Expr]:
    """Run the cell over the steps' inputs: the projected x and, if sequences differ, which are running."""
    importer, carried = ctx.importer, ["h", "c"][: len(states)]
    number = _NUMBERS[ctx.dtype(0)]
    inputs = [_untyped("xg", number)]
    results, shown = [f"{name}_next" for name in carried], "h_next"
    if len(steps) > 1:
        inputs.append(_untyped("running", _NUMBERS["bool"]))
        cell.constant("zero", 0, ctx.dtype(0))
        results = [cell.call("Where", "running", new, old) for new, old in zip(results, carried, strict=True)]
        shown = cell.call("Where", "running", "h_next", "zero")
    graph: GraphProto = helper.make_graph(
        cell.nodes,
        "cell",
        [*(_untyped(name, number) for name in carried), *inputs],
        [_untyped(name, number) for name in (*results, shown)],
    )
    attrs = {
        "body": graph,
        "num_scan_inputs": len(steps),
        "scan_input_directions": (int(backwards),) * len(steps),
        "scan_output_directions": (int(backwards),),
    }
    outputs = tuple(f"{ctx.node.label}_{index}" for index in range(len(states) + 1))
    node = Node("Scan", "", ctx.node.label, ("",) * (len(states) + 1), outputs, attrs)
    opsets = importer.opsets
    importer.opsets = {**opsets, "": 18}
    try:
        with importer.closed(names):
            given = [tensor_value(item) for item in (*states, *steps)]
            return [importer.tensor_of(value) for value in importer.convert(node, given)]
    finally:
        importer.opsets = opsets


def _untyped(name: str, number: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, number, None)


def part_of(ctx: NodeContext, x: Expr, way: int) -> Expr:
    """The part of a tensor for one direction."""
    return ctx.call("take", x, ctx.const(way, "int64"), axis=0, mode="fast")


def _cut(ctx: NodeContext, x: Expr, low: int, high: int, axis: int = 0) -> Expr:
    return ctx.call(
        "strided_slice", x, axes=(axis,), begin=(low,), end=(high,), strides=(1,), assume_inbound=True
    )


def _initial(ctx: NodeContext, index: int, way: int, x: Expr, hidden: int) -> Expr:
    """The state before the first step: (batch, hidden)."""
    batch = ctx.dims_of(x)[1]
    if not ctx.has(index):
        return ctx.call("zeros", (batch, hidden), dtype=ctx.dtype(0))
    state = ctx.tensor(index)
    if ctx.flag("layout"):
        state = ctx.call("permute_dims", state, axes=(1, 0, 2))
    return ctx.cast_shape(part_of(ctx, state, way), (batch, IntImm(batch.dtype, hidden)))


def _functions(ctx: NodeContext, way: int, kind: str) -> list[tuple[str, dict[str, float]]]:
    """The activations of a direction with their parameters."""
    defaults = _DEFAULTS[kind]
    names = ctx.attr("activations", None) or defaults * 2
    count = len(defaults)
    parameters = {key: list(ctx.attr(f"activation_{key}", ())) for key in ("alpha", "beta")}
    found: list[tuple[str, dict[str, float]]] = []
    for name in names:
        known = _ACTIVATIONS.get(name.lower())
        if known is None:
            ctx.unsupported(f"activation {name!r}", f"supported are {', '.join(sorted(_ACTIVATIONS))}")
        op, keys = known
        found.append((op, {key: parameters[key].pop(0) for key in keys if parameters[key]}))
    if len(found) < count * (way + 1):
        ctx.malformed(f"{len(found)} activations, and {count * (way + 1)} are needed")
    return found[count * way : count * (way + 1)]


Functions = list[tuple[str, dict[str, float]]]


def _lstm(ctx: NodeContext, cell: _Cell, functions: Functions) -> None:
    """Gates in the order input, output, forget, cell."""
    f, g, h = functions
    peep = ctx.has(7)

    def gate(name: str, weight: str, state: str) -> str:
        x = cell.call("Add", name, cell.call("Mul", weight, state)) if peep else name
        return cell.activate(f, x)

    gates = cell.call("Add", "xg", cell.product("h", "r"))
    cell.split(gates, ("gi", "go", "gf", "gc"))
    into = gate("gi", "pi", "c")
    if ctx.flag("input_forget"):
        cell.constant("one", 1, ctx.dtype(0))
        keep = cell.call("Sub", "one", into)
    else:
        keep = gate("gf", "pf", "c")
    fresh = cell.call("Mul", into, cell.activate(g, "gc"))
    cell.nodes.append(helper.make_node("Add", [cell.call("Mul", keep, "c"), fresh], ["c_next"]))
    out = gate("go", "po", "c_next")
    cell.nodes.append(helper.make_node("Mul", [out, cell.call(h[0], "c_next", **h[1])], ["h_next"]))


def _gru(ctx: NodeContext, cell: _Cell, functions: Functions) -> None:
    """Gates in the order update, reset, hidden. What is multiplied with the same state is one product."""
    f, g = functions
    hidden = ctx.static_dim(2, 2, "the size of the hidden state")
    cell.constant("one", 1, ctx.dtype(0))
    x_gates, fresh = cell.cut("xg", ("x_gates", "fresh"), (2 * hidden, hidden))
    if ctx.flag("linear_before_reset"):
        product = cell.call("Add", cell.product("h", "r"), "rb")
        gates, inner = cell.cut(product, ("gates", "inner"), (2 * hidden, hidden))
        update, reset = cell.cut(
            cell.activate(f, cell.call("Add", x_gates, gates)), ("update", "reset"), (hidden, hidden)
        )
        inner = cell.call("Mul", reset, inner)
    else:
        gates = cell.call("Add", x_gates, cell.product("h", "r_gates"))
        update, reset = cell.cut(cell.activate(f, gates), ("update", "reset"), (hidden, hidden))
        inner = cell.product(cell.call("Mul", reset, "h"), "r_inner")
    fresh = cell.activate(g, cell.call("Add", fresh, inner))
    new = cell.call("Mul", cell.call("Sub", "one", update), fresh)
    cell.nodes.append(helper.make_node("Add", [new, cell.call("Mul", update, "h")], ["h_next"]))


def _rnn(ctx: NodeContext, cell: _Cell, functions: Functions) -> None:
    total = cell.call("Add", "xg", cell.product("h", "r"))
    cell.nodes.append(helper.make_node("Identity", [cell.activate(functions[0], total)], ["h_next"]))


_BUILDERS = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
