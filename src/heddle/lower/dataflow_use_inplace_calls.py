"""DataflowUseInplaceCalls: elementwise results overwrite an operand that nothing else needs any more.

    y = R.call_tir(cls.conv, (x, w), ...)               y = R.call_tir(cls.conv, (x, w), ...)
    z = R.call_tir(cls.exp, (y,), ...)           →      z = R.call_tir_inplace(cls.exp_inplace, (y,),
    R.output(z)                                                                inplace_indices=[0], ...)
                                                        R.output(z)

An operand may be overwritten where

- it is a variable of the same dataflow block, whose value a call of a loop function (or an operator that
  becomes one) made: parameters, constants and what packed functions gave belong to others;
- this is its last use, and it occurs once among the operands;
- no other name can stand for its memory: it was not put into a tuple, renamed, viewed or handed to a function
  that might keep it, and neither it nor its origin is a reshape, which later becomes a view;
- the loop function, its maps inlined, is one spatial block that reads the operand at the index at which it
  stores, once for every element, and operand and result have one shape, dtype and device.

The loop function gets a form without the output parameter, so that it says itself what it overwrites: no two
of its buffers share memory. Operators that qualify are legalised on the way; others stay what they are. It
pays where elementwise work did not fuse into what makes its operand; `StaticPlanBlockMemory` cannot do it,
since operand and result are alive together.

It is not in the default pipeline. Fusion leaves little for it: of nine models (six convolution networks,
BERT, ViT, GPT-2) it found something in GPT-2 alone, whose peak memory fell by 14%; and an operand that is
overwritten is gone when the debugger asks what a result was made of. Its place is after
`RewriteDataflowReshape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.graph.infer import Inference, type_of
from heddle.graph.nodes import BindingBlock, SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.te_call import te_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.graph.vdevices import common_device, on_device
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map, replace
from heddle.ir.op import Op
from heddle.ir.op_def import op_def
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk, walk_distinct
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.normal_form import GRAPHS
from heddle.lower.rewrite_dataflow_reshape import has_reshape_pattern
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.nodes import is_const_int
from heddle.support.frozen import frozen
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock, SBlockRealize
from heddle.tir.schedule.rules.rule import inline_maps, is_spatial
from heddle.tir.schedule.schedule import Schedule
from heddle.tir.substitute import replace_buffers


class DataflowUseInplaceCalls(Pass):
    """Requires: the normal form, dataflow blocks (`ConvertToDataflow` makes them)."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        rewriter = _Rewriter(mod)
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.run(func))
        return drop_unused_loops(rewriter.get()) if rewriter.changed else mod


@frozen
class _LoopCall:
    """A loop function, the graph's arguments for it, scalars last, and the type of its one result."""

    func: PrimFunc
    name: str
    args: tuple[Expr, ...]
    scalars: tuple[Expr, ...]
    ty: TensorType


class _Rewriter(BindingRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.changed = False
        self._reusable: dict[Var, frozenset[Var]] = {}

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        assert isinstance(expr, SeqExpr)
        for block in expr.blocks:
            if block.is_dataflow:
                self._reusable.update(self._dying_operands(block))
        return super().rewrite_sequence(expr)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        dying = self._reusable.get(var, frozenset())
        call = self._loop_call(value) if dying else None
        if call is None:
            return value
        for position, arg in enumerate(call.args):
            fits = arg in dying and call.args.count(arg) == 1 and _same_place(type_of(arg), call.ty)
            made = inplace_form(call.func, position) if fits else None
            if made is not None:
                self.changed = True
                callee = self.add_func(made, f"{call.name}_inplace")
                operands = (callee, Tuple(call.args), *call.scalars)
                attrs = attrs_of({"inplace_indices": (position,)})
                return Call(Op.get("relax.call_tir_inplace"), operands, attrs, (call.ty,), span=value.span)
        return value

    # ---- liveness and aliases

    def _dying_operands(self, block: BindingBlock) -> dict[Var, frozenset[Var]]:
        """For each binding's variable, the operands whose memory nobody needs after it."""
        last_use: dict[Var, Var] = {}
        owned: set[Var] = set()
        for binding in block.bindings:
            value = binding.value
            reads = isinstance(binding, VarBinding) and self._only_reads(value)
            for node in walk_distinct(value):
                if isinstance(node, Var):
                    last_use[node] = binding.var
                    if not reads:
                        owned.discard(node)
            if binding.var.is_dataflow and isinstance(binding, VarBinding) and self._makes_memory(value):
                owned.add(binding.var)
        dying: dict[Var, set[Var]] = {}
        for var, user in last_use.items():
            if var in owned:
                dying.setdefault(user, set()).add(var)
        return {user: frozenset(operands) for user, operands in dying.items()}

    def _makes_memory(self, value: Expr) -> bool:
        """Whether a value lies in new memory that nothing else names."""
        return is_call(value, "relax.call_dps_packed") or self._loop_call(value) is not None

    def _only_reads(self, value: Expr) -> bool:
        """Whether a value does not keep its operands, or share memory with them."""
        return is_call(value, "relax.shape_of") or self._loop_call(value) is not None

    def _loop_call(self, value: Expr) -> _LoopCall | None:
        """The loop function that a value calls, or would call once legalised, unless it is a reshape."""
        if not isinstance(value, Call):
            return None
        found = self._called(value) if is_call(value, "relax.call_tir") else self._legalised(value)
        return None if found is None or has_reshape_pattern(found.func) else found

    def _called(self, value: Call) -> _LoopCall | None:
        callee, operands, *scalars = value.args
        func = self.module.get(callee) if isinstance(callee, GlobalVar) else None
        ty = type_of(value)
        if (
            not isinstance(func, PrimFunc)
            or not isinstance(operands, Tuple)
            or not isinstance(ty, TensorType)
        ):
            return None
        assert isinstance(callee, GlobalVar)
        return _LoopCall(func, callee.name_hint, operands.fields, tuple(scalars), ty)

    def _legalised(self, value: Call) -> _LoopCall | None:
        record = op_def(value.op)
        if record is None or record.lower is None or not all(_has_dims(arg) for arg in value.args):
            return None
        context = Inference(value, record.name, self.analyzer)
        record.infer(context)
        if context.assumptions:
            return None  # sizes that are yet to be checked
        lower = record.lower
        func, args, ty, symbols = te_call(
            lambda arg: arg, lambda *tensors: lower(value.attrs, *tensors), value.args, {}
        )
        if not isinstance(ty, TensorType):
            return None
        result = on_device(ty, common_device(value.args, value.span))
        assert isinstance(result, TensorType)
        scalars = (ShapeExpr(tuple(symbols)),) if symbols else ()
        return _LoopCall(func, record.name.rsplit(".", 1)[-1], tuple(args), scalars, result)


def _has_dims(arg: Expr) -> bool:
    if isinstance(arg, Tuple):
        return all(_has_dims(item) for item in arg.fields)
    ty = type_of(arg)
    return not isinstance(ty, TensorType) or (ty.dims is not None and ty.dtype is not None)


def _same_place(operand: Any, result: TensorType) -> bool:
    """Whether a tensor of one type fits exactly where one of another lies."""
    return (
        isinstance(operand, TensorType)
        and operand.dtype == result.dtype
        and structural_equal(operand.vdevice, result.vdevice)
    )


# ---- loop functions


def inplace_form(func: PrimFunc, position: int) -> PrimFunc | None:
    """The function that writes its one result over parameter `position`, and has no output parameter; None
    where that would not give the same."""
    buffers, params = func.buffers, func.params
    if not isinstance(func.body, SBlockRealize) or position >= len(buffers) - 1:
        return None
    operand, result = buffers[position], buffers[-1]
    if operand.dtype != result.dtype or not structural_equal(operand.shape, result.shape):
        return None
    schedule = Schedule(func)
    inline_maps(schedule)
    blocks = [schedule.get(handle) for handle in schedule.blocks()]
    if len(blocks) != 1 or not isinstance(blocks[0], SBlock):
        return None
    if not _overwrites_what_it_read(blocks[0], operand, result):
        return None
    output = next(param for param in params if func.buffer_map.get(param) is result)
    table = {param: buffer for param, buffer in func.buffer_map.items() if param is not output}
    made: PrimFunc = replace(
        func,
        params=tuple(param for param in params if param is not output),
        buffer_map=Map(table),
        body=replace_buffers(schedule.func.body, {result: operand}),
    )
    return made


def _overwrites_what_it_read(block: SBlock, operand: Buffer, result: Buffer) -> bool:
    """Whether a block stores every element of the result once, from that element of the operand."""
    store = block.body
    if not is_spatial(block) or block.init is not None or not isinstance(store, BufferStore):
        return False
    if store.buffer is not result or not _is_one_to_one(store.indices, [a.var for a in block.iter_vars]):
        return False
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    return all(
        load.buffer is not result
        and (load.buffer is not operand or structural_equal(tuple(load.indices), tuple(store.indices)))
        for load in loads
    )


def _is_one_to_one(indices: Sequence[Any], axes: Sequence[PrimVar]) -> bool:
    """Whether each index is an axis of its own (or 0), and every axis is one."""
    used = [index for index in indices if not is_const_int(index, 0)]
    return len(used) == len(axes) and set(used) == set(axes)
