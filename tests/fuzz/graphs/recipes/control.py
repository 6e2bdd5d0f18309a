"""Control flow, nested up to three deep: the bodies are graphs of the same recipes."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.builder import Builder, Unfit
from tests.fuzz.graphs.grow import grow
from tests.fuzz.graphs.recipes.registry import recipe
from tests.fuzz.graphs.values import Value

MAX_DEPTH = 3


def body(b: Builder) -> Builder:
    if b.depth >= MAX_DEPTH:
        raise Unfit("too deep")
    return Builder(b.plan, b.rng, b)


def condition(b: Builder) -> Value:
    """One bool: of the graph's inputs, or computed from a value."""
    if b.flag(0.4):
        return b.given([np.asarray(b.flag()) for _ in range(b.num_samples)], False)
    x = b.floating()
    total = b.node("ReduceSum", [x], keepdims=0)
    return b.node("Greater", [total, b.given([np.asarray(0.1, x.dtype)] * b.num_samples, True)])


@recipe(1)
def branch(b: Builder) -> object:
    decides = condition(b)
    like = b.pick(lambda v: v.rank < 5)
    sides = []
    for _ in range(2):
        inner = body(b)
        grow(inner, b.integer(1, 4))
        found = [v for v in inner.values if v.name in inner.own and not v.is_sequence
                 and v.dtype == like.dtype and v.rank == like.rank]  # fmt: skip
        result = found[-1] if found else inner.node("Identity", [like])
        if b.flag(0.2) and inner.own:
            result = inner.node("Identity", [result])
        sides.append(inner.subgraph(b.name("branch"), [], [result]))
    return b.node("If", [decides], then_branch=sides[0], else_branch=sides[1])


def formal(inner: Builder, value: Value, arrays: list[object] | None = None) -> Value:
    """A parameter of a body, with what the value is in the first round."""
    clean = list(value.clean) if arrays is None else arrays
    made = Value(inner.name("p"), clean, list(value.noisy) if arrays is None else list(arrays))
    inner.values.append(made)
    return made


def next_state(inner: Builder, state: Value) -> Value:
    """A value of the body with the element type and shape of the state: tame, so that rounds do not grow."""
    found = [v for v in inner.values if v.name in inner.own and not v.is_sequence and v.dtype == state.dtype
             and v.shape == state.shape]  # fmt: skip
    if not found:
        return inner.node("Tanh" if state.is_float else "Identity", [state])
    if state.is_float:
        return inner.node("Tanh", [found[-1]])
    return found[-1]


@recipe(1)
def loop(b: Builder) -> object:
    """A number of rounds that is constant, given or computed, with states and rows to collect."""
    rounds = [b.integer(0 if b.flag(0.2) else 1, 4)] * b.num_samples
    trips = b.given([np.asarray(count, "int64") for count in rounds], b.flag(0.6))
    initial = [b.pick(lambda v: v.rank < 4 and v.has_elements) for _ in range(b.integer(1, 2))]
    inner = body(b)
    number = Value(
        inner.name("i"), [np.asarray(0, "int64")] * b.num_samples, [np.asarray(0, "int64")] * b.num_samples
    )
    goes_on = Value(inner.name("c"), [np.asarray(True)] * b.num_samples, [np.asarray(True)] * b.num_samples)
    inner.values += [number, goes_on]
    states = [formal(inner, value) for value in initial]
    grow(inner, b.integer(1, 4))
    keep = inner.node("Identity", [goes_on])
    if b.flag(0.25):
        limit = inner.given([np.asarray(b.integer(0, 2), "int64")] * b.num_samples, True)
        keep = inner.node("Less", [number, limit])
    after = [next_state(inner, state) for state in states]
    own = [
        v
        for v in inner.values
        if v.name in inner.own and not v.is_sequence and v.rank < 4 and v not in (keep, *after)
    ]
    rows = own[-1:] if own and b.flag(0.5) else []
    graph = inner.subgraph(b.name("body"), [number, goes_on, *states], [keep, *after, *rows])
    start = [b.given([np.asarray(True)] * b.num_samples, True)] if b.flag(0.5) else [None]
    return b.nodes_of("Loop", [trips, *start, *initial], len(after) + len(rows), body=graph)


@recipe(1)
def scan(b: Builder) -> object:
    """Rows of a value one after the other, forwards or backwards."""
    row = b.pick(lambda v: 2 <= v.rank < 5 and v.has_elements)
    state = b.pick(lambda v: v.rank < 4 and v.has_elements)
    inner = body(b)
    carried = formal(inner, state)
    taken = formal(inner, row, [array[0] for array in row.clean])
    grow(inner, b.integer(1, 3))
    after = next_state(inner, carried)
    own = [
        v for v in inner.values if v.name in inner.own and not v.is_sequence and v.rank < 4 and v is not after
    ]
    rows = own[-1] if own else inner.node("Identity", [taken])
    graph = inner.subgraph(b.name("body"), [carried, taken], [after, rows])
    attrs = {"scan_input_directions": [int(b.flag(0.3))], "scan_output_directions": [int(b.flag(0.3))]}
    return b.nodes_of("Scan", [state, row], 2, body=graph, num_scan_inputs=1, **attrs)
