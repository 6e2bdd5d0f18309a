"""What may become rows: which values and calls of a turn are worth having for all elements at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from heddle.graph.infer import type_of
from heddle.graph.nodes import VarBinding
from heddle.graph.rewriter import loop_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Constant, Expr, GlobalVar, TupleGetItem
from heddle.ir.module import IRModule
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.lower.recursion.batched import batched
from heddle.lower.recursion.match_of_data import Turn
from heddle.prim.checked_index import is_index_check
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.support.frozen import frozen
from heddle.tir.analysis.op_pattern import is_contraction
from heddle.tir.nodes import BufferLoad, PrimFunc, SBlock

MOST_ROW_BYTES = 1 << 16
"""An element's tensors are copied: of larger ones the copy would take longer than a product gains."""
MOST_KEPT_BYTES = 1 << 18
"""Recursion keeps one of a value, a product of all elements as many as there are elements."""
MOST_ROWS = 8
"""A product of more rows reads its weights often enough by itself."""


def flat_types(ty: object) -> list[TensorType] | None:
    """The tensors of a value of a type, those in tuples one by one; None where there is anything else."""
    if isinstance(ty, TensorType):
        return [ty] if ty.dims is not None and ty.dtype is not None else None
    if not isinstance(ty, TupleType):
        return None
    parts = [flat_types(item) for item in ty.fields]
    return None if None in parts else [ty for part in parts for ty in part or ()]


def fixed_bytes(ty: TensorType) -> int | None:
    """The bytes of a tensor; None where a size is not fixed, or elements have no bytes of their own."""
    sizes = [dim.value for dim in ty.dims or () if isinstance(dim, IntImm)]
    if ty.dims is None or len(sizes) != len(ty.dims) or ty.dtype is None:
        return None
    return prod(sizes) * ty.dtype.itemsize if ty.dtype.bits >= 8 or ty.dtype.is_bool else None


def is_small(ty: Type, most_bytes: int = MOST_KEPT_BYTES) -> bool:
    """Whether a value may be kept for every element: a tensor of a fixed size, and of so many bytes."""
    size_bytes = fixed_bytes(ty) if isinstance(ty, TensorType) else None
    return size_bytes is not None and size_bytes <= most_bytes


@frozen
class RowsCall:
    """A call that is made for many elements at once, by the loop function `func`. `many` says which operands
    elements have of their own. `gains`: it is a product that takes less time so."""

    binding: VarBinding
    func: PrimFunc
    many: tuple[bool, ...]
    gains: bool


def rows_call(mod: IRModule, binding: VarBinding, many: Sequence[bool]) -> RowsCall | None:
    """The call that a binding's becomes; None where nothing is an element's own, where it may take more time,
    and where the loop function cannot have one more axis."""
    call = loop_call(binding.value)
    if call is None or not any(many):
        return None
    callee = callee_of(mod, call[0])
    gains = gains_at_once(callee, many)
    func = batched(callee, [*many, True]) if gains is not None else None
    return RowsCall(binding, func, tuple(many), bool(gains)) if func is not None else None


def gains_at_once(callee: PrimFunc, many: Sequence[bool]) -> bool | None:
    """Whether a loop function takes less time for all elements at once: a product of few rows with weights
    that all elements share, which are then read once. None where it may take more: products and sums over
    windows, products without shared weights, and those of many rows. `many` says which operands elements have
    of their own.
    """
    shared = {buffer for buffer, own in zip(callee.buffers, many, strict=False) if not own}
    gains = False
    for block in (
        node for node in walk_distinct(callee) if isinstance(node, SBlock) and node.init is not None
    ):
        loads = [node for node in walk_distinct(block.body) if isinstance(node, BufferLoad)]
        if not all(_is_plain(index) for load in loads for index in load.indices):
            return None
        if not is_contraction(block):
            continue
        weights = [load for load in loads if load.buffer in shared]
        theirs = {index for load in weights for index in load.indices if isinstance(index, PrimVar)}
        rows = [axis.dom.extent for axis in block.iter_vars if axis.var not in theirs]
        sizes = [size.value if isinstance(size, IntImm) else MOST_ROWS + 1 for size in rows]
        if not weights or prod(sizes) > MOST_ROWS:
            return None
        gains = True
    return gains


def _is_plain(index: PrimExpr) -> bool:
    return isinstance(index, (PrimVar, IntImm))


def fixed_bindings(mod: IRModule, turn: Turn, steady: Iterable[Expr]) -> list[VarBinding]:
    """The bindings of a turn that depend on nothing but `steady` values and constants."""
    given: set[Expr] = set(steady)
    found: list[VarBinding] = []
    for binding in turn.bindings:
        value, call = binding.value, loop_call(binding.value)
        if isinstance(value, TupleGetItem) and turn.leaf(value.tuple_value) in given:
            given.add(binding.var)
            found.append(binding)
        if call is None or not isinstance(type_of(binding.var), TensorType):
            continue
        leaves = [turn.leaf(arg) for arg in call[1].fields]
        if all(isinstance(leaf, Constant) or leaf in given for leaf in leaves):
            callee = callee_of(mod, call[0])
            if not any(map(is_index_check, walk_distinct(callee))):  # of no elements, nothing fails
                given.add(binding.var)
                found.append(binding)
    return found


def callee_of(mod: IRModule, var: GlobalVar) -> PrimFunc:
    """The loop function of a name."""
    func = mod[var]
    assert isinstance(func, PrimFunc)
    return func
