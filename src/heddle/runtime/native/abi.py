"""The native interface (ABI): structures, value kinds and error words that native code and Python share.

Python accesses the structures through `ctype_of`; native code is generated from the same declarations. A
value is {i32 kind, i32 0, i64 payload}. For `Kind.TENSOR` and above, the payload is a pointer to an object,
just after the object's head.
"""

from enum import IntEnum

from heddle.runtime.codes import U0601, U0602
from heddle.support.diagnostics import Code
from heddle.systems.types import Address, Array, Atomic, Pointer, Struct, i32, i64, u8, u64


class Kind(IntEnum):
    """Kinds of values. A Python object without a kind of its own is FOREIGN."""

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
    """The exception class that an error becomes: the low byte of its error word."""

    TRAP = 0
    VALUE = 1
    TYPE = 2
    INDEX = 3


def error_word(code: Code, family: Family = Family.TRAP) -> int:
    """Return the word that native code passes to `heddle_set_error`: the number of the diagnostic code,
    shifted above the family byte."""
    return int(code.name[1:]) << 8 | family


NO_MEMORY = error_word(U0601)
BAD_REQUEST = error_word(U0602, Family.VALUE)


class MachineCode(IntEnum):
    """Numbers of the machine's diagnostics that native code reports: V0301 and up. Their codes are declared
    in a package above this one."""

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
    """Return the error word of one of the machine's diagnostics."""
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
    """Bits of an object's flags: the owner is a Python object; the owner is the Python form of this same
    object; the object's memory is in a stack frame."""

    FOREIGN_OWNER = 1
    IS_OWNER = 2
    IN_FRAME = 4


class Status(IntEnum):
    """The return value of a function of a program. `GOES_ON`: the result is a closure that the caller must
    call next. `ASK_HOST`: the function did nothing, and the caller must use the Python builtin instead."""

    FAILED = -1
    DONE = 0
    GOES_ON = 1
    ASK_HOST = 2


class MatchCode(IntEnum):
    """What `match_shape` does with a size: compare it with the operand, compare it with a slot of the shape
    heap, or store it in a slot."""

    EQUALS_IMM = 0
    STORE = 1
    NOTHING = 2
    EQUALS_HEAP = 3


class MakeCode(IntEnum):
    """Where `make_shape` gets a size: from the operand or from a slot of the shape heap."""

    USE_IMM = 0
    LOAD = 1


IMMORTAL = 1 << 60
"""The reference count of an object that is never freed: it belongs to Python or is in constant memory."""
HOST_DEVICE = -1
"""The number of host memory among a program's devices."""


class Operand(IntEnum):
    """How an operand of `heddle_call_by_words` is encoded. Any other word is the kind of an immediate value,
    and the next number is its payload."""

    REGISTER = 256
    CONSTANT = 257


THREAD_BYTES = 1024
"""The allocation size of a thread record. It is larger than the record, so that each record has a cache line
of its own."""
NUM_SIZE_CLASSES = 512
NUM_SCRATCH_BLOCKS = 8


class Value(Struct):
    """A value of a program; see the docstring of this module."""

    kind: i32
    zero: i32
    payload: i64


class GraphCall(Struct):
    """A kernel call whose arguments are stored in memory."""

    code: Address
    values: Pointer[Value]
    count: i64


class Error(Struct):
    """The last error of a thread. `message` ends with a zero byte."""

    is_set: i32
    word: i32
    expected: i64
    got: i64
    message: Array[u8, 488]


class ScratchHead(Struct):
    """The header before a kernel's scratch memory. It holds the size."""

    size_bytes: u64
    unused: Array[u64, 7]


class Block(Struct):
    """A block of scratch memory that a thread keeps for reuse."""

    start: Pointer[ScratchHead]
    size_bytes: u64


class Thread(Struct):
    """Data of one thread. `cycles` and `indices` count what it has run of the current loop."""

    error: Error
    is_inside: i32
    num_blocks: i32
    blocks: Array[Block, NUM_SCRATCH_BLOCKS]
    cycles: u64
    indices: u64
    stack_end: Address


class Head(Struct):
    """The header before an object's payload. `flags` are bits of `Flag`. `link` is the size class of a
    storage, or the next object of a linked list."""

    count: i64
    kind: i32
    flags: i32
    owner: Address
    link: u64


class Storage(Struct):
    """The payload of a storage; its memory follows. `block_bytes` is the block size of its size class. The
    device is that of its pool."""

    size_bytes: i64
    block_bytes: i64
    device_type: i32
    device_id: i32
    unused: i64


class StorageBlock(Struct):
    """A block that a pool lends. The usable memory follows."""

    head: Head
    storage: Storage


class DLTensor(Struct):
    """The payload of `Kind.TENSOR`: DLPack's structure. If the tensor owns its sizes, they follow it. Native
    code that creates tensors passes `rank` and `dtype` as one word: `dtype << 32 | rank`."""

    data: Address
    device_type: i32
    device_id: i32
    rank: i32
    dtype: i32
    sizes: Pointer[i64]
    strides: Pointer[i64]
    byte_offset: i64


class ArgForm(IntEnum):
    """What an argument of a kernel must be."""

    TENSOR = 0
    INT = 1
    FLOAT = 2
    POINTER = 3


class ArgTable(Struct):
    """The signature that a kernel was compiled for. `num_same` entries of `SameSize` follow, then one
    `ArgCheck` per parameter. The `ArgCheck` of a tensor is followed by one `SizeCheck` per dimension."""

    num_params: i64
    device_type: i64
    num_same: i64


class SameSize(Struct):
    """Dimension `axis` of parameter `param` must equal dimension `other_axis` of another parameter. If
    `other_axis` is negative, it must equal the integer value of that parameter."""

    param: i64
    axis: i64
    other: i64
    other_axis: i64


class ArgCheck(Struct):
    """The check of one argument; `form` is an `ArgForm`. For a tensor: rank, dtype, address bits that must be
    zero, and whether the kernel handles strides. For an integer: the number of bits and the signedness."""

    form: i64
    rank: i64
    dtype: i64
    low_bits: i64
    has_own_strides: i64
    num_bits: i64
    is_signed: i64


class SizeCheck(Struct):
    """The check of one dimension: its value equals `size` in the bits of `mask`. The mask has all bits set,
    or none (no check)."""

    size: i64
    mask: i64


class Counted(Struct):
    """The payload of a shape or tuple. Its sizes or values follow."""

    count: i64


class Closure(Struct):
    """The payload of a closure: the number of its function. The bound values follow."""

    function: i64
    num_bound: i64


class Data(Struct):
    """The payload of a value of an algebraic data type: the constructor's tag and the number of fields. The
    fields follow."""

    count: i64
    tag: i64


class Reference(Struct):
    """The payload of a reference: the value that it holds."""

    value: Value


class HostObject(Struct):
    """The part of a Python object that native code reads: its reference count and its type."""

    count: i64
    type: Pointer["HostObject"]


class Entry(Struct):
    """A function of a program: the address of its code (null for a Python function) and its number of
    arguments."""

    code: Address
    num_args: i64


class Pool(Struct):
    """A memory pool and its counters. `cached_bytes` are free bytes that the pool keeps. Units: bytes,
    counts."""

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
    """The pools of a machine by device number. Their addresses follow."""

    count: i64


class Context(Struct):
    """The state of a machine for its native program. The constants -1, -2, ... are its functions, as values.

    `deferred`: Python objects to release when the GIL is held. `state`: the thread state from releasing the
    GIL. `error_place`: the innermost instruction that failed, -1 if none did. `call_place`: the instruction
    whose call goes to Python. `calls`: the number of active calls, all of `thread`. `watched`: whether an
    instrument observes each instruction. `owner`: the Python object of the machine. `stack_left`: the bytes
    that stack segments may still use. While the program runs on a segment, `home` is the thread's own stack
    pointer (else null) and `home_limit` its limit. `turns` counts calls and loop iterations. If `asks` is 1,
    Python is asked about once per second whether to stop the program; `asked_at` is the second of the last
    question.
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
    """The program of an exported library. Functions that only Python could run have no name."""

    num_functions: i64
    names: Pointer[Pointer[u8]]
    functions: Pointer[Entry]
    constants: Pointer[Value]
    pools: Pointer[PoolTable]


class KernelRecord(Struct):
    """The data that the Python function of a kernel needs."""

    code: Address


class ProgramRecord(Struct):
    """The data that the Python function of a program's function needs."""

    context: Pointer[Context]
    code: Address
    num_args: i64


class LenderRecord(Struct):
    """The data of a Python function that allocates storage: the size to use if the caller gives none."""

    pool: Pointer[Pool]
    size_bytes: i64


class TensorRecord(Struct):
    """The data of a Python function that creates tensors on storages: the offset in the storage, rank and
    dtype. The sizes follow."""

    start: i64
    end: i64
    dtype: i64
    rank: i64


class NumpyArray(Struct):
    """The part of numpy's PyArrayObject that native code reads."""

    head: HostObject
    data: Address
    rank: i32
    sizes: Pointer[i64]
    strides: Pointer[i64]
    base: Address
    element_type: Address
    flags: i32


class ElementType(Struct):
    """numpy's dtype object of an element type, and the matching dtype word."""

    numpy: Address
    dtype: i64


HEAD_BYTES = Head.layout.size_bytes
