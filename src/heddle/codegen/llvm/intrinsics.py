"""How calls of intrinsics become LLVM instructions: one table, name → emitter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.codegen.codes import G0101
from heddle.codegen.expressions import plain_int
from heddle.codegen.llvm.emit_expr import ExprEmitter, mangle
from heddle.codegen.llvm.types import element_type, register_type, splat
from heddle.ir.expr import StringImm
from heddle.prim.nodes import Call, IntImm, Max, Min, PrimExpr
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.tir.kernel_abi import PAYLOAD_OFFSET_BYTES, TENSOR_FIELDS, VALUE_SIZE_BYTES
from heddle.tir.nodes import BufferLoad

Emit = Callable[[Any, Call], str]
_SAME_NAME = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
    "nearbyint": "rint",
    "copysign": "copysign",
    "fma": "fma",
}
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def emit_call(emitter: Any, call: Call) -> str:
    """The operand of a call. Raises: UsageError G0101 for an intrinsic without machine form."""
    name = call.op.name.removeprefix("tir.")
    found = _TABLE.get(name)
    if found is None:
        raise UsageError(G0101, f"intrinsic {call.op.name!r} has no machine form", span=call.span)
    return found(emitter, call)


def _operands(emitter: ExprEmitter, call: Call) -> list[str]:
    return [emitter.emit(arg) for arg in call.args]


def _same_name(name: str) -> Emit:
    def emit(emitter: ExprEmitter, call: Call) -> str:
        return emitter.call_intrinsic(name, register_type(call.dtype), _operands(emitter, call))

    return emit


def _bitwise(name: str) -> Emit:
    def emit(emitter: ExprEmitter, call: Call) -> str:
        a, b = _operands(emitter, call)
        return emitter.out.value(f"{name} {register_type(call.dtype)} {a}, {b}")

    return emit


def _shift(emitter: ExprEmitter, call: Call) -> str:
    """Counts as great as the width, and negative ones, shift everything out; LLVM leaves them undefined."""
    left = call.op.name == "tir.shift_left"
    name = "shl" if left else "ashr" if call.dtype.is_signed else "lshr"
    ty, element, lanes = register_type(call.dtype), element_type(call.dtype.element), call.dtype.lanes
    value, count = _operands(emitter, call)
    known, width = plain_int(_argument(call, 1)), call.dtype.bits
    if known is not None and 0 <= known.value < width:
        return emitter.out.value(f"{name} {ty} {value}, {count}")
    if name == "ashr":
        most = splat(element, str(width - 1), lanes)
        return emitter.out.value(f"ashr {ty} {value}, {emitter.call_intrinsic('umin', ty, [count, most])}")
    bools = register_type(DataType("bool").with_lanes(lanes))
    fits = emitter.out.value(f"icmp ult {ty} {count}, {splat(element, str(width), lanes)}")
    shifted = emitter.out.value(f"{name} {ty} {value}, {count}")
    return emitter.out.value(f"select {bools} {fits}, {ty} {shifted}, {ty} zeroinitializer")


def _bitwise_not(emitter: ExprEmitter, call: Call) -> str:
    ones = splat(element_type(call.dtype.element), "-1", call.dtype.lanes)
    return emitter.out.value(f"xor {register_type(call.dtype)} {emitter.emit(call.args[0])}, {ones}")


def _isnan(emitter: ExprEmitter, call: Call) -> str:
    value = emitter.emit(call.args[0])
    return emitter.out.value(f"fcmp uno {_argument_type(call)} {value}, {value}")


def _compare_size(predicate: str) -> Emit:
    """|x| against infinity."""

    def emit(emitter: ExprEmitter, call: Call) -> str:
        dtype, ty = _argument(call).dtype, _argument_type(call)
        size = emitter.call_intrinsic("fabs", ty, _operands(emitter, call))
        infinity = "0xH7C00" if dtype.bits == 16 else "0x7FF0000000000000"
        return emitter.out.value(
            f"fcmp {predicate} {ty} {size}, {splat(element_type(dtype.element), infinity, dtype.lanes)}"
        )

    return emit


def _extreme(emitter: ExprEmitter, call: Call) -> str:
    """The first operand where it is NaN; else `max` or `min`, which give the second one if that is NaN."""
    a, b = _operands(emitter, call)
    ty, bools = register_type(call.dtype), register_type(DataType("bool").with_lanes(call.dtype.lanes))
    chosen = emitter.min_max(Max if call.op.name == "tir.fmaximum" else Min, a, b, call.dtype)
    is_nan = emitter.out.value(f"fcmp uno {ty} {a}, {a}")
    return emitter.out.value(f"select {bools} {is_nan}, {ty} {a}, {ty} {chosen}")


def _argument(call: Call, index: int = 0) -> PrimExpr:
    argument = call.args[index]
    assert isinstance(argument, PrimExpr)
    return argument


def _argument_type(call: Call, index: int = 0) -> str:
    return register_type(_argument(call, index).dtype)


def _popcount(emitter: ExprEmitter, call: Call) -> str:
    return emitter.call_intrinsic("ctpop", register_type(call.dtype), _operands(emitter, call))


def _ldexp(emitter: ExprEmitter, call: Call) -> str:
    types = [_argument_type(call), register_type(_argument(call, 1).dtype)]
    name = ".".join(("llvm.ldexp", *map(mangle, types)))
    return emitter.call_overloaded(name, types[0], list(zip(types, _operands(emitter, call), strict=True)))


def _reinterpret(emitter: ExprEmitter, call: Call) -> str:
    source, value = _argument(call).dtype, emitter.emit(call.args[0])
    from_ty, to_ty = register_type(source), register_type(call.dtype)
    if from_ty == to_ty:
        return value
    if source.is_handle or call.dtype.is_handle:
        return emitter.convert(value, source, call.dtype)
    return emitter.out.value(f"bitcast {from_ty} {value} to {to_ty}")


def _likely(emitter: ExprEmitter, call: Call) -> str:
    return emitter.emit(call.args[0])


def _as_computed(emitter: ExprEmitter, call: Call) -> str:
    """A fixed value even where LLVM could choose one: what is checked is then what is used."""
    with emitter.value_arithmetic():
        operand = emitter.emit(call.args[0])
    return emitter.out.value(f"freeze {register_type(call.dtype)} {operand}")


def _undef(emitter: ExprEmitter, call: Call) -> str:
    return emitter.out.value(f"freeze {register_type(call.dtype)} poison")


def _any_lane(emitter: ExprEmitter, call: Call) -> str:
    lanes = _argument(call).dtype.lanes
    if lanes == 1:
        return emitter.emit(call.args[0])
    operand = (_argument_type(call), emitter.emit(call.args[0]))
    return emitter.call_overloaded(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [operand])


def _string(call: Call, index: int = 0) -> str:
    argument = call.args[index]
    assert isinstance(argument, StringImm)
    return argument.value


def _extern(emitter: ExprEmitter, call: Call) -> str:
    """A C function by name. Vectors go lane by lane."""
    name, args = _string(call), [arg for arg in call.args[1:] if isinstance(arg, PrimExpr)]
    if call.dtype.lanes > 1:
        return _extern_by_lane(emitter, call, name, args)
    result, types = register_type(call.dtype), [register_type(arg.dtype) for arg in args]
    callee = emitter.module.declare(name, result, types)
    operands = ", ".join(emitter.typed(arg) for arg in args)
    if result == "void":
        emitter.out.effect(f"call void {callee}({operands})")
        return ""
    return emitter.out.value(f"call {result} {callee}({operands})")


def _extern_by_lane(emitter: ExprEmitter, call: Call, name: str, args: list[PrimExpr]) -> str:
    element, vector = element_type(call.dtype.element), register_type(call.dtype)
    types = [element_type(arg.dtype.element) for arg in args]
    callee = emitter.module.declare(name, element, types)
    operands, result = [emitter.emit(arg) for arg in args], "poison"
    for lane in range(call.dtype.lanes):
        picked = [
            f"{ty} " + emitter.out.value(f"extractelement {register_type(arg.dtype)} {operand}, i64 {lane}")
            for ty, arg, operand in zip(types, args, operands, strict=True)
        ]
        value = emitter.out.value(f"call {element} {callee}({', '.join(picked)})")
        result = emitter.out.value(f"insertelement {vector} {result}, {element} {value}, i64 {lane}")
    return result


def _llvm_intrinsic(emitter: ExprEmitter, call: Call) -> str:
    args = [arg for arg in call.args[1:] if isinstance(arg, PrimExpr)]
    operands = [_llvm_operand(emitter, arg) for arg in args]
    result = register_type(call.dtype)
    if result == "void":
        callee = emitter.module.declare(_string(call), result, [ty for ty, _ in operands])
        emitter.out.effect(f"call void {callee}({', '.join(f'{ty} {value}' for ty, value in operands)})")
        return ""
    return emitter.call_overloaded(_string(call), result, operands)


def _llvm_operand(emitter: ExprEmitter, arg: PrimExpr) -> tuple[str, str]:
    """An operand under the type by which LLVM's intrinsics know it: bfloat16 is no integer to them."""
    ty, value = register_type(arg.dtype), emitter.emit(arg)
    if arg.dtype.code != "bfloat":
        return ty, value
    known = ty.replace("i16", "bfloat")
    return known, emitter.out.value(f"bitcast {ty} {value} to {known}")


def _checked_index(emitter: Any, call: Call) -> str:
    position: str = emitter.index_checks.emit(emitter, call, emitter.num_conditions)
    return position


def _address_of(emitter: Any, call: Call) -> str:
    load = call.args[0]
    assert isinstance(load, BufferLoad)
    address: str = emitter.address(load.buffer, emitter.flat_index(load.buffer, load.indices))
    return address


def _access_ptr(emitter: Any, call: Call) -> str:
    """data + offset elements of the dtype of the first argument."""
    dtype = _argument(call, 0).dtype
    data, offset = _argument(call, 1), _argument(call, 2)
    operand = emitter.convert(emitter.emit_index(offset), offset.dtype, DataType("int64"))
    step = dtype.element.itemsize
    scaled = emitter.out.value(f"mul i64 {operand}, {step}")
    result: str = emitter.out.value(f"getelementptr i8, ptr {emitter.emit(data)}, i64 {scaled}")
    return result


def _prefetch(emitter: ExprEmitter, call: Call) -> str:
    ends = (1, 3, 1)
    if any(not 0 <= _index(call, place) <= end for place, end in enumerate(ends, 1)):
        raise UsageError(G0101, f"prefetch: rw and kind are 0 or 1, locality 0 to 3: {call}", span=call.span)
    address, rw, locality, kind = _operands(emitter, call)
    callee = emitter.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    emitter.out.effect(f"call void {callee}(ptr {address}, i32 {rw}, i32 {locality}, i32 {kind})")
    return ""


def _assume(emitter: ExprEmitter, call: Call) -> str:
    callee = emitter.module.declare("llvm.assume", "void", ["i1"])
    emitter.out.effect(f"call void {callee}(i1 {emitter.emit(call.args[0])})")
    return ""


def _if_then_else(emitter: ExprEmitter, call: Call) -> str:
    return emitter.if_then_else(call)


def _byte_load(emitter: ExprEmitter, base: str, offset: int, ty: str, align: int) -> str:
    address = emitter.out.value(f"getelementptr inbounds i8, ptr {base}, i64 {offset}") if offset else base
    return emitter.out.value(f"load {ty}, ptr {address}, align {align}")


def _index(call: Call, position: int) -> int:
    argument = call.args[position]
    assert isinstance(argument, IntImm)
    return argument.value


def _arg_kind(emitter: ExprEmitter, call: Call) -> str:
    return _byte_load(emitter, emitter.emit(call.args[0]), VALUE_SIZE_BYTES * _index(call, 1), "i32", 8)


def _arg_value(emitter: ExprEmitter, call: Call) -> str:
    offset = VALUE_SIZE_BYTES * _index(call, 1) + PAYLOAD_OFFSET_BYTES
    return _byte_load(emitter, emitter.emit(call.args[0]), offset, register_type(call.dtype), 8)


def _check_args(emitter: ExprEmitter, call: Call) -> str:
    args, count = emitter.emit(call.args[0]), emitter.emit(call.args[1])
    table = emitter.module.words([_index(call, position) for position in range(3, len(call.args))])
    names = emitter.module.string(_string(call, 2))
    callee = emitter.module.declare("heddle_check_args", "i32", ["ptr", "i32", "ptr", "ptr"])
    return emitter.out.value(f"call i32 {callee}(ptr {args}, i32 {count}, ptr {table}, ptr {names})")


def _tensor_field(emitter: ExprEmitter, call: Call) -> str:
    field, base = TENSOR_FIELDS[_string(call, 1)], emitter.emit(call.args[0])
    if field.per_dim:
        base = _byte_load(emitter, base, field.offset_bytes, "ptr", 8)
        return _byte_load(emitter, base, 8 * _index(call, 2), "i64", 8)
    dtype = DataType(field.dtype)
    return _byte_load(emitter, base, field.offset_bytes, register_type(dtype), min(dtype.itemsize, 8))


def _has_strides(emitter: ExprEmitter, call: Call) -> str:
    offset = TENSOR_FIELDS["strides"].offset_bytes
    strides = _byte_load(emitter, emitter.emit(call.args[0]), offset, "ptr", 8)
    return emitter.out.value(f"icmp ne ptr {strides}, null")


def _tensor_begin(emitter: ExprEmitter, call: Call) -> str:
    tensor = emitter.emit(call.args[0])
    data = _byte_load(emitter, tensor, TENSOR_FIELDS["data"].offset_bytes, "ptr", 8)
    offset = _byte_load(emitter, tensor, TENSOR_FIELDS["byte_offset"].offset_bytes, "i64", 8)
    return emitter.out.value(f"getelementptr i8, ptr {data}, i64 {offset}")


def _pointer_bits(emitter: ExprEmitter, call: Call) -> str:
    return emitter.out.value(f"ptrtoint ptr {emitter.emit(call.args[0])} to i64")


_TABLE: dict[str, Emit] = {
    **{name: _same_name(llvm_name) for name, llvm_name in _SAME_NAME.items()},
    **{name: _bitwise(op) for name, op in _BITWISE.items()},
    "fmaximum": _extreme,
    "fminimum": _extreme,
    "shift_left": _shift,
    "shift_right": _shift,
    "bitwise_not": _bitwise_not,
    "isnan": _isnan,
    "isinf": _compare_size("oeq"),
    "isfinite": _compare_size("olt"),
    "popcount": _popcount,
    "ldexp": _ldexp,
    "reinterpret": _reinterpret,
    "likely": _likely,
    "as_computed": _as_computed,
    "undef": _undef,
    "any_lane": _any_lane,
    "if_then_else": _if_then_else,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "call_llvm_intrin": _llvm_intrinsic,
    "call_llvm_pure_intrin": _llvm_intrinsic,
    "address_of": _address_of,
    "checked_index": _checked_index,
    "require_index": _checked_index,
    "tvm_access_ptr": _access_ptr,
    "prefetch": _prefetch,
    "assume": _assume,
    "arg_kind": _arg_kind,
    "arg_value": _arg_value,
    "check_args": _check_args,
    "tensor_field": _tensor_field,
    "tensor_has_strides": _has_strides,
    "tensor_begin": _tensor_begin,
    "pointer_bits": _pointer_bits,
}
