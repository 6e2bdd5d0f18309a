"""Programs in a library of their own, without Python: the functions of heddle.h.

The library's tables, `heddle_program`, are made when it is exported.
"""

from heddle.runtime.device import CPU
from heddle.runtime.dtype import DTYPE_CODES
from heddle.runtime.native.abi import (
    BAD_ARGUMENT,
    BAD_CALL,
    NO_FUNCTION,
    Context,
    Counted,
    DLTensor,
    Error,
    Kind,
    Pool,
    ProgramTables,
    Status,
    Value,
)
from heddle.runtime.native.source.calls import Code, run_code
from heddle.runtime.native.source.chains import elements_of, is_compact
from heddle.runtime.native.source.counting import heddle_release_all
from heddle.runtime.native.source.fork_join import heddle_pool_configure, heddle_pool_reset
from heddle.runtime.native.source.looking import DL_BOOL, DL_INT, DL_UINT
from heddle.runtime.native.source.making import heddle_new
from heddle.runtime.native.source.system import calloc, free
from heddle.runtime.native.source.thread import (
    heddle_set_error,
    heddle_thread,
    heddle_thread_setup,
    stack_limit,
)
from heddle.runtime.native.source.values import clear, items_of, payload_of, set_value
from heddle.systems.types import Address, Array, Atomic, Pointer, Struct, i32, i64, u8, u32, u64
from heddle.systems.words import (
    ACQ_REL,
    ACQUIRE,
    EXPORTED,
    EXTERNAL,
    RELEASE,
    Global,
    PlatformValue,
    Text,
    cast,
    copy,
    export,
    external,
    inline,
    inline_ir,
    local,
    native,
    null,
    offset,
    ref,
    size_of,
)

SC_NPROCESSORS = PlatformValue("SC_NPROCESSORS", i32)
MAX_THREADS = PlatformValue("MAX_THREADS", i32)
SPINS = PlatformValue("SPINS", i32)

NOT_SET_UP = 0
SETTING_UP = 1
SET_UP = 2
ERROR_BYTES = 1024
PERCENT = 37  # the letters of messages
LETTER_E = 101
LETTER_G = 103
LETTER_K = 107
LETTER_T = 116
LETTER_V = 118
DIGITS_BYTES = 24  # of the longest number, or the longest name of a dtype or kind
DL_FLOAT = DTYPE_CODES["float"]
DL_BFLOAT = DTYPE_CODES["bfloat"]
DL_FLOAT8_E4M3FN = DTYPE_CODES["float8_e4m3fn"]
DL_FLOAT8_E4M3FNUZ = DTYPE_CODES["float8_e4m3fnuz"]
DL_FLOAT8_E5M2 = DTYPE_CODES["float8_e5m2"]
DL_FLOAT8_E5M2FNUZ = DTYPE_CODES["float8_e5m2fnuz"]
DL_FLOAT8_E8M0FNU = DTYPE_CODES["float8_e8m0fnu"]
DL_FLOAT4_E2M1FN = DTYPE_CODES["float4_e2m1fn"]
SEGMENTS_BYTES = 1 << 30  # of stack that a program may take beside its thread's


class Program(Struct):
    """What a C program gets: a context, the last result, which counts as so many outputs, and the text of the
    last error."""

    context: Context
    result: Value
    num_outputs: i32
    error: Array[u8, ERROR_BYTES]


heddle_program = Global(ProgramTables, linkage=EXTERNAL)
heddle_library_pool = Global(Pool, linkage=EXPORTED)
set_up_state = Global(Atomic[i32])

no_function = Text("the library has no such function")
wrong_count = Text("the function takes %e arguments, and got %g")
not_compact = Text("argument %g has strides: pass tensors without gaps")
needs_host = Text("the program calls a function of the host language, which is not in here")
threads_variable = Text("HEDDLE_NUM_THREADS")
number_format = Text("%lld")
int_text = Text("int")
uint_text = Text("uint")
float_text = Text("float")
bfloat_text = Text("bfloat")
bool_text = Text("bool")
float8_e4m3fn_text = Text("float8_e4m3fn")
float8_e4m3fnuz_text = Text("float8_e4m3fnuz")
float8_e5m2_text = Text("float8_e5m2")
float8_e5m2fnuz_text = Text("float8_e5m2fnuz")
float8_e8m0fnu_text = Text("float8_e8m0fnu")
float4_text = Text("float4_e2m1fn")
code_text = Text("code ")
nothing_text = Text("nothing")
an_int_text = Text("an int")
a_bool_text = Text("a bool")
a_float_text = Text("a float")
a_pointer_text = Text("a pointer")
a_tensor_text = Text("a tensor")
a_shape_text = Text("a shape")
a_tuple_text = Text("a tuple")
a_closure_text = Text("a closure")
a_storage_text = Text("a storage")
data_text = Text("a value of a data type")
a_reference_text = Text("a reference")
a_value_text = Text("a value")


@external
def strcmp(left: Pointer[u8], right: Pointer[u8]) -> i32: ...


@external
def getenv(name: Pointer[u8]) -> Pointer[u8]: ...


@external
def atoi(text: Pointer[u8]) -> i32: ...


@external
def sysconf(what: i32) -> i64: ...


@inline_ir(
    "call i32 (ptr, i64, ptr, ...) @snprintf(ptr {to}, i64 {size_bytes}, ptr @number_format, i64 {number})",
    "declare i32 @snprintf(ptr, i64, ptr, ...)",
)
def write_number(to: Pointer[u8], size_bytes: u64, number: i64) -> i32:
    """Write a number in decimal digits; how many."""


@native
def put_text(to: Pointer[u8], text: Pointer[u8]) -> Pointer[u8]:
    """Copy a text without its end; where the next one goes."""
    while text.value != 0:
        to.value = text.value
        to = offset(to, 1)
        text = offset(text, 1)
    return to


@native
def name_of_code(code: i64) -> Pointer[u8]:
    """The name of a dtype's code, which the number of bits follows; null for one that names a whole dtype."""
    if code == DL_INT:
        return int_text
    if code == DL_UINT:
        return uint_text
    if code == DL_FLOAT:
        return float_text
    return bfloat_text if code == DL_BFLOAT else null


@native
def name_of_dtype(code: i64) -> Pointer[u8]:
    """The name of a dtype that its code says alone; null for others."""
    if code == DL_BOOL:
        return bool_text
    if code == DL_FLOAT8_E4M3FN:
        return float8_e4m3fn_text
    if code == DL_FLOAT8_E4M3FNUZ:
        return float8_e4m3fnuz_text
    if code == DL_FLOAT8_E5M2:
        return float8_e5m2_text
    if code == DL_FLOAT8_E5M2FNUZ:
        return float8_e5m2fnuz_text
    if code == DL_FLOAT8_E8M0FNU:
        return float8_e8m0fnu_text
    return float4_text if code == DL_FLOAT4_E2M1FN else null


@native
def write_dtype(to: Pointer[u8], word: i64) -> Pointer[u8]:
    """Write the spelling of a dtype in less than DIGITS_BYTES; where the next text goes."""
    code = word & 255
    whole = name_of_dtype(code)
    if whole != null:
        return put_text(to, whole)
    name = name_of_code(code)
    if name == null:
        to = put_text(to, code_text)
        return offset(to, write_number(to, DIGITS_BYTES, code))
    to = put_text(to, name)
    return offset(to, write_number(to, DIGITS_BYTES, (word >> 8) & 255))


@native
def name_of_kind(kind: i64) -> Pointer[u8]:
    """What a message calls a value of a kind."""
    if kind == Kind.TENSOR:
        return a_tensor_text
    if kind == Kind.SHAPE:
        return a_shape_text
    if kind == Kind.TUPLE:
        return a_tuple_text
    if kind == Kind.CLOSURE:
        return a_closure_text
    if kind == Kind.STORAGE:
        return a_storage_text
    if kind == Kind.DATA:
        return data_text
    if kind == Kind.REFERENCE:
        return a_reference_text
    return name_of_plain_kind(kind)


@native
def name_of_plain_kind(kind: i64) -> Pointer[u8]:
    """The same for kinds that are no objects."""
    if kind == Kind.NONE:
        return nothing_text
    if kind == Kind.INT:
        return an_int_text
    if kind == Kind.BOOL:
        return a_bool_text
    if kind == Kind.FLOAT:
        return a_float_text
    return a_pointer_text if kind == Kind.POINTER else a_value_text


# ---- opening and closing


@inline
def num_threads_wanted() -> u32:
    """How many threads the environment asks for, or the processors there are; at least 1."""
    given = getenv(threads_variable)
    wish = i32(sysconf(SC_NPROCESSORS)) if given == null else atoi(given)
    return u32(min(max(wish, 1), MAX_THREADS))


@native
def set_up() -> None:
    """Make the library's pools, once. A second thread waits for the first."""
    if set_up_state.compare_exchange(NOT_SET_UP, SETTING_UP, ACQ_REL, ACQUIRE):
        heddle_thread_setup()
        heddle_pool_reset()
        heddle_library_pool.limit_bytes = -1
        heddle_library_pool.failing_allocation = -1
        heddle_library_pool.keeps_blocks = 1
        heddle_library_pool.device_type = CPU
        heddle_pool_configure(num_threads_wanted(), SPINS)
        set_up_state.store(SET_UP, RELEASE)
        return
    while set_up_state.load(ACQUIRE) != SET_UP:
        pass


@native
def refuse_host(
    context: Pointer[Context], function: i64, args: Pointer[Value], count: i64, register: Pointer[Value]
) -> i32:
    """What a C program has in place of the host: an error V0301. Gives `Status.FAILED`."""
    heddle_set_error(NO_FUNCTION, needs_host, 0, 0)
    return Status.FAILED


@export
def heddle_open() -> Pointer[Program]:
    """Null where there is no memory."""
    set_up()
    program = cast(Pointer[Program], calloc(1, size_of(Program)))
    if program != null:
        program.context.pools = heddle_program.pools
        program.context.constants = heddle_program.constants
        program.context.functions = heddle_program.functions
        program.context.host_call = cast(Address, refuse_host)
    return program


@export
def heddle_close(program: Pointer[Program]) -> None:
    """Free a program and its last results. Null is no program."""
    if program != null:
        heddle_release_all(null, program.result, 1)
        free(program)


# ---- running


@inline
def find_function(name: Pointer[u8]) -> i64:
    """The number of a function, or -1."""
    number: i64 = 0
    while number < heddle_program.num_functions:
        known = heddle_program.names[number]
        if known != null and strcmp(known, name) == 0:
            return number
        number += 1
    return -1


@inline
def lend_inputs(inputs: Pointer[Pointer[DLTensor]], values: Pointer[Value], count: i64) -> i64:
    """How many inputs became values: all of them, or those before one that is refused. What a machine has of
    a tensor begins at its data, without an offset."""
    number: i64 = 0
    while number < count:
        if not is_compact(inputs[number]):
            heddle_set_error(BAD_ARGUMENT, not_compact, 0, number)
            return number
        lent = heddle_new(Kind.TENSOR, i64(size_of(DLTensor)), null, 0)
        if lent == null:
            return number
        tensor = cast(Pointer[DLTensor], lent)
        copy(tensor, inputs[number])
        tensor.strides = null
        tensor.data = elements_of(tensor)
        tensor.byte_offset = 0
        clear(values[number])
        set_value(values[number], Kind.TENSOR, lent)
        number += 1
    return count


@inline
def count_of(result: Pointer[Value]) -> i32:
    """How many outputs a result is: the fields of a tuple, or one, though it be no tensor."""
    if result.kind != Kind.TUPLE:
        return 1
    return i32(cast(Pointer[Counted], payload_of(result)).count)


@export
def heddle_run(
    program: Pointer[Program], name: Pointer[u8], inputs: Pointer[Pointer[DLTensor]], num_inputs: i32
) -> i32:
    """Run a function on tensors and keep its results. 0, or -1 with an error: V0301 for an unknown name."""
    heddle_release_all(null, program.result, 1)
    program.num_outputs = 0
    number = find_function(name)
    if number < 0:
        heddle_set_error(NO_FUNCTION, no_function, 0, 0)
        return Status.FAILED
    entry = program.context.functions[number]
    count = i64(num_inputs)
    if entry.num_args != count:
        heddle_set_error(BAD_CALL, wrong_count, entry.num_args, count)
        return Status.FAILED
    values = local(Value, count)
    num_lent = lend_inputs(inputs, values, count)
    status: i32 = Status.FAILED
    if num_lent == count:
        program.context.error_place = -1
        program.context.stack_limit = stack_limit()
        program.context.stack_left = SEGMENTS_BYTES
        status = run_code(program.context, cast(Code, entry.code), values, program.result)
    if status == Status.DONE:
        program.num_outputs = count_of(program.result)
    heddle_release_all(null, values, num_lent)
    return status


# ---- results


@export
def heddle_num_outputs(program: Pointer[Program]) -> i32:
    """How many values the last run gave; 0 after one that failed."""
    return program.num_outputs


@export
def heddle_output(program: Pointer[Program], index: i32) -> Pointer[DLTensor]:
    """Null where there is no such output, or it is no tensor."""
    if u32(index) >= u32(heddle_num_outputs(program)):
        return null
    found = program.result
    if found.kind == Kind.TUPLE:
        found = items_of(cast(Pointer[Counted], payload_of(found)))[index]
    return cast(Pointer[DLTensor], payload_of(found)) if found.kind == Kind.TENSOR else null


# ---- errors


@native
def put_mark(to: Pointer[u8], error: Pointer[Error], letter: u8) -> Pointer[u8]:
    """Write what a letter behind a percent sign stands for; where the next text goes, null for no mark."""
    if letter == LETTER_E:
        return offset(to, write_number(to, DIGITS_BYTES, error.expected))
    if letter == LETTER_G:
        return offset(to, write_number(to, DIGITS_BYTES, error.got))
    if letter == LETTER_T:
        return write_dtype(to, error.got)
    if letter == LETTER_V:
        return put_text(to, name_of_kind(error.got))
    return put_text(to, name_of_kind(error.got)) if letter == LETTER_K else null


@export
def heddle_error(program: Pointer[Program]) -> Pointer[u8]:
    """The text of this thread's last error, its numbers put in; empty where there is none. The program's. A
    text that is too long is cut."""
    text = ref(program.error[0])
    error = heddle_thread().error
    if error.is_set == 0:
        text.value = 0
        return text
    error.is_set = 0
    source = ref(error.message[0])
    to = text
    last = offset(text, ERROR_BYTES - DIGITS_BYTES)
    while source.value != 0 and to < last:
        after = put_mark(to, ref(heddle_thread().error), source[1]) if source.value == PERCENT else null
        if after == null:
            to.value = source.value
            to = offset(to, 1)
            source = offset(source, 1)
        else:
            to = after
            source = offset(source, 2)
    to.value = 0
    return text
