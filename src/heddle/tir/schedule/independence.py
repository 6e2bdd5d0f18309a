"""Whether the iterations of a loop are independent, whatever its axes are called.

    for i in range(15): A[i + 1] = A[i + 1] + A[i]       no: an iteration reads what the one before wrote
    for i in range(15): A[0] = B[i]                      no: the last iteration's value stays
    for f in range(32): C[f // 8, f % 8] = A[f]          yes: the digits of f name the element
    for i in range(4):                                   yes, where B is a temporary of this loop: an
        for j in range(3): B[i + j] = f(A[i + j])        iteration reads only what it wrote itself
        C[i] = B[i] + B[i + 2]

What an iteration touches is taken from the regions that its blocks declare. False wherever it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.arith.iters.iter_map import detect_iter_map
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.nodes import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    Range,
    Var,
    is_const_int,
)
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.analysis.blocks import blocks_below
from heddle.tir.analysis.own_writes import reads_own_writes, stays_apart
from heddle.tir.nodes import (
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IterType,
    PrimFunc,
    SBlock,
)
from heddle.tir.schedule.tree import (
    analyzer_at,
    find_loop,
    reads_buffer,
    writes_buffer,
)
from heddle.tir.transform.lower_blocks import lower_blocks


def shared_by_iterations(func: PrimFunc, loop: For) -> Buffer | None:
    """A buffer through which iterations of a loop may depend on each other; None if there is none."""
    if is_unit(loop.extent) or _is_plain_map(loop):
        return None
    touched = AccessRegions()
    touched.visit(loop.body)
    is_apart = _separator(func, loop, touched)
    for buffer in touched.writes:
        is_read = buffer in touched.reads
        if not (is_apart(buffer) or _may_overlap(func, loop, buffer, is_read)):
            return buffer
    return None


def may_meet(func: PrimFunc, loop: For, buffer: Buffer) -> bool:
    """Whether different iterations of a loop may touch one element of a buffer that is written in it. For
    temporaries, too: an iteration may reuse what one before has left."""
    if is_unit(loop.extent) or _is_plain_map(loop):
        return False
    touched = AccessRegions(buffer)
    touched.visit(loop.body)
    return buffer in touched.writes and not _separator(func, loop, touched)(buffer)


def _separator(func: PrimFunc, loop: For, touched: AccessRegions) -> Callable[[Buffer], bool]:
    """Tells whether different iterations of a loop touch different elements of a buffer."""
    analyzer = analyzer_at(find_loop(func, loop.loop_var))
    if analyzer.can_prove(loop.extent <= 1):
        return lambda buffer: True
    domain = Range.from_min_extent(loop.min, loop.extent)
    analyzer.bind(loop.loop_var, domain, allow_override=True)

    def is_apart(buffer: Buffer) -> bool:
        boxes = [box for box in (touched.writes[buffer], touched.reads.get(buffer)) if box is not None]
        with analyzer.constraint_scope(loop.extent > 0):  # there are iterations
            return _separated(loop.loop_var, domain, boxes, analyzer)

    return is_apart


def _is_plain_map(loop: For) -> bool:
    """Whether all blocks inside tell the variable by axes that are the same indices of what they write: the
    common case, found without intervals."""
    nodes, blocks = list(walk(loop.body)), blocks_below(loop.body)
    in_blocks = sum(isinstance(node, BufferStore) for realize in blocks for node in walk(realize))
    if in_blocks < sum(isinstance(node, BufferStore) for node in nodes):
        return False
    inside: dict[Var, PrimExpr | None] = {node.var: None for node in nodes if isinstance(node, (Bind, Let))}
    for node in nodes:
        if isinstance(node, For):  # from where it begins is known where that is a number
            inside[node.loop_var] = node.extent if isinstance(node.min, IntImm) else None
    found: dict[Buffer, list[_Place]] = {}
    written = {region.buffer for realize in blocks for region in realize.block.writes}
    for realize in blocks:
        values = dict(zip((axis.var for axis in realize.block.iter_vars), realize.iter_values, strict=True))
        told = {axis: _told_by(value, loop.loop_var, inside) for axis, value in values.items()}
        for region in (*realize.block.reads, *realize.block.writes):
            if region.buffer not in written:
                continue
            places = [
                _Place(dim, values[part.min], step[0])
                for dim, part in enumerate(region.region)
                if isinstance(part.min, Var)
                and is_const_int(part.extent, 1)
                and (step := told.get(part.min)) is not None
            ]
            known = found.setdefault(region.buffer, places)
            found[region.buffer] = [place for place in known if any(place.is_same(other) for other in places)]
    return bool(blocks) and all(_tell(loop.loop_var, found.get(buffer, [])) for buffer in written)


@frozen
class _Place:
    """An index in a dimension, and the quotient or remainder of a loop's variable that it tells."""

    dim: int
    index: PrimExpr
    told: PrimExpr

    def is_same(self, other: _Place) -> bool:
        return self.dim == other.dim and structural_equal(self.index, other.index)


def _tell(var: Var, places: Sequence[_Place]) -> bool:
    exprs = [place.told for place in places]
    return _follows(var, exprs)


def _told_by(value: PrimExpr, var: Var, inside: Mapping[Var, PrimExpr | None]) -> tuple[PrimExpr, int] | None:
    """A variable, or a quotient or remainder of it, that a value tells whatever the inner loops do, and the
    least step by which the value changes with it.

    f // 56 * 2 + o tells f // 56, where o runs below 2; f + A[i] tells nothing.
    """
    if value is var or _is_digit(value, var):
        return value, 1
    if isinstance(value, Mul) and isinstance(value.b, IntImm) and value.b.value:
        told = _told_by(value.a, var, inside)
        return None if told is None else (told[0], told[1] * abs(value.b.value))
    if isinstance(value, Add):
        for one, other in ((value.a, value.b), (value.b, value.a)):
            told, width = _told_by(one, var, inside), _width_of(other, var, inside)
            if told is not None and width is not None and width < told[1]:
                return told[0], told[1] - width
    return None


def _width_of(value: PrimExpr, var: Var, inside: Mapping[Var, PrimExpr | None]) -> int | None:
    """By how much a value changes within a loop at most; None where that is not known."""
    if isinstance(value, Var) and value in inside:
        extent = inside[value]
        return max(extent.value - 1, 0) if isinstance(extent, IntImm) else None
    if isinstance(value, Add):
        widths = [_width_of(part, var, inside) for part in (value.a, value.b)]
        return None if None in widths else sum(width for width in widths if width is not None)
    if isinstance(value, Mul) and isinstance(value.b, IntImm):
        width = _width_of(value.a, var, inside)
        return None if width is None else width * abs(value.b.value)
    is_fixed = not {var, *inside} & set(free_vars(value))
    return 0 if is_fixed and not any(isinstance(node, BufferLoad) for node in walk(value)) else None


def keeps_contract(block: SBlock) -> bool:
    """Whether iterations of a block that differ in a spatial axis touch different elements of what it
    writes, so that they may run in any order; known from its regions."""
    axes = [axis for axis in block.iter_vars if not is_unit(axis.dom.extent)]
    if any(axis.iter_type not in (IterType.DataPar, IterType.CommReduce) for axis in axes):
        return False
    analyzer = Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, axis.dom)
    touched = AccessRegions()
    for table, regions in ((touched.reads, block.reads), (touched.writes, block.writes)):
        for region in regions:
            touched._touch_region(table, region)
    spatial = [axis for axis in axes if axis.iter_type is IterType.DataPar]
    everywhere = {axis.var for axis in axes}
    for buffer, written in touched.writes.items():
        boxes = [box for box in (written, touched.reads.get(buffer)) if box is not None]
        apart = {
            digit
            for dim in range(buffer.ndim)
            for digit in _digit_of(everywhere, [box[dim] for box in boxes], analyzer)
        }
        if any(axis.var not in apart for axis in spatial):
            indices = [low for low, _ in written or ()]
            ranges = {axis.var: axis.dom for axis in spatial}
            is_point = all(structural_equal(low, high) for box in boxes for low, high in box)
            same = all(structural_equal(box, boxes[0]) for box in boxes)
            if not (is_point and same and _name_each(indices, ranges, analyzer)):
                return False
    return True


def is_unit(extent: PrimExpr) -> bool:
    """Whether there is one iteration at most."""
    return isinstance(extent, IntImm) and extent.value <= 1


def _name_each(indices: Sequence[PrimExpr], ranges: dict[Var, Range], analyzer: Analyzer) -> bool:
    """Whether the indices differ for any two points of the ranges."""
    if not set(ranges) <= set(free_vars(*indices)):
        return False
    return not detect_iter_map(indices, ranges, True, "bijective", analyzer=analyzer).errors


# ---- elements that differ


def _separated(var: Var, domain: Range, boxes: Sequence[Box], analyzer: Analyzer) -> bool:
    """Whether boxes of different iterations have no element in common."""
    if not boxes[0]:
        return False
    digits = _Digits(var, analyzer)
    found = [tuple((digits.visit(low), digits.visit(high)) for low, high in box) for box in boxes]
    known = analyzer.clone()
    for digit, expr in digits.found:
        bound = analyzer.const_int_bound(expr)
        known.update(digit, bound, override=True)
    names = {var, *(digit for digit, _ in digits.found)}
    apart = {
        digit
        for dim in range(len(boxes[0]))
        for digit in _digit_of(names, [box[dim] for box in found], known)
    }
    if var in apart:
        return True
    exprs = [expr for digit, expr in digits.found if digit in apart]
    if exprs and _determine(var, exprs, domain, analyzer):
        return True
    return bool(digits.found) and _tells_tile(var, domain, boxes, analyzer)


def _tells_tile(var: Var, domain: Range, boxes: Sequence[Box], analyzer: Analyzer) -> bool:
    """Whether the boxes are tiles of equal sizes, whose numbers tell the variable."""
    tiles: list[PrimExpr] = []
    for (low, high), *others in zip(*boxes, strict=True):
        size = analyzer.simplify(high - low + 1)
        same = all(structural_equal((low, high), other) for other in others)
        if var not in free_vars(low) or not same or not isinstance(size, IntImm) or size.value < 1:
            continue
        if analyzer.can_prove_equal(low % size, 0):
            tiles.append(analyzer.simplify(low // size))
    found = detect_iter_map(tiles, {var: domain}, True, "bijective", analyzer=analyzer) if tiles else None
    return found is not None and not found.errors


def _digit_of(names: set[Var], bounds: Sequence[tuple[PrimExpr, PrimExpr]], analyzer: Analyzer) -> list[Var]:
    """The one variable of some by which intervals change, if they do not meet where it differs."""
    used = names & set(free_vars(*(end for pair in bounds for end in pair)))
    if len(used) != 1:
        return []
    [digit] = used
    following = {digit: digit + 1}
    rises = all(
        analyzer.can_prove(high < substitute(low, following)) for low, _ in bounds for _, high in bounds
    )
    falls = not rises and all(
        analyzer.can_prove(low > substitute(high, following)) for low, _ in bounds for _, high in bounds
    )
    return [digit] if rises or falls else []


class _Digits(Rewriter):
    """Gives quotients and remainders of a variable names of their own. One in a narrower type, as fused loops
    of two types have, is named as well where it has room there."""

    def __init__(self, var: Var, analyzer: Analyzer) -> None:
        super().__init__()
        self._var, self._analyzer = var, analyzer
        self.found: list[tuple[Var, PrimExpr]] = []

    def visit(self, node: Any) -> Any:
        if _is_digit(node, self._var):
            return self._named(node, node.dtype)
        if isinstance(node, Cast) and _is_digit(node.value, self._var) and _has_room(node, self._analyzer):
            return self._named(node.value, node.dtype)
        return super().visit(node)

    def _named(self, expr: PrimExpr, dtype: DataType) -> Var:
        for digit, known in self.found:
            if digit.dtype == dtype and structural_equal(known, expr):
                return digit
        self.found.append((Var(f"{self._var.name}_digit", dtype), expr))
        return self.found[-1][0]


def _has_room(cast: Cast, analyzer: Analyzer) -> bool:
    """Whether a quotient or remainder is the same number in the integer type that it is cast to. Nothing is
    divided by zero."""
    digit, dtype = cast.value, cast.dtype
    if (
        not isinstance(digit, (FloorDiv, FloorMod))
        or not dtype.is_int
        or not analyzer.can_prove(digit.b >= 0)
    ):
        return False
    room = 1 << dtype.bits - 1  # of numbers that are not negative
    if isinstance(digit, FloorMod):
        return analyzer.can_prove(digit.b <= room)
    return analyzer.can_prove(digit.a >= 0) and analyzer.can_prove(digit.a < digit.b * room)


def _is_digit(value: Any, var: Var) -> bool:
    """Whether a value is a quotient or remainder of a variable, or one of such."""
    if not isinstance(value, (FloorDiv, FloorMod)) or var in free_vars(value.b):
        return False
    return value.a is var or _is_digit(value.a, var)


def _determine(var: Var, exprs: list[PrimExpr], domain: Range, analyzer: Analyzer) -> bool:
    """Whether quotients and remainders together tell the variable."""
    if not detect_iter_map(exprs, {var: domain}, True, "bijective", analyzer=analyzer).errors:
        return True
    return _follows(var, exprs)


def _follows(wanted: Var, exprs: Sequence[PrimExpr]) -> bool:
    """Whether quotients and remainders tell a variable: x // m and x % m tell x, which may be one itself."""
    told = list(exprs)
    for one in told:  # grows
        if one is wanted:
            return True
        pairs = [(one, other) for other in told] + [(other, one) for other in told]
        for whole in [_told_by_both(*pair) for pair in pairs]:
            if whole is not None and not any(structural_equal(whole, known) for known in told):
                told.append(whole)
    return False


def _told_by_both(quotient: PrimExpr, remainder: PrimExpr) -> PrimExpr | None:
    """x of x // m and x % m."""
    if not isinstance(quotient, FloorDiv) or not isinstance(remainder, FloorMod):
        return None
    is_same = structural_equal(quotient.a, remainder.a) and structural_equal(quotient.b, remainder.b)
    return remainder.a if is_same or _is_nested(quotient, remainder) else None


def _is_nested(quotient: FloorDiv, remainder: FloorMod) -> bool:
    """Whether a quotient is x // (k * m) beside the remainder x // k % m: 678 beside 226 and 3."""
    inner = remainder.a
    if not isinstance(inner, FloorDiv) or not structural_equal(quotient.a, inner.a):
        return False
    whole, k, m = (
        factor.value if isinstance(factor, IntImm) else 0 for factor in (quotient.b, inner.b, remainder.b)
    )
    return k > 0 and m > 0 and whole == k * m


# ---- elements that several iterations may touch


def _may_overlap(func: PrimFunc, loop: For, buffer: Buffer, is_read: bool) -> bool:
    """Whether it does not matter that iterations share elements: each reads only what it wrote itself, and
    either nobody else looks at the buffer, or all iterations store the same."""
    writers = [realize.block for realize in blocks_below(loop.body) if writes_buffer(realize.block, buffer)]
    same = len(writers) == 1 and _stores_alike(writers[0], buffer)
    if not same and not _is_private(func, loop, buffer):
        return False
    if not is_read:
        return True
    around = find_loop(func, loop.loop_var).loops()
    lowered = replace(loop, body=lower_blocks(loop.body))
    return reads_own_writes(lowered, buffer, around) or stays_apart(lowered, buffer, around)


def _stores_alike(block: SBlock, buffer: Buffer) -> bool:
    """Whether a block stores for equal axes the same, for others elsewhere."""
    return block.init is None and not reads_buffer(block, buffer) and keeps_contract(block)


def _is_private(func: PrimFunc, loop: For, buffer: Buffer) -> bool:
    """Whether a buffer is a temporary that only a loop uses."""
    if buffer in func.buffers:
        return False
    inside = sum(_touches(node, buffer) for node in walk(loop.body))
    return inside == sum(_touches(node, buffer) for node in walk(func.body))


def _touches(node: Any, buffer: Buffer) -> bool:
    return isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer
