"""ProveIndices: remove checks of indices that are provably in range.

    at = R.call_tir(cls.argmax, (x,), out_ty=R.Tensor((n,), "int64"))       # x: R.Tensor((n, 8))
    y = R.call_tir(cls.take, (R.const(table), at), ...)                     # table: 8 rows

    def take(table, at, y): y[i] = table[checked(at[i], 8)]    →    def take_1(...): y[i] = table[at[i]]

What integers a tensor may hold follows from the constants and the loop functions that they come from
(`tir.analysis.value_ranges`). Models whose tables lead from one to another, such as trees, walk them without
a comparison for each step.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.kernel_calls import callee_and_scalars, with_callee
from heddle.lower.normal_form import GRAPHS
from heddle.prim.checked_index import is_index_check
from heddle.prim.nodes import PrimExpr, is_const_int
from heddle.prim.ops import select
from heddle.prim.values import int_range
from heddle.support.frozen import frozen
from heddle.tir.analysis.value_ranges import Range, ValueRanges, has_ranges, value_ranges
from heddle.tir.nodes import Buffer, PrimFunc


class ProveIndices(Pass):
    """Requires the normal form. A function whose name is for the outside stays."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not any(isinstance(func, PrimFunc) and _has_checks(func) for func in mod.functions.values()):
            return mod
        rewriter = _Prover(mod)
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.run(func))
        return drop_unused_loops(rewriter.get()) if rewriter.has_proved else mod


def _has_checks(func: PrimFunc) -> bool:
    return any(map(is_index_check, walk_distinct(func.body)))


@frozen
class _Called:
    """What a loop function does with integers of given ranges: those of its outputs (None for floats), and
    the function without the checks that these prove, if there are some."""

    outputs: tuple[Range | None, ...]
    proved: GlobalVar | None


class _Prover(BindingRewriter):
    """Follows ranges from binding to binding. `_ranges` has those of variables that hold some values only."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.has_proved = False
        self._functions = mod.functions
        self._ranges: dict[Var, Range] = {}
        self._constants: dict[int, tuple[Constant, Range]] = {}
        self._called: dict[tuple[GlobalVar, tuple[Range | None, ...]], _Called] = {}

    def binding(self, binding: Binding) -> None:
        if isinstance(binding, MatchCast):
            known = self._range(binding.value)
            if known is not None:
                self._ranges[binding.var] = known
        super().binding(binding)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        found = callee_and_scalars(value)
        func = self._functions.get(found[0]) if found is not None and is_call(value, CALL_TIR) else None
        if found is None or not isinstance(func, PrimFunc) or not isinstance(value, Call):
            return value
        tensors = value.args[1]
        if not isinstance(tensors, Tuple):
            return value
        called = self._call(found[0], func, tuple(map(self._range, tensors.fields)))
        if len(called.outputs) == 1 and called.outputs[0] is not None:
            self._ranges[var] = called.outputs[0]
        return value if called.proved is None else with_callee(value, called.proved, found[1])

    def _range(self, expr: Expr) -> Range | None:
        """What an integer tensor may hold; None for any other."""
        ty = type_of(expr)
        if not isinstance(ty, TensorType) or ty.dtype is None or not has_ranges(ty.dtype):
            return None
        if isinstance(expr, Constant) and ty.dtype.may_index:
            known = self._constants.get(id(expr))
            if known is None:
                known = self._constants[id(expr)] = expr, _range_of_data(expr)
            return known[1]
        whole = int_range(ty.dtype)
        return self._ranges.get(expr, whole) if isinstance(expr, Var) else whole

    def _call(self, var: GlobalVar, func: PrimFunc, given: tuple[Range | None, ...]) -> _Called:
        known = self._called.get((var, given))
        if known is None:
            known = self._called[var, given] = self._analysed(var, func, given)
        return known

    def _analysed(self, var: GlobalVar, func: PrimFunc, given: tuple[Range | None, ...]) -> _Called:
        outputs = func.buffers[len(given) :]
        checks = _has_checks(func) and "global_symbol" not in func.attrs
        if not checks and not any(has_ranges(buffer.dtype) for buffer in outputs):
            return _Called((None,) * len(outputs), None)
        ranges = value_ranges(
            func, {b: r for b, r in zip(func.buffers, given, strict=False) if r is not None}
        )
        if ranges is None:
            return _Called((None,) * len(outputs), None)
        results = tuple(ranges.buffers.get(buffer) for buffer in outputs)
        body = _Without(ranges).visit(func.body) if checks else func.body
        if body is func.body:
            return _Called(results, None)
        self.has_proved = True
        return _Called(results, self.add_func(func.with_body(body), var.name_hint))


def _range_of_data(constant: Constant) -> Range:
    data = constant.data.numpy()
    return (int(data.min()), int(data.max())) if data.size else (1, 0)


class _Without(Rewriter):
    """Leaves out the checks that ranges prove."""

    def __init__(self, ranges: ValueRanges) -> None:
        self._ranges = ranges

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return node

    def visit_Call(self, node: Any) -> Any:
        made = self.default(node)
        if not is_index_check(node) or len(node.args) != 3:
            return made
        (low, high), least = self._ranges.of(_expr(node.args[0])), self._ranges.of(_expr(node.args[1]))[0]
        index, size = map(_expr, made.args[:2])
        if low >= 0 and high < least:
            return index
        if low >= -least and high < least and is_const_int(node.args[2], 1):
            return select(index < 0, index + size, index)
        return made


def _expr(node: Any) -> PrimExpr:
    assert isinstance(node, PrimExpr)
    return node
