"""Where programs have their frames: on the thread's stack, and when that has no room, on segments of memory.

    the thread's stack        a segment              another one
    main, f, f, f, ..., f  →  f, f, f, ..., f   →    f, f, f
                           ←  a function of the host

A segment is taken for the call that did not fit, and given back after it. Functions of the host run on the
thread's own stack: they may look where its end is. `stack_left` bounds what all segments take.
"""

from heddle.runtime.native.abi import NO_MEMORY, TOO_DEEP, Context, Status, Value
from heddle.runtime.native.source.memory import no_system_memory
from heddle.runtime.native.source.sizes import round_up
from heddle.runtime.native.source.system import HAS_SEGMENTS, aligned_alloc, frame_address, free, run_on
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.systems.types import Address, Pointer, i32, i64, u64
from heddle.systems.words import Text, address, cold, export, inline, native, null, offset

too_deep = Text("call depth exceeded: the stack has no room for another frame")

SEGMENT_BYTES = 16 << 20
SEGMENT_RESERVE_BYTES = 1 << 20  # what kernels have at a segment's end
ACTIVE_BYTES = 4096  # more than the frames between a switch of stacks and its caller
STACK_ALIGN_BYTES = 64


@inline
def fits_here(context: Pointer[Context], size_bytes: i64) -> bool:
    """Whether the stack has room for a frame of so many bytes."""
    return offset(frame_address(), -size_bytes) >= context.stack_limit


@export
def heddle_room(context: Pointer[Context], size_bytes: i64) -> i32:
    """Whether the stack has room for a frame of so many bytes."""
    if fits_here(context, size_bytes):
        return Status.DONE
    heddle_set_error(TOO_DEEP, too_deep, 0, 0)
    return Status.FAILED


@export
def heddle_has_room(context: Pointer[Context], size_bytes: i64) -> i32:
    """1 where the stack has room for a frame of so many bytes, else 0."""
    return i32(fits_here(context, size_bytes))


@cold
def refuse_depth() -> i32:
    """Set the error V0305. Gives `Status.FAILED`."""
    heddle_set_error(TOO_DEEP, too_deep, 0, 0)
    return Status.FAILED


@export
def heddle_grow(
    context: Pointer[Context], size_bytes: i64, code: Address, args: Pointer[Value], register: Pointer[Value]
) -> i32:
    """Run the code of a function, whose frame takes so many bytes, on a new segment."""
    amount = round_up(u64(SEGMENT_BYTES + size_bytes), STACK_ALIGN_BYTES)
    left = context.stack_left - i64(amount)
    if HAS_SEGMENTS == 0 or left < 0:
        return refuse_depth()
    segment = aligned_alloc(STACK_ALIGN_BYTES, amount)
    if segment == null:
        heddle_set_error(NO_MEMORY, no_system_memory, 0, i64(amount))
        return Status.FAILED
    limit = context.stack_limit
    home = context.home
    if home == null:
        context.home = offset(frame_address(), -ACTIVE_BYTES)
        context.home_limit = limit
    context.stack_left = left
    context.stack_limit = offset(segment, SEGMENT_RESERVE_BYTES)
    top = offset(segment, i64(amount))
    status = run_on(top, code, address(context), address(args), address(register), 0, 0)
    context.stack_limit = limit
    context.stack_left = left + i64(amount)
    context.home = home
    free(segment)
    return status


@inline
def aligned(place: Address) -> Address:
    """The last address at or before a place where a stack may begin."""
    return offset(place, -i64(address(place) & (STACK_ALIGN_BYTES - 1)))


@native
def call_at_home(
    context: Pointer[Context],
    code: Address,
    function: i64,
    args: Pointer[Value],
    count: i64,
    register: Pointer[Value],
) -> i32:
    """Call a function of the host on the thread's own stack. It may call the program, which has what is left
    of that stack, and segments again."""
    home = context.home
    limit = context.stack_limit
    context.home = null
    context.stack_limit = context.home_limit
    status = run_on(
        aligned(home), code, address(context), u64(function), address(args), u64(count), address(register)
    )
    context.home = home
    context.stack_limit = limit
    return status
