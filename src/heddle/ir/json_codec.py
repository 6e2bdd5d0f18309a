"""Serialise nodes to JSON and back. Sharing is preserved: a shared node is written once.

Format: {"heddle_json": 1, "root": value, "nodes": [{"kind": ..., "fields": {...}, "span": ...}]}. A value is
a JSON scalar, {"node": index}, {"list": [...]}, {"map": [[key, value], ...]}, {"float": "nan"}, {"attached":
index} for a tensor that is stored outside the text, or {"TAG": ...} of a registered value codec.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.codes import I0201, I0202
from heddle.ir.node import NODE_KINDS, Map, Node
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import FormatError, HeddleError, IRTypeError
from heddle.support.frozen import frozen
from heddle.support.span import DerivedSpan, ModelSpan, Source, SourceSpan, Span, TextSpan


@frozen
class ValueCodec:
    cls: type
    tag: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    is_large: bool = False


VALUE_CODECS: dict[str, ValueCodec] = {}


def register_value_codec(
    cls: type, tag: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any], is_large: bool = False
) -> None:
    """Register a JSON codec for a class that is not a node: `encode` to JSON data, `decode` back. Large
    values may be stored outside the text (`attached` of `save_json`)."""
    VALUE_CODECS[tag] = ValueCodec(cls, tag, encode, decode, is_large)


register_value_codec(DataType, "dtype", str, DataType)


class _Writer:
    def __init__(self, attached: list[Any] | None) -> None:
        self.nodes: list[dict[str, Any]] = []
        self._attached = attached
        self._index: dict[int, int] = {}
        self._kept: list[Any] = []

    def value(self, value: Any) -> Any:
        if isinstance(value, Node):
            return {"node": self._node(value)}
        if isinstance(value, tuple) and type(value) is tuple:
            return {"list": [self.value(item) for item in value]}
        if isinstance(value, Map):
            return {"map": [[self.value(k), self.value(v)] for k, v in value.items()]}
        for codec in VALUE_CODECS.values():
            if isinstance(value, codec.cls):
                if codec.is_large and self._attached is not None:
                    self._attached.append(value)
                    return {"attached": len(self._attached) - 1}
                return {codec.tag: codec.encode(value)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise IRTypeError(
            I0202,
            f"no JSON form for {type(value).__name__}",
            help="give numbers, strings, tensors, nodes, or tuples and dictionaries of these",
        )

    def _node(self, value: Node) -> int:
        """The place of a node; those that it refers to are written before it, to any depth of nesting."""
        todo = [value]
        while todo:
            node = todo[-1]
            missing = (
                [] if id(node) in self._index else [n for n in _referred(node) if id(n) not in self._index]
            )
            if missing:
                todo += reversed(missing)
                continue
            if id(node) not in self._index:
                self._write(node)
            todo.pop()
        return self._index[id(value)]

    def _write(self, value: Node) -> None:
        stated = {name: getattr(value, name) for name in value.init_names}
        for name, default in value.added_defaults.items():
            if stated[name] == default:
                del stated[name]
        fields = {name: self.value(item) for name, item in stated.items()}
        self.nodes.append({"kind": value.node_kind, "fields": fields, "span": span_to_json(value.span)})
        self._index[id(value)] = len(self.nodes) - 1
        self._kept.append(value)


def _referred(node: Node) -> list[Node]:
    """The nodes in a node's fields, the default ones of added fields apart."""
    found: list[Any] = []
    for name in node.init_names:
        value = getattr(node, name)
        if not (name in node.added_defaults and value == node.added_defaults[name]):
            found.append(value)
    nodes: list[Node] = []
    while found:
        value = found.pop()
        if isinstance(value, Node):
            nodes.append(value)
        elif type(value) is tuple:
            found += value
        elif isinstance(value, Map):
            found += [part for pair in value.items() for part in pair]
    nodes.reverse()
    return nodes


def span_to_json(span: Span | None) -> Any:
    """A span as JSON has it; a source's text is left out."""
    if span is None:
        return None
    if isinstance(span, SourceSpan):
        return {"file": span.source.name, "at": [span.line, span.column, span.end_line, span.end_column]}
    if isinstance(span, ModelSpan):
        return {"model": span.model, "node": span.node, "op": span.op}
    if isinstance(span, TextSpan):
        return {"text": span.text}
    return {"by": span.by, "origins": [span_to_json(origin) for origin in span.origins]}


def span_from_json(data: Any) -> Span | None:
    """The span that `span_to_json` wrote. Raises: what a damaged text leads to (KeyError, TypeError,
    ValueError)."""
    if data is None:
        return None
    if "file" in data:
        return SourceSpan(Source(str(data["file"]), ""), *(int(x) for x in data["at"]))
    if "model" in data:
        return ModelSpan(str(data["model"]), str(data["node"]), str(data["op"]))
    if "text" in data:
        return TextSpan(str(data["text"]))
    origins = tuple(span for span in map(span_from_json, data["origins"]) if span is not None)
    return DerivedSpan(str(data["by"]), origins)


def save_json(value: Any, attached: list[Any] | None = None) -> str:
    """Serialise a node, or a tuple or Map of nodes, to JSON text.

    If a list `attached` is given, large tensors are appended to it and the text holds their indices. Store
    the list together with the text, and pass it to `load_json`. Raises: IRTypeError I0202 for other values.
    """
    writer = _Writer(attached)
    root = writer.value(value)
    return json.dumps({"heddle_json": 1, "root": root, "nodes": writer.nodes}, separators=(",", ":"))


class _Reader:
    def __init__(self, nodes: list[Any], attached: Sequence[Any]) -> None:
        self._made: list[Node] = []
        self._attached = attached
        for record in nodes:
            cls = NODE_KINDS.get(record["kind"])
            if cls is None:
                raise FormatError(I0201, f"unknown node kind {record['kind']!r}")
            fields = record["fields"]
            known = dict(cls.added_defaults)
            known.update({name: self.value(fields[name]) for name in cls.init_names if name in fields})
            values = [known[name] for name in cls.init_names]
            self._made.append(cls.make(*values, span=span_from_json(record["span"])))

    def value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        ((tag, content),) = data.items()
        if tag == "node":
            return self._made[content]
        if tag == "list":
            return tuple(self.value(item) for item in content)
        if tag == "map":
            return Map(tuple((self.value(k), self.value(v)) for k, v in content))
        if tag == "float":
            return float(content)
        if tag == "attached":
            return self._attached[content]
        return VALUE_CODECS[tag].decode(content)


def load_json(text: str, attached: Sequence[Any] = ()) -> Any:
    """Read the text of `save_json`, with the list that it filled. Raises: FormatError I0201."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("heddle_json") != 1:
            raise FormatError(I0201, "expected a saved node (a JSON object with heddle_json = 1)")
        return _Reader(data["nodes"], attached).value(data["root"])
    except FormatError:
        raise
    except (HeddleError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(I0201, f"damaged node JSON: {error}") from error
