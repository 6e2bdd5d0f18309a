"""Which storage is taken again: of its kind, one that fits before one that grows, the nearest in size."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.graph.storage_plan import ALIGN_BYTES, MAX_WASTE, Storage, StorageSizes, size_bytes
from heddle.graph.types import ShapeExpr
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr, SizeVar, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.runtime.dtype import DataType

CPU, OTHER = ("0", "global"), ("1", "global")
NONE: frozenset[PrimVar] = frozenset()


def _storage(size: PrimExpr, kind: tuple[str, str] = CPU) -> Storage:
    return Storage([size], kind, NONE)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float32", "int64"])
def test_bytes_are_those_of_a_dense_tensor(dtype: str) -> None:
    n = SizeVar("n", "int64")
    rng = np.random.default_rng()
    for shape in ((), (n,), (n, 3), (2, n, n), (n, 0)):
        at = int(rng.integers(0, 50))
        array = np.zeros([at if dim is n else dim for dim in shape], DataType(dtype).numpy())
        assert evaluate(size_bytes(ShapeExpr(shape), DataType(dtype)), {n: at}) == array.nbytes


def test_known_sizes_take_the_nearest_that_fits() -> None:
    sizes, rng = StorageSizes({}), np.random.default_rng()
    for _ in range(50):
        free = [_storage(sizes.bounded(constant(int(b), "int64"))) for b in rng.integers(1, 1 << 14, 6)]
        before = {id(storage): storage.sizes[0].value for storage in free}
        need = sizes.bounded(constant(int(rng.integers(1, 1 << 14)), "int64")).value
        assert need % ALIGN_BYTES == 0
        near = [have for have in before.values() if max(have, need) <= min(have, need) * MAX_WASTE]
        enough = [have for have in near if have >= need]
        left = list(free)
        taken = sizes.take(left, constant(need, "int64"), CPU, NONE)
        assert taken.size().value >= need
        if near:
            nearest = min(enough) if enough else max(near)
            assert before[id(taken)] == nearest and left == [s for s in free if s is not taken]
        else:
            assert id(taken) not in before and left == free


def test_a_storage_of_another_kind_is_never_taken() -> None:
    sizes, size = StorageSizes({}), constant(256, "int64")
    other = _storage(size, OTHER)
    free = [other]
    assert sizes.take(free, size, CPU, NONE) is not other and free == [other]
    assert sizes.take(free, size, OTHER, NONE) is other and not free


def test_a_storage_grows_where_the_dimensions_are_known() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    sizes = StorageSizes({})
    grown = Storage([n * 4], CPU, frozenset({n, m}))
    assert sizes.take([grown], n * 4 + m * 12, CPU, frozenset({n, m})) is grown
    for at in ({n: 0, m: 7}, {n: 9, m: 0}, {n: 5, m: 5}):
        assert evaluate(grown.size(), at) == max(at[n] * 4, at[n] * 4 + at[m] * 12)
    early = Storage([n * 4], CPU, frozenset({n}))
    assert sizes.take([early], m * 4, CPU, frozenset({n, m})) is not early
    assert len(early.sizes) == 1


def test_stated_bounds_make_sizes_constant() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    sizes = StorageSizes({"n": 10})
    bounded = sizes.bounded(n * 12)
    assert bounded.value == -(-120 // ALIGN_BYTES) * ALIGN_BYTES
    assert not hasattr(sizes.bounded(n * m), "value")


def test_a_bound_is_not_put_into_a_formula_that_falls() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    sizes = StorageSizes({"n": 64})
    for size in ((constant(64, "int64") - n) * 4, m * 8 // n, (constant(64, "int64") - n) * n):
        made = sizes.bounded(size)
        for at_n in range(1, 65):
            at = {n: at_n, m: 31}
            assert evaluate(made, at) >= evaluate(size, at), (size, at_n)
    assert sizes.bounded((n + 3) // 4 * 64).value == 16 * 64
