"""Expressions whose parts are used several times print in as many words as they have nodes, and are read back
with the same parts shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from heddle.relax.op import add, multiply

from heddle import relax
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk_distinct
from heddle.prim import ops
from heddle.prim.nodes import Let, SizeVar, Var
from heddle.script import from_source
from heddle.tir.nodes import BufferLoad, BufferStore, PrimFunc, decl_buffer
from heddle.tir.print_expr import _LONG_NODES

N = SizeVar("n")
A = decl_buffer((N,), "int64", "A")
X = relax.Var("x", relax.TensorType((4,), "float32"))

STEPS: dict[str, Callable[[Any, int], Any]] = {
    "sums": lambda t, _: t + t,
    "products": lambda t, k: t * (t - k),
    "comparisons": lambda t, k: ops.if_then_else(t < k, t, t + 1),
    "divisions": lambda t, _: t // (t + 1),
    "extremes": lambda t, k: ops.maximum(t, ops.minimum(k, t)),
    "casts": lambda t, _: ops.cast("int64", ops.cast("int32", t)) + t,
    "loads": lambda t, _: BufferLoad(A, (t,)) + t,
    "ladders": lambda t, k: (t + k) * (t - k),
}


def function(value: Any) -> PrimFunc:
    return PrimFunc((N, A), BufferStore(A, value, (N,)), attrs={"global_symbol": "main"})


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("count", [3, 40])
def test_scalar_expressions(name: str, count: int) -> None:
    value: Any = N + 1
    for number in range(count):
        value = STEPS[name](value, number + 2)
    made = function(value)
    text = str(made)
    read = from_source(text)
    assert structural_equal(made, read)
    assert str(read) == text
    nodes = sum(1 for _ in walk_distinct(made))
    assert len(text) < 40 * nodes + 200
    assert (":=" in text) == (count == 40)
    if count == 40:
        assert sum(1 for _ in walk_distinct(read)) < 2 * nodes


def test_names_hold_in_the_expression_and_after_it() -> None:
    """A part that a let binds over, and one that lies in its value, are used outside of it as well."""
    value: Any = N + 1
    for _ in range(12):
        value = value + value
    var = Var("v", "int64")
    made = function(Let(var, value * 2, var + (value + var)) + value)
    text = str(made)
    assert ":=" in text
    assert structural_equal(made, from_source(text))


def test_an_expression_alone_is_printed_too() -> None:
    value: Any = N + 1
    for _ in range(40):
        value = value + value
    assert str(value).count(":=") == 40 and len(str(value)) < 1000


def test_short_expressions_are_written_out() -> None:
    """Below the bound text is as ever; beyond it, without parts in common, too."""
    value: Any = N + 1
    for _ in range(8):
        value = value + value
    assert ":=" not in str(value)
    long: Any = N
    for number in range(_LONG_NODES // 4):
        long = long + Var(f"v{number}", "int64")
    assert ":=" not in str(long)


@pytest.mark.parametrize("leaf", ["parameter", "constant"])
@pytest.mark.parametrize("op", [add, multiply])
def test_graph_expressions(op: Callable[..., Any], leaf: str) -> None:
    """A constant beyond a few elements is collected once, whatever was printed before parts were looked for."""
    value: Any = X if leaf == "parameter" else relax.const(np.arange(100, dtype=np.float32))
    for _ in range(40):
        value = op(value, value)
    constants: list[Any] = []
    text = relax.print.relax_script(value, constants)
    assert text is not None and text.count(":=") >= 38 and len(text) < 3000
    assert len(constants) == (1 if leaf == "constant" else 0)


def test_an_expression_that_is_used_twice_is_bound_once() -> None:
    """In a block: one that follows cannot see the variables of a dataflow block."""
    value: Any = X
    for _ in range(40):
        value = add(value, value)
    builder = relax.BlockBuilder()
    with builder.function("main", [X]):
        with builder.dataflow():
            first = builder.emit_output(multiply(value, value))
        builder.emit_func_output(builder.emit(multiply(first, value)))
    main = builder.get()["main"]
    assert [len(block.bindings) for block in main.body.blocks] == [41, 41]


def test_text_of_a_graph_function_is_read_back() -> None:
    value: Any = X
    for _ in range(40):
        value = add(value, value)
    written = f"@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    y = {value}\n    return y\n"
    read = from_source(written)
    assert sum(1 for _ in walk_distinct(read)) < 600
    assert structural_equal(read, from_source(str(read)))
