"""Random ONNX models of Loop and Scan. Bodies are of whole numbers, so that rounding has no part in them.

States of ten kinds that are added to, swapped, grown and chosen by If; loops in loops; the same body called
twice; no trips, one, some, as many as a size or an input says; conditions that end the loop early.
"""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

OPSET = 20
COLUMNS = 3
KINDS = {
    "f": TensorProto.FLOAT,
    "d": TensorProto.DOUBLE,
    "h": TensorProto.FLOAT16,
    "w": TensorProto.BFLOAT16,
    "q": TensorProto.INT4,
    "i": TensorProto.INT64,
    "u": TensorProto.UINT8,
    "b": TensorProto.BOOL,
    "t": TensorProto.STRING,
    "g": TensorProto.FLOAT,
    "s": TensorProto.FLOAT,
}
"""Element types of the kinds of state: "g" has rows that a body adds, "s" is a sequence."""
DTYPES = {
    "f": np.float32,
    "d": np.float64,
    "h": np.float16,
    "w": ml_dtypes.bfloat16,
    "q": ml_dtypes.int4,
    "i": np.int64,
    "u": np.uint8,
    "b": np.bool_,
    "t": np.object_,
    "g": np.float32,
    "s": np.float32,
}
COMMON, RARE = "fffdiubg", "hhwqst"
CALCULATED = "fdhiu"
COLLECTED = "fdib"


def info(name: str, kind: str) -> ValueInfoProto:
    """The type of a value, its sizes free."""
    if kind in ("c", "n"):
        return helper.make_tensor_value_info(name, TensorProto.BOOL if kind == "c" else TensorProto.INT64, [])
    inner = helper.make_tensor_type_proto(KINDS[kind], [None, None])
    if kind == "s":
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    return helper.make_value_info(name, inner)


class Maker:
    """The nodes of one graph, and the values that it may use, outer ones included, as (name, kind)."""

    def __init__(
        self, rng: random.Random, depth: int, outer: list[tuple[str, str]], names: list[int]
    ) -> None:
        self.rng, self.depth, self.names = rng, depth, names
        self.known = list(outer)
        self.nodes: list[onnx.NodeProto] = []

    def name(self) -> str:
        self.names[0] += 1
        return f"v{self.names[0]}"

    def op(self, op: str, inputs: list[str], kind: str, **attrs: Any) -> str:
        made = self.name()
        self.nodes.append(helper.make_node(op, inputs, [made], **attrs))
        self.known.append((made, kind))
        return made

    def const(self, value: Any) -> str:
        made = self.name()
        self.nodes.append(helper.make_node("Constant", [], [made], value=numpy_helper.from_array(value)))
        return made

    def scalar(self, kind: str, value: int) -> str:
        return self.const(np.asarray(value, DTYPES[kind]))

    def pick(self, kind: str) -> str:
        found = [name for name, other in self.known if other == kind]
        return self.rng.choice(found[-6:])

    def has(self, kind: str) -> bool:
        return any(other == kind for _, other in self.known)

    # ---- values

    def value(self, kind: str, own: str) -> str:
        """A value of a kind; `own` is one of it."""
        if self.depth and kind in "fdiubh" and self.rng.random() < 0.12:
            return self.chosen(kind, own)
        if self.depth and kind in "fdiu" and self.rng.random() < 0.08:
            return self.inner_loop(kind, own)
        return getattr(self, f"_of_{kind}", self._calculated)(kind, own)

    def _calculated(self, kind: str, own: str) -> str:
        rng, other = self.rng, self.pick(kind)
        form = rng.choice(["binary", "binary", "same", "swap", "scalar", "where", "counter", "clip"])
        if form == "swap":
            return other
        if form == "same":
            return self.op("Identity", [own], kind)
        if form == "scalar":
            return self.op("Add", [own, self.scalar(kind, rng.choice([0, 1, 2, 3]))], kind)
        if form == "where" and self.has("b"):
            return self.op("Where", [self.pick("b"), own, other], kind)
        if form == "counter" and self.has("n"):
            return self.op("Add", [own, self.op("Cast", [self.pick("n")], "", to=KINDS[kind])], kind)
        if form == "clip":
            low = self.op("Max", [own, self.scalar(kind, 1)], kind)
            return self.op("Min", [low, self.scalar(kind, 9)], kind)
        op = rng.choice(["Add", "Sub", "Max", "Min"])
        return self.op(op, [own, other] if rng.random() < 0.7 else [other, own], kind)

    def _of_w(self, kind: str, own: str) -> str:
        if self.rng.random() < 0.3:
            return self.pick("w")
        wide = self.op("Cast", [own], "f", to=TensorProto.FLOAT)
        made = self.op("Min", [self._calculated("f", wide), self.scalar("f", 64)], "f")
        return self.op("Cast", [made], "w", to=TensorProto.BFLOAT16)

    def _of_q(self, kind: str, own: str) -> str:
        if self.rng.random() < 0.3:
            return self.pick("q")
        wide = self.op("Cast", [own], "i", to=TensorProto.INT64)
        made = self._calculated("i", wide)
        low = self.op("Max", [made, self.scalar("i", -8)], "i")
        return self.op("Cast", [self.op("Min", [low, self.scalar("i", 7)], "i")], "q", to=TensorProto.INT4)

    def _of_b(self, kind: str, own: str) -> str:
        form = self.rng.choice(["Not", "And", "Or", "Xor", "less", "swap"])
        if form == "Not":
            return self.op("Not", [own], "b")
        if form == "less" and self.has("f"):
            return self.op("Less", [self.pick("f"), self.pick("f")], "b")
        if form in ("swap", "less"):
            return self.pick("b")
        return self.op(form, [own, self.pick("b")], "b")

    def _of_t(self, kind: str, own: str) -> str:
        if self.rng.random() < 0.5:
            return self.pick("t")
        return self.op("StringConcat", [own, self.pick("t")], "t")

    def _of_g(self, kind: str, own: str) -> str:
        form = self.rng.choice(["grow", "grow", "same", "shrink", "add"])
        if form == "grow" and self.has("f"):
            return self.op("Concat", [own, self.pick("f")], "g", axis=0)
        if form == "shrink":
            bounds = [self.const(np.asarray([each], np.int64)) for each in (self.rng.choice([0, 1]), 2**62)]
            return self.op("Slice", [own, *bounds], "g")
        if form == "add":
            return self.op("Add", [own, self.scalar("f", 1)], "g")
        return own

    def _of_s(self, kind: str, own: str) -> str:
        form = self.rng.choice(["insert", "insert", "same", "swap"])
        if form == "insert" and self.has("f"):
            return self.op("SequenceInsert", [own, self.pick("f")], "s")
        return self.pick("s") if form == "swap" else self.op("Identity", [own], "s")

    # ---- control flow

    def condition(self) -> str:
        """A scalar of bool."""
        form = self.rng.choice(["counter", "greatest", "constant"])
        if form == "counter" and self.has("n"):
            return self.op("Less", [self.pick("n"), self.scalar("i", self.rng.choice([0, 1, 2, 4]))], "c")
        if form == "greatest" and self.has("f"):
            most = self.op("ReduceMax", [self.pick("f")], "", keepdims=0)
            return self.op("Less", [most, self.scalar("f", self.rng.choice([3, 9, 20]))], "c")
        return self.scalar("b", self.rng.choice([0, 1, 1]))

    def branch(self, kind: str, own: str) -> onnx.GraphProto:
        inner = Maker(self.rng, self.depth - 1, self.known, self.names)
        made = inner.op("Identity", [inner.value(kind, own)], kind)
        return helper.make_graph(inner.nodes, self.name(), [], [info(made, kind)])

    def chosen(self, kind: str, own: str) -> str:
        branches = {which: self.branch(kind, own) for which in ("then_branch", "else_branch")}
        return self.op("If", [self.condition()], kind, **branches)

    def inner_loop(self, kind: str, own: str) -> str:
        trips = self.pick("n") if self.has("n") and self.rng.random() < 0.4 else self.trips()
        return self.loop([kind], [own], trips, 0)[0]

    def trips(self) -> str:
        return self.scalar("i", self.rng.choice([0, 1, 2, 3]))

    def body(self, kinds: list[str], num_rows: int) -> tuple[onnx.GraphProto, list[str]]:
        """The body of a Loop, and the kinds of rows that it collects."""
        inner = Maker(self.rng, self.depth - 1, self.known, self.names)
        turn, go = self.name(), self.name()
        states = [self.name() for _ in kinds]
        inner.known += [(turn, "n"), *zip(states, kinds, strict=True)]
        made = [inner.value(kind, state) for kind, state in zip(kinds, states, strict=True)]
        if self.rng.random() < 0.2:  # states of one kind change places
            for a in range(len(kinds) - 1):
                if kinds[a] == kinds[a + 1]:
                    made[a], made[a + 1] = made[a + 1], made[a]
        fit = [(name, kind) for name, kind in inner.known if kind and kind in COLLECTED]
        rows = [self.rng.choice(fit) for _ in range(num_rows)] if fit else []
        on = go if self.rng.random() < 0.5 else inner.condition()
        outs = [inner.op("Identity", [name], "") for name in (on, *made, *(name for name, _ in rows))]
        row_kinds = [kind for _, kind in rows]
        out_kinds = ["c", *kinds, *row_kinds]
        inputs = [info(turn, "n"), info(go, "c"), *map(info, states, kinds)]
        graph = helper.make_graph(inner.nodes, self.name(), inputs, list(map(info, outs, out_kinds)))
        return graph, row_kinds

    def loop(self, kinds: list[str], starts: list[str], trips: str, num_rows: int, go: str = "") -> list[str]:
        """The last states and the rows of a Loop."""
        graph, rows = self.body(kinds, num_rows)
        return self.call(graph, kinds, starts, trips, rows, go)

    def call(
        self,
        graph: onnx.GraphProto,
        kinds: list[str],
        starts: list[str],
        trips: str,
        rows: list[str],
        go: str,
    ) -> list[str]:
        outs = [self.name() for _ in (*kinds, *rows)]
        self.nodes.append(helper.make_node("Loop", [trips, go, *starts], outs, body=graph))
        self.known += zip(outs, kinds, strict=False)
        return outs

    def scan(self, kinds: list[str], starts: list[str], source: str) -> tuple[list[str], list[str]]:
        """The last states and the rows of a Scan over the rows of `source`, and the kinds of the rows."""
        inner = Maker(self.rng, self.depth - 1, self.known, self.names)
        states, row = [self.name() for _ in kinds], self.name()
        inner.known += zip(states, kinds, strict=True)
        wide = inner.op("Add", [row, inner.scalar("f", 0)], "")
        first = inner.op("Unsqueeze", [wide, inner.const(np.asarray([0], np.int64))], "")
        inner.known.append((first, "r"))
        made = []
        for kind, state in zip(kinds, states, strict=True):
            value = inner.value(kind, state)
            made.append(inner.op("Add", [value, first], kind) if kind == "f" else value)
        outs = [inner.op("Identity", [name], "") for name in (*made, made[0])]
        inputs = [*map(info, states, kinds), helper.make_tensor_value_info(row, TensorProto.FLOAT, [COLUMNS])]
        graph = helper.make_graph(inner.nodes, self.name(), inputs, list(map(info, outs, [*kinds, kinds[0]])))
        results = [self.name() for _ in outs]
        way = {"scan_input_directions": [1]} if self.rng.random() < 0.3 else {}
        self.nodes.append(
            helper.make_node("Scan", [*starts, source], results, body=graph, num_scan_inputs=1, **way)
        )
        return results, [*kinds, kinds[0]]


def random_kinds(rng: random.Random) -> list[str]:
    kinds = [rng.choice(COMMON if rng.random() < 0.75 else RARE) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
    return kinds + [kinds[-1]] * (rng.random() < 0.3)


def _start(rng: random.Random, kind: str, rows: int) -> Any:
    shape = (rows, COLUMNS)
    if kind == "t":
        return np.asarray([rng.choice(["", "a", "bc"]) for _ in range(rows * COLUMNS)], object).reshape(shape)
    numbers = [rng.randint(0, 5) for _ in range(rows * COLUMNS)]
    return (np.asarray(numbers, np.int64).reshape(shape) % (2 if kind == "b" else 8)).astype(DTYPES[kind])


def random_model(seed: int) -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """A model and three sets of inputs for it: rows, trips and the first condition differ."""
    rng = random.Random(seed)
    kinds = random_kinds(rng)
    inputs = [(f"x{k}", "f" if kind == "s" else kind) for k, kind in enumerate(kinds)]
    maker = Maker(rng, 2, [(name, kind) for name, kind in inputs if kind != "g"], [0])
    starts = [name for name, _ in inputs]
    for k, kind in enumerate(kinds):
        if kind == "s":
            starts[k] = maker.op("SequenceConstruct", [starts[k]], "s")
    is_scan = rng.random() < 0.25 and not set(kinds) & set("gst")
    asked = [("trips", "n"), ("first", "c"), ("rows", "f")]
    if is_scan:
        outs, out_kinds = maker.scan(kinds, starts, "rows")
    else:
        trips = rng.choice(["trips", "trips", "size", "size", "stated", "none"])
        if trips == "size":
            sizes = maker.op("Shape", ["rows"], "", start=0, end=1)
            limit = maker.op("Squeeze", [sizes], "")
        else:
            limit = maker.trips() if trips == "stated" else "trips"
        go = "first" if rng.random() < 0.3 else ""
        graph, rows = maker.body(kinds, rng.choice([0, 1, 1, 2]))
        outs = maker.call(graph, kinds, starts, limit, rows, go)
        out_kinds = [*kinds, *rows]
        if rng.random() < 0.25:
            outs = maker.call(graph, kinds, outs[: len(kinds)], maker.trips(), rows, "")
    used = {name for node in maker.nodes for name in node.input}
    used |= {name for node in maker.nodes for attr in node.attribute for name in _reads(attr.g)}
    inputs += [(name, kind) for name, kind in asked if name in used]
    results = []
    for name, kind in zip(outs, out_kinds, strict=True):
        if kind == "s":
            length = maker.op("SequenceLength", [name], "")
            results.append(helper.make_tensor_value_info(length, TensorProto.INT64, []))
        else:
            results.append(ValueInfoProto(name=name, type=_type(kind, name, kinds, outs)))
    graph = helper.make_graph(maker.nodes, "loops", [_input(*each) for each in inputs], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model, [_sample(rng, inputs, number) for number in range(3)]


def _reads(graph: onnx.GraphProto) -> set[str]:
    found = {name for node in graph.node for name in node.input}
    return found.union(*(_reads(attr.g) for node in graph.node for attr in node.attribute))


def _input(name: str, kind: str) -> ValueInfoProto:
    if kind in ("n", "c"):
        return info(name, kind)
    return helper.make_tensor_value_info(
        name, KINDS[kind], ["m" if kind == "g" or name == "rows" else "n", COLUMNS]
    )


def _type(kind: str, name: str, kinds: list[str], outs: list[str]) -> onnx.TypeProto:
    rank = 2 if outs.index(name) < len(kinds) else 3
    return helper.make_tensor_type_proto(KINDS[kind], [None] * rank)


def _sample(rng: random.Random, inputs: list[tuple[str, str]], number: int) -> dict[str, Any]:
    rows, other = (2, rng.choice([1, 2, 5])) if number == 0 else (rng.choice([1, 3]), rng.choice([0, 1, 4]))
    made: dict[str, Any] = {}
    for name, kind in inputs:
        if kind == "n":
            made[name] = np.asarray(rng.choice([0, 1, 2, 3, 5]), np.int64)
        elif kind == "c":
            made[name] = np.asarray(rng.random() < 0.75)
        else:
            made[name] = _start(rng, kind, other if kind == "g" or name == "rows" else rows)
    return made
