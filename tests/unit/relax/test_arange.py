"""The dtype of `arange` follows its numbers, as in TVM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.graph.block_builder import BlockBuilder
from heddle.ir.module import IRModule
from heddle.relax import op
from heddle.relax.interpreter import GraphInterpreter


def numbers(*args: Any, **attrs: Any) -> Any:
    builder = BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(builder.emit(op.arange(*args, **attrs)))
    mod = builder.get()
    assert isinstance(mod, IRModule)
    result = GraphInterpreter(mod)["main"]()
    assert mod["main"].ret_ty.dtype == str(result.dtype)
    return result


@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((5,), "int64"),
        ((1, 10, 2), "int64"),
        ((1, 10, 2.5), "float32"),
        ((0.5, 4), "float32"),
        ((3.0,), "float32"),
    ],
)
def test_a_float_among_the_numbers_makes_floats(args: Any, dtype: str) -> None:
    result = numbers(*args)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.arange(*args))


def test_a_given_dtype_stays() -> None:
    assert numbers(1, 10, 2.5, dtype="int64").tolist() == [1, 3, 6, 8]
