"""Sums of products of narrow factors, as dot products take them."""

from __future__ import annotations

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import Add, Cast, Mul
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import BufferLoad, BufferStore


def narrow_factors(store: BufferStore) -> tuple[BufferLoad, BufferLoad] | None:
    """The two loads of bfloat16 whose product, each made wide, a statement adds to the float32 that it
    stores; None for any other statement."""
    value = store.value
    if store.predicate is not None or not isinstance(value, Add) or value.dtype != DataType("float32"):
        return None
    total, product = value.a, value.b
    if not isinstance(total, BufferLoad) or total.buffer is not store.buffer or not isinstance(product, Mul):
        return None
    if not structural_equal(total.indices, store.indices):
        return None
    factors = [side.value for side in (product.a, product.b) if isinstance(side, Cast)]
    loads = [f for f in factors if isinstance(f, BufferLoad) and f.predicate is None]
    if len(loads) != 2 or any(str(load.dtype) != "bfloat16" for load in loads):
        return None
    return loads[0], loads[1]
