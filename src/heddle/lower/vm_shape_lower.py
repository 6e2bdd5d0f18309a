"""VMShapeLower: store symbolic dimensions in a shape heap, check types, and make shapes from the heap.

    def main(x: R.Tensor((n, 4))):                heap = alloc_shape_heap(2)
        y = match_cast(x, R.Tensor((m, 4)))  →    check_tensor_info(x, 2, "float32", "...")
        return f(R.shape([n * 2]))                match_shape(x, heap, 2, STORE, 0, EQUALS, 4, "...")
                                                  shape_func(heap)                  # heap[1] = heap[0] * 2
                                                  return f(make_shape(heap, 1, LOAD, 1))

Each distinct expression of the function has a slot. A dimension is stored when it first occurs. A generated
loop function computes the other expressions as soon as their variables are known; then they are compared.
Every check names the parameter, match_cast or return value that it belongs to. Of the model's own parameters
(those after `num_input`), only those with symbolic dimensions are checked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr, VarBinding
from heddle.graph.num_input import num_inputs
from heddle.graph.type_relations import is_base_of
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import (
    Call,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    If,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.structural import structural_digest
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import AnyType, FuncType, PrimType, TupleType, Type
from heddle.lower.normal_form import GRAPHS
from heddle.lower.origin import text_of_check
from heddle.lower.size_checks import divisors_are_not_zero, products_fit
from heddle.lower.symbolic_dims import dims_of_type, symbolic_exprs, variables_read, without_matched_dims
from heddle.prim.intrinsics import reinterpret
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import cast
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.runtime.native.abi import MakeCode, MatchCode
from heddle.support.frozen import frozen
from heddle.support.span import at
from heddle.tir.nodes import BufferLoad, BufferStore, PrimFunc, Stmt, decl_buffer, seq


@frozen(slots=False)
class VMShapeLower(Pass):
    """Requires: no dataflow blocks. Establishes: no symbolic dimensions in values. `emit_err_ctx=False`
    leaves the texts of checks empty."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    emit_err_ctx: bool = True

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        builder = _ShapeLowerer(mod, self.emit_err_ctx)
        for var, func in self.functions(mod):
            builder.update_func(var, builder.lower(func))
        return builder.get()


@dataclass(slots=True)
class _Slots:
    """The heap of one function: expressions and where they lie."""

    numbers: dict[Any, int] = field(default_factory=dict)
    exprs: list[PrimExpr] = field(default_factory=list)
    variables: list[tuple[int, ...]] = field(default_factory=list)
    """By expression, the slots of its variables; a variable itself has none."""
    readers: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By variable, the expressions that have it."""

    def of(self, expr: PrimExpr) -> int:
        key = expr if isinstance(expr, PrimVar) else structural_digest(expr)
        if key not in self.numbers:
            self.numbers[key] = len(self.exprs)
            self.exprs.append(expr)
        return self.numbers[key]

    def index_new(self) -> range:
        """Note the variables of expressions that came since the last time, and say which these are."""
        begin = len(self.variables)
        while len(self.variables) < len(self.exprs):
            slot, expr = len(self.variables), self.exprs[len(self.variables)]
            found = () if isinstance(expr, PrimVar) else tuple(self.of(var) for var in free_vars(expr))
            self.variables.append(found)
            for var in found:
                self.readers[var].append(slot)
        return range(begin, len(self.variables))


@frozen
class _LateMatch:
    """A value some of whose sizes are expressions of variables that were not known when it was met."""

    value: Expr
    dims: tuple[PrimExpr, ...]
    context: str
    is_scalar: bool


class _ShapeLowerer(BlockBuilder):
    _func: Function

    def __init__(self, mod: IRModule, emit_err_ctx: bool) -> None:
        super().__init__(mod)
        self._emit_err_ctx = emit_err_ctx
        self._slots = _Slots()
        self._stored: set[int] = set()
        self._waiting: set[int] = set()  # expressions that may have become known
        self._late: list[_LateMatch] = []
        self._heap: Expr = _no_heap()
        self._shapes: dict[tuple[int, ...], Var] = {}
        self._compared: set[tuple[tuple[int, int], tuple[int, int]]] = set()
        self._read: frozenset[Var] = frozenset()

    # ---- functions

    def lower(self, func: Function) -> Function:
        self._slots, self._stored, self._late, self._heap = _Slots(), set(), [], _no_heap()
        self._waiting, self._func = set(), func
        self._shapes, self._compared, self._read = {}, set(), variables_read(func.body)
        for expr in symbolic_exprs(func):
            self._slots.of(expr)
        with self.scope() as scope:
            with at(func.span):
                self._make_heap()
                for index, param in enumerate(func.params):
                    ty = type_of(param)
                    if index < num_inputs(func) or dims_of_type(ty):  # weights are what they were
                        with at(param.span):
                            self._check(param, ty, self._param_context(index, param))
                self._compute_known()
                self._match_late()
            self._bindings(func.body)
            with at(func.span):
                result = self._leaf(func.body.body)  # type: ignore[attr-defined]
                if func.ret_ty is not None and not is_base_of(func.ret_ty, type_of(func.body.body)):  # type: ignore[attr-defined]
                    self._check(result, func.ret_ty, self._context("the result", "return", func.ret_ty))
            scope.close_block()
        body = SeqExpr(tuple(scope.blocks), result, type_of(result), span=func.body.span)
        return without_matched_dims(replace(func, body=body, ty=None), func)

    def _make_heap(self) -> None:
        if not self._slots.exprs:
            return
        args = Tuple((constant(len(self._slots.exprs), "int64"),))
        op = Op.get("relax.call_builtin_with_ctx")
        call = Call(
            op,
            (ExternFunc("vm.builtin.alloc_shape_heap"), args),
            attrs_of({}),
            (TensorType(None, None, None, 1),),
        )
        self._heap = self.bind(self.value(call), "shape_heap")

    def _context(self, what: str, place: str, ty: Type) -> str:
        return text_of_check(self._func, what, place, ty) if self._emit_err_ctx else ""

    def _param_context(self, index: int, param: Var) -> str:
        name = param.name_hint
        return self._context(f"parameter {name!r}", f"param[{index}], param={name}", type_of(param))

    # ---- checks

    def _packed(self, name: str, *args: Any) -> None:
        values = tuple(self._argument(arg) for arg in args)
        call = Call(ExternFunc(f"vm.builtin.{name}"), values, attrs_of({}), (TupleType(()),))
        self.add(VarBinding(Var("_", TupleType(())), self.value(call)))

    def _argument(self, arg: Any) -> Expr:
        if isinstance(arg, Expr):
            return arg
        return StringImm(arg) if isinstance(arg, str) else constant(int(arg), "int64")

    def _check(self, value: Expr, ty: Type, context: str) -> None:
        """Emit the checks of a value against a type; new dimensions are stored on the way."""
        if isinstance(ty, TensorType):
            dtype = () if ty.dtype is None else (DataTypeImm(ty.dtype),)
            self._packed("check_tensor_info", value, ty.ndim, *dtype, context)
            if ty.dims is not None:
                self._match(value, ty.dims, context)
        elif isinstance(ty, ShapeType):
            self._packed("check_shape_info", value, ty.ndim, context)
            if ty.values is not None:
                self._match(value, ty.values, context)
        elif isinstance(ty, PrimType):
            self._packed("check_prim_value_info", value, DataTypeImm(ty.dtype), context)
            if ty.value is not None:
                self._match(value, (ty.value,), context, is_scalar=True)
        elif isinstance(ty, TupleType):
            self._packed("check_tuple_info", value, len(ty.fields), context)
            for index, item in enumerate(ty.fields):
                if not isinstance(item, AnyType):
                    part = self.bind(TupleGetItem(value, index, item), "item")
                    self._check(part, item, context)
        elif isinstance(ty, FuncType):
            self._packed("check_func_info", value, context)

    def _match(self, value: Expr, dims: tuple[PrimExpr, ...], context: str, is_scalar: bool = False) -> None:
        """Store what is new and compare what is known. The rest is compared once its variables are."""
        self._compute_known()
        late: list[PrimExpr] = []
        codes = [part for dim in dims for part in self._match_code(dim, late)]
        if not (is_scalar and late):
            self._emit_match(value, codes, context, is_scalar)
        if late:
            self._late.append(_LateMatch(value, dims, context, is_scalar))
        self._compute_known()
        self._match_late()

    def _emit_match(self, value: Expr, codes: list[int], context: str, is_scalar: bool) -> None:
        if is_scalar:
            self._packed("match_prim_value", value, self._heap, *codes, context)
        else:
            self._packed("match_shape", value, self._heap, len(codes) // 2, *codes, context)

    def _match_late(self) -> None:
        waiting, self._late = self._late, []
        for item in waiting:
            if all(isinstance(dim, IntImm) or self._slots.of(dim) in self._stored for dim in item.dims):
                codes = [part for dim in item.dims for part in self._match_code(dim, [])]
                self._emit_match(item.value, codes, item.context, item.is_scalar)
            else:
                self._late.append(item)

    def _match_code(self, dim: PrimExpr, late: list[PrimExpr]) -> tuple[int, int]:
        if isinstance(dim, IntImm):
            return MatchCode.EQUALS_IMM, dim.value
        slot = self._slots.of(dim)
        if slot in self._stored:
            return MatchCode.EQUALS_HEAP, slot
        if isinstance(dim, PrimVar):
            self._stored.add(slot)
            self._waiting.update(self._slots.readers[slot])
            return MatchCode.STORE, slot
        late.append(dim)
        return MatchCode.NOTHING, 0

    def _compute_known(self) -> None:
        """Compute the expressions whose variables are all stored by now: those that are new, or have a
        variable that is."""
        slots, stored = self._slots, self._stored
        waiting, self._waiting = self._waiting.union(slots.index_new()), set()
        ready = [
            (slot, slots.exprs[slot])
            for slot in sorted(waiting)
            if slot not in stored
            and not isinstance(slots.exprs[slot], PrimVar)
            and stored.issuperset(slots.variables[slot])
        ]
        if not ready:
            return
        func = self._shape_func(ready)
        var = self.add_func(func, "shape_func")
        call = Call(var, (self._heap,), attrs_of({}), (TupleType(()),), TupleType(()))
        self.add(VarBinding(Var("_", TupleType(())), call))
        self._stored.update(slot for slot, _ in ready)

    def _shape_func(self, ready: list[tuple[int, PrimExpr]]) -> PrimFunc:
        """heap[k] = expression over heap[i]"""
        heap = decl_buffer((constant(len(self._slots.exprs), "int64"),), "int64", "H")
        loads = {
            var: BufferLoad(heap, (constant(self._slots.of(var), "int64"),))
            for _, expr in ready
            for var in free_vars(expr)
        }
        stores: list[Stmt] = []
        for slot, expr in ready:
            stores.extend(divisors_are_not_zero(expr, loads))
            stores.extend(products_fit(expr, loads))
            stores.append(BufferStore(heap, _as_bits(substitute(expr, loads)), (constant(slot, "int64"),)))
        param = PrimVar("H_handle", "handle")  # type: ignore[arg-type]
        attrs = attrs_of({"tir.is_host_func": True, "tir.is_scheduled": True})
        return PrimFunc((param,), seq(*stores), None, {param: heap}, attrs)  # type: ignore[arg-type]

    # ---- bindings

    def _bindings(self, body: Any) -> None:
        for binding in body.bindings():
            with at(binding.span):
                self._binding(binding)

    def _binding(self, binding: Binding) -> None:
        value = binding.value
        if isinstance(binding, MatchCast):
            context = self._context(repr(binding.var.name_hint), "match_cast", binding.ty)
            if isinstance(value, ShapeExpr) and isinstance(binding.ty, ShapeType):
                self._cast_of_sizes(value, binding.ty, context)
            else:
                self._check(self._leaf(value), binding.ty, context)
            self._compute_known()
            if binding.var in self._read or not isinstance(value, ShapeExpr):
                self.add(VarBinding(binding.var, self._leaf(value)))
        elif isinstance(value, If):
            branches = [self._branch(value.true_branch), self._branch(value.false_branch)]
            made = If(self._leaf(value.cond), branches[0], branches[1], value.ty, span=value.span)
            self.add(VarBinding(binding.var, made))
        else:
            self.add(VarBinding(binding.var, self._lowered(value)))

    def _cast_of_sizes(self, value: ShapeExpr, ty: ShapeType, context: str) -> None:
        """Check sizes that the function computes itself: those that the type writes in another way, once."""
        if ty.ndim not in (-1, len(value)):
            self._check(self._leaf(value), ty, context)
        elif ty.values is not None:
            pairs = [
                (self._make_code(size), self._make_code(wanted))
                for size, wanted in zip(value.values, ty.values, strict=True)
            ]
            if not all(map(self._are_known_equal, pairs)):
                self._match(self._leaf(value), ty.values, context)
                self._compared.update(pair for pair in pairs if all(map(self._is_known, pair)))

    def _are_known_equal(self, pair: tuple[tuple[int, int], tuple[int, int]]) -> bool:
        size, wanted = pair
        return self._is_known(wanted) and (size == wanted or pair in self._compared)

    def _is_known(self, code: tuple[int, int]) -> bool:
        return code[0] == MakeCode.USE_IMM or code[1] in self._stored

    def _branch(self, branch: Any) -> SeqExpr:
        """What a branch stores is not known after it."""
        before, late = set(self._stored), list(self._late)
        waiting, num_indexed = set(self._waiting), len(self._slots.variables)
        shapes, compared = dict(self._shapes), set(self._compared)
        with self.scope() as scope:
            self._bindings(branch)
            result = self._leaf(branch.body)
            scope.close_block()
        self._stored, self._late, self._shapes, self._compared = before, late, shapes, compared
        self._waiting = waiting.union(range(num_indexed, len(self._slots.variables)))
        return SeqExpr(tuple(scope.blocks), result, type_of(result), span=branch.span)

    def _lowered(self, value: Expr) -> Expr:
        """A value with its shapes and symbolic scalars made from the heap."""
        if isinstance(value, Call):
            if value.op == Op("relax.null_value", span=None):
                return value
            args = tuple(self._leaf(arg) for arg in value.args)
            return replace(value, args=args, ty=type_of(value))
        if isinstance(value, Tuple):
            return replace(value, fields=tuple(self._leaf(item) for item in value.fields))
        return self._leaf(value)

    def _leaf(self, expr: Expr) -> Expr:
        if isinstance(expr, Tuple):
            return replace(expr, fields=tuple(self._leaf(item) for item in expr.fields), ty=type_of(expr))
        if isinstance(expr, ShapeExpr) and not all(isinstance(dim, IntImm) for dim in expr.values):
            codes = (len(expr), *(part for dim in expr.values for part in self._make_code(dim)))
            if codes not in self._shapes:
                self._shapes[codes] = self._made("make_shape", codes, ShapeType(None, len(expr)), "shape")
            return self._shapes[codes]
        if isinstance(expr, PrimExpr) and free_vars(expr):
            return self._made_scalar(expr)
        return expr

    def _made_scalar(self, expr: PrimExpr) -> Var:
        """The heap holds a bool or float as bits."""
        ty = PrimType(expr.dtype)
        if expr.dtype.is_int:
            return self._made("make_prim_value", self._make_code(expr), ty, "value")
        bits = self._made("make_prim_value", self._make_code(expr), PrimType(DataType("int64")), "bits")
        args = (bits, DataTypeImm(expr.dtype))
        call = Call(ExternFunc("vm.builtin.prim_value_of_bits"), args, attrs_of({}), (ty,))
        return self.bind(self.value(call), "value")

    def _made(self, name: str, codes: tuple[int, ...], ty: Type, hint: str) -> Var:
        args = (self._heap, *(constant(int(code), "int64") for code in codes))
        return self.bind(self.value(Call(ExternFunc(f"vm.builtin.{name}"), args, attrs_of({}), (ty,))), hint)

    def _make_code(self, dim: PrimExpr) -> tuple[int, int]:
        if isinstance(dim, IntImm):
            return MakeCode.USE_IMM, dim.value
        return MakeCode.LOAD, self._slots.of(dim)


def _no_heap() -> Expr:
    """The heap of a function without symbolic dimensions."""
    return Call(Op.get("relax.null_value"), (), ty=AnyType())


def _as_bits(expr: PrimExpr) -> PrimExpr:
    """A scalar as an element of the heap: integers and bools as numbers, floats as the bits of a float64."""
    if expr.dtype.is_float:
        return reinterpret("int64", cast("float64", expr))
    return cast("int64", expr)
