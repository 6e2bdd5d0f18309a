"""What a program states about its values, against what is known about them.

A binding may state the type of its variable, and a call of a loop function states the type of its result.
What is known may contradict that (a finding of the verifier), prove it, or leave it open. What is open is
checked when the program runs (`relax.transform.CheckStatedTypes`): nothing that reads memory may believe a
size that nobody checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from heddle.arith import Analyzer
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.type_relations import BaseCheck, base_check, erase_vars, symbolic_differs, symbolic_vars
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Expr, GlobalVar, Tuple
from heddle.ir.module import IRModule
from heddle.ir.op import is_op
from heddle.ir.types import AnyType, FuncType, PrimType, TupleType, Type
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.substitute import substitute
from heddle.support.frozen import frozen
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import PrimFunc

_LOOP_CALLS = (CALL_TIR, f"{CALL_TIR}_inplace")


@frozen
class Claim:
    """`known` is the type of what `who` names, `stated` the one that the program states or needs. `operand`
    is the number of the argument that it is about; None for a result."""

    who: str
    stated: Type
    known: Type
    operand: int | None = None

    def check(self, analyzer: Analyzer) -> BaseCheck:
        """Whether what is known proves, contradicts or leaves open what is stated."""
        return base_check(self.stated, self.known, analyzer)

    def __str__(self) -> str:
        return f"{self.who}: expected {self.stated}, got {self.known}"


def can_be_checked(ty: Type) -> bool:
    """Whether a value can be matched against a type when the program runs. Functions do not tell theirs."""
    if isinstance(ty, TupleType):
        return all(can_be_checked(item) for item in ty.fields)
    return not isinstance(ty, FuncType)


def condition_problem(ty: Type, analyzer: Analyzer) -> str | None:
    """Why no value of a type is a condition, or None: conditions are scalars, or tensors of one element, of
    bools or integers."""
    if isinstance(ty, AnyType):
        return None
    if not isinstance(ty, (TensorType, PrimType)):
        return f"a condition must be a tensor or a scalar, got {ty}"
    if ty.dtype is not None and not (ty.dtype.is_int or ty.dtype.is_bool):
        return f"a condition must have a bool or integer dtype, got {ty.dtype}"
    if isinstance(ty, TensorType) and ty.dims is not None:
        number: PrimExpr = constant(1, "int64")
        for dim in ty.dims:
            number = number * dim
        if symbolic_differs(number, constant(1, "int64"), analyzer):
            return f"a condition must have one element, got {ty}"
    return None


def loop_call_problem(call: Call, mod: IRModule) -> str | None:
    """Why a loop function of the module cannot be called with that many tensors and scalars, or None."""
    func = _callee(call, mod)
    if func is None or _scalars(call) is None:
        return None
    count = len(_tensors(call)) + len(_scalars(call) or ())
    if count == len(func.params):
        return None
    return f"{_name(call)} takes {len(func.params)} arguments with its results, got {count}"


def loop_call_claims(call: Call, mod: IRModule) -> Iterator[Claim]:
    """What a call of a loop function of the module needs of its operands, and what the function makes of its
    results against what the call states. Nothing for other calls, and for parameters without a buffer."""
    func = _callee(call, mod)
    if func is None:
        return
    given, operands, name = _tensors(call), len(operands_of(call)), _name(call)
    mapping = _sizes(func, given, _scalars(call) or ())
    for number, (param, ty) in enumerate(zip(func.params, given, strict=False)):
        expected = _expected(func, param, mapping)
        if expected is not None and number < operands:
            yield Claim(f"argument {number} of {name}", expected, ty, number)
        elif expected is not None:
            yield Claim(f"result of {name}", expected, ty)
    for ty, place in zip(_results(call), call.attrs.get("inplace_indices") or (), strict=False):
        if 0 <= place < operands:
            yield Claim(f"result of {name}", ty, given[place], place)


def _callee(call: Call, mod: IRModule) -> PrimFunc | None:
    """The loop function that `call_tir` or `call_tir_inplace` calls."""
    if not any(is_op(call.op, name) for name in _LOOP_CALLS):
        return None
    func = mod.functions.get(call.args[0]) if isinstance(call.args[0], GlobalVar) else None
    if not isinstance(func, PrimFunc) or CALLING_CONV in func.attrs:  # a kernel unpacks its arguments itself
        return None
    return func if isinstance(call.args[1], Tuple) else None


def operands_of(call: Call) -> tuple[Expr, ...]:
    """The tensors that a call gives to a loop function, its second argument; none for other calls."""
    second = call.args[1] if len(call.args) > 1 else None
    return second.fields if isinstance(second, Tuple) else ()


def _name(call: Call) -> str:
    return str(getattr(call.args[0], "name_hint", call.args[0]))


def _scalars(call: Call) -> tuple[PrimExpr, ...] | None:
    """The scalars that a call gives to a loop function; None where they are one variable."""
    given = call.args[2] if len(call.args) > 2 else ShapeExpr(())
    return given.values if isinstance(given, ShapeExpr) else None


def _results(call: Call) -> tuple[Type, ...]:
    ty = type_of(call)
    return ty.fields if isinstance(ty, TupleType) else (ty,)


def _tensors(call: Call) -> list[Type]:
    """The types of the tensors that a loop function gets: operands, then the results that are fresh."""
    results = _results(call)
    places = call.attrs.get("inplace_indices") or (-1,) * len(results)
    fresh = [ty for ty, place in zip(results, places, strict=False) if place < 0]
    return [*(type_of(arg) for arg in operands_of(call)), *fresh]


def _sizes(func: PrimFunc, given: list[Type], scalars: tuple[PrimExpr, ...]) -> dict[Var, PrimExpr]:
    """What the symbolic dimensions of a loop function are in a call: each is that of the first tensor that
    has it alone."""
    mapping: dict[Var, PrimExpr] = dict(zip(func.params[len(given) :], scalars, strict=False))
    for param, ty in zip(func.params, given, strict=False):
        buffer = func.buffer_map.get(param)
        if buffer is None or not isinstance(ty, TensorType) or ty.dims is None:
            continue
        for dim, got in zip(buffer.shape, ty.dims, strict=False):
            if isinstance(dim, Var):
                mapping.setdefault(dim, got)
    return mapping


def _expected(func: PrimFunc, param: Var, mapping: dict[Var, PrimExpr]) -> Type | None:
    """The type that a loop function has for a tensor, in terms of the caller's sizes."""
    buffer = func.buffer_map.get(param)
    if buffer is None:
        return None
    own = TensorType(buffer.shape, buffer.dtype)
    unknown = [var for var in symbolic_vars(own) if var not in mapping]
    expected: Type = substitute(erase_vars(own, unknown), mapping)
    return expected
