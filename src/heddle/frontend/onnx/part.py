"""Parts of ONNX models: what callers give, and what gives some values, with other values as inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper


def given_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a caller gives: older models list their stored tensors as inputs, too."""
    stored = {item.name for item in graph.initializer}
    return [item for item in graph.input if item.name not in stored]


def used_names(node: NodeProto) -> list[str]:
    """What a node reads, in its subgraphs too."""
    names = dict.fromkeys(name for name in node.input if name)
    for attr in node.attribute:
        for graph in [attr.g] if attr.HasField("g") else attr.graphs:
            own = {item.name for item in (*graph.input, *graph.initializer)}
            for inner in graph.node:
                names |= dict.fromkeys(name for name in used_names(inner) if name not in own)
                own |= set(inner.output)
            names |= dict.fromkeys(item.name for item in graph.output if item.name not in own)
    return list(names)


def needed_nodes(graph: GraphProto, outputs: Collection[str], cuts: Collection[str] = ()) -> list[NodeProto]:
    """The nodes that give `outputs` from inputs and from the values `cuts`, in order."""
    needed, kept = set(outputs), []
    for node in reversed(graph.node):
        if any(name in needed and name not in cuts for name in node.output):
            kept.append(node)
            needed |= set(used_names(node))
    return kept[::-1]


def part_of(
    model: ModelProto, outputs: Sequence[ValueInfoProto], cuts: Mapping[str, ValueInfoProto]
) -> ModelProto | None:
    """The part of a model that gives `outputs`, where the values `cuts` are inputs, of the types given. None
    where no node is left. Functions and metadata of the model stay.
    """
    graph, wanted = model.graph, [item.name for item in outputs]
    kept = needed_nodes(graph, wanted, cuts)
    if not kept:
        return None
    needed = {*wanted, *(name for node in kept for name in used_names(node))}
    made = {name for node in kept for name in node.output}
    stored = [item for item in graph.initializer if item.name in needed]
    sparse = [item for item in graph.sparse_initializer if item.values.name in needed]
    own = {item.name for item in stored} | {item.values.name for item in sparse}
    cut = [name for name in cuts if name in needed and name not in own]
    if any(name in made for name in cut):  # another output of a node that stays
        kept = [_renamed(node, set(cut)) for node in kept]
    given = [item for item in graph.input if item.name in needed and item.name not in own]
    inputs = [cuts.get(item.name, item) for item in given]
    known = {item.name for item in inputs}
    inputs += [cuts[name] for name in cut if name not in known]
    found = ModelProto()
    found.CopyFrom(model)
    found.graph.CopyFrom(helper.make_graph(kept, graph.name, inputs, outputs, stored))
    found.graph.sparse_initializer.extend(sparse)
    return found


def _renamed(node: NodeProto, names: Collection[str]) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    for index, name in enumerate(made.output):
        if name in names:
            made.output[index] = name + "_cut"
    return made
