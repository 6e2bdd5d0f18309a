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
import reprlib
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
    data = _json(text, "the graph's text")
    nodes = tuple(
        _node(row, f"node {number}") for number, row in enumerate(_field(data, "nodes", list, "the graph"))
    )
    attrs = _field(data, "attrs", dict, "the graph")
    columns = [_column(attrs, name) for name in ("shape", "dltype", "storage_id")]
    if len(set(map(len, columns))) > 1:
        sizes = ", ".join(str(len(column)) for column in columns)
        raise FormatError(V0802, f"attrs: shape, dltype and storage_id have one item a result, got {sizes}")
    entries = tuple(_plan(row, f"result {number}") for number, row in enumerate(zip(*columns, strict=True)))
    heads = _entries(_field(data, "heads", list, "the graph"), "heads")
    graph = Graph(nodes, entries, heads)
    _check(graph, data)
    return graph


def _json(text: Any, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(V0802, f"{where} is no JSON: {error}") from error


_WORDS: dict[type, str] = {list: "a list", dict: "an object", str: "a text"}


def _kind(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise FormatError(V0802, f"{where} is {_WORDS[kind]}, got {reprlib.repr(value)}")
    return value


def _field(row: Any, name: str, kind: type, where: str) -> Any:
    """What an object has under a name. Raises: FormatError V0802 where it has none, or another kind."""
    if name not in _kind(row, dict, where):
        raise FormatError(V0802, f"{where} has no {name!r}")
    return _kind(row[name], kind, f"{where}: {name!r}")


def _column(attrs: Mapping[str, Any], name: str) -> Any:
    column = _field(attrs, name, list, "attrs")
    if len(column) != 2:
        raise FormatError(V0802, f"attrs: {name!r} is a kind and a list, got {len(column)} items")
    return _kind(column[1], list, f"attrs: the items of {name!r}")


def _plan(row: tuple[Any, Any, Any], where: str) -> EntryPlan:
    shape, dtype, storage = row
    sizes = _kind(shape, list, f"{where}: the shape")
    if len(sizes) > 64:
        raise FormatError(V0802, f"{where}: a shape has at most 64 sizes, got {len(sizes)}")
    try:
        known = str(DataType(_kind(dtype, str, f"{where}: the dtype")))
    except HeddleError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(V0802, f"{where}: there is no dtype {dtype!r}") from error
    found = tuple(_number(size, f"{where}: a size") for size in sizes)
    return EntryPlan(found, known, _number(storage, f"{where}: a storage"))


def _number(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise FormatError(V0802, f"{where} is a number from 0 to {(1 << 48) - 1}, got {reprlib.repr(value)}")
    return value


def _entries(rows: list[Any], where: str) -> tuple[Entry, ...]:
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) < 2:
            message = f"{where}: a result is a list of node, result and version, got {reprlib.repr(row)}"
            raise FormatError(V0802, message)
        found.append((_number(row[0], f"{where}: a node"), _number(row[1], f"{where}: a result")))
    return tuple(found)


def _node(row: Any, where: str) -> GraphNode:
    name, kind = _field(row, "name", str, where), _field(row, "op", str, where)
    where = f"node {name!r}"
    if kind == NULL:
        return GraphNode(name)
    if kind != KERNEL:
        raise FormatError(V0802, f"{where}: op is {NULL!r} or {KERNEL!r}, got {kind!r}")
    attrs = dict(_field(row, "attrs", dict, where))
    for key in ("func_name", "num_outputs", *attrs):
        _field(attrs, key, str, f"{where}: attrs")
    for known in ("num_inputs", "flatten_data"):
        attrs.pop(known, None)
    function, count, sizes = attrs.pop("func_name"), attrs.pop("num_outputs"), attrs.pop("sizes", "[]")
    if not function:
        raise FormatError(V0802, f"{where}: func_name is empty")
    if not (count.isascii() and count.isdigit()) or len(count) > 15:
        raise FormatError(V0802, f"{where}: num_outputs is a number from 0 on, got {reprlib.repr(count)}")
    numbers = _kind(_json(sizes, f"{where}: sizes"), list, f"{where}: sizes")
    if not all(type(size) is int and abs(size) < 1 << 62 for size in numbers):
        raise FormatError(V0802, f"{where}: sizes are whole numbers below 2**62, got {reprlib.repr(sizes)}")
    inputs = _entries(_field(row, "inputs", list, where), where)
    return GraphNode(
        name, inputs, function, _number(int(count), f"{where}: num_outputs"), tuple(numbers), attrs
    )


def _check(graph: Graph, data: Mapping[str, Any]) -> None:
    """Check a graph. Raises: FormatError V0802 for indices out of range, and for reshapes whose result has
    another storage."""
    first = graph.first_entries
    if first[-1] != len(graph.entries):
        raise FormatError(V0802, f"nodes have {first[-1]} results, and {len(graph.entries)} are described")
    if data.get("node_row_ptr", list(first)) != list(first):
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
