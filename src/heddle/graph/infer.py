"""Types of expressions: what each kind of expression and each operator gives.

Inference is local: arguments have types already (the normal form sees to it). Operators bring their rule in
their record (`OpDef.infer`), which gets an `Inference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from heddle.arith import Analyzer
from heddle.arith.broadcast import stretches_to
from heddle.graph.attr_kinds import check_kinds
from heddle.graph.codes import R0102, R0201, R0202, R0203, R0204, R0205, R0206
from heddle.graph.nodes import MatchCast, SeqExpr
from heddle.graph.type_relations import (
    erase_vars,
    match_dims,
    symbolic_differs,
    symbolic_vars,
    type_lca,
)
from heddle.graph.types import ShapeExpr, TensorType
from heddle.graph.vdevices import common_device, on_device
from heddle.ir.attrs import Attrs
from heddle.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    StringImm,
    Tuple,
    TupleGetItem,
)
from heddle.ir.module import IRModule
from heddle.ir.op_def import OpDef, op_def
from heddle.ir.types import AnyType, FuncType, TupleType, Type
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import maximum, minimum
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Code, HeddleError, IRTypeError


@dataclass(slots=True)
class Inference:
    """The context of an operator's type rule for one call, with checks that rules share.

    `assumptions` are pairs of dimensions that the rule takes as equal although this is not proved. Whoever
    generates code for the call must check them at run time.
    """

    call: Call
    name: str
    analyzer: Analyzer
    assumptions: list[tuple[PrimExpr, PrimExpr]] = field(default_factory=list)
    attrs: Attrs = field(init=False)
    args: tuple[Expr, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.attrs, self.args = self.call.attrs, self.call.args

    def fail(self, code: Code, message: str, help: str | None = None) -> NoReturn:
        """Raises: IRTypeError of the given code, at the place of the call."""
        raise IRTypeError(code, f"{self.name}: {message}", span=self.call.span, help=help)

    def shape_error(self, message: str) -> NoReturn:
        """Raises: IRTypeError R0203, shapes that do not fit."""
        self.fail(R0203, message)

    def attr_error(self, message: str) -> NoReturn:
        """Raises: IRTypeError R0205, an attribute with a wrong value."""
        self.fail(R0205, message)

    def type_of(self, index: int) -> Type:
        """The type of an argument."""
        return type_of(self.args[index])

    def tensor(self, index: int) -> TensorType:
        """The type of an argument that must be a tensor."""
        ty = self.type_of(index)
        if not isinstance(ty, TensorType):
            self.fail(R0202, f"argument {index} must be a tensor, got {ty}")
        return ty

    def tensors(self) -> list[TensorType]:
        """The types of all arguments, which must be tensors."""
        return [self.tensor(index) for index in range(len(self.args))]

    def same_dtype(self, *types: TensorType) -> DataType | None:
        """The dtype that all tensors have; None while one is unknown."""
        known = [ty.dtype for ty in types if ty.dtype is not None]
        for dtype in known[1:]:
            if dtype != known[0]:
                self.fail(
                    R0204, f"element types differ: {known[0]} and {dtype}", "convert one of them with astype"
                )
        return known[0] if len(known) == len(types) else None

    def axis(self, axis: int, ndim: int) -> int:
        """An axis as a number from 0."""
        if not -ndim <= axis < ndim:
            self.attr_error(f"axis {axis} is out of range for a tensor of {ndim} dimensions")
        return axis + ndim if axis < 0 else axis

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two sizes are proved to be equal."""
        return self.analyzer.can_prove_equal(a, b)

    def surely_differ(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two dimensions are different for every value of the symbolic ones."""
        return symbolic_differs(a, b, self.analyzer)

    def require_equal(self, a: PrimExpr, b: PrimExpr, what: str) -> None:
        """Fail if two dimensions are provably different. If this is not known, add a run-time check."""
        if self.surely_differ(a, b):
            self.shape_error(f"{what} differ: expected {a}, got {b}")
        self.assume_equal(a, b)

    def require_at_least(self, dim: PrimExpr, least: int, message: str) -> None:
        """Fail with `message` if a dimension is provably smaller. If this is not known, add a run-time
        check.
        """
        if isinstance(dim, IntImm):
            if dim.value < least:
                self.shape_error(message)
            return
        self.assume_equal(maximum(dim, constant(least, dim.dtype)), dim)

    def require_elements(
        self,
        size: PrimExpr,
        readers: Sequence[PrimExpr],
        what: str,
        message: str = "{} has no elements to be read",
    ) -> None:
        """Fail where an axis without elements is read by a tensor, of shape `readers`, that has some. The
        message has `what` in its braces."""
        if isinstance(size, IntImm) and size.value > 0:
            return
        number: PrimExpr = constant(1, "int64")
        for dim in readers:
            number = number * dim
        needed = self.analyzer.simplify(minimum(number, constant(1, "int64")))
        if isinstance(size, IntImm) and isinstance(needed, IntImm) and needed.value > size.value:
            self.shape_error(message.format(what))
        self.assume_equal(maximum(size, needed), size)

    def require_multiple(self, dim: PrimExpr, factor: int, message: str) -> None:
        """Fail with `message` where a dimension is no multiple; one that is not known is checked when it
        runs.
        """
        if isinstance(dim, IntImm):
            if dim.value % factor:
                self.shape_error(message)
            return
        self.assume_equal(dim // factor * factor, dim)

    def assume_stretches(self, dim: PrimExpr, size: PrimExpr) -> None:
        """Go on as if a dimension were 1 or `size`; where that is not known it is checked when it runs."""
        pair = stretches_to(dim, size)
        if pair is not None:
            self.assume_equal(*pair)

    def assume_equal(self, a: PrimExpr, b: PrimExpr) -> None:
        """Go on as if two dimensions were equal; where that is not known it is checked when it runs."""
        if a is not b and not self.equal(a, b):
            self.assumptions.append((a, b))


def type_of(expr: Expr) -> Type:
    """Return the type of a typed expression. Raises: IRTypeError R0102 if it has none."""
    ty = getattr(expr, "ty", None)
    if ty is None:
        raise IRTypeError(R0102, f"{expr} has no type yet", span=expr.span)
    return ty  # type: ignore[no-any-return]


def tensor_dims(expr: Expr) -> tuple[PrimExpr, ...] | None:
    """Return the dimensions of a typed expression; None if it is no tensor or they are not known."""
    ty = type_of(expr)
    return tuple(ty.dims) if isinstance(ty, TensorType) and ty.dims is not None else None


def infer(expr: Expr, mod: IRModule | None = None, analyzer: Analyzer | None = None) -> Type:
    """Infer the type of an expression whose parts are typed."""
    analyzer = analyzer or Analyzer()
    if isinstance(expr, Constant):
        return TensorType(tuple(expr.data.shape), expr.data.dtype)
    if isinstance(expr, (PrimExpr, ShapeExpr)):
        return expr.ty
    if isinstance(expr, (StringImm, DataTypeImm)):
        return AnyType()
    if isinstance(expr, Tuple):
        return TupleType(tuple(type_of(item) for item in expr.fields))
    if isinstance(expr, TupleGetItem):
        return _infer_item(expr)
    if isinstance(expr, If):
        return type_lca(type_of(expr.true_branch), type_of(expr.false_branch), analyzer)
    if isinstance(expr, Function):
        return FuncType(
            tuple(type_of(p) for p in expr.params), expr.ret_ty or type_of(expr.body), expr.is_pure
        )
    if isinstance(expr, SeqExpr):
        return erase_vars(type_of(expr.body), _defined_inside(expr))
    if isinstance(expr, ExternFunc):
        return expr.ty or FuncType.opaque_func()
    if isinstance(expr, Call):
        return infer_call(expr, mod, analyzer)
    return type_of(expr)


def _infer_item(expr: TupleGetItem) -> Type:
    ty = type_of(expr.tuple_value)
    if isinstance(ty, AnyType):
        return ty
    if not isinstance(ty, TupleType):
        raise IRTypeError(R0202, f"only a tuple can be indexed, got {ty}", span=expr.span)
    if not 0 <= expr.index < len(ty.fields):
        raise IRTypeError(
            R0202, f"index {expr.index} is out of range for {len(ty.fields)} fields", span=expr.span
        )
    return ty.fields[expr.index]


def _defined_inside(expr: SeqExpr) -> set[PrimVar]:
    """Symbolic dimensions that a sequence's match_casts bind, so that its type cannot mention them outside.

    Function bodies are the exception (their scope is the function's), which `graph.normalize` handles.
    """
    casts = [binding for binding in expr.bindings() if isinstance(binding, MatchCast)]
    return {var for cast in casts for var in symbolic_vars(cast.ty)} - {
        var for cast in casts for var in symbolic_vars(type_of(cast.value))
    }


def _inferred(record: OpDef, call: Call, analyzer: Analyzer) -> Type:
    """What the rule of an operator gives. Where it fails, an attribute of another kind is why. Raises:
    IRTypeError."""
    try:
        found: Type = record.infer(Inference(call, record.name, analyzer))
    except HeddleError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        check_kinds(record.name, record.attrs, dict(call.attrs.items()), call.span)
        raise
    return found


def infer_call(call: Call, mod: IRModule | None, analyzer: Analyzer) -> Type:
    """Infer the type of a call of an operator or function."""
    record = op_def(call.op)
    if record is not None:
        inferred = _inferred(record, call, analyzer)
        if record.opaque is not None:
            return inferred
        return on_device(inferred, common_device(call.args, call.span))
    if isinstance(call.op, ExternFunc):
        return _extern_result(call)
    ty = getattr(call.op, "ty", None)
    if isinstance(call.op, GlobalVar) and ty is None and mod is not None and call.op in mod:
        ty = function_type(mod[call.op])
    if ty is None or isinstance(ty, AnyType):
        return AnyType()
    if not isinstance(ty, FuncType):
        raise IRTypeError(R0206, f"{call.op} of type {ty} cannot be called", span=call.span)
    if ty.params is None:
        return _extern_result(call) if call.ty_args else ty.ret
    return _apply(call, ty, analyzer)


def _extern_result(call: Call) -> Type:
    if not call.ty_args:
        return AnyType()
    return call.ty_args[0] if len(call.ty_args) == 1 else TupleType(call.ty_args)


def function_type(func: Any) -> Type:
    """Return the type of a function of a module: a graph function or a loop function."""
    if isinstance(func, Function):
        return func.ty or FuncType(
            tuple(type_of(p) for p in func.params), func.ret_ty or AnyType(), func.is_pure
        )
    return FuncType.on_memory()


def _apply(call: Call, ty: FuncType, analyzer: Analyzer) -> Type:
    """The result type with the callee's symbolic dimensions replaced by the arguments'."""
    params = ty.params or ()
    if len(params) != len(call.args):
        raise IRTypeError(
            R0201,
            f"{_callee_name(call.op)} takes {len(params)} arguments, got {len(call.args)}",
            span=call.span,
        )
    mapping: dict[PrimVar, PrimExpr] = {}
    for index, (param, arg) in enumerate(zip(params, call.args, strict=True)):
        problem = match_dims(param, type_of(arg), arg, mapping, analyzer)
        if problem:
            raise IRTypeError(
                R0202, f"argument {index} of {_callee_name(call.op)}: {problem}", span=call.span
            )
    from_callee = {var for param in params for var in symbolic_vars(param)}
    if isinstance(call.op, GlobalVar):  # a function inside this one may use its sizes
        from_callee |= set(symbolic_vars(ty.ret))
    from_callee -= set(mapping)
    return erase_vars(substitute(ty.ret, mapping), from_callee)


def _callee_name(op: Expr) -> str:
    for label in ("name_hint", "name", "global_symbol"):
        if hasattr(op, label):
            return str(getattr(op, label))
    return "the callee"
