"""Convert Relax graphs of operators to Relay programs, for importers that must return Relay.

    def main(x: R.Tensor((n, 3)), w: R.Tensor((2, 3))):
        lv = R.permute_dims(w, axes=[1, 0])
        lv1 = R.matmul(x, lv)
        return R.nn.relu(lv1)

becomes

    def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(2, 3), float32]) {
      nn.relu(nn.dense(%x, %w)) }

A call becomes one of a Relay operator whose record says the same: the operator that is found is expanded,
and what comes out is compared with the call. `relay_forms` has the calls that are several operators in Relay.
An operator without a name there is called by the name that graphs have for it. A symbolic dimension is `?`; a
size that a call needs is read from a tensor.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr
from heddle.graph.rewriter import is_call
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import children, replace
from heddle.ir.op import Op
from heddle.ir.structural import structural_digest
from heddle.ir.types import Type
from heddle.lower.codes import L0306
from heddle.lower.normal_form import graph_functions
from heddle.lower.relay_forms import FORMS
from heddle.lower.relay_operators import as_relay_call
from heddle.lower.relay_outline import kept_functions, speaks, with_parts_outlined
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.relay.builders import const
from heddle.relay.expand import without_symbols
from heddle.relay.op import relay_call
from heddle.relay.typed import infer_module
from heddle.support.diagnostics import UsageError
from heddle.support.span import at


def to_relay(mod: IRModule) -> IRModule:
    """The module with its graph functions as Relay functions, which have types; other functions stay.

    What Relay has no words for, loops that collect rows and sequences, stays in functions of graphs that the
    program calls.

    Raises: UsageError L0306 where that is not enough: tensors of unknown rank as inputs or results, say.
    """
    kept = kept_functions(mod)
    for var in kept:
        func: Any = mod[var]
        if "global_symbol" in func.attrs:
            raise UsageError(
                L0306,
                f"the inputs or results of {var.name_hint!r} have types that Relay lacks",
                span=func.span,
            )
    mod, kept = with_parts_outlined(mod, kept)
    functions: dict[Any, Any] = dict(mod.functions.items())
    for var, _ in graph_functions(mod):
        if var in kept:
            continue
        maker = _Maker()
        made = maker.function(mod[var])
        while maker.missing:
            mod, kept = with_parts_outlined(mod, kept, maker.missing)
            maker = _Maker()
            made = maker.function(mod[var])
        functions = {**dict(mod.functions.items()), **functions, var: made}
    return infer_module(mod.with_functions(functions))


class _Maker:
    """Makes one function. `exprs` has what stands for each variable. `sizes` has, by the digest of its
    expression, where a size that is no number is found: a tensor and an axis, or the number itself."""

    def __init__(self) -> None:
        self.exprs: dict[Var, Expr] = {}
        self._values: dict[Var, Expr] = {}
        self.missing: list[Call] = []
        """Calls without words. What is made is of no use then."""
        self.sizes: dict[bytes, tuple[Expr, int] | Expr] = {}

    def function(self, func: Function) -> Function:
        """The function in Relay."""
        params = []
        for param in func.params:
            made = Var(param.name_hint, relay_type(type_of(param), param), dialect="relay", span=param.span)
            self.bound(param, self.tied(made, type_of(param)))
            params.append(made)
        body = self.sequence(func.body)
        return Function(tuple(params), body, dialect="relay", span=func.span)

    def bound(self, var: Var, expr: Expr) -> None:
        """Note what stands for a variable, and the sizes that it tells."""
        self.exprs[var] = expr
        ty = type_of(var)
        if isinstance(ty, TensorType):
            for axis, dim in enumerate(ty.dims or ()):
                if not isinstance(dim, IntImm):
                    self.sizes.setdefault(structural_digest(dim), (expr, axis))

    def tied(self, expr: Expr, ty: Any) -> Expr:
        """An expression whose type does not tell that some of its sizes are those of other tensors, with a
        type that does: parameters of a function, and results of `dyn.`."""
        for axis, dim in enumerate(ty.dims or () if isinstance(ty, TensorType) else ()):
            known = None if isinstance(dim, IntImm) else self.sizes.get(structural_digest(dim))
            if isinstance(known, tuple):
                other, place = known
                ends = {"lhs_begin": axis, "lhs_end": axis + 1, "rhs_begin": place, "rhs_end": place + 1}
                expr = relay_call("reshape_like", (expr, other), ends)
        return expr

    def sequence(self, sequence: Any) -> Expr:
        """What a sequence gives."""
        assert isinstance(sequence, SeqExpr)
        for binding in sequence.bindings():
            with at(binding.span):
                self.binding(binding)
        return self.leaf(sequence.body)

    def binding(self, binding: Binding) -> None:
        """Note what a variable is."""
        if isinstance(binding, MatchCast) and isinstance(binding.ty, ShapeType):
            self._named_sizes(binding.value, binding.ty)
            self._values[binding.var] = ShapeExpr(binding.ty.values or ())
        elif isinstance(binding, MatchCast):
            made = self.made_of(binding.value)
            if isinstance(made, Call) and isinstance(made.op, Op) and _tells_more(binding.ty, type_of(made)):
                self.missing.append(made)
            self.bound(binding.var, self.leaf(binding.value))
        elif isinstance(type_of(binding.var), ShapeType):
            self._values[binding.var] = binding.value
        else:
            self._values[binding.var] = binding.value
            made = self.value(binding.value)
            if self._is_part(binding.value):
                made = self.tied(made, type_of(binding.var))
            self.bound(binding.var, made)

    def _is_part(self, value: Expr) -> bool:
        """Whether a function gave a value, or the tuple that it is a field of."""
        whole = self.made_of(value.tuple_value) if isinstance(value, TupleGetItem) else value
        return isinstance(whole, Call) and isinstance(whole.op, GlobalVar)

    def _named_sizes(self, value: Expr, ty: ShapeType) -> None:
        """Note what the sizes of a type are: other sizes, or the elements of a tensor."""
        made = self.made_of(value)
        if isinstance(made, ShapeExpr):
            given: list[Expr | int] = [self.size(dim) for dim in made.values]
        elif isinstance(made, Call) and is_call(made, "relax.tensor_to_shape"):
            elements = relay_call("cast", (self.leaf(made.args[0]),), {"dtype": "int64"})
            count = len(ty.values or ())
            given = [relay_call("take", (elements, const(k, "int64")), {"axis": 0}) for k in range(count)]
        else:
            raise UsageError(L0306, f"Relay has no words for the sizes {ty}", span=value.span)
        for dim, size in zip(ty.values or (), given, strict=True):
            if not isinstance(dim, IntImm):
                self.sizes.setdefault(
                    structural_digest(dim), const(size, "int64") if isinstance(size, int) else size
                )

    def made_of(self, expr: Expr) -> Expr:
        """The graph's value that a variable is bound to; the expression itself where it is none."""
        return self._values.get(expr, expr) if isinstance(expr, Var) else expr

    def leaf(self, expr: Expr) -> Expr:
        """What stands for a variable, a constant or a tuple of such."""
        if isinstance(expr, Var) and expr in self.exprs:
            return self.exprs[expr]
        made = self.made_of(expr)
        if is_call(made, "relax.tensor_to_shape"):
            return relay_call("cast", (self.leaf(made.args[0]),), {"dtype": "int64"})  # type: ignore[attr-defined]
        expr = made if isinstance(made, ShapeExpr) else expr
        if isinstance(expr, Constant):
            return Constant(expr.data, span=expr.span)
        if isinstance(expr, ShapeExpr):
            return self.shape(expr.values)
        if isinstance(expr, Tuple):
            return Tuple(tuple(self.leaf(item) for item in expr.fields), span=expr.span)
        raise UsageError(L0306, f"Relay has no words for {type(expr).__name__} as a value", span=expr.span)

    def value(self, value: Expr) -> Expr:
        """A value of a binding."""
        if isinstance(value, If):
            outer = dict(self.sizes)
            made = []
            for branch in (value.true_branch, value.false_branch):
                made.append(self.sequence(branch))
                self.sizes = dict(outer)  # what a branch computes is not there outside
            return If(self.leaf(value.cond), made[0], made[1], span=value.span)
        if isinstance(value, TupleGetItem):
            whole = self.leaf(value.tuple_value)
            return whole.fields[value.index] if isinstance(whole, Tuple) else TupleGetItem(whole, value.index)
        if isinstance(value, Call) and isinstance(value.op, Op):
            return self._call(value)
        if isinstance(value, Call) and isinstance(value.op, GlobalVar):
            callee = GlobalVar(value.op.name_hint)
            return Call(callee, tuple(map(self.leaf, value.args)), span=value.span)
        return self.leaf(value)

    def _call(self, call: Call) -> Expr:
        assert isinstance(call.op, Op)
        form = FORMS.get(call.op.name)
        made = None if form is None else form(self, call)
        if isinstance(made, Call) and isinstance(made.op, Op) and made.op.name.startswith("dyn."):
            made = self.tied(made, type_of(call))
        if made is None:
            found = as_relay_call(call)
            if found is None:
                self.missing.append(call)
                return Var("missing", relay_type(type_of(call), call), dialect="relay")
            name, args, attrs = found
            made = relay_call(name, [self.leaf(arg) for arg in args], attrs)
        return replace(made, span=call.span) if made.span is None and call.span is not None else made

    # ---- sizes

    def size(self, dim: PrimExpr) -> int | Expr:
        """A size as a number, or as an int64 of rank 0 that the program computes. Raises: UsageError
        L0306."""
        if isinstance(dim, IntImm):
            return dim.value
        known = self.sizes.get(structural_digest(dim))
        if isinstance(known, Expr):
            return known
        if known is not None:
            tensor, axis = known
            shape = relay_call("shape_of", (tensor,), {"dtype": "int64"})
            return relay_call("take", (shape, const(axis, "int64")), {"axis": 0})
        name = _ARITHMETIC.get(type(dim).__name__)
        if name is None:
            raise UsageError(L0306, f"Relay has no words for the size {dim}")
        parts = [self.size(part) for part in children(dim) if isinstance(part, PrimExpr)]
        return relay_call(
            name, [const(part, "int64") if isinstance(part, int) else part for part in parts], {}
        )

    def shape(self, dims: Any) -> Expr:
        """Sizes as an int64 vector that the program computes."""
        parts: list[Expr] = []
        for dim in dims:
            size = self.size(dim)
            if isinstance(size, int):
                parts.append(const([size], "int64"))
            else:
                parts.append(relay_call("reshape", (size,), {"newshape": [1]}))
        return relay_call("concatenate", (Tuple(tuple(parts)),), {"axis": 0}) if len(parts) > 1 else parts[0]


def _tells_more(ty: Type, known: Type) -> bool:
    """Whether a tensor type has a number for a size, and another one none: nothing in Relay says that."""
    if not isinstance(ty, TensorType) or not isinstance(known, TensorType) or ty.dims is None:
        return False
    others = known.dims if known.dims is not None else (None,) * len(ty.dims)
    pairs = zip(ty.dims, others, strict=True)
    return any(isinstance(dim, IntImm) and not isinstance(other, IntImm) for dim, other in pairs)


_ARITHMETIC = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "FloorDiv": "floor_divide",
    "FloorMod": "floor_mod",
    "Max": "maximum",
    "Min": "minimum",
    "Select": "where",
    "EQ": "equal",
    "NE": "not_equal",
    "LT": "less",
    "LE": "less_equal",
    "GT": "greater",
    "GE": "greater_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Not": "logical_not",
}
"""What Relay calls the parts of a size."""


def relay_type(ty: Type, node: Expr) -> Type:
    """A type of graphs as one of Relay. Raises: UsageError L0306."""
    if not speaks(ty):
        raise UsageError(L0306, f"Relay has no words for a value of type {ty}", span=node.span)
    return without_symbols(ty)
