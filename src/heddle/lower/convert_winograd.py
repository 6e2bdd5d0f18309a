"""ConvertToWinograd: convolutions of 3 × 3 taps at stride 1 take fewer multiplications where that is faster.

    y = cls.conv2d(x, w: (64, 64, 3, 3))      →      y = cls.conv2d(x, w': (36, 2, 4, 16, 32))

The constant weights are transformed when the program is compiled; the loop function transforms tiles of the
image, multiplies, and transforms back (`tir.schedule.rules.winograd`). Results differ from those of the
direct sum by rounding: less than 1e-5 of their scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.graph.infer import type_of
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, loop_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.normal_form import GRAPHS, graph_functions
from heddle.lower.pack_weights import always_constant
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Call as PrimCall
from heddle.prim.nodes import Cast, FloatImm, IntImm, PrimExpr, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.substitute import free_vars
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock
from heddle.tir.schedule.rules.convolution_tile import Convolution, find_convolution
from heddle.tir.schedule.rules.rule import block_of, extent_of, inline_maps
from heddle.tir.schedule.rules.winograd import winograd_function
from heddle.tir.schedule.rules.winograd_plan import (
    ASSUMED_SIZES,
    TAPS,
    WinogradPlan,
    WinogradProblem,
    plan_winograd,
)
from heddle.tir.schedule.schedule import SBlockRV, Schedule
from heddle.tir.schedule.tree import conditions_on_axes


@frozen(slots=False)
class ConvertToWinograd(Pass):
    """Requires: images in blocks of channels (ConvertToBlockedLayout). Runs before weights are packed."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    target: Target

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        table: dict[GlobalVar, Any] = dict(mod.functions)
        images = _arguments(mod)
        plans: dict[GlobalVar, tuple[int, WinogradPlan]] = {}
        for var, positions in always_constant(mod).items():
            func = mod[var]
            problem = _problem(func) if isinstance(func, PrimFunc) else None
            if problem is None or func.buffers.index(problem.weights) not in positions:
                continue
            plan = plan_winograd(problem, self.target, _likely_sizes(func, problem, images[var]))
            if plan is not None:
                plans[var] = func.buffers.index(problem.weights), plan
                marks = {"tir.is_scheduled": True, "schedule_rule": "Winograd"}
                table[var] = winograd_function(func, plan).with_attr(marks)
        if not plans:
            return mod
        rewriter = _Caller(mod, plans)
        for var, func in self.functions(mod):
            table[var] = rewriter.run(func)
        return mod.with_functions(table)


LIKELY_SIZES = (160, 224, 320, 512)
"""What a free dimension of a model's images probably is."""


def _arguments(mod: IRModule) -> dict[GlobalVar, Tuple]:
    """The tensors that each loop function is given, by the first call of it."""
    found: dict[GlobalVar, Tuple] = {}
    for _var, func in graph_functions(mod):
        for callee, args in filter(None, map(loop_call, walk(func))):
            found.setdefault(callee, args)
    return found


def _likely_sizes(func: PrimFunc, problem: WinogradProblem, args: Tuple) -> Sequence[tuple[int, int]]:
    """Rows and columns of the image of a free size: a layer's size is a formula of the model's."""
    ty = type_of(args.fields[func.buffers.index(problem.data)])
    dims = ty.dims[2:4] if isinstance(ty, TensorType) and ty.dims is not None else ()
    found = [tuple(_at_size(dim, size) for dim in dims) for size in LIKELY_SIZES]
    if not dims or any(size < 1 for sizes in found for size in sizes):
        return ASSUMED_SIZES
    return [(rows, columns) for rows, columns in dict.fromkeys(found)]


def _at_size(dim: PrimExpr, size: int) -> int:
    return int(evaluate(dim, dict.fromkeys(free_vars(dim), size)))


def _problem(func: PrimFunc) -> WinogradProblem | None:
    """The convolution of a function, if it has 3 × 3 taps at stride 1 over blocked images, whole channels of
    a vector on both sides, and at most padding before it and maps behind it."""
    conv = find_convolution(plain_nests(func) or [])
    if conv is None or not _has_plain_taps(conv):
        return None
    if conv.data.buffer.dtype != "float32" or conv.result.dtype != "float32":
        return None
    sch = Schedule(func)
    handle = next(h for h in sch.blocks() if find_convolution([block_of(sch, h)]) is not None)
    producers = sch.get_producers(handle)
    inline_maps(sch, keep=[producer.name for producer in producers])  # the convolution stays as it is
    if len(sch.blocks()) > 1 + len(producers) + 1:
        return None
    consumers = sch.get_consumers(handle)
    following = sch.realization(SBlockRV(consumers[0].name)) if len(consumers) == 1 else None
    epilogue = None if following is None else following.block
    conditions = () if following is None else tuple(conditions_on_axes(following))
    if (epilogue is None) != (conv.result in func.buffers) or (
        epilogue and not _is_pointwise(epilogue, conv)
    ):
        return None
    source = _source(sch, conv, [block_of(sch, producer) for producer in producers])
    if source is None or source[0] not in func.buffers or conv.weights.buffer not in func.buffers:
        return None
    sizes = [extent_of(dim) for dim in (*conv.weights.buffer.shape[:2], conv.result.shape[4])]
    if None in sizes:
        return None
    outs, ins, lanes = (size or 0 for size in sizes)
    rows, columns = (dim.value if isinstance(dim, IntImm) else dim for dim in conv.result.shape[2:4])
    data, before = source
    return WinogradProblem(
        data, conv.weights.buffer, conv.result, epilogue, conditions, before, ins, outs, rows, columns, lanes
    )


def _has_plain_taps(conv: Convolution) -> bool:
    """Whether the window is 3 × 3 next pixels of blocked images, of all channels, by weights as they came."""
    if conv.lane is None or len(conv.spatial) != 2 or len(conv.reduce) != 4 or len(conv.data.indices) != 5:
        return False
    n, (h, w) = conv.n, conv.spatial
    block, ky, kx, lane = conv.reduce
    if not conv.sums_products:
        return False
    taps, simplify = (conv.extent(ky), conv.extent(kx)), Analyzer().simplify
    steps = [conv.data.indices[2] - h - ky, conv.data.indices[3] - w - kx]
    whole = conv.data.indices[0] is n and conv.data.indices[1] is block and conv.data.indices[4] is lane
    is_plain = len(conv.weights.indices) == 4 and conv.extent(lane) == conv.extent(conv.lane)
    return taps == (TAPS, TAPS) and whole and is_plain and all(is_const_int(simplify(s), 0) for s in steps)


def _is_pointwise(epilogue: SBlock, conv: Convolution) -> bool:
    """Whether an epilogue reads the convolution at its own index."""
    axes = tuple(axis.var for axis in epilogue.iter_vars)
    loads = [n for n in walk(epilogue.body) if isinstance(n, BufferLoad) and n.buffer is conv.result]
    return bool(loads) and all(load.indices == axes for load in loads)


def _source(
    sch: Schedule, conv: Convolution, producers: list[SBlock]
) -> tuple[Buffer, tuple[int, int]] | None:
    """The image that the convolution reads, perhaps padded by zeros, and how far its first window begins
    before it."""
    if not producers:
        return conv.data.buffer, (0, 0)
    loads = [node for node in walk(producers[0].body) if isinstance(node, BufferLoad)]
    if len(producers) > 1 or len(loads) != 1 or producers[0].writes[0].buffer is not conv.data.buffer:
        return None
    axes, simplify = [axis.var for axis in producers[0].iter_vars], Analyzer().simplify
    if len(axes) != len(loads[0].indices):  # an image that comes in another layout
        return None
    shifts: list[PrimExpr] = [simplify(axis - at) for axis, at in zip(axes, loads[0].indices, strict=True)]
    found = [shift.value for shift in shifts if isinstance(shift, IntImm)]
    if len(found) != 5 or found[0] or found[1] or found[4] or not _reads_all(producers[0], loads[0]):
        return None
    return loads[0].buffer, (found[2], found[3])


def _loaded(value: object) -> object:
    """What a value is but for its type."""
    return value.value if isinstance(value, Cast) else value


def _reads_all(producer: SBlock, load: BufferLoad) -> bool:
    """Whether a block copies all elements of a buffer that its axes reach, perhaps into wider numbers, and
    writes zeros around them."""
    value = producer.body.value if isinstance(producer.body, BufferStore) else None
    if _loaded(value) is load:
        return True
    if not isinstance(value, PrimCall) or value.op.name != "tir.if_then_else":
        return False
    condition, inside, outside = value.args
    if _loaded(inside) is not load or not isinstance(outside, (IntImm, FloatImm)) or outside.value != 0:
        return False
    analyzer = Analyzer()
    for axis in producer.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    places = zip(load.indices, load.buffer.shape, strict=True)
    reached = [all_of(at >= 0, at < size) for at, size in places]
    with analyzer.constraint_scope(all_of(*reached)):
        return analyzer.can_prove(condition)


class _Caller(BindingRewriter):
    """Transforms the weights at the calls."""

    def __init__(self, mod: IRModule, plans: dict[GlobalVar, tuple[int, WinogradPlan]]) -> None:
        super().__init__(mod)
        self._plans = plans

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        called = loop_call(value)
        if not isinstance(value, Call) or called is None or called[0] not in self._plans:
            return value
        callee, args = called
        position, plan = self._plans[callee]
        weights, fields = args.fields[position], list(args.fields)
        assert isinstance(weights, Constant)
        dtype = plan.problem.sums.dtype
        fields[position] = const(plan.weights(weights.data.numpy().astype(dtype.numpy())), dtype)
        return replace(value, args=(callee, Tuple(tuple(fields)), *value.args[2:]))
