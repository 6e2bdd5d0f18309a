"""What each thread owns: its last error, whether it is inside a parallel loop, its scratch blocks, and what
it has run of the current loop.

A pthread key leads to it (thread_local variables need loader support that in-process linking does not have).
"""

from heddle.runtime.native.abi import NO_MEMORY, NUM_SCRATCH_BLOCKS, THREAD_BYTES, Block, ScratchHead, Thread
from heddle.runtime.native.source.sizes import round_up
from heddle.runtime.native.source.system import (
    STACK_BYTES,
    STACK_RESERVE_BYTES,
    aligned_alloc,
    calloc,
    frame_address,
    free,
    pthread_getspecific,
    pthread_key_create,
    pthread_self,
    pthread_setspecific,
    stack_end,
    strncpy,
)
from heddle.systems.types import Address, Pointer, i32, i64, u8, u32, u64
from heddle.systems.words import Global, Text, cast, copy, export, inline, native, null, offset, ref

ALIGN_BYTES = 64
PAGE_BYTES = 4096
MESSAGE_BYTES = 488

thread_key = Global(u32)

# For threads that the system had no memory for, all of them: their errors may be taken for one another's.
# They keep no scratch and forget where their stack ends.
spare_thread = Global(Thread, align_bytes=64)

no_memory = Text("no memory for a kernel's %e bytes of scratch")


@export
def heddle_thread_setup() -> i32:
    """Prepare the records of threads. Gives 0, or the system's error."""
    return pthread_key_create(thread_key, thread_exit)


@native
def thread_exit(record: Address) -> None:
    """Free the record and the scratch memory of a thread that ends."""
    me = cast(Pointer[Thread], record)
    number: i32 = 0
    while number < me.num_blocks:
        free(me.blocks[number].start)
        number += 1
    free(me)


@export
def heddle_thread() -> Pointer[Thread]:
    """The record of this thread, made when it is first asked for; a shared spare one without memory."""
    known = pthread_getspecific(thread_key.value)
    if known != null:
        return cast(Pointer[Thread], known)
    made = calloc(1, THREAD_BYTES)
    if made == null:
        return spare_thread
    if pthread_setspecific(thread_key.value, made) != 0:
        free(made)
        return spare_thread
    return cast(Pointer[Thread], made)


@export
def heddle_set_error(word: i32, message: Pointer[u8], expected: i64, got: i64) -> None:
    """Set this thread's error: its word, its message, and the numbers that were expected and found."""
    error = heddle_thread().error
    error.is_set = 1
    error.word = word
    error.expected = expected
    error.got = got
    strncpy(ref(error.message[0]), message, MESSAGE_BYTES - 1)


# ---- the stack


@native
def stack_limit() -> Address:
    """How far down the stack of this thread a program may go that begins here: some way, and not near the
    end."""
    here = frame_address()
    me = heddle_thread()
    end = me.stack_end
    if end == null:
        end = stack_end(pthread_self())
        if me != spare_thread:
            me.stack_end = end
    spare = offset(end, STACK_RESERVE_BYTES)
    far = offset(here, -STACK_BYTES)
    return spare if spare > far else far


@native
def stack_is_short() -> bool:
    """Whether this thread is so near the end of its stack that nothing more should begin."""
    limit = stack_limit()
    return frame_address() < limit


# ---- scratch


@export
def heddle_workspace_alloc(size_bytes: i64) -> Address:
    """Scratch of at least so many bytes, aligned to 64; null after heddle_set_error. The largest of the freed
    blocks are kept per thread, and lent again where they are large enough: fresh pages cost more than the
    kernel."""
    me = heddle_thread()
    size = round_up(u64(max(size_bytes, ALIGN_BYTES)), PAGE_BYTES)
    count = me.num_blocks
    number: i32 = 0
    while number < count:
        slot = me.blocks[number]
        if slot.size_bytes >= size:
            return offset(take_block(me, slot), 1)
        number += 1
    made = cast(Pointer[ScratchHead], aligned_alloc(ALIGN_BYTES, size + ALIGN_BYTES))
    if made == null:
        heddle_set_error(NO_MEMORY, no_memory, size_bytes, 0)
        return null
    made.size_bytes = size
    return offset(made, 1)


@inline
def take_block(me: Pointer[Thread], slot: Pointer[Block]) -> Pointer[ScratchHead]:
    """Take a block out of the thread's; the last one moves to its place."""
    block = slot.start
    last = me.num_blocks - 1
    copy(slot, me.blocks[last])
    me.num_blocks = last
    return block


@export
def heddle_workspace_free(usable: Address) -> None:
    """Give scratch memory back to this thread, which keeps some of it. Null is none."""
    if usable == null:
        return
    me = heddle_thread()
    block = offset(cast(Pointer[ScratchHead], usable), -1)
    if me == spare_thread:
        free(block)
        return
    count = me.num_blocks
    if count < NUM_SCRATCH_BLOCKS:
        keep_block(me.blocks[count], block)
        me.num_blocks = count + 1
        return
    least = smallest_block(me)
    if block.size_bytes > least.size_bytes:
        smaller = least.start
        keep_block(least, block)
        block = smaller
    free(block)


@inline
def keep_block(slot: Pointer[Block], block: Pointer[ScratchHead]) -> None:
    """Keep a block of scratch memory in a slot."""
    slot.start = block
    slot.size_bytes = block.size_bytes


@inline
def smallest_block(me: Pointer[Thread]) -> Pointer[Block]:
    """The slot with the least memory."""
    least = me.blocks[0]
    number: i32 = 1
    while number < NUM_SCRATCH_BLOCKS:
        slot = me.blocks[number]
        if slot.size_bytes < least.size_bytes:
            least = slot
        number += 1
    return least
