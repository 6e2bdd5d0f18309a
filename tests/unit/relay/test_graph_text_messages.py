"""What is wrong with a graph's JSON text is said in words of the format."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import heddle
from heddle import relay
from heddle.support.diagnostics import FormatError
from heddle.vm.graph import graph_from_json

X = relay.var("x", shape=(4, 6))
TEXT = relay.build(
    heddle.IRModule.from_expr(relay.Function([X], relay.reshape(relay.nn.softmax(X), (-1,))))
).get_graph_json()
ODD: list[Any] = [None, True, 3, -1, 1 << 60, 1.5, "x", "", [], [1], {}, [None], [[1]], {"a": 1}]
PYTHON = (
    r"NoneType|iterable|zip\(|object|subscript|literal|argument|index out|unhashable|malformed:|attribute '"
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _changed(path: tuple[Any, ...], *new: Any) -> str:
    data = json.loads(TEXT)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if new:
        inner[path[-1]] = copy.deepcopy(new[0])
    else:
        del inner[path[-1]]
    return json.dumps(data)


def test_any_item_of_another_kind() -> None:
    """Each place of the text with each odd value, or without its value, is taken or told."""
    for path in _places(json.loads(TEXT)):
        for text in (*(_changed(path, odd) for odd in ODD), _changed(path)):
            message = _refusal(text)
            assert not re.search(PYTHON, message.replace("an object", "")), (path, message)


def _refusal(text: str) -> str:
    try:
        graph_from_json(text)
    except FormatError as error:
        return error.diagnostics[0].message
    return ""


@pytest.mark.parametrize("text", ["", "{", "[" * 100000, "null", "[]", "3", "NaN", None, b"\xff", 3])
def test_what_is_no_object(text: Any) -> None:
    with pytest.raises(FormatError, match=r"V0802.*(is no JSON|the graph is an object)"):
        graph_from_json(text)


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        (
            ("attrs", "shape", 1, 0, 0),
            1 << 60,
            "result 0: a size is a number from 0 to 281474976710655, got 11529",
        ),
        (("attrs", "storage_id", 1), [0], "shape, dltype and storage_id have one item a result, got 3, 3, 1"),
        (("attrs", "dltype", 1, 0), "float31", "result 0: there is no dtype 'float31'"),
        (("nodes",), None, "the graph: 'nodes' is a list, got None"),
        (("nodes", 1, "inputs"), None, "'inputs' is a list, got None"),
        (("nodes", 1, "inputs", 0), [0], "a result is a list of node, result and version"),
        (("nodes", 1, "attrs", "num_outputs"), "-1", "num_outputs is a number from 0 on, got '-1'"),
        (("nodes", 1, "attrs", "sizes"), "[1", "sizes is no JSON"),
        (("nodes", 1, "attrs", "sizes"), "[1.5]", "sizes are whole numbers"),
        (("nodes", 0, "op"), "other", "op is 'null' or 'tvm_op', got 'other'"),
    ],
)
def test_messages(path: tuple[Any, ...], new: Any, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        graph_from_json(_changed(path, new))
    assert said in str(caught.value)


def test_a_field_that_is_missing() -> None:
    with pytest.raises(FormatError, match="the graph has no 'nodes'"):
        graph_from_json(_changed(("nodes",)))
