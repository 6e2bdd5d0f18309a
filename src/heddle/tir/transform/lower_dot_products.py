"""LowerDotProducts: loops over pairs of factors that schedules mark → the processor's dot product.

    for l in 0 .. 16 (vectorized):                             C[r] = dot(C[r], splat(A[i + 0], A[i + 1]),
        for p in 0 .. 2 {dot_product}:                    →               B[ramp(j, 1, 32)])
            C[l] = C[l] + f32(A[i + p]) * f32(B[j + 2 * l + p])

Without such an instruction the pairs are read as words, whose halves become float32 by a shift and a mask:

    word = reinterpret(int32x16, B[ramp(j, 1, 32)])
    C[r] = C[r] + f32(A[i]) * reinterpret(f32x16, word << 16) + f32(A[i + 1]) * reinterpret(f32x16, word & m)

Integers come in pairs of int16 or in fours of uint8 and int8, and their words fall into as many parts, each
with its sign. Weights narrower than an instruction's factors are widened when they are read; an instruction
that does not add to a sum is followed by an addition.

A loop over the first of each pair alone (the last step of a sum of an odd number) takes the first product of
these two, or the instruction with zeros for the others. Loops of any other form stay as they are. Requires:
flat buffers. Runs before VectorizeLoop.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.intrinsics import call_llvm_pure_intrin, reinterpret
from heddle.prim.nodes import Broadcast, IntImm, PrimExpr, Ramp, Var, constant, is_const_int
from heddle.prim.ops import bitwise_and, bitwise_or, cast, const, shift_left, shift_right
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.analysis.narrow_product import narrow_factors
from heddle.tir.dot_product import DEPTHS, DOT_PRODUCT, DotProduct, packed_depth
from heddle.tir.nodes import Bind, Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Stmt, seq
from heddle.tir.stmt_rewriter import StmtRewriter

_FLOAT, _WORD = DataType("float32"), DataType("int32")


@frozen(slots=False)
class LowerDotProducts(FunctionPass):
    """`instructions` are those that the target has."""

    instructions: tuple[DotProduct, ...] = ()
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Loops(self.instructions).visit(func.body))


@frozen
class _Product:
    """accumulator[index + l] += data[place + p] * weights[start + depth * l + p] for all l, and for all p
    below `factors`, which is `depth` or less."""

    accumulator: Buffer
    index: PrimExpr
    data: Buffer
    place: PrimExpr
    weights: Buffer
    start: PrimExpr
    lanes: int
    depth: int
    factors: int


class _Loops(StmtRewriter):
    def __init__(self, instructions: tuple[DotProduct, ...]) -> None:
        self._instructions = instructions
        self._analyzer = Analyzer()

    def visit_For(self, node: For) -> Any:
        found = self._product(node) if node.kind is ForKind.VECTORIZED else None
        if found is None:
            return self.default(node)
        row = next((row for row in self._instructions if _does(row, found)), None)
        if row is not None:
            return _by_instruction(found, row)
        return _multiplied(found) if found.weights.dtype == "bfloat16" else _multiplied_integers(found)

    def _product(self, lanes: For) -> _Product | None:
        inner, extent = lanes.body, lanes.extent
        if (
            not isinstance(inner, For)
            or DOT_PRODUCT not in inner.annotations
            or not isinstance(extent, IntImm)
        ):
            return None
        store, factors = inner.body, inner.extent
        if not isinstance(factors, IntImm) or not isinstance(store, BufferStore):
            return None
        if not (is_const_int(lanes.min, 0) and is_const_int(inner.min, 0)):
            return None
        lane, step = lanes.loop_var, inner.loop_var
        for data, weights in narrow_factors(store):
            depth = packed_depth(data.dtype, weights.dtype, store.buffer.dtype)
            if depth is None or not 1 <= factors.value <= depth:
                continue
            strides = ((store.indices[0], 1, 0), (data.indices[0], 0, 1), (weights.indices[0], depth, 1))
            starts = [self._start(index, lane, by_lane, step, by_step) for index, by_lane, by_step in strides]
            index, place, start = starts
            if index is not None and place is not None and start is not None:
                made = data.buffer, place, weights.buffer, start
                return _Product(store.buffer, index, *made, extent.value, depth, factors.value)
        return None

    def _start(self, index: PrimExpr, lane: Var, by_lane: int, step: Var, by_step: int) -> PrimExpr | None:
        """The rest of an index that is rest + by_lane * lane + by_step * step; None for any other."""
        zero = const(0, lane.dtype)
        rest = substitute(index, {lane: zero, step: zero})
        rebuilt = rest + lane * by_lane + step * by_step
        difference = self._analyzer.simplify(index - rebuilt)
        return self._analyzer.simplify(rest) if is_const_int(difference, 0) else None


def _does(row: DotProduct, found: _Product) -> bool:
    """Whether an instruction computes a product. Of floats it takes all factors: zeros that would stand for
    the rest of them make NaN of infinities."""
    sides = (row.rows, row.lanes, row.depth) == (1, found.lanes, found.depth)
    types = (row.data, row.accumulator) == (str(found.data.dtype), str(found.accumulator.dtype))
    has_all = found.factors == found.depth or not found.data.dtype.is_float
    return sides and types and has_all and DEPTHS.get((row.data, str(found.weights.dtype))) == row.depth


def _weights(found: _Product) -> tuple[BufferLoad, Ramp]:
    """The weights of all lanes, and where the accumulators lie."""
    one = const(1, found.start.dtype)
    weights = BufferLoad(found.weights, (Ramp(found.start, one, found.depth * found.lanes),))
    return weights, Ramp(found.index, const(1, found.index.dtype), found.lanes)


def _by_instruction(found: _Product, row: DotProduct) -> Stmt:
    weights, place = _weights(found)
    factors = DataType(row.weights).with_lanes(found.depth * found.lanes)
    data = DataType(row.data).with_lanes(found.depth * found.lanes)
    repeated = reinterpret(str(data), Broadcast(_word(found), found.lanes))
    sums = BufferLoad(found.accumulator, (place,))
    operands = (repeated, weights if weights.dtype == factors else cast(factors, weights))
    ty = DataType(row.accumulator).with_lanes(found.lanes)
    if row.adds:
        value = call_llvm_pure_intrin(str(ty), row.llvm_intrinsic, sums, *operands)
    else:
        value = sums + call_llvm_pure_intrin(str(ty), row.llvm_intrinsic, *operands)
    return BufferStore(found.accumulator, value, (place,))


def _word(found: _Product) -> PrimExpr:
    """The factors of the data side by side; of integers, zeros after the last."""
    if found.factors == found.depth:
        place = Ramp(found.place, const(1, found.place.dtype), found.depth)
        return reinterpret(str(_WORD), BufferLoad(found.data, (place,)))
    bits = _WORD.bits // found.depth
    word: PrimExpr = const(0, _WORD)
    for step in range(found.factors):
        factor = cast(_WORD, BufferLoad(found.data, (found.place + step,)))
        part = bitwise_and(factor, constant((1 << bits) - 1, _WORD))
        word = bitwise_or(word, shift_left(part, constant(bits * step, _WORD)))
    return word


def _multiplied(found: _Product) -> Stmt:
    """bfloat16 is the upper half of a float32; the first of a pair is the lower half of a word."""
    weights, place = _weights(found)
    lanes = found.lanes
    words = Var("words", _WORD.with_lanes(lanes))
    halves = (shift_left(words, constant(16, words.dtype)), bitwise_and(words, constant(-65536, words.dtype)))
    value: PrimExpr = BufferLoad(found.accumulator, (place,))
    for step, half in enumerate(halves[: found.factors]):
        factor = cast(_FLOAT, BufferLoad(found.data, (found.place + step,)))
        value = value + Broadcast(factor, lanes) * reinterpret(f"float32x{lanes}", half)
    bound = Bind(words, reinterpret(str(words.dtype), weights))
    return seq(bound, BufferStore(found.accumulator, value, (place,)))


def _multiplied_integers(found: _Product) -> Stmt:
    """A part of a word with its sign: shifted to the upper end, and down again."""
    weights, place = _weights(found)
    lanes, bits = found.lanes, _WORD.bits // found.depth
    wide = DataType(f"int{bits}").with_lanes(found.depth * lanes)
    words = Var("words", _WORD.with_lanes(lanes))
    value: PrimExpr = BufferLoad(found.accumulator, (place,))
    for step in range(found.factors):
        above = constant(_WORD.bits - bits * (step + 1), words.dtype)
        part = shift_right(shift_left(words, above), constant(_WORD.bits - bits, words.dtype))
        factor = cast(_WORD, BufferLoad(found.data, (found.place + step,)))
        value = value + Broadcast(factor, lanes) * part
    bound = Bind(words, reinterpret(str(words.dtype), cast(wide, weights)))
    return seq(bound, BufferStore(found.accumulator, value, (place,)))
