"""Replacing a block by an intrinsic that computes the same."""

from __future__ import annotations

from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import Map, Node, children, replace
from heddle.prim.nodes import Call, FloatImm, IntImm, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import multiply
from heddle.tir.codes import T0415
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    MatchBufferRegion,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import find_block, fresh_copy, replace_stmt, root_block
from heddle.tir.substitute import StmtSubstituter
from heddle.tir.tensor_intrin import TensorIntrin


def tensorize(func: PrimFunc, block_name: str, intrin: TensorIntrin) -> PrimFunc:
    """with sblock("C_o"): for i, k in grid(4, 4): with sblock("C"): C[v_o, i] += A[v_o, k] * B[i, k]

        →   with sblock("C_o"):
                c, a, b = match_buffer(C[v_o, 0:4]), match_buffer(A[v_o, 0:4]), match_buffer(B[0:4, 0:4])
                ... what the intrinsic's implementation does with c, a and b

    What is inside the block must be what the intrinsic's description says, loop by loop and operation by
    operation, for regions of any buffers: their leading dimensions may be more. An initialisation stays.
    """
    block: SBlock = find_block(func, block_name).stmt.block
    wanted = root_block(intrin.desc)
    matcher = _Matcher(func, block)
    matcher.match(wanted.body, block.body)
    impl = _fresh_impl(func, intrin.impl)
    inner = root_block(impl)
    matches: list[MatchBufferRegion] = []
    variables: dict[Var, PrimExpr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for described, implementing in zip(intrin.desc.buffers, impl.buffers, strict=True):
        target, starts = matcher.region_of(described)
        view = _view(implementing, described, target)
        pairs = zip((*implementing.strides, implementing.elem_offset), (*view.strides, None), strict=False)
        variables |= {old: new for old, new in pairs if isinstance(old, Var) and isinstance(new, PrimExpr)}
        buffers[implementing] = view
        matches.append(MatchBufferRegion(view, BufferRegion(target, _ranges(starts, described, target))))
    body = StmtSubstituter(variables, buffers).visit(inner.body)
    made = replace(
        block,
        body=body,
        match_buffers=tuple(matches),
        alloc_buffers=(*block.alloc_buffers, *inner.alloc_buffers),
        annotations=Map({**dict(block.annotations), **dict(inner.annotations)}),
    )
    return replace_stmt(func, block, made)


def _fresh_impl(func: PrimFunc, impl: PrimFunc) -> PrimFunc:
    """The implementation with definitions of its own, as it may be used more than once."""
    fresh = {
        buffer: Buffer(
            Var(buffer.data.name, buffer.data.dtype, buffer.data.type_annotation),
            buffer.dtype,
            buffer.shape,
            buffer.name,
            buffer.strides,
            buffer.elem_offset,
            buffer.align_bytes,
        )
        for buffer in impl.buffers
    }
    pointers = {old.data: new.data for old, new in fresh.items()}
    body = fresh_copy(func, StmtSubstituter(pointers, fresh).visit(impl.body))
    mapping = {param: fresh[buffer] for param, buffer in impl.buffer_map.items()}
    return PrimFunc(impl.params, body, impl.ret_type, Map(mapping), impl.attrs)


def _view(buffer: Buffer, described: Buffer, target: Buffer) -> Buffer:
    """The implementation's buffer as a view of the target, with the target's strides."""
    strides = list(target.strides)
    if not strides:
        step: PrimExpr = constant(1, target.shape[-1].dtype if target.shape else "int64")
        for dim in reversed(target.shape):
            strides.insert(0, step)
            step = multiply(step, dim)
    kept = tuple(strides[len(strides) - buffer.ndim :])
    return Buffer(buffer.data, buffer.dtype, described.shape, buffer.name, kept, None, buffer.align_bytes)


def _ranges(starts: tuple[PrimExpr, ...], described: Buffer, target: Buffer) -> tuple[Range, ...]:
    skipped = len(starts) - described.ndim
    ones = [constant(1, start.dtype) for start in starts[:skipped]]
    extents = [*ones, *described.shape]
    pairs = zip(starts, extents, target.shape, strict=True)
    return tuple(Range.from_min_extent(at, _cast(extent, dim)) for at, extent, dim in pairs)


def _cast(extent: PrimExpr, like: PrimExpr) -> PrimExpr:
    return constant(extent.value, like.dtype) if isinstance(extent, IntImm) else extent


class _Matcher:
    """Compares a description with what is inside a block; finds which region each buffer stands for."""

    def __init__(self, func: PrimFunc, block: SBlock) -> None:
        self._func, self._block = func, block
        self._vars: dict[Var, PrimExpr] = {}
        self._buffers: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}
        self._analyzer = Analyzer()
        for axis in block.iter_vars:
            self._analyzer.bind(axis.var, axis.dom)

    def region_of(self, described: Buffer) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        if described not in self._buffers:
            raise ScheduleError(T0415, f"the description never uses {described.name!r}", self._func)
        return self._buffers[described]

    def _fail(self, wanted: Any, found: Any) -> ScheduleError:
        name = self._block.name_hint
        return ScheduleError(
            T0415,
            f"block {name!r}: expected {_brief(wanted)} as the intrinsic describes, got {_brief(found)}",
            self._func,
            self._block,
        )

    def _check(self, holds: bool, wanted: Any, found: Any) -> None:
        if not holds:
            raise self._fail(wanted, found)

    def match(self, wanted: Any, found: Any) -> None:
        """Raises: ScheduleError T0415 where the two differ."""
        if isinstance(wanted, PrimExpr) and not isinstance(wanted, BufferLoad):
            self._match_expr(wanted, found)
            return
        self._check(type(wanted) is type(found), wanted, found)
        if isinstance(wanted, For):
            self._match_loop(wanted, found)
        elif isinstance(wanted, SBlockRealize):
            self._match_block(wanted, found)
        elif isinstance(wanted, BufferStore):
            self._match_access(wanted, found)
            self.match(wanted.value, found.value)
        elif isinstance(wanted, BufferLoad):
            self._match_access(wanted, found)
        else:
            ours, theirs = list(children(wanted)), list(children(found))
            self._check(len(ours) == len(theirs) and isinstance(wanted, Stmt), wanted, found)
            for a, b in zip(ours, theirs, strict=True):
                self.match(a, b)

    def _match_loop(self, wanted: For, found: For) -> None:
        same = wanted.kind is found.kind or found.kind.name in ("SERIAL", "UNROLLED")
        equal = self._equal(wanted.min, found.min) and self._equal(wanted.extent, found.extent)
        self._check(same and equal, wanted, found)
        self._vars[wanted.loop_var] = found.loop_var
        self._analyzer.bind(found.loop_var, Range.from_min_extent(found.min, found.extent))
        self.match(wanted.body, found.body)

    def _match_block(self, wanted: SBlockRealize, found: SBlockRealize) -> None:
        a, b = wanted.block, found.block
        pairs = list(zip(b.iter_vars, found.iter_values, strict=True))
        for axis, _ in pairs:
            self._analyzer.bind(axis.var, axis.dom)
        if len(pairs) > len(a.iter_vars):  # unit axes, which blockize leaves, do nothing
            pairs = [pair for pair in pairs if not is_const_int(pair[0].dom.extent, 1)]
        self._check(len(a.iter_vars) == len(pairs), wanted, found)
        self._check((a.init is None) == (b.init is None), wanted, found)
        self._check(self._equal(wanted.predicate, found.predicate), wanted, found)
        for x, (_, y) in zip(wanted.iter_values, pairs, strict=True):
            self._check(self._equal(x, y), wanted, found)
        for mine, (axis, _) in zip(a.iter_vars, pairs, strict=True):
            same = mine.iter_type is axis.iter_type and self._equal(mine.dom.extent, axis.dom.extent)
            self._check(same, mine, axis)
            self._vars[mine.var] = axis.var
        if a.init is not None and b.init is not None:
            self.match(a.init, b.init)
        self.match(a.body, b.body)

    def _match_access(self, wanted: Any, found: Any) -> None:
        self._check(wanted.buffer.dtype == found.buffer.dtype, wanted, found)
        if wanted.buffer not in self._buffers:
            self._buffers[wanted.buffer] = (found.buffer, self._starts(wanted, found))
        target, starts = self._buffers[wanted.buffer]
        self._check(target is found.buffer, wanted, found)
        rest = [self._analyzer.simplify(i - at) for i, at in zip(found.indices, starts, strict=True)]
        skipped = len(rest) - len(wanted.indices)
        self._check(skipped >= 0, wanted, found)
        indices = [*(constant(0, i.dtype) for i in rest[:skipped]), *wanted.indices]
        for mine, theirs in zip(indices, rest, strict=True):
            self._check(self._equal(mine, theirs), wanted, found)

    def _starts(self, wanted: Any, found: Any) -> tuple[PrimExpr, ...]:
        """Where the block's region of a buffer begins."""
        for region in (*self._block.reads, *self._block.writes):
            if region.buffer is found.buffer:
                return tuple(part.min for part in region.region)
        raise self._fail(wanted, found)

    def _equal(self, wanted: PrimExpr, found: PrimExpr) -> bool:
        """Whether two integer expressions over matched variables are equal."""
        mine = StmtSubstituter(self._vars).visit(_as_type(wanted, found))
        if mine.dtype != found.dtype:
            return isinstance(mine, IntImm) and isinstance(found, IntImm) and mine.value == found.value
        return self._analyzer.can_prove_equal(mine, found)

    def _match_expr(self, wanted: PrimExpr, found: Any) -> None:
        if isinstance(wanted, Var):
            self._check(isinstance(found, PrimExpr) and self._vars.get(wanted) is found, wanted, found)
            return
        self._check(type(wanted) is type(found) and wanted.dtype == found.dtype, wanted, found)
        if isinstance(wanted, (IntImm, FloatImm)):
            self._check(wanted.value == found.value, wanted, found)
            return
        ours, theirs = list(children(wanted)), list(children(found))
        self._check(len(ours) == len(theirs), wanted, found)
        if isinstance(wanted, Call):
            self._check(wanted.op is found.op, wanted, found)
            ours, theirs = list(wanted.args), list(found.args)
        for a, b in zip(ours, theirs, strict=True):
            self.match(a, b)


def _as_type(wanted: PrimExpr, found: PrimExpr) -> PrimExpr:
    """A constant in the dtype of what it is compared with: descriptions may count in int32."""
    return constant(wanted.value, found.dtype) if isinstance(wanted, IntImm) else wanted


def _brief(node: Any) -> str:
    text = str(node) if isinstance(node, Node) else repr(node)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return lines[0].strip() if lines else text
