"""How calls of intrinsics become C: one table, name → emitter. Calls of vectors are emitted lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.codegen.c.types import element_type, suffix
from heddle.codegen.c.writer import symbol
from heddle.codegen.codes import G0101
from heddle.ir.expr import StringImm
from heddle.prim.checked_index import CHECKED_INDEX, REQUIRE_INDEX
from heddle.prim.nodes import Call, IntImm, PrimExpr
from heddle.support.diagnostics import UsageError
from heddle.tir.kernel_abi import TENSOR_FIELDS
from heddle.tir.nodes import BufferLoad

Emit = Callable[[Any, Call], str]
HEADER_FUNCTIONS: dict[str, str] = {
    **{
        name + end: name + end
        for name in (
            *("exp", "exp2", "log", "log2", "log10", "log1p", "tanh", "erf", "sin", "cos", "tan", "asin"),
            *("acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "pow", "fmod"),
            *("nextafter", "ldexp"),
        )
        for end in ("", "f")
    },
    "exp10": "heddle_exp10",
    "exp10f": "heddle_exp10f",
}
"""C functions that <math.h> or our header declare, by the names that loops call them by."""
_MATH = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
    "nearbyint": "rint",
    "copysign": "copysign",
    "fma": "fma",
    "ldexp": "ldexp",
}
_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


def emit_call(emitter: Any, call: Call) -> str:
    """A call as an expression. Raises: UsageError G0101 for an intrinsic without a form in C."""
    found = _TABLE.get(call.op.name.removeprefix("tir."))
    if found is None:
        raise UsageError(
            G0101,
            f"intrinsic {call.op.name!r} has no form in C",
            span=call.span,
            help="loops that name an instruction of a processor are for target llvm",
        )
    return found(emitter, call)


def _args(call: Call) -> list[PrimExpr]:
    return [arg for arg in call.args if isinstance(arg, PrimExpr)]


def _operands(emitter: Any, call: Call) -> list[str]:
    return [emitter.emit(arg) for arg in _args(call)]


def _math(name: str) -> Emit:
    def emit(emitter: Any, call: Call) -> str:
        dtype = call.dtype.element
        if dtype.code != "float" or dtype.bits < 32:
            raise UsageError(G0101, f"{call.op.name} of {dtype} was not lowered", span=call.span)
        return f"{name}{'f' if dtype.bits == 32 else ''}({', '.join(_operands(emitter, call))})"

    return emit


def _bitwise(sign: str) -> Emit:
    def emit(emitter: Any, call: Call) -> str:
        a, b = _operands(emitter, call)
        ty = element_type(call.dtype)
        return f"({a} {sign} {b})" if call.dtype.bits >= 32 else f"({ty})({a} {sign} {b})"

    return emit


def _shift(emitter: Any, call: Call) -> str:
    """Counts as great as the width, and negative ones, shift everything out; C leaves them undefined."""
    dtype = call.dtype.element
    name = "shl" if call.op.name == "tir.shift_left" else "shr"
    value, count = _operands(emitter, call)
    text = f"heddle_{name}_{suffix(dtype)}({value}, {count}, {dtype.bits})"
    return emitter.wrapped(text, dtype)  # type: ignore[no-any-return]


def _bitwise_not(emitter: Any, call: Call) -> str:
    value = emitter.emit(call.args[0])
    if call.dtype.is_bool:
        return f"(!{value})"
    return emitter.wrapped(f"({element_type(call.dtype)})(~{value})", call.dtype.element)  # type: ignore[no-any-return]


def _test(name: str) -> Emit:
    def emit(emitter: Any, call: Call) -> str:
        value = emitter.emit(call.args[0])
        return f"heddle_{name}_{suffix(_args(call)[0].dtype)}({value})"

    return emit


def _extreme(emitter: Any, call: Call) -> str:
    a, b = _operands(emitter, call)
    return f"heddle_{call.op.name.removeprefix('tir.')}_{suffix(call.dtype)}({a}, {b})"


def _popcount(emitter: Any, call: Call) -> str:
    dtype = call.dtype.element
    mask = (1 << dtype.bits) - 1
    value = emitter.emit(call.args[0])
    return f"({element_type(dtype)})heddle_popcount((uint64_t){value} & UINT64_C({mask}))"


def _reinterpret(emitter: Any, call: Call) -> str:
    argument = _args(call)[0]
    source, target = argument.dtype, call.dtype
    value = emitter.emit(argument)
    if source.is_handle or target.is_handle:
        return emitter.convert(value, source, target)  # type: ignore[no-any-return]
    if source.bits != target.bits or source.lanes != target.lanes:
        raise UsageError(G0101, f"bits of {source} read as {target} have no form in C", span=call.span)
    from_name, to_name = suffix(source), suffix(target)
    if from_name == to_name or "f" not in from_name + to_name:
        return emitter.wrapped(f"({element_type(target)}){value}", target.element)  # type: ignore[no-any-return]
    return f"heddle_{to_name}_of_{from_name}({value})"


def _same(emitter: Any, call: Call) -> str:
    return emitter.emit(call.args[0])  # type: ignore[no-any-return]


def _as_computed(emitter: Any, call: Call) -> str:
    with emitter.arithmetic(in_index=False):
        return emitter.emit(call.args[0])  # type: ignore[no-any-return]


def _undef(emitter: Any, call: Call) -> str:
    return "NULL" if call.dtype.is_handle else f"({element_type(call.dtype)})0"


def _any_lane(emitter: Any, call: Call) -> str:
    mask = _args(call)[0]
    if mask.dtype.lanes == 1:
        return emitter.emit(mask)  # type: ignore[no-any-return]
    name: str = emitter.out.declare("any", "bool {} = false;")
    with emitter.each_lane(mask.dtype.lanes):
        emitter.out.line(f"{name} = {name} || {emitter.emit(mask)};")
    return name


def _string(call: Call, index: int = 0) -> str:
    argument = call.args[index]
    assert isinstance(argument, StringImm)
    return argument.value


def _extern(emitter: Any, call: Call) -> str:
    """A C function by name."""
    name, args = _string(call), _args(call)
    given = ", ".join(emitter.emit(arg) for arg in args)
    known = HEADER_FUNCTIONS.get(name)
    if known is None:
        known = symbol(name)
        types = ", ".join(element_type(arg.dtype) for arg in args) or "void"
        emitter.module.declare_external(known, f"{element_type(call.dtype)} {known}({types});")
    return f"{known}({given})"


def _address_of(emitter: Any, call: Call) -> str:
    load = call.args[0]
    assert isinstance(load, BufferLoad)
    address = emitter.address(load.buffer, emitter.flat_index(load.buffer, load.indices))
    return f"(void *){address}"


def _access_ptr(emitter: Any, call: Call) -> str:
    """data + offset elements of the dtype of the first argument."""
    dtype, data, offset = _args(call)[:3]
    step = dtype.dtype.element.itemsize
    return f"(void *)((unsigned char *){emitter.emit(data)} + {emitter.emit_index(offset)} * {step})"


def _nothing(emitter: Any, call: Call) -> str:
    return ""


def _number(call: Call, position: int) -> int:
    argument = call.args[position]
    assert isinstance(argument, IntImm)
    return argument.value


def _argument(emitter: Any, call: Call) -> str:
    """An argument of a kernel."""
    return f"((const HeddleCell *){emitter.emit(call.args[0])})[{_number(call, 1)}]"


def _arg_kind(emitter: Any, call: Call) -> str:
    return f"{_argument(emitter, call)}.kind"


def _arg_value(emitter: Any, call: Call) -> str:
    dtype = call.dtype
    field = "pointer" if dtype.is_handle else "real" if dtype.is_float else "integer"
    return f"{_argument(emitter, call)}.as.{field}"


def _tensor(emitter: Any, call: Call) -> str:
    return f"((const DLTensor *){emitter.emit(call.args[0])})"


def _tensor_field(emitter: Any, call: Call) -> str:
    name, tensor = _string(call, 1), _tensor(emitter, call)
    if name == "dtype":
        return f"heddle_dtype_word({tensor})"
    if TENSOR_FIELDS[name].per_dim:
        return f"{tensor}->{name}[{_number(call, 2)}]"
    if name == "byte_offset":
        return f"(int64_t){tensor}->byte_offset"
    return f"{tensor}->{'device.device_type' if name == 'device_type' else name}"


def _has_strides(emitter: Any, call: Call) -> str:
    return f"({_tensor(emitter, call)}->strides != NULL)"


def _tensor_begin(emitter: Any, call: Call) -> str:
    return f"heddle_tensor_begin({_tensor(emitter, call)})"


def _pointer_bits(emitter: Any, call: Call) -> str:
    return f"(int64_t)(intptr_t){emitter.emit(call.args[0])}"


def _checked_index(emitter: Any, call: Call) -> str:
    return emitter.checked_index(call)  # type: ignore[no-any-return]


def _if_then_else(emitter: Any, call: Call) -> str:
    return emitter.if_then_else(call)  # type: ignore[no-any-return]


_TABLE: dict[str, Emit] = {
    **{name: _math(c_name) for name, c_name in _MATH.items()},
    **{name: _bitwise(sign) for name, sign in _BITWISE.items()},
    **{name: _test(name) for name in ("isnan", "isinf", "isfinite")},
    "fmaximum": _extreme,
    "fminimum": _extreme,
    "shift_left": _shift,
    "shift_right": _shift,
    "bitwise_not": _bitwise_not,
    "popcount": _popcount,
    "reinterpret": _reinterpret,
    "likely": _same,
    "as_computed": _as_computed,
    "undef": _undef,
    "any_lane": _any_lane,
    "if_then_else": _if_then_else,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "address_of": _address_of,
    CHECKED_INDEX.removeprefix("tir."): _checked_index,
    REQUIRE_INDEX.removeprefix("tir."): _checked_index,
    "tvm_access_ptr": _access_ptr,
    "prefetch": _nothing,
    "assume": _nothing,
    "arg_kind": _arg_kind,
    "arg_value": _arg_value,
    "tensor_field": _tensor_field,
    "tensor_has_strides": _has_strides,
    "tensor_begin": _tensor_begin,
    "pointer_bits": _pointer_bits,
}
