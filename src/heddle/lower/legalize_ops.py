"""LegalizeOps: lower operators to calls of loop functions.

    y = R.add(x, R.const(1.0))      →      y = R.call_tir(cls.add, (x, R.const(1.0)), out_ty=...)

Each operator's record says how: `lower` gives tensor expressions, `decompose` other operators (which are
legalised in turn), `opaque` leaves the call for later passes. Equal loop functions are shared. A tensor of
unknown shape but known rank is matched to fresh symbolic dimensions first; dimensions that an operator takes
as equal, but that are not known to be, are matched against each other.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.graph.infer import Inference, type_of
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.types import UNKNOWN_NDIM, ShapeExpr, ShapeType, TensorType
from heddle.graph.vdevices import common_device, on_device, tensor_types
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op_def import DISPATCHES, OpDef, op_def
from heddle.ir.pass_options import option
from heddle.ir.transform import Pass, PassContext
from heddle.lower.codes import L0102
from heddle.lower.equal_sizes import EqualSizes
from heddle.lower.lowering_memo import LoweringMemo, memo_key
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import PrimExpr, SizeVar
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen

OPERATORS = "operators"
"""Attribute of loop functions: the names of the operators that they compute, in order."""


@frozen(slots=False)
class LegalizeOps(Pass):
    """Requires the normal form. `record_operators` leaves the operator's name on each loop function, as the
    attribute `operators`. `dispatch` picks the operators whose record says so; by default all are legalised.
    """

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    record_operators: bool = False
    dispatch: str = option("", one_of=("", *DISPATCHES))

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        rewriter = _Legalizer(mod, self.dispatch)
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.run(func))
        return _with_operators(rewriter) if self.record_operators else rewriter.get()


def _with_operators(rewriter: _Legalizer) -> IRModule:
    """Functions are shared by what they compute, whatever operators they came from: the first names it."""
    mod = rewriter.get()
    table = {
        var: func.with_attr(OPERATORS, (rewriter.operators[var],)) if var in rewriter.operators else func
        for var, func in mod.functions.items()
    }
    return mod.with_functions(table)


class _Legalizer(BindingRewriter):
    def __init__(self, mod: IRModule, dispatch: str = "") -> None:
        super().__init__(mod)
        self._dispatch = dispatch
        self._known: dict[Var, Var] = {}
        self.operators: dict[GlobalVar, str] = {}
        self._memo = LoweringMemo()
        self._sizes = EqualSizes()

    def run(self, func: Function) -> Function:
        for param in func.params:
            self._sizes.of_type(type_of(param))
        return super().run(func)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        record = op_def(value.op) if isinstance(value, Call) else None
        if record is None or record.opaque is not None or self._dispatch not in ("", record.dispatch):
            return value
        assert isinstance(value, Call)
        args = tuple(self._with_shape(arg) for arg in value.args)
        call = (
            value
            if all(a is b for a, b in zip(args, value.args, strict=True))
            else Call(value.op, args, value.attrs, value.ty_args, span=value.span)
        )
        self._check_assumptions(record, call)
        if record.decompose is not None:
            decompose = record.decompose
            return self.run_inner(var, lambda: decompose(self, call))
        made = self._lowered(record, call)
        device = common_device(call.args, call.span) or next(iter(tensor_types(var.ty)), TensorType()).vdevice
        types = tuple(on_device(self._sizes.of_type(ty), device) for ty in made.ty_args)
        return replace(made, ty_args=types)

    def _lowered(self, record: OpDef, call: Call) -> Call:
        assert record.lower is not None
        lower = record.lower
        key = memo_key(call)
        known = self._memo.find(key, call)
        if known is not None:
            return known

        def build(*tensors: Any) -> Any:
            return lower(call.attrs, *tensors)

        name = record.name.rsplit(".", 1)[-1]
        lowered = self.call_te(build, *call.args, primfunc_name_hint=name)
        callee = lowered.args[0]
        assert isinstance(callee, GlobalVar)
        self.operators.setdefault(callee, record.name)
        self._memo.note(key, call, lowered)
        return lowered

    def _check_assumptions(self, record: OpDef, call: Call) -> None:
        """Check when it runs what the operator's rule assumes: loops would read past their tensors."""
        context = Inference(call, record.name, self.analyzer)
        record.infer(context)
        if context.assumptions:
            expected, got = zip(*context.assumptions, strict=True)
            self.match_cast(ShapeExpr(got), ShapeType(expected), f"{record.name.rsplit('.', 1)[-1]}_sizes")

    def _with_shape(self, arg: Expr) -> Expr:
        """The argument, matched to named dimensions where its shape is not known."""
        if isinstance(arg, Tuple):
            fields = tuple(self._with_shape(item) for item in arg.fields)
            return arg if all(a is b for a, b in zip(fields, arg.fields, strict=True)) else Tuple(fields)
        ty = type_of(arg)
        if isinstance(arg, ShapeExpr):
            return self._sizes.of_shape(arg)
        if isinstance(ty, ShapeType) and isinstance(arg, Var):
            return ShapeExpr(self._values(arg, ty), span=arg.span)
        if not isinstance(ty, TensorType) or ty.dims is not None:
            return arg
        dims = _new_dims(arg, ty.ndim)
        if isinstance(arg, Var) and arg in self._known:
            return self._known[arg]
        matched = self.match_cast(arg, TensorType(dims, ty.dtype, ty.vdevice), _hint(arg))
        if isinstance(arg, Var):
            self._known[arg] = matched
        return matched

    def _values(self, arg: Var, ty: ShapeType) -> tuple[PrimExpr, ...]:
        """What a shape holds, matched to named dimensions where its type does not say it."""
        if ty.values is None and arg not in self._known:
            self._known[arg] = self.match_cast(arg, ShapeType(_new_dims(arg, ty.ndim)), _hint(arg))
        found = ty if ty.values is not None else type_of(self._known[arg])
        assert isinstance(found, ShapeType) and found.values is not None
        return found.values


def _hint(arg: Expr) -> str:
    return str(getattr(arg, "name_hint", "t"))


def _new_dims(arg: Expr, ndim: int) -> tuple[PrimExpr, ...]:
    """Dimensions of their own for a value. Raises: IRTypeError L0102 where not even their number is known."""
    if ndim == UNKNOWN_NDIM:
        raise IRTypeError(L0102, f"the rank of {arg} is not known here", span=arg.span)
    return tuple(SizeVar(f"{_hint(arg)}_d{k}") for k in range(ndim))
