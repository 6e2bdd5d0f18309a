"""The machine's builtins in C: an emitter each. Messages are those of `heddle.vm.builtins`.

An emitter that meets operands it does not know leaves the call to the host's builtin, which does the same.

Over 450 lines: a table with an emitter for each builtin, in the order of `heddle.vm.builtins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle.codegen.c.program import MOST_SIZES, ProgramEmitter
from heddle.codegen.c.writer import ModuleWriter, symbol
from heddle.codegen.program_steps import (
    MAKE_CODES,
    MATCH_CODES,
    Step,
    checked_tensor,
    dtype_of,
    kernel_of,
    kind_of_operand,
    made_sizes,
    matched_sizes,
    number_of,
    sizes_of,
    storage_asked,
    tensor_asked,
    text_of,
    words_of,
)
from heddle.ir.expr import Expr
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native.abi import Family, Kind, MachineCode, MatchCode, machine_error
from heddle.runtime.native.library import kernel_symbol
from heddle.tir.nodes import PrimFunc
from heddle.tir.program_abi import VOID

Emit = Callable[[ProgramEmitter, Step], bool]
"""Emits a call; False where its operands have no form here, and nothing was emitted."""
_PREFIX = "vm.builtin."
_RUNTIME, _VALUE, _TYPE, _INDEX = Family.TRAP, Family.VALUE, Family.TYPE, Family.INDEX
_MATCH_CAST, _WRONG_KIND = MachineCode.MATCH_CAST, MachineCode.WRONG_KIND
_DIFFERS, _MALFORMED = MachineCode.DIFFERS, MachineCode.MALFORMED
_INT64 = DataType("int64")
_TABLE: dict[str, Emit] = {}


def _writes(name: str) -> Callable[[Emit], Emit]:
    """Declare the emitter below as the code of `vm.builtin.<name>`."""

    def declare(emit: Emit) -> Emit:
        _TABLE[_PREFIX + name] = emit
        return emit

    return declare


def emit_program_function(module: ModuleWriter, func: PrimFunc) -> None:
    """Add a function whose calling convention is PROGRAM_CONV to a module."""
    ProgramEmitter(module, func, emit_call).run()


def emit_call(emitter: ProgramEmitter, step: Step) -> None:
    """The code of a call: a builtin's, a kernel's, another function's, or the host's."""
    found = _TABLE.get(step.name)
    if found is not None and found(emitter, step):
        return
    if step.name in emitter.kernels:
        _call_kernel(emitter, step, step.name, step.operands)
    else:
        emitter.module.hosted.add(step.name)
        emitter.host_call(step)


def _require_kinds(emitter: ProgramEmitter, at: str, kinds: Sequence[int], message: str) -> None:
    test = " || ".join(f"({at})->kind == {int(kind)}" for kind in kinds)
    emitter.require(
        test, machine_error(_WRONG_KIND, _TYPE), f"{message}, got %v", got=f"heddle_kind_of({at})"
    )


# ---- sizes


def _sizes(emitter: ProgramEmitter, operand: Expr) -> tuple[str, str] | None:
    """Count and address of a shape operand's sizes; None for what is neither constant nor in a register."""
    known = sizes_of(operand)
    if known is not None:
        return str(len(known)), emitter.words(known)
    if kind_of_operand(operand) != "register":
        return None
    at = emitter.value(operand)
    _require_kinds(emitter, at, (Kind.SHAPE,), "expected a shape")
    sizes = emitter.out.declare("sizes", "const int64_t *{};")
    count = emitter.out.value("int64_t", f"heddle_sizes({at}, &{sizes})", "count")
    return count, sizes


def _heap(emitter: ProgramEmitter, operand: Expr, slots: Sequence[int]) -> str:
    """The address of a shape heap's first slot. The code fails where it lacks one of `slots`."""
    at = emitter.value(operand)
    heap = emitter.out.declare("heap", f"int64_t *{{}} = heddle_shape_heap({at});")
    error, got = machine_error(_WRONG_KIND, _TYPE), f"heddle_kind_of({at})"
    emitter.require(f"{heap} != NULL", error, "expected a shape heap, got %v", got=got)
    size = f"((const DLTensor *)({at})->as.pointer)->shape[0]"
    last = max((slot if slot >= 0 else 1 << 62 for slot in slots), default=-1)
    if last >= 0:
        slot = next(slot for slot in slots if slot == last or slot < 0)
        message = f"shape heap has no slot {slot}: it has %e slots"
        emitter.require(f"{last} < {size}", machine_error(_MALFORMED, _INDEX), message, size)
    return heap


@_writes("alloc_shape_heap")
def _alloc_shape_heap(emitter: ProgramEmitter, step: Step) -> bool:
    words = words_of(step.operands[1:])
    if words is None or words[0] < 0 or step.dst == VOID:
        return False
    emitter.check(f"heddle_new_shape_heap(context, &r[{step.dst}], {words[0]})")
    return True


def _match(emitter: ProgramEmitter, heap: str, size: str, code: int, operand: int, what: str) -> None:
    if code == MatchCode.NOTHING:
        return
    if code == MatchCode.STORE:
        emitter.out.line(f"{heap}[{operand}] = {size};")
        return
    expected = f"INT64_C({operand})" if code == MatchCode.EQUALS_IMM else f"{heap}[{operand}]"
    message = f"{what}: expected %e, got %g"
    emitter.require(f"{size} == {expected}", machine_error(_MATCH_CAST, _RUNTIME), message, expected, size)


def _heap_slots(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [operand for code, operand in pairs if code in (MatchCode.STORE, MatchCode.EQUALS_HEAP)]


@_writes("match_shape")
def _match_shape(emitter: ProgramEmitter, step: Step) -> bool:
    form = matched_sizes(step)
    if form is None:
        return False
    (pairs, context), (value, heap_operand) = form, step.operands[:2]
    at = emitter.value(value)
    sizes = emitter.out.declare("sizes", "const int64_t *{} = NULL;")
    count = emitter.out.value("int64_t", f"heddle_sizes({at}, &{sizes})", "count")
    message = f"{context} expected a tensor or shape, got %v"
    emitter.require(f"{count} >= 0", machine_error(_WRONG_KIND, _TYPE), message, got=f"heddle_kind_of({at})")
    message = f"{context} match_cast error: shape size mismatch: expected {len(pairs)} sizes, got %g"
    emitter.require(f"{count} == {len(pairs)}", machine_error(_MATCH_CAST, _RUNTIME), message, got=count)
    slots = _heap_slots(pairs)
    heap = _heap(emitter, heap_operand, slots) if slots else ""
    for axis, (code, operand) in enumerate(pairs):
        what = f"{context} match_cast error: size of dimension {axis}"
        _match(emitter, heap, f"{sizes}[{axis}]", code, operand, what)
    emitter.clear(step)
    return True


@_writes("make_shape")
def _make_shape(emitter: ProgramEmitter, step: Step) -> bool:
    pairs = made_sizes(step)
    if pairs is None:
        return False
    slots = [operand for code, operand in pairs if code]
    heap = _heap(emitter, step.operands[0], slots) if slots else ""
    sizes = emitter.out.declare("sizes", f"int64_t {{}}[{max(len(pairs), 1)}];")
    for axis, (code, operand) in enumerate(pairs):
        emitter.out.line(f"{sizes}[{axis}] = {f'{heap}[{operand}]' if code else f'INT64_C({operand})'};")
    emitter.finish(step, f"heddle_make_shape(context, {emitter.destination(step)}, {len(pairs)}, {sizes})")
    return True


@_writes("match_prim_value")
def _match_prim_value(emitter: ProgramEmitter, step: Step) -> bool:
    value, heap_operand, *rest = step.operands
    words, context = words_of(rest[:2]), text_of(rest[2])
    if (
        words is None
        or words[0] not in MATCH_CODES
        or context is None
        or kind_of_operand(value) != "register"
    ):
        return False
    at, (code, operand) = emitter.value(value), words
    _require_kinds(emitter, at, (Kind.INT, Kind.BOOL), f"{context} expected an integer")
    slots = _heap_slots([(code, operand)])
    heap = _heap(emitter, heap_operand, slots) if slots else ""
    _match(emitter, heap, f"({at})->as.integer", code, operand, f"{context} match_cast error: value")
    emitter.clear(step)
    return True


@_writes("make_prim_value")
def _make_prim_value(emitter: ProgramEmitter, step: Step) -> bool:
    heap_operand, *rest = step.operands
    words = words_of(rest)
    if words is None or words[0] not in MAKE_CODES:
        return False
    number = f"INT64_C({words[1]})"
    if words[0]:
        number = f"{_heap(emitter, heap_operand, [words[1]])}[{words[1]}]"
    emitter.clear(step)
    if step.dst != VOID:
        emitter.set_integer(f"r[{step.dst}]", number)
    return True


@_writes("shape_of")
def _shape_of(emitter: ProgramEmitter, step: Step) -> bool:
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TENSOR,), "expected a tensor")
    sizes = emitter.out.declare("sizes", "const int64_t *{};")
    count = emitter.out.value("int64_t", f"heddle_sizes({at}, &{sizes})", "count")
    emitter.finish(step, f"heddle_make_shape(context, {emitter.destination(step)}, {count}, {sizes})")
    return True


# ---- checks


@_writes("check_tensor_info")
def _check_tensor_info(emitter: ProgramEmitter, step: Step) -> bool:
    form = checked_tensor(step)
    if form is None:
        return False
    ndim, dtype, context = form
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TENSOR,), f"{context} expected a tensor")
    tensor = f"((const DLTensor *)({at})->as.pointer)"
    if ndim != -1:
        message = f"{context} expected a tensor with ndim {ndim}, got ndim %g"
        emitter.require(
            f"{tensor}->ndim == {ndim}", machine_error(_DIFFERS, _VALUE), message, got=f"{tensor}->ndim"
        )
    if dtype is not None:
        got, message = (
            f"heddle_dtype_word({tensor})",
            f"{context} expected a tensor with dtype {dtype}, got dtype %t",
        )
        emitter.require(f"{got} == {packed_dtype(dtype)}", machine_error(_DIFFERS, _VALUE), message, got=got)
    emitter.clear(step)
    return True


def _check_count(kind: Kind, noun: str, unit: str) -> Emit:
    """Shapes and tuples start with their count."""

    def emit(emitter: ProgramEmitter, step: Step) -> bool:
        value, count, text = step.operands
        context, counts = text_of(text), words_of([count])
        if context is None or counts is None:
            return False
        at = emitter.value(value)
        _require_kinds(emitter, at, (kind,), f"{context} expected a {noun}")
        if counts[0] != -1 or kind is Kind.TUPLE:
            got = f"*(const int64_t *)({at})->as.pointer"
            message = f"{context} expected a {noun} with {unit.format(counts[0])}, got {unit.format('%g')}"
            emitter.require(f"{got} == {counts[0]}", machine_error(_DIFFERS, _VALUE), message, got=got)
        emitter.clear(step)
        return True

    return emit


_writes("check_shape_info")(_check_count(Kind.SHAPE, "shape", "ndim {}"))
_writes("check_tuple_info")(_check_count(Kind.TUPLE, "tuple", "{} elements"))


@_writes("check_prim_value_info")
def _check_prim_value_info(emitter: ProgramEmitter, step: Step) -> bool:
    value, wanted, text = step.operands
    dtype, context = dtype_of(wanted), text_of(text)
    if dtype is None or context is None:
        return False
    kinds = [Kind.INT, Kind.BOOL] + [Kind.FLOAT] * dtype.is_float
    if not dtype.is_handle:
        _require_kinds(emitter, emitter.value(value), kinds, f"{context} expected a value of dtype {dtype}")
    emitter.clear(step)
    return True


# ---- memory


@_writes("alloc_storage")
def _alloc_storage(emitter: ProgramEmitter, step: Step) -> bool:
    asked = storage_asked(step)
    sizes = None if asked is None else _sizes(emitter, asked[0])
    if asked is None or sizes is None:
        return False
    given = f"{emitter.destination(step)}, {sizes[0]}, {sizes[1]}, {asked[2].itemsize}, {asked[1]}"
    emitter.finish(step, f"heddle_alloc_storage(context, {given})")
    return True


@_writes("alloc_tensor")
def _alloc_tensor(emitter: ProgramEmitter, step: Step) -> bool:
    asked = tensor_asked(step)
    if asked is None or (sizes_of(asked.shape) is None and kind_of_operand(asked.shape) != "register"):
        return False
    out, storage = emitter.out, f"r[{asked.storage}]"
    with out.block(f"if ({storage}.kind == {Kind.STORAGE.value})", tail="} else {"):
        sizes = _sizes(emitter, asked.shape)
        assert sizes is not None
        given = f"{storage}.as.pointer, {asked.offset}, {sizes[0]}, {sizes[1]}, {packed_dtype(asked.dtype)}"
        emitter.finish(step, f"heddle_alloc_tensor(context, {emitter.destination(step)}, {given})")
    with out.rest():  # a storage of the host's, or none at all
        emitter.host_call(step)
    return True


@_writes("reshape")
def _reshape(emitter: ProgramEmitter, step: Step) -> bool:
    tensor, shape = step.operands
    if sizes_of(shape) is None and kind_of_operand(shape) != "register":
        return False
    at = emitter.value(tensor)
    _require_kinds(emitter, at, (Kind.TENSOR,), "expected a tensor")
    sizes = _sizes(emitter, shape)
    assert sizes is not None
    given = f"{emitter.destination(step)}, (DLTensor *)({at})->as.pointer, {sizes[0]}, {sizes[1]}"
    emitter.finish(step, f"heddle_reshape(context, {given})")
    return True


@_writes("null_value")
def _null_value(emitter: ProgramEmitter, step: Step) -> bool:
    emitter.clear(step)
    return True


@_writes("copy")
def _copy(emitter: ProgramEmitter, step: Step) -> bool:
    if step.dst != VOID:
        emitter.out.line(f"heddle_copy(context, &r[{step.dst}], {emitter.value(step.operands[0])});")
    return True


# ---- tuples, conditions, calls


@_writes("make_tuple")
def _make_tuple(emitter: ProgramEmitter, step: Step) -> bool:
    if step.dst == VOID:
        return True
    count = emitter.arguments(step.operands)
    emitter.check(f"heddle_make_tuple(context, &r[{step.dst}], {count}, s)")
    return True


@_writes("stack_chain")
def _stack_chain(emitter: ProgramEmitter, step: Step) -> bool:
    at = emitter.value(step.operands[0])
    emitter.finish(step, f"heddle_stack_chain(context, {emitter.destination(step)}, {at})")
    return True


@_writes("tuple_getitem")
def _tuple_getitem(emitter: ProgramEmitter, step: Step) -> bool:
    indices = words_of(step.operands[1:])
    if indices is None:
        return False
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TUPLE,), "expected a tuple")
    emitter.finish(
        step, f"heddle_tuple_getitem(context, {emitter.destination(step)}, ({at})->as.pointer, {indices[0]})"
    )
    return True


@_writes("tuple_reset_item")
def _tuple_reset_item(emitter: ProgramEmitter, step: Step) -> bool:
    """A tuple of the host's has another holder there, which the host's builtin tells first."""
    indices = words_of(step.operands[1:])
    if indices is None:
        return False
    at = emitter.value(step.operands[0])
    _require_kinds(emitter, at, (Kind.TUPLE,), "expected a tuple")
    with emitter.out.block(f"if (heddle_is_the_hosts(({at})->as.pointer))", tail="} else {"):
        emitter.host_call(step)
    with emitter.out.rest():
        emitter.check(f"heddle_tuple_reset(context, ({at})->as.pointer, {indices[0]})")
        emitter.clear(step)
    return True


@_writes("read_if_cond")
def _read_if_cond(emitter: ProgramEmitter, step: Step) -> bool:
    """0 or 1 of what the machine knows; the host judges the rest, and refuses what is no condition."""
    known = emitter.out.value("int32_t", f"heddle_condition({emitter.value(step.operands[0])})", "known")
    with emitter.out.block(f"if ({known} < 0)", tail="} else {"):
        emitter.host_call(step)
    with emitter.out.rest():
        emitter.clear(step)
        if step.dst != VOID:
            emitter.set_integer(f"r[{step.dst}]", known, Kind.BOOL.value)
    return True


def _call_kernel(
    emitter: ProgramEmitter, step: Step, name: str, operands: Sequence[Expr], extra: Sequence[str] = ()
) -> None:
    count = emitter.arguments(operands, extra)
    emitter.check(f"{_declared(emitter, name)}(s, {count})")
    emitter.clear(step)


def _declared(emitter: ProgramEmitter, kernel: str) -> str:
    """The name of a kernel in C."""
    name = symbol(kernel_symbol(kernel))
    emitter.module.declare(f"int32_t {name}(const HeddleCell *, int32_t);")
    return name


@_writes("call_tir_dyn")
def _call_tir_dyn(emitter: ProgramEmitter, step: Step) -> bool:
    """A kernel with the sizes of a shape after its tensors."""
    _, *tensors, shape = step.operands
    name, known = kernel_of(step, emitter.kernels), sizes_of(shape)
    if name is None:
        return False
    if known is not None:
        _call_kernel(emitter, step, name, tensors, [f"INT64_C({size})" for size in known])
        return True
    found = _sizes(emitter, shape)
    if found is None:
        return False
    count, sizes = found
    message = f"a kernel takes at most {MOST_SIZES} sizes, got %g"
    emitter.require(f"{count} <= {MOST_SIZES}", machine_error(_MALFORMED, _RUNTIME), message, got=count)
    first = emitter.arguments(tensors)
    with emitter.out.block(f"for (int64_t i = 0; i < {count}; ++i)"):
        emitter.set_integer(f"s[{first} + i]", f"{sizes}[i]")
    emitter.check(f"{_declared(emitter, name)}(s, (int32_t)({first} + {count}))")
    emitter.clear(step)
    return True


@_writes("make_closure")
def _make_closure(emitter: ProgramEmitter, step: Step) -> bool:
    function, *bound = step.operands
    if kind_of_operand(function) != "function" or step.dst == VOID:
        return False
    count = emitter.arguments(bound)
    emitter.check(f"heddle_make_closure(context, &r[{step.dst}], {number_of(function)}, {count}, s)")
    return True


@_writes("invoke_closure")
def _invoke_closure(emitter: ProgramEmitter, step: Step) -> bool:
    _, closure, *given = step.operands
    if step.dst == VOID:
        return False
    count = emitter.arguments(given)
    emitter.out.line("context->call_place = place;")
    emitter.check(f"heddle_invoke(context, &r[{step.dst}], {emitter.value(closure)}, s, {count})")
    return True
