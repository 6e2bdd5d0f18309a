"""What a kernel writes reaches the array that was passed, however it lies in memory, or it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.codegen import build
from heddle.script.parser import parse
from heddle.support.diagnostics import TrapValueError

TEXT = """
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "{dtype}")
    C = T.match_buffer(c, (n,), "{dtype}")
    for i in range(n):
        C[i] = A[i] + A[i]
"""


def _layouts(size: int, dtype: str) -> dict[str, np.ndarray]:
    item = np.dtype(dtype).itemsize
    return {
        "plain": np.zeros(size, dtype),
        "every second": np.zeros(2 * size, dtype)[::2],
        "backwards": np.zeros(size, dtype)[::-1],
        "not aligned": np.zeros(size * item + 1, "u1")[1:].view(dtype),
        "a column": np.zeros((size, 3), dtype)[:, 1],
    }


@pytest.mark.parametrize("layout", list(_layouts(0, "int8")))
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_result_in_any_layout(layout: str, dtype: str, size: int) -> None:
    kernel: Any = build(parse(TEXT.format(dtype=dtype)), "llvm")["f"]
    given, result = np.arange(size).astype(dtype), _layouts(size, dtype)[layout]
    given.flags.writeable = False  # what is only read need not be writable
    kernel(given, result)
    np.testing.assert_array_equal(result, given + given)


def test_result_that_is_not_writable() -> None:
    kernel: Any = build(parse(TEXT.format(dtype="float32")), "llvm")["f"]
    given, result = np.arange(3, dtype="float32"), np.full(3, np.nan, "float32")
    result.flags.writeable = False
    with pytest.raises(TrapValueError, match=r"U0409.*argument 1 of 'f' is written"):
        kernel(given, result)
    assert np.isnan(result).all()


def test_only_what_changed_is_written() -> None:
    """One array read through one view and written through another."""
    kernel: Any = build(parse(TEXT.format(dtype="float32")), "llvm")["f"]
    memory = np.arange(8, dtype="float32")
    kernel(memory[::2], memory[1::2])
    assert memory.tolist() == [0, 0, 2, 4, 4, 8, 6, 12]
