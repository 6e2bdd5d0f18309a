"""What an ONNX file holds, told without compiling it, whether or not all of it is supported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from heddle.frontend.onnx.load import loaded_model
from heddle.frontend.onnx.proto import dtype_name, plain_domain, tensor_shape
from heddle.frontend.onnx.survey import survey
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen


@frozen
class Description:
    """`inputs` and `outputs` are pairs of a name and a type's text; `operators` has an entry for each node,
    those of subgraphs and of the model's functions included. `size_bytes` counts files of external data,
    too."""

    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    free_dims: list[str]
    operators: list[str]
    opsets: dict[str, int]
    producer: str
    size_bytes: int
    weights_bytes: int
    num_weights: int


def described(path: Path) -> Description:
    """Look at a model. Raises: FormatError N01.. for a damaged file."""
    loaded = loaded_model(path)
    found, proto = survey(path), loaded.proto
    types = dict([*found.inputs, *found.types])
    graphs = list(_graphs(proto.graph))
    nodes = [node for graph in graphs for node in graph.node]
    for function in proto.functions:
        nodes += [node for each in function.node for node in _nodes(each)]
    weights = [tensor for graph in graphs for tensor in graph.initializer]
    return Description(
        inputs=found.inputs,
        outputs=[(value.name, types.get(value.name, "unknown")) for value in proto.graph.output],
        free_dims=found.free_dims,
        operators=[_operator(node) for node in nodes],
        opsets=found.opsets,
        producer=" ".join(filter(None, (proto.producer_name, proto.producer_version))),
        size_bytes=path.stat().st_size + _external_bytes(path, weights),
        weights_bytes=sum(map(_size_bytes, weights)),
        num_weights=len(weights),
    )


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all subgraphs of its nodes."""
    waiting = [graph]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [inner for node in each.node for inner in _own_graphs(node)]


def _own_graphs(node: NodeProto) -> list[GraphProto]:
    found: list[GraphProto] = []
    for attr in node.attribute:
        found += [attr.g] if attr.type == AttributeProto.GRAPH else attr.graphs
    return found


def _nodes(node: NodeProto) -> Iterator[NodeProto]:
    yield node
    for graph in _own_graphs(node):
        for each in _graphs(graph):
            yield from each.node


def _operator(node: NodeProto) -> str:
    domain = plain_domain(node.domain)
    return f"{domain}.{node.op_type}" if domain else node.op_type


def _size_bytes(tensor: TensorProto) -> int:
    count = math.prod(tensor_shape(tensor))
    if tensor.data_type == TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return (count * DataType(dtype_name(tensor.data_type, tensor.name)).bits + 7) // 8


def _external_bytes(path: Path, weights: Iterable[TensorProto]) -> int:
    """The size of the files beside the model, in its folder or below. One that is not there has none:
    importing tells it. Large weights of the model itself are read as external data in it."""
    names = {
        entry.value
        for tensor in weights
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    folder = path.resolve().parent
    files = {(folder / name).resolve() for name in names if "\0" not in name} - {path.resolve()}
    return sum(file.stat().st_size for file in files if file.is_relative_to(folder) and file.is_file())
