"""What the sources use of the C library and of the processor."""

from heddle.runtime.native.optimise import SIMPLIFIED
from heddle.systems.types import Address, Array, Function, Pointer, Struct, i32, i64, u8, u32, u64
from heddle.systems.words import PlatformValue, external, inline_ir, marked

simplified = marked(SIMPLIFIED)

SIG_BLOCK = PlatformValue("SIG_BLOCK", i32)
STACK_BYTES = PlatformValue("STACK_BYTES", i64)
STACK_RESERVE_BYTES = PlatformValue("STACK_RESERVE_BYTES", i64)
HAS_SEGMENTS = PlatformValue("HAS_SEGMENTS", i32)


class Mutex(Struct):
    """pthread_mutex_t of any platform."""

    content: Array[u64, 16]


class Condition(Struct):
    """pthread_cond_t of any platform."""

    content: Array[u64, 16]


class Signals(Struct):
    """sigset_t of any platform."""

    content: Array[u64, 16]


ThreadStart = Function[[Address], Address]
ThreadEnd = Function[[Address], None]


@inline_ir("$PAUSE", "$PAUSE_DECLARATION")
def pause() -> None:
    """Let the processor's other thread go first."""


@inline_ir("$CURRENT_CPU", "$CPU_DECLARATION")
def current_cpu() -> i32:
    """The number of the processor that this thread runs on; -3 where the system does not tell."""


@inline_ir(
    "$ON_LINUX call i32 @madvise(ptr {block}, i64 {amount}, i32 14)",
    "$ON_LINUX declare i32 @madvise(ptr, i64, i32)",
)
def advise_huge_pages(block: Address, amount: u64) -> None:
    """Ask for pages of 2 MiB. `$ON_LINUX` makes the line a comment on other systems."""


@inline_ir(
    "$ON_LINUX call i32 @sched_getaffinity(i32 0, i64 {size_bytes}, ptr {mask})",
    "$ON_LINUX declare i32 @sched_getaffinity(i32, i64, ptr)",
)
def read_processors(size_bytes: u64, mask: Address) -> None:
    """Write the processors that this thread may run on, a bit each; nothing where the system cannot tell."""


@inline_ir(
    "$ON_LINUX call i32 @sched_setaffinity(i32 0, i64 {size_bytes}, ptr {mask})",
    "$ON_LINUX declare i32 @sched_setaffinity(i32, i64, ptr)",
)
def choose_processors(size_bytes: u64, mask: Address) -> None:
    """Run this thread on some of the processors only; nothing where there is none of them."""


@inline_ir("call ptr @llvm.frameaddress.p0(i32 0)", "declare ptr @llvm.frameaddress.p0(i32)")
def frame_address() -> Address:
    """Where the stack is now."""


@inline_ir("call ptr @stack_end(i64 {thread})", "$STACK_END")
def stack_end(thread: u64) -> Address:
    """The lowest address of this thread's stack; 1 where the system does not tell."""


@inline_ir("call i32 @run_on(ptr {top}, ptr {code}, i64 {a}, i64 {b}, i64 {c}, i64 {d}, i64 {e})", "$RUN_ON")
def run_on(top: Address, code: Address, a: u64, b: u64, c: u64, d: u64, e: u64) -> i32:
    """Call code with its stack beginning below `top`, with arguments of which it may take fewer. Where
    `HAS_SEGMENTS` is 0 it must not be called."""


@inline_ir(
    "call { i64, i1 } @llvm.smul.with.overflow.i64(i64 {left}, i64 {right})",
    "declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)",
)
def signed_product(left: i64, right: i64) -> tuple[i64, bool]:
    """The low bits of a product, and whether that is not all of it."""


@external
def time(result: Address) -> i64:
    """Seconds since 1970."""


@external
def pthread_self() -> u64: ...


@external
def pthread_key_create(key: Pointer[u32], at_exit: ThreadEnd) -> i32: ...


@external
def pthread_getspecific(key: u32) -> Address: ...


@external
def pthread_setspecific(key: u32, value: Address) -> i32: ...


@external
def pthread_create(id: Pointer[u64], attributes: Address, start: ThreadStart, argument: Address) -> i32: ...


@external
def pthread_detach(id: u64) -> i32: ...


@external
def pthread_mutex_init(mutex: Pointer[Mutex], attributes: Address) -> i32: ...


@external
def pthread_mutex_lock(mutex: Pointer[Mutex]) -> i32: ...


@external
def pthread_mutex_unlock(mutex: Pointer[Mutex]) -> i32: ...


@external
def pthread_cond_init(condition: Pointer[Condition], attributes: Address) -> i32: ...


@external
def pthread_cond_wait(condition: Pointer[Condition], mutex: Pointer[Mutex]) -> i32: ...


@external
def pthread_cond_signal(condition: Pointer[Condition]) -> i32: ...


@external
def pthread_cond_broadcast(condition: Pointer[Condition]) -> i32: ...


@external
def sigfillset(signals: Pointer[Signals]) -> i32: ...


@external
def pthread_sigmask(how: i32, signals: Pointer[Signals], before: Address) -> i32: ...


@external
def malloc(size_bytes: u64) -> Address: ...


@external
def calloc(count: u64, size_bytes: u64) -> Address: ...


@external
def aligned_alloc(align_bytes: u64, size_bytes: u64) -> Address: ...


@external
def free(block: Address) -> None: ...


@external
def strncpy(to: Pointer[u8], source: Pointer[u8], count: u64) -> Pointer[u8]: ...
