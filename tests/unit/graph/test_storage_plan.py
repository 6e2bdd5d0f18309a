"""Which storage is taken again: one that surely fits, the tightest of its kind."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.graph.storage_plan import ALIGN_BYTES, MAX_WASTE, Storage, StorageSizes, size_bytes
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Var
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr, SizeVar, constant
from heddle.runtime.dtype import DataType

CPU, OTHER = ("0", "global"), ("1", "global")


def _storage(size: PrimExpr, kind: tuple[str, str] = CPU) -> Storage:
    return Storage(Var("s"), size, kind)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float32", "int64"])
def test_bytes_are_those_of_a_dense_tensor(dtype: str) -> None:
    n = SizeVar("n", "int64")
    rng = np.random.default_rng()
    for shape in ((), (n,), (n, 3), (2, n, n), (n, 0)):
        at = int(rng.integers(0, 50))
        array = np.zeros([at if dim is n else dim for dim in shape], DataType(dtype).numpy())
        assert evaluate(size_bytes(ShapeExpr(shape), DataType(dtype)), {n: at}) == array.nbytes


def test_known_sizes_take_the_tightest_that_fits() -> None:
    sizes, rng = StorageSizes({}), np.random.default_rng()
    for _ in range(50):
        free = [_storage(sizes.bounded(constant(int(b), "int64"))) for b in rng.integers(1, 1 << 14, 6)]
        need = sizes.bounded(constant(int(rng.integers(1, 1 << 14)), "int64"))
        assert need.value % ALIGN_BYTES == 0
        fitting = [s for s in free if need.value <= s.size.value <= need.value * MAX_WASTE]
        left = list(free)
        taken = sizes.take(left, need, CPU)
        if taken is None:
            assert not fitting and left == free
        else:
            assert taken.size.value == min(s.size.value for s in fitting)
            assert left == [s for s in free if s is not taken]


def test_a_storage_of_another_kind_is_never_taken() -> None:
    sizes, size = StorageSizes({}), constant(256, "int64")
    free = [_storage(size, OTHER)]
    assert sizes.take(free, size, CPU) is None and len(free) == 1
    assert sizes.take(free, size, OTHER) is not None and not free


def test_free_sizes_fit_where_that_is_proved() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    sizes = StorageSizes({})
    assert sizes.fits(n * 16, n * 16) and sizes.fits(n * 16, n * 4)
    assert not sizes.fits(n * 4, n * 16) and not sizes.fits(n * 16, m * 16)
    assert not sizes.fits(constant(1 << 20, "int64"), n * 4)


def test_stated_bounds_make_sizes_constant() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    sizes = StorageSizes({"n": 10})
    bounded = sizes.bounded(n * 12)
    assert bounded.value == -(-120 // ALIGN_BYTES) * ALIGN_BYTES
    assert not hasattr(sizes.bounded(n * m), "value")
