"""Whether the iterations of a reduction may run in any order.

C[i] = C[i] + A[i, k]                yes, as those of *, max, min, and, or; floats round differently
C[i] = C[i] - A[i, k] + B[k]         yes: a chain of sums and differences that the result begins
C[i] = A[i, k] - C[i]                no: the sign of a term depends on how many follow
C[i] = C[i] + C[i] + A[i, k]         no
C[i] = A[i, k]                       no: the last one stays

What blocks inside of the block store is asked as well. A block that stores nothing itself, as calls of
intrinsics do, is taken at its word.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.node import children
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Add, And, Call, Cast, Max, Min, Mul, Or, PrimExpr, Select, Sub
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, SBlock

_BITWISE = ("tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor")
_CHOICE = "tir.if_then_else"


def commutes(block: SBlock) -> bool:
    """Whether all that a block stores is combined with what is there by one commutative operation. False
    where that is not known."""
    own = {found for node in walk(block.body) if isinstance(node, SBlock) for found in node.alloc_buffers}
    own |= set(block.alloc_buffers)
    nodes = list(walk(block.body))
    stores = [node for node in nodes if isinstance(node, BufferStore) and node.buffer not in own]
    results = {store.buffer for store in stores}
    loads = sum(isinstance(node, BufferLoad) and node.buffer in results for node in nodes)
    return all(map(_combines, stores)) and loads == sum(_own_loads(store) for store in stores)


def _own_loads(store: BufferStore) -> int:
    """How many loads in a store are of the element that it changes."""
    return sum(_is_result(node, store) for node in walk(store.value))


def _combines(store: BufferStore) -> bool:
    """Whether a store is `C[i] = C[i] op f`, for one `op` of those that commute."""
    kinds: set[Any] = set()
    return _is_chain(store.value, store, kinds) and len(kinds) <= 1


def _is_chain(value: PrimExpr, store: BufferStore, kinds: set[Any]) -> bool:
    """Whether a value is a chain of operations, noted by kind, that begins with the result and has it only
    there, or a choice between such chains."""
    if _is_result(value, store):
        return True
    if isinstance(value, Cast) and value.dtype.is_float and value.value.dtype.is_float:
        return _is_chain(value.value, store, kinds)
    if isinstance(value, Select) or (isinstance(value, Call) and value.op.name == _CHOICE):
        condition, *branches = _operands(value)
        return not _reads(condition, store) and all(_is_chain(each, store, kinds) for each in branches)
    if isinstance(value, Sub):
        kinds.add(Add)
        return not _reads(value.b, store) and _is_chain(value.a, store, kinds)
    is_bitwise = isinstance(value, Call) and value.op.name in _BITWISE
    if not is_bitwise and not isinstance(value, (Add, Mul, Max, Min, And, Or)):
        return False
    kinds.add(value.op.name if isinstance(value, Call) else type(value))
    a, b = _operands(value)
    chains = [one for one, other in ((a, b), (b, a)) if not _reads(other, store)]
    return len(chains) == 1 and _is_chain(chains[0], store, kinds)


def _operands(value: PrimExpr) -> tuple[Any, ...]:
    return tuple(value.args) if isinstance(value, Call) else tuple(children(value))


def _is_result(node: Any, store: BufferStore) -> bool:
    is_load = isinstance(node, BufferLoad) and node.buffer is store.buffer
    return is_load and structural_equal(node.indices, store.indices)


def _reads(value: Any, store: BufferStore) -> bool:
    buffer: Buffer = store.buffer
    return any(isinstance(node, BufferLoad) and node.buffer is buffer for node in walk(value))
