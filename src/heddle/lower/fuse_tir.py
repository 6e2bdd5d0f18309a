"""FuseTIR: merge a function of several loop-function calls into one loop function.

    def fused(x, c):                                      def fused(x, c, z):
        y = R.call_tir(cls.exp, (x,), ...)                    y = alloc
        z = R.call_tir(cls.add, (y, c), ...)      →           for ...: y[i] = exp(x[i])
        return z                                              for ...: z[i] = y[i] + c[i]
    v = cls.fused(a, b)                                   v = R.call_tir(cls.fused, (a, b), out_ty=...)

What lies between becomes a buffer of the function; schedules inline it or keep it in registers.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.op import Op, is_op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk_distinct
from heddle.lower.fuse_ops import FUSION_BOUNDARY
from heddle.lower.legalize_ops import OPERATORS
from heddle.lower.merged_bodies import MergedBodies, TensorPlace
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType
from heddle.support.span import at
from heddle.tir.nodes import (
    Buffer,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
)


class FuseTIR(Pass):
    """Requires: functions with the attribute `Primitive` (FuseOps). Establishes: none of them."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        fused: dict[GlobalVar, PrimFunc] = {}
        for var, func in self.functions(mod):
            if func.attrs.get("Primitive"):
                with at(func.span):
                    fused[var] = _Merger(mod, func).build()
        if not fused:
            return mod
        table = {var: fused.get(var, func) for var, func in mod.functions.items()}
        rewriter = _CallRewriter(mod.with_functions(table), fused)
        for var, func in self.functions(mod):
            if var not in fused:
                table[var] = rewriter.run(func)
        return drop_unused_loops(mod.with_functions(table))


class _CallRewriter(BindingRewriter):
    """Calls of merged functions become call_tir."""

    def __init__(self, mod: IRModule, fused: dict[GlobalVar, PrimFunc]) -> None:
        super().__init__(mod)
        self._fused = fused

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar) or value.op not in self._fused:
            return value
        shapes = tuple(arg for arg in value.args if isinstance(arg, ShapeExpr))
        tensors = Tuple(tuple(arg for arg in value.args if not isinstance(arg, ShapeExpr)))
        name = GlobalVar(value.op.name_hint)
        return Call(
            Op.get("relax.call_tir"), (name, tensors, *shapes), attrs_of({}), (type_of(var),), span=value.span
        )


def drop_unused_loops(mod: IRModule) -> IRModule:
    """The module without private loop functions that nothing calls any more."""
    used = {
        n
        for f in mod.functions.values()
        if isinstance(f, Function)
        for n in walk_distinct(f)
        if isinstance(n, GlobalVar)
    }
    return mod.with_functions(
        {
            var: func
            for var, func in mod.functions.items()
            if not isinstance(func, PrimFunc) or var in used or "global_symbol" in func.attrs
        }
    )


class _Merger:
    """Makes one loop function of the calls in a primitive function."""

    def __init__(self, mod: IRModule, func: Function) -> None:
        self.mod, self.func = mod, func
        self.merged = MergedBodies()
        self.symbols: dict[PrimVar, PrimExpr] = {}
        self.buffers: dict[Var, Buffer] = {}
        self.stmts: list[Stmt] = []
        self.operators: list[str] = []

    def build(self) -> PrimFunc:
        body = self.func.body
        assert isinstance(body, SeqExpr)
        params: list[PrimVar] = []
        buffer_map: dict[PrimVar, Buffer] = {}
        scalars: list[PrimVar] = []
        for param in self.func.params:
            if isinstance(param.ty, ShapeType):
                scalars = [self._symbol(dim) for dim in param.ty.values or () if isinstance(dim, PrimVar)]
                continue
            buffer = self._buffer(param)
            handle = PrimVar(f"{buffer.name}_handle", DataType("handle"))
            params.append(handle)
            buffer_map[handle] = buffer
        for binding in body.bindings():
            with at(binding.span):
                self._inline(binding.var, binding.value, binding.var is body.body)
        assert isinstance(body.body, Var)
        result = self.buffers[body.body]
        handle = PrimVar(f"{result.name}_handle", DataType("handle"))
        buffer_map[handle] = result
        root = SBlock((), (), (), "root", seq(*self.stmts), None, tuple(self.merged.allocated))
        attrs: Any = {"tir.noalias": True}
        if FUSION_BOUNDARY in self.func.attrs:
            attrs[FUSION_BOUNDARY] = self.func.attrs[FUSION_BOUNDARY]
        if self.operators:
            attrs[OPERATORS] = tuple(self.operators)
        return PrimFunc(
            (*params, handle, *scalars),
            SBlockRealize((), constant(True), root),
            None,
            Map(buffer_map),
            attrs,
            span=self.func.span,
        )

    def _symbol(self, var: PrimVar) -> PrimVar:
        """The merged function's own variable for a symbolic dimension of the graph."""
        found = self.symbols.get(var)
        if not isinstance(found, PrimVar):
            found = PrimVar(var.name, var.dtype, None, var.is_size)
            self.symbols[var] = found
        return found

    def _dims(self, ty: TensorType) -> tuple[PrimExpr, ...]:
        for dim in ty.dims or ():
            if isinstance(dim, PrimVar):  # which is never negative, however the graph's variable was made
                self.symbols.setdefault(dim, PrimVar(dim.name, dim.dtype, None, True))
            for node in walk_distinct(dim):
                if isinstance(node, PrimVar):
                    self._symbol(node)
        return tuple(substitute(dim, self.symbols) for dim in ty.dims or ())

    def _buffer(self, var: Var) -> Buffer:
        ty = type_of(var)
        assert isinstance(ty, TensorType) and ty.dtype is not None
        made = decl_buffer(self._dims(ty), ty.dtype, self.merged.buffer_names.fresh(var.name_hint))
        self.buffers[var] = made
        return made

    def _inline(self, var: Var, value: Expr, is_result: bool) -> None:
        """Add the statements of one called loop function."""
        assert (
            isinstance(value, Call)
            and isinstance(value.args[0], GlobalVar)
            and isinstance(value.args[1], Tuple)
        )
        callee = self.mod[value.args[0]]
        assert isinstance(callee, PrimFunc) and isinstance(callee.body, SBlockRealize)
        self.operators += callee.attrs.get(OPERATORS, ())
        out = self._buffer(var)
        if not is_result:
            self.merged.allocated.append(out)
        given = value.args[1].fields
        actual = [self.buffers[arg] for arg in given if isinstance(arg, Var)]
        place = self._place_of_result(value)
        if place is None:
            actual.append(out)
        else:  # what a callee changes in place begins as a copy: the argument stays as it is
            copied = TensorPlace(actual[place]), TensorPlace(out)
            self.stmts.append(self.merged.copy(*copied, f"{out.name}_copy"))
            actual[place] = out
        scalars = [arg for arg in given if isinstance(arg, PrimExpr)]
        if len(value.args) > 2 and isinstance(value.args[2], ShapeExpr):
            scalars += value.args[2].values
        values = tuple(substitute(scalar, self.symbols) for scalar in scalars)
        places = [TensorPlace(buffer) for buffer in actual]
        self.stmts.append(self.merged.body(callee, places, values, value.span))

    def _place_of_result(self, call: Call) -> int | None:
        """Which of the tensors of an in-place call takes its result; None where the result has memory of its
        own."""
        if not is_op(call.op, "relax.call_tir_inplace"):
            return None
        [index] = call.attrs["inplace_indices"]
        if index < 0:
            return None
        given = call.args[1]
        assert isinstance(given, Tuple)
        return sum(isinstance(arg, Var) for arg in given.fields[:index])
