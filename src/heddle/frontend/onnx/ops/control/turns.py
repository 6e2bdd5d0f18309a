"""How often loops turn, as far as a model says it: a file of a few bytes may ask for any number of turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnx import GraphProto, helper, numpy_helper

from heddle.frontend.onnx.context import NodeContext
from heddle.support.limits import current_limits, exceeded


@contextmanager
def counted_turns(ctx: NodeContext, graph: GraphProto) -> Iterator[None]:
    """Inside, loops are those of the body `graph` of a Loop. The turns of a loop count for each turn of those
    around it; a loop that a condition may end counts once.

    Raises: UsageError S0601 beyond the limit `loop_turns`.
    """
    around = ctx.importer.turns
    turns = around * max(1, _known_turns(ctx, graph))
    if turns > current_limits().loop_turns:
        raise exceeded("loop_turns", f"the model says that loop {ctx.node.label!r} turns {turns} times")
    ctx.importer.turns = turns
    try:
        yield
    finally:
        ctx.importer.turns = around


def _known_turns(ctx: NodeContext, graph: GraphProto) -> int:
    """The number of turns that the model itself states; 1 where inputs or a condition decide."""
    trips = ctx.array(0) if ctx.has(0) else None
    goes = ctx.array(1) if ctx.has(1) else None
    is_stated = trips is not None and trips.size == 1
    if not is_stated or (ctx.has(1) and (goes is None or not goes.all())) or not _goes_on(graph):
        return 1
    assert trips is not None
    return int(trips.reshape(-1)[0])


def _goes_on(graph: GraphProto) -> bool:
    """Whether a body always gives the condition that it got, or true."""
    made = {name: node for node in graph.node for name in node.output}
    name = graph.output[0].name
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    for stored in graph.initializer:
        if stored.name == name:
            return bool(numpy_helper.to_array(stored).all())
    if name in made and made[name].op_type == "Constant":
        values = [helper.get_attribute_value(attr) for attr in made[name].attribute if attr.name == "value"]
        return bool(values) and bool(numpy_helper.to_array(values[0]).all())
    return len(graph.input) > 1 and name == graph.input[1].name
