"""Joins of hundreds of tensors: the choice among them is no chain that readers recurse along."""

from __future__ import annotations

import numpy as np
import pytest
from heddle.relax.types import TensorType

import heddle
from heddle import relax
from heddle.relax import op
from heddle.tir import Var

COUNT = 260


@pytest.mark.parametrize(("name", "axis"), [("concat", 0), ("concat", 1), ("stack", 1)])
def test_joins_of_hundreds(name: str, axis: int) -> None:
    rows, is_ragged = Var("n", "int64"), (name, axis) == ("concat", 1)
    columns = [Var(f"m{k}", "int64") if is_ragged and k % 3 == 1 else 2 for k in range(COUNT)]
    params = [relax.Var(f"x{k}", TensorType((rows, size), "float32")) for k, size in enumerate(columns)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(getattr(op, name)(params, axis=axis)))
    machine = relax.VirtualMachine(heddle.compile(builder.get(), target="llvm"), heddle.cpu())
    sizes = [size if isinstance(size, int) else k % 4 for k, size in enumerate(columns)]
    given = [np.random.rand(3, size).astype("float32") for size in sizes]
    expected = np.stack(given, axis) if name == "stack" else np.concatenate(given, axis)
    np.testing.assert_array_equal(machine["main"](*given).numpy(), expected)
