"""Graphs of kernel calls, and their JSON format, which is that of TVM's graph executor.

    {"nodes": [{"op": "null", "name": "x", "inputs": []},
               {"op": "tvm_op", "name": "tanh", "inputs": [[0, 0, 0]], "attrs": {"func_name": "tanh"}}],
     "arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2],
     "attrs": {"shape": ["list_shape", ...], "dltype": ["list_str", ...], "storage_id": ["list_int", ...]}}

An entry is one result of a node. Entries are numbered in node order. Entries with the same storage share
memory: every reader of an entry runs before the next writer of the storage. `__nop` is a reshape: its result
shares the memory of its input. `__copy` copies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import FormatError, HeddleError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0802

NULL, KERNEL = "null", "tvm_op"
RESHAPE, COPY = "__nop", "__copy"
Entry = tuple[int, int]
"""The number of a node, and of one of its results."""


@frozen
class GraphNode:
    """An input (`function` is empty), or a kernel call. `sizes` are integer arguments after the tensors."""

    name: str
    inputs: tuple[Entry, ...] = ()
    function: str = ""
    num_outputs: int = 1
    sizes: tuple[int, ...] = ()
    attrs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_input(self) -> bool:
        """Whether the node is an input or a parameter."""
        return not self.function

    def as_json(self) -> dict[str, Any]:
        """The node as JSON takes it."""
        row: dict[str, Any] = {"op": NULL if self.is_input else KERNEL, "name": self.name}
        if not self.is_input:
            row["attrs"] = {
                "func_name": self.function,
                "num_inputs": str(len(self.inputs)),
                "num_outputs": str(self.num_outputs),
                "flatten_data": "0",
                **({"sizes": json.dumps(self.sizes)} if self.sizes else {}),
                **self.attrs,
            }
        row["inputs"] = [[node, index, 0] for node, index in self.inputs]
        return row


@frozen
class EntryPlan:
    """The shape, dtype and storage of one result of a node."""

    shape: tuple[int, ...]
    dtype: str
    storage: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements."""
        return prod(self.shape) * DataType(self.dtype).itemsize


@frozen
class Graph:
    """Nodes in execution order, the plan of each entry, and the entries that are the outputs."""

    nodes: tuple[GraphNode, ...]
    entries: tuple[EntryPlan, ...]
    heads: tuple[Entry, ...]

    @property
    def first_entries(self) -> tuple[int, ...]:
        """The number of each node's first entry, followed by the total number of entries."""
        found = [0]
        for node in self.nodes:
            found.append(found[-1] + node.num_outputs)
        return tuple(found)

    def storage_bytes(self) -> dict[int, int]:
        """The size of each storage in bytes: that of its largest entry."""
        sizes: dict[int, int] = {}
        for entry in self.entries:
            sizes[entry.storage] = max(sizes.get(entry.storage, 0), entry.size_bytes)
        return sizes

    def to_json(self) -> str:
        """The graph as JSON text."""
        entries = self.entries
        return json.dumps(
            {
                "nodes": [node.as_json() for node in self.nodes],
                "arg_nodes": [number for number, node in enumerate(self.nodes) if node.is_input],
                "heads": [[node, index, 0] for node, index in self.heads],
                "attrs": {
                    "dltype": ["list_str", [entry.dtype for entry in entries]],
                    "device_index": ["list_int", [1] * len(entries)],
                    "storage_id": ["list_int", [entry.storage for entry in entries]],
                    "shape": ["list_shape", [list(entry.shape) for entry in entries]],
                },
                "node_row_ptr": list(self.first_entries),
            },
            indent=2,
        )


def graph_from_json(text: str) -> Graph:
    """Parse and check a graph's JSON text. Raises: FormatError V0802."""
    try:
        data = json.loads(text)
        nodes = tuple(_node(row) for row in data["nodes"])
        attrs = data["attrs"]
        columns = (_column(attrs, "shape"), _column(attrs, "dltype"), _column(attrs, "storage_id"))
        entries = tuple(
            EntryPlan(_sizes(shape), str(DataType(dtype)), _number(storage))
            for shape, dtype, storage in zip(*columns, strict=True)
        )
        graph = Graph(nodes, entries, tuple(_entry(row) for row in data["heads"]))
        _check(graph, data)
    except FormatError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, HeddleError) as error:
        raise FormatError(V0802, f"the graph's text is malformed: {error}") from error
    return graph


def _column(attrs: Mapping[str, Any], name: str) -> Sequence[Any]:
    column = attrs[name][1]
    if not isinstance(column, list):
        raise TypeError(f"attribute {name!r} is no list")
    return column


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise TypeError(f"expected a number from 0 on, got {value!r}")
    return value


def _sizes(row: Any) -> tuple[int, ...]:
    if not isinstance(row, list) or len(row) > 64:
        raise TypeError(f"expected sizes, got {row!r}")
    return tuple(map(_number, row))


def _entry(row: Any) -> Entry:
    return _number(row[0]), _number(row[1])


def _node(row: Mapping[str, Any]) -> GraphNode:
    name, kind = row["name"], row["op"]
    if not isinstance(name, str) or kind not in (NULL, KERNEL):
        raise TypeError(f"node {name!r} of kind {kind!r}")
    if kind == NULL:
        return GraphNode(name)
    attrs = dict(row["attrs"])
    if not all(isinstance(value, str) for value in attrs.values()):
        raise TypeError(f"attributes of node {name!r} are no texts")
    for known in ("num_inputs", "flatten_data"):
        attrs.pop(known, None)
    function, count = attrs.pop("func_name"), int(attrs.pop("num_outputs"))
    sizes = json.loads(attrs.pop("sizes", "[]"))
    if not function or not all(type(size) is int and abs(size) < 1 << 62 for size in sizes):
        raise TypeError(f"node {name!r} has function {function!r} and sizes {sizes!r}")
    return GraphNode(name, tuple(map(_entry, row["inputs"])), function, _number(count), tuple(sizes), attrs)


def _check(graph: Graph, data: Mapping[str, Any]) -> None:
    """Check a graph. Raises: FormatError V0802 for indices out of range, and for reshapes whose result has
    another storage."""
    first = graph.first_entries
    if first[-1] != len(graph.entries):
        raise FormatError(V0802, f"nodes have {first[-1]} results, and {len(graph.entries)} are described")
    if list(data.get("node_row_ptr", first)) != list(first):
        raise FormatError(V0802, "node_row_ptr does not follow from the numbers of results")
    for number, node in enumerate(graph.nodes):
        _check_entries(graph, node.inputs, number, f"node {node.name!r}")
        if node.function in (RESHAPE, COPY) and (len(node.inputs), node.num_outputs) != (1, 1):
            raise FormatError(V0802, f"node {node.name!r}: {node.function} has one input and one result")
        if node.function in (RESHAPE, COPY):
            source, result = graph.entries[_place(first, node.inputs[0])], graph.entries[first[number]]
            is_view = source.storage == result.storage or node.function == COPY
            if source.size_bytes != result.size_bytes or source.dtype != result.dtype or not is_view:
                raise FormatError(V0802, f"node {node.name!r}: its result is none of {node.function}")
    _check_entries(graph, graph.heads, len(graph.nodes), "heads")


def _check_entries(graph: Graph, entries: Sequence[Entry], before: int, where: str) -> None:
    for node, index in entries:
        if node >= before or index >= graph.nodes[node].num_outputs:
            raise FormatError(V0802, f"{where}: there is no result {index} of node {node} before it")


def _place(first: Sequence[int], entry: Entry) -> int:
    return first[entry[0]] + entry[1]
