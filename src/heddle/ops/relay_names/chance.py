"""Relay's numbers by chance: functions of a key, after the Threefry cipher.

A key is ten words of 64 bits: four of the cipher's key, four of its counter, two that are zero. The words
that a key gives are those that `random.threefry` makes of the counter and its successors, four each.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from heddle.graph.codes import R0205
from heddle.graph.op_builder import call_op, const
from heddle.ir.expr import Expr, Tuple
from heddle.ir.op_def import Input
from heddle.ops.relay_names.rules import Given, Rows, alias, attr, dims_of, fixed, size_vector
from heddle.support.diagnostics import IRTypeError

_WORD = "uint64"
_FLOATS = {"float32": 24, "float64": 53}
"""The bits of a fraction."""


def _number(value: int) -> Any:
    return const(value, _WORD)


def _state_of(key: Any) -> Any:
    """The words of the cipher's key and counter."""
    return call_op("strided_slice", key, axes=[0], begin=[0], end=[8])


def _drawn(key: Any, count: int) -> tuple[Any, Any]:
    """The key for the next words, and `count` words."""
    blocks = -(-count // 4)
    advance = np.zeros(10, _WORD)
    advance[4] = blocks
    after = call_op("add", key, const(advance, _WORD))
    flat = call_op("reshape", call_op("random.threefry", _state_of(key), [blocks]), [4 * blocks])
    return after, call_op("strided_slice", flat, axes=[0], begin=[0], end=[count])


def _generated(given: Given) -> Any:
    shape = [int(size) for size in given["out_shape"]]
    after, words = _drawn(given["key"], prod(shape))
    return Tuple((after, call_op("reshape", words, shape)))


def _split(given: Given) -> Any:
    """Two keys that the cipher makes of counters which no draw of words reaches."""
    begin = call_op("strided_slice", given["key"], axes=[0], begin=[0], end=[7])
    found = []
    for side in range(2):
        state = call_op("concat", (begin, const([(1 << 63) + side], _WORD)), axis=0)
        words = call_op("reshape", call_op("random.threefry", state, [1]), [4])
        found.append(call_op("concat", (words, const(np.zeros(6), _WORD)), axis=0))
    return Tuple(tuple(found))


def _fractions(words: Any, dtype: str) -> Any:
    """Numbers from [0, 1) of the highest bits."""
    if dtype not in _FLOATS:
        raise IRTypeError(R0205, f"out_dtype is one of {', '.join(_FLOATS)}, got {dtype!r}")
    bits = _FLOATS[dtype]
    whole = call_op("astype", call_op("right_shift", words, _number(64 - bits)), dtype=dtype)
    return call_op("multiply", whole, const(2.0**-bits, dtype))


def _uniform(given: Given) -> Any:
    shape, dtype = [int(size) for size in given["out_shape"]], str(given["out_dtype"])
    after, words = _drawn(given["key"], prod(shape))
    found = call_op("reshape", _fractions(words, dtype), shape)
    width = call_op("subtract", given["high"], given["low"])
    return Tuple((after, call_op("add", call_op("multiply", found, width), given["low"])))


def _normal(given: Given) -> Any:
    """Box and Muller's numbers of two each."""
    shape, dtype = [int(size) for size in given["out_shape"]], str(given["out_dtype"])
    count = prod(shape)
    after, words = _drawn(given["key"], 2 * count)
    pairs = call_op("reshape", _fractions(words, dtype), [2, count])
    u, v = (call_op("take", pairs, const(row, "int64"), axis=0) for row in range(2))
    logs = call_op("log", call_op("subtract", const(1, dtype), u))
    reach = call_op("sqrt", call_op("multiply", logs, const(-2, dtype)))
    found = call_op("multiply", reach, call_op("cos", call_op("multiply", v, const(2 * np.pi, dtype))))
    found = call_op("multiply", call_op("reshape", found, shape), given["scale"])
    return Tuple((after, call_op("add", found, given["mean"])))


def _chosen(given: Given) -> Any:
    """Places of the last axis, each as likely as its part of the sum."""
    probs, count = given["probs"], int(given["num_samples"])
    *outer, size = dims_of(probs)
    sizes: list[Any] = [getattr(dim, "value", None) for dim in outer]
    if None in sizes:
        raise IRTypeError(R0205, "random.multinomial needs to know how many numbers it draws")
    after, words = _drawn(given["key"], prod(sizes) * count)
    drawn = call_op("reshape", _fractions(words, "float32"), [*sizes, count, 1])
    sums = call_op("cumsum", call_op("astype", probs, dtype="float32"), axis=len(outer))
    total = call_op("take", _end(sums, len(outer), size), const([0], "int64"), axis=len(outer))
    least = call_op("multiply", drawn, call_op("expand_dims", total, axis=[len(outer)]))
    is_below = call_op("less_equal", call_op("expand_dims", sums, axis=[len(outer)]), least)
    place = call_op("sum", call_op("astype", is_below, dtype="int32"), axis=[len(outer) + 1])
    return Tuple((after, call_op("minimum", place, call_op("astype", _last(size), dtype="int32"))))


def _end(sums: Any, axis: int, size: Any) -> Any:
    """The last element along an axis."""
    return call_op("strided_slice", sums, axes=[axis], begin=[size - 1], end=[size])


def _last(size: Any) -> Any:
    return call_op("subtract", call_op("reshape", size_vector([size]), []), const(1, "int64"))


def _between(key: Any, shape: Any, dtype: str = "float32", low: Any = 0.0, high: Any = 1.0) -> Given:
    ends = {"low": low, "high": high}
    return {"key": key, "out_shape": shape, "out_dtype": dtype, **_typed(ends, dtype)}


def _around(key: Any, shape: Any, dtype: str = "float32", mean: Any = 0.0, scale: Any = 1.0) -> Given:
    ends = {"mean": mean, "scale": scale}
    return {"key": key, "out_shape": shape, "out_dtype": dtype, **_typed(ends, dtype)}


def _typed(values: Given, dtype: str) -> Given:
    return {
        name: value if isinstance(value, Expr) else const(float(value), dtype)
        for name, value in values.items()
    }


def aliases() -> Rows:
    """The names of this file."""
    key, shape = Input("key"), attr("out_shape", "list")
    drawn = (shape, attr("out_dtype", "dtype", "float32"))
    for name, inputs, attrs, expression, function in (
        (
            "threefry_generate",
            (key,),
            (shape,),
            _generated,
            lambda key, shape: {"key": key, "out_shape": shape},
        ),
        ("threefry_split", (key,), (), _split, None),
        ("uniform", (key, Input("low"), Input("high")), drawn, _uniform, _between),
        ("normal", (key, Input("mean"), Input("scale")), drawn, _normal, _around),
        ("multinomial", (key, Input("probs")), (attr("num_samples", "int", 1),), _chosen, None),
    ):
        made = alias(
            f"random.{name}", inputs, attrs, expression=expression, results=fixed(2), function=function
        )
        yield "random.threefry", made
