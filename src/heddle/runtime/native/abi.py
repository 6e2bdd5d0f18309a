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
BAD_OPERANDS = 408 << 8 | Family.TRAP
"""V0408, a code of the machine, which is declared above this room."""

IN_FRAME = 4
"""The flag of an object whose memory is a frame's."""


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
    """What stands before an object's payload. Bits of `flags`: 1 the owner is foreign, 2 it is the same
    object in Python, 4 the object lies in a frame. `link` is the class of a storage's size, or the next
    object of a list."""

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


class Entry(Struct):
    """A function of a program: its code, or null for one of the host's, and how many arguments it has."""

    code: Address
    num_args: i64


class Context(Struct):
    """What a machine keeps for its native program. The constants -1, -2, ... are its functions, as values.

    `deferred`: objects of the host that wait until its lock is held; `state` is what the lock was given up
    with. `error_place` is the innermost instruction that failed, -1 while none did; `call_place` that of the
    call which the host gets. `watched`: whether something looks at each instruction.
    """

    pools: Address
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


HEAD_BYTES = Head.layout.size_bytes
