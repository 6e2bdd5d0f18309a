"""LowerDotProducts: loops over pairs of factors that schedules mark → the processor's dot product.

    for l in 0 .. 16 (vectorized):                             C[r] = dot(C[r], splat(A[i + 0], A[i + 1]),
        for p in 0 .. 2 {dot_product}:                    →               B[ramp(j, 1, 32)])
            C[l] = C[l] + f32(A[i + p]) * f32(B[j + 2 * l + p])

Without such an instruction the pairs are read as words, whose halves become float32 by a shift and a mask:

    word = reinterpret(int32x16, B[ramp(j, 1, 32)])
    C[r] = C[r] + f32(A[i]) * reinterpret(f32x16, word << 16) + f32(A[i + 1]) * reinterpret(f32x16, word & m)

A loop over the first of each pair alone (the last step of a sum of an odd number) takes the first product of
these two. Loops of any other form stay as they are. Requires: flat buffers. Runs before VectorizeLoop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.intrinsics import call_llvm_pure_intrin, reinterpret
from heddle.prim.nodes import Broadcast, IntImm, PrimExpr, Ramp, Var, constant, is_const_int
from heddle.prim.ops import bitwise_and, cast, const, shift_left
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType
from heddle.tir.analysis.narrow_product import narrow_factors
from heddle.tir.dot_product import DOT_PRODUCT, DotProduct
from heddle.tir.nodes import Bind, Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Stmt, seq

_PAIR, _FLOAT, _WORD = 2, DataType("float32"), DataType("int32")


@dataclass(frozen=True)
class LowerDotProducts(FunctionPass):
    """`instructions` are those that the target has."""

    instructions: tuple[DotProduct, ...] = ()
    function_kind: ClassVar[type] = PrimFunc

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Loops(self.instructions).visit(func.body))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """accumulator[index + l] += data[place + p] * weights[start + 2 * l + p] for all l, and p of 0 and 1, or
    of 0 alone where `factors` is 1."""

    accumulator: Buffer
    index: PrimExpr
    data: Buffer
    place: PrimExpr
    weights: Buffer
    start: PrimExpr
    lanes: int
    factors: int


class _Loops(Rewriter):
    def __init__(self, instructions: tuple[DotProduct, ...]) -> None:
        self._instructions = {(row.dtype, row.lanes, row.depth, row.rows): row for row in instructions}
        self._analyzer = Analyzer()

    def visit_For(self, node: For) -> Any:
        found = self._pairs(node) if node.kind is ForKind.VECTORIZED else None
        if found is None:
            return self.default(node)
        row = self._instructions.get((str(found.weights.dtype), found.lanes, found.factors, 1))
        return _multiplied(found) if row is None else _by_instruction(found, row)

    def _pairs(self, lanes: For) -> _Pairs | None:
        inner, extent = lanes.body, lanes.extent
        if (
            not isinstance(inner, For)
            or DOT_PRODUCT not in inner.annotations
            or not isinstance(extent, IntImm)
        ):
            return None
        store, factors = inner.body, inner.extent
        if not isinstance(factors, IntImm) or not 1 <= factors.value <= _PAIR:
            return None
        parts = narrow_factors(store) if isinstance(store, BufferStore) else None
        if parts is None or not (is_const_int(lanes.min, 0) and is_const_int(inner.min, 0)):
            return None
        assert isinstance(store, BufferStore)
        lane, step = lanes.loop_var, inner.loop_var
        for data, weights in (parts, parts[::-1]):
            strides = ((store.indices[0], 1, 0), (data.indices[0], 0, 1), (weights.indices[0], _PAIR, 1))
            starts = [self._start(index, lane, by_lane, step, by_step) for index, by_lane, by_step in strides]
            index, place, start = starts
            if index is not None and place is not None and start is not None:
                made = data.buffer, place, weights.buffer, start
                return _Pairs(store.buffer, index, *made, extent.value, factors.value)
        return None

    def _start(self, index: PrimExpr, lane: Var, by_lane: int, step: Var, by_step: int) -> PrimExpr | None:
        """The rest of an index that is rest + by_lane * lane + by_step * step; None for any other."""
        zero = const(0, lane.dtype)
        rest = substitute(index, {lane: zero, step: zero})
        rebuilt = rest + lane * by_lane + step * by_step
        difference = self._analyzer.simplify(index - rebuilt)
        return self._analyzer.simplify(rest) if is_const_int(difference, 0) else None


def _loads(found: _Pairs) -> tuple[BufferLoad, BufferLoad, Ramp]:
    """The pair of data, the pairs of weights, and where the accumulators lie."""
    one = const(1, found.start.dtype)
    data = BufferLoad(found.data, (Ramp(found.place, const(1, found.place.dtype), _PAIR),))
    weights = BufferLoad(found.weights, (Ramp(found.start, one, _PAIR * found.lanes),))
    return data, weights, Ramp(found.index, const(1, found.index.dtype), found.lanes)


def _by_instruction(found: _Pairs, row: DotProduct) -> Stmt:
    data, weights, place = _loads(found)
    pair = reinterpret(f"bfloat16x{_PAIR * found.lanes}", Broadcast(reinterpret("int32", data), found.lanes))
    sums = BufferLoad(found.accumulator, (place,))
    value = call_llvm_pure_intrin(f"float32x{found.lanes}", row.llvm_intrinsic, sums, pair, weights)
    return BufferStore(found.accumulator, value, (place,))


def _multiplied(found: _Pairs) -> Stmt:
    """bfloat16 is the upper half of a float32; the first of a pair is the lower half of a word."""
    _, weights, place = _loads(found)
    lanes = found.lanes
    words = Var("words", _WORD.with_lanes(lanes))
    halves = (shift_left(words, constant(16, words.dtype)), bitwise_and(words, constant(-65536, words.dtype)))
    value: PrimExpr = BufferLoad(found.accumulator, (place,))
    for step, half in enumerate(halves[: found.factors]):
        factor = cast(_FLOAT, BufferLoad(found.data, (found.place + step,)))
        value = value + Broadcast(factor, lanes) * reinterpret(f"float32x{lanes}", half)
    bound = Bind(words, reinterpret(str(words.dtype), weights))
    return seq(bound, BufferStore(found.accumulator, value, (place,)))
