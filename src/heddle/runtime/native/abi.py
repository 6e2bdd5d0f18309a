"""What native code and Python agree on: structures, kinds of values, and words of errors.

Python reads the structures through `ctype_of`, native code by the same declarations. A value is
{i32 kind, i32 0, i64 payload}. From `Kind.TENSOR` on the payload points into an object, behind its head.
"""

from enum import IntEnum

from heddle.runtime.codes import U0601, U0602
from heddle.support.diagnostics import Code
from heddle.systems.types import Address, Array, Atomic, Pointer, Struct, i32, i64, u8, u64


class Kind(IntEnum):
    """Kinds of values. An object of Python that no other kind fits is foreign."""

    NONE = 0
    INT = 1
    BOOL = 2
    FLOAT = 3
    POINTER = 4
    MACHINE = 6
    TENSOR = 7
    SHAPE = 8
    TUPLE = 9
    CLOSURE = 10
    STORAGE = 11
    FOREIGN = 12
    DATA = 13
    REFERENCE = 14


class Family(IntEnum):
    """Which class of exceptions an error becomes: the low byte of its word."""

    TRAP = 0
    VALUE = 1
    TYPE = 2
    INDEX = 3


def error_word(code: Code, family: Family = Family.TRAP) -> int:
    """The word that native code gives to `heddle_set_error`: the code's number above the family."""
    return int(code.name[1:]) << 8 | family


NO_MEMORY = error_word(U0601)
BAD_REQUEST = error_word(U0602, Family.VALUE)


class MachineCode(IntEnum):
    """Numbers of the machine's diagnostics that native code reports: V0301 and on, which are declared above
    this room."""

    NO_FUNCTION = 301
    BAD_CALL = 302
    TOO_DEEP = 305
    MATCH_CAST = 401
    WRONG_KIND = 402
    DIFFERS = 403
    NO_ITEM = 404
    BAD_CONDITION = 405
    NO_DEVICE = 406
    MALFORMED = 408
    NO_CLAUSE = 411


def machine_error(code: MachineCode, family: Family = Family.TRAP) -> int:
    """The word of an error of the machine."""
    return code << 8 | family


BAD_OPERANDS = machine_error(MachineCode.MALFORMED)
NO_FUNCTION = machine_error(MachineCode.NO_FUNCTION)
BAD_CALL = machine_error(MachineCode.BAD_CALL)
BAD_ARGUMENT = machine_error(MachineCode.BAD_CALL, Family.VALUE)
TOO_DEEP = machine_error(MachineCode.TOO_DEEP)
WRONG_KIND = machine_error(MachineCode.WRONG_KIND, Family.TYPE)
DIFFERS = machine_error(MachineCode.DIFFERS, Family.VALUE)
NO_ITEM = machine_error(MachineCode.NO_ITEM, Family.INDEX)
NO_DEVICE = machine_error(MachineCode.NO_DEVICE, Family.VALUE)


class Flag(IntEnum):
    """Bits of an object's flags: its owner is an object of the host's; the owner is the same thing for the
    host; its memory is a frame's."""

    FOREIGN_OWNER = 1
    IS_OWNER = 2
    IN_FRAME = 4


class Status(IntEnum):
    """What a function of a program gives. `GOES_ON`: its result is a closure that is to be called for it.
    `ASK_HOST`: it did nothing, and the host's builtin shall do it."""

    FAILED = -1
    DONE = 0
    GOES_ON = 1
    ASK_HOST = 2


class MatchCode(IntEnum):
    """What `match_shape` does with a size: compare it with the operand or with a slot of the shape heap, or
    put it into a slot."""

    EQUALS_IMM = 0
    STORE = 1
    NOTHING = 2
    EQUALS_HEAP = 3


class MakeCode(IntEnum):
    """Where `make_shape` takes a size from: the operand, or a slot of the shape heap."""

    USE_IMM = 0
    LOAD = 1


IMMORTAL = 1 << 60
"""The count of an object that nobody frees: the host's, or in constant memory."""
HOST_DEVICE = -1
"""The number of the host's memory among a program's devices."""


class Operand(IntEnum):
    """How an operand of `heddle_call_by_words` is spelled; other words are the kind of a value, which the
    number after them is."""

    REGISTER = 256
    CONSTANT = 257


THREAD_BYTES = 1024
"""What the system is asked for as a thread's record: more than it has, for a cache line of its own."""
NUM_SIZE_CLASSES = 512
NUM_SCRATCH_BLOCKS = 8


class Value(Struct):
    """A value of a program: see the module's text."""

    kind: i32
    zero: i32
    payload: i64


class GraphCall(Struct):
    """A call of a kernel whose arguments lie in memory."""

    code: Address
    values: Pointer[Value]
    count: i64


class Error(Struct):
    """The last error of a thread; `message` ends with a zero byte."""

    is_set: i32
    word: i32
    expected: i64
    got: i64
    message: Array[u8, 488]


class ScratchHead(Struct):
    """What stands before a kernel's scratch memory: how much it is."""

    size_bytes: u64
    unused: Array[u64, 7]


class Block(Struct):
    """Scratch memory that a thread keeps."""

    start: Pointer[ScratchHead]
    size_bytes: u64


class Thread(Struct):
    """What a thread owns. `cycles` and `indices` are what it has run of the current loop."""

    error: Error
    is_inside: i32
    num_blocks: i32
    blocks: Array[Block, NUM_SCRATCH_BLOCKS]
    cycles: u64
    indices: u64
    stack_end: Address


class Head(Struct):
    """What stands before an object's payload. `flags` are bits of `Flag`. `link` is the class of a storage's
    size, or the next object of a list."""

    count: i64
    kind: i32
    flags: i32
    owner: Address
    link: u64


class Storage(Struct):
    """The payload of a storage; its memory follows. `block_bytes` are those of its class; the device is its
    pool's."""

    size_bytes: i64
    block_bytes: i64
    device_type: i32
    device_id: i32
    unused: i64


class StorageBlock(Struct):
    """What a pool lends: the memory follows."""

    head: Head
    storage: Storage


class DLTensor(Struct):
    """A tensor, the payload of `Kind.TENSOR`: DLPack's structure. Sizes follow it, where they are its own.
    `rank` and `dtype` are one word of code that makes tensors: `dtype << 32 | rank`."""

    data: Address
    device_type: i32
    device_id: i32
    rank: i32
    dtype: i32
    sizes: Pointer[i64]
    strides: Pointer[i64]
    byte_offset: i64


class ArgForm(IntEnum):
    """What an argument of a kernel has to be."""

    TENSOR = 0
    INT = 1
    FLOAT = 2
    POINTER = 3


class ArgTable(Struct):
    """What a kernel was compiled for: `num_same` times `SameSize` follow, then for each parameter an
    `ArgCheck`, and behind that of a tensor, for each dimension a `SizeCheck`."""

    num_params: i64
    device_type: i64
    num_same: i64


class SameSize(Struct):
    """Dimension `axis` of parameter `param` is as large as dimension `other_axis` of another parameter; it is
    that parameter's number where `other_axis` is negative."""

    param: i64
    axis: i64
    other: i64
    other_axis: i64


class ArgCheck(Struct):
    """`form` is an `ArgForm`. Of a tensor: rank, dtype, the bits of its address that are zero, and whether
    its strides are the kernel's own affair; of an integer: how many bits it may have, and its sign."""

    form: i64
    rank: i64
    dtype: i64
    low_bits: i64
    has_own_strides: i64
    num_bits: i64
    is_signed: i64


class SizeCheck(Struct):
    """A dimension is `size` in the bits of `mask`: in all of them, or in none."""

    size: i64
    mask: i64


class Counted(Struct):
    """The payload of a shape or a tuple: its sizes or its values follow."""

    count: i64


class Closure(Struct):
    """The payload of a closure: the number of its function; the values that it binds follow."""

    function: i64
    num_bound: i64


class Data(Struct):
    """The payload of a value of a data type: which constructor made it, and of how many fields; they
    follow."""

    count: i64
    tag: i64


class Reference(Struct):
    """The payload of a reference: what it holds."""

    value: Value


class HostObject(Struct):
    """An object of Python, as far as native code looks at it: its count and its type."""

    count: i64
    type: Pointer["HostObject"]


class Entry(Struct):
    """A function of a program: its code, or null for one of the host's, and how many arguments it has."""

    code: Address
    num_args: i64


class Pool(Struct):
    """A pool of memory and its books, counters first. `cached_bytes` lie free in it. Units: bytes, counts."""

    bytes_in_use: i64
    peak_bytes: i64
    cached_bytes: i64
    limit_bytes: i64
    num_allocations: i64
    failing_allocation: i64
    num_fresh_blocks: i64
    keeps_blocks: i32
    lock: Atomic[i32]
    device_type: i32
    device_id: i32
    free_blocks: Array[Pointer[StorageBlock], NUM_SIZE_CLASSES]
    poisons: i32


class PoolTable(Struct):
    """The pools of a machine, by the numbers of its devices: their addresses follow."""

    count: i64


class Context(Struct):
    """What a machine keeps for its native program. The constants -1, -2, ... are its functions, as values.

    `deferred`: objects of the host that wait until its lock is held; `state` is what the lock was given up
    with. `error_place` is the innermost instruction that failed, -1 while none did; `call_place` that of the
    call which the host gets. `calls` are under way, of `thread`. `watched`: whether something looks at each
    instruction. `owner` is the host's object for the machine. `stack_left` are the bytes that segments of
    stack may still take; `home` is where the thread's own stack is while the program runs on a segment, else
    null, and `home_limit` the limit there. `turns` counts calls and turns of loops; where `asks` is 1
    the host is asked now and then whether the program is to end, last in second `asked_at`.
    """

    pools: Pointer[PoolTable]
    constants: Pointer[Value]
    functions: Pointer[Entry]
    host_call: Address
    deferred: Address
    state: Address
    error_place: i64
    stack_limit: Address
    thread: i64
    calls: i64
    call_place: i64
    watched: i64
    owner: Address
    stack_left: i64
    home: Address
    home_limit: Address
    turns: i64
    asks: i64
    asked_at: i64


class ProgramTables(Struct):
    """The program of an exported library. A function of the host's has no name."""

    num_functions: i64
    names: Pointer[Pointer[u8]]
    functions: Pointer[Entry]
    constants: Pointer[Value]
    pools: Pointer[PoolTable]


class KernelRecord(Struct):
    """What the Python function of a kernel keeps of it."""

    code: Address


class ProgramRecord(Struct):
    """What the Python function of a program's function keeps of it."""

    context: Pointer[Context]
    code: Address
    num_args: i64


class LenderRecord(Struct):
    """What a Python function that lends storage keeps: of which size, where its caller does not say."""

    pool: Pointer[Pool]
    size_bytes: i64


class TensorRecord(Struct):
    """What a Python function that puts tensors into storages keeps: where in the storage, and their form. The
    sizes follow."""

    start: i64
    end: i64
    dtype: i64
    rank: i64


class NumpyArray(Struct):
    """numpy's PyArrayObject, as far as native code reads it."""

    head: HostObject
    data: Address
    rank: i32
    sizes: Pointer[i64]
    strides: Pointer[i64]
    base: Address
    element_type: Address
    flags: i32


class ElementType(Struct):
    """numpy's object for an element type, and the word of its dtype."""

    numpy: Address
    dtype: i64


HEAD_BYTES = Head.layout.size_bytes
