"""Sums of products of narrow factors, as dot products take them."""

from __future__ import annotations

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import Add, Cast, Mul
from heddle.tir.dot_product import packed_depth
from heddle.tir.nodes import BufferLoad, BufferStore


def narrow_factors(store: BufferStore) -> tuple[tuple[BufferLoad, BufferLoad], ...]:
    """The two loads whose product, each made wide, a statement adds to the sum that it stores, as (data,
    weights); both ways round where both have dot products. None of any other statement."""
    value = store.value
    if store.predicate is not None or not isinstance(value, Add):
        return ()
    total, product = value.a, value.b
    if not isinstance(total, BufferLoad) or total.buffer is not store.buffer or not isinstance(product, Mul):
        return ()
    if not structural_equal(total.indices, store.indices):
        return ()
    factors = [side.value for side in (product.a, product.b) if isinstance(side, Cast)]
    loads = [f for f in factors if isinstance(f, BufferLoad) and f.predicate is None]
    if len(loads) != 2:
        return ()
    pairs = ((loads[0], loads[1]), (loads[1], loads[0]))
    return tuple((x, w) for x, w in pairs if packed_depth(x.dtype, w.dtype, value.dtype) is not None)
