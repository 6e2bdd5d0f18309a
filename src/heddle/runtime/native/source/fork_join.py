"""The fork-join pool: heddle_parallel_for(fn, ctx, extent, grain), fn(begin, end, ctx) -> status.

One job at a time. The owner of `busy` writes the job, then publishes `ticket` = generation:32 | left:16 |
first:16: the parts that nobody has claimed. The caller claims the first of them, a worker the last, each with
compare-exchange. The job's fields cannot change before every part is done, so reading them after a successful
claim is safe. A worker that wakes late, or whose processor is slow or does other work, costs little: the
caller goes on. Each end keeps to its side of the indices, so what one loop wrote is near where the next reads
it. Idle workers spin `spin_limit` times on the ticket, then sleep on `work_ready`. A part belongs to a range
that depends only on extent and parts: results do not depend on who ran what.

Waking a sleeper can cost the caller more than a small loop does (60 us on some virtual machines). While
workers sleep, loops run inline until the cycles spent so exceed twice what the last wakes cost: then waking
has paid off, or costs at most as much again (`loop_costs`). An unknown body wakes at once.

Where the grain is negative, the loop reads a lot of memory once, and may soon do so again: its parts run in
chunks, and every other run takes them backwards, because what it read last is still near. The steps of a
recurrent network find half of their weights in the second-level cache that way. A chunk has as many indices
as are worth a thread.

Where other programs want the processors too, two threads of the pool may meet on one. Whoever spins there
takes the time of the one that has work, so it sleeps at once: idle workers look at `owner_cpu`, a waiting
caller at `helper_cpu`. A worker first tries another processor, some milliseconds after it last did
(`processors`).

`sleepers` and `ticket` (and likewise `caller_waits` and `done`) form the store-load pattern that needs
SEQ_CST.
"""

from heddle.runtime.native.abi import Error, Thread
from heddle.runtime.native.part_layout import PartLog
from heddle.runtime.native.source.loop_costs import (
    UNKNOWN_RATE,
    Body,
    cost_of,
    count_cycles,
    inline_cycles,
    note_wake,
    settle_account,
    wake_cycles,
)
from heddle.runtime.native.source.part_log import note_part, part_log
from heddle.runtime.native.source.processors import MOVE_CYCLES, leave_processor
from heddle.runtime.native.source.system import (
    SIG_BLOCK,
    Condition,
    Mutex,
    Signals,
    current_cpu,
    pause,
    pthread_cond_broadcast,
    pthread_cond_init,
    pthread_cond_signal,
    pthread_cond_wait,
    pthread_create,
    pthread_detach,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    pthread_sigmask,
    sigfillset,
)
from heddle.runtime.native.source.thread import heddle_thread
from heddle.systems.types import Address, Atomic, Pointer, Struct, i32, i64, u32, u64
from heddle.systems.words import (
    ACQ_REL,
    ACQUIRE,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Global,
    cold,
    copy,
    cycle_counter,
    export,
    inline,
    local,
    native,
    null,
)


class Job(Struct):
    """The loop that runs. A part is run `chunk` indices at a time. Parts are written into `log` while
    somebody takes a profile. `error` is that of the first failure."""

    fn: Body
    ctx: Address
    extent: u64
    parts: u64
    chunk: u64
    is_backwards: u64
    owner: Pointer[Thread]
    log: Pointer[PartLog]
    status: Atomic[i32]
    error: Error


PARTS_OF_A_THREAD = 4
"""Into how many parts a loop is cut for each thread. Threads that are late or slow leave parts to others."""

num_threads = Global(Atomic[u32], 1)
num_workers = Global(u32)
spin_limit = Global(Atomic[i32], 4000)
busy = Global(Atomic[i32], align_bytes=64)
ticket = Global(Atomic[u64], align_bytes=64)
done = Global(Atomic[u64], align_bytes=64)
sleepers = Global(Atomic[i32], align_bytes=64)
caller_waits = Global(Atomic[i32], align_bytes=64)
job = Global(Job, align_bytes=64)
owner_cpu = Global(Atomic[i32], -1, align_bytes=64)  # where the caller claimed its last part
helper_cpu = Global(Atomic[i32], -2, align_bytes=64)  # where a worker did
lock = Global(Mutex, align_bytes=64)
work_ready = Global(Condition, align_bytes=64)
work_done = Global(Condition, align_bytes=64)


@export
def heddle_pool_reset() -> None:
    """Make the pool as new. Also called in the child of a fork, where the workers and whoever held `busy` are
    gone."""
    pthread_mutex_init(lock, null)
    pthread_cond_init(work_ready, null)
    pthread_cond_init(work_done, null)
    num_workers.value = 0
    sleepers.store(0, RELAXED)
    caller_waits.store(0, RELAXED)
    ticket.store(0, RELAXED)
    done.store(0, RELAXED)
    part_log.store(null, RELAXED)
    heddle_thread().is_inside = 0
    busy.store(0, SEQ_CST)


@export
def heddle_pool_configure(threads: u32, spins: i32) -> None:
    """Say how many threads take part, and how many pauses an idle one spins."""
    num_threads.store(threads, RELAXED)
    spin_limit.store(spins, RELAXED)


@export
def heddle_pool_alone(is_alone: i32) -> None:
    """Whether this thread runs its loops alone: it asks no workers, and keeps none from others."""
    heddle_thread().is_inside = is_alone


# ---- parts of a loop


@inline
def is_too_small(fn: Body, extent: u64) -> bool:
    """Whether to run this loop inline because its helpers sleep and waking them would not pay yet."""
    if sleepers.load(RELAXED) == 0:
        return False
    cost = cost_of(fn)
    if cost.body != fn:
        return False
    total = inline_cycles.value + ((cost.rate * extent) >> 10)
    is_small = total < wake_cycles.value << 1
    inline_cycles.value = total if is_small else 0
    return is_small


@native
def set_order(fn: Body, extent: u64, parts: u64, grain: u64, sweeps: bool) -> None:
    """Decide how the parts of a loop are run: how many indices at a time, and in which order."""
    job.chunk = extent
    job.is_backwards = 0
    if not sweeps:
        return
    cost = cost_of(fn)
    if cost.body != fn:
        cost.body = fn
        cost.rate = UNKNOWN_RATE
        cost.runs = 0
    cost.runs += 1
    job.is_backwards = cost.runs & 1
    job.chunk = max((extent // parts) >> 3, grain)


@native
def run_chunks(fn: Body, begin: u64, end: u64, ctx: Address) -> i32:
    """Run one part of the current job; gives the status of the first chunk that fails."""
    chunk = job.chunk
    is_backwards = job.is_backwards != 0
    last = (end - begin - 1) // chunk
    k: u64 = 0
    while True:
        start = begin + (last - k if is_backwards else k) * chunk
        status = fn(start, min(start + chunk, end), ctx)
        if status != 0 or k == last:
            return status
        k += 1


@inline
def run_part(me: Pointer[Thread], part: u64, parts: u64) -> None:
    """Run a part that this thread has claimed. The first parts are one index longer than the others where the
    extent does not divide."""
    fn = job.fn
    base = job.extent // parts
    extra = job.extent % parts
    begin = part * base + min(part, extra)
    size = base + u64(part < extra)
    start = cycle_counter()
    status = run_chunks(fn, begin, begin + size, job.ctx)
    count_cycles(me, start, size)
    if job.log != null:
        note_part(job.log, job.owner, me, begin, size, start)
    if status != 0 and job.status.compare_exchange(0, status, ACQ_REL, ACQUIRE):
        copy(job.error, me.error)


@native
def drain(me: Pointer[Thread], cpu: Pointer[Atomic[i32]], is_caller: bool) -> None:
    """Claim and run parts of the current job until none is left. `cpu` remembers the processor."""
    step: u64 = 1 if is_caller else 0
    while True:
        seen = ticket.load(ACQUIRE)
        first = seen & 65535
        left = (seen >> 16) & 65535
        if left == 0:
            return
        if not ticket.compare_exchange(seen, seen - 65536 + step, ACQ_REL, ACQUIRE):
            continue
        cpu.store(current_cpu(), RELAXED)
        parts = job.parts
        run_part(me, first if is_caller else first + left - 1, parts)
        if done.add(1, SEQ_CST) + 1 == parts and caller_waits.load(SEQ_CST) != 0:
            pthread_mutex_lock(lock)
            pthread_cond_signal(work_done)
            pthread_mutex_unlock(lock)


@inline
def is_here(mark: Pointer[Atomic[i32]]) -> bool:
    """Whether this thread runs on the processor that another one left its mark of."""
    return current_cpu() == mark.load(RELAXED)


# ---- workers


@inline
def has_work() -> bool:
    """Whether parts of a loop are left that no thread has taken."""
    return (ticket.load(SEQ_CST) >> 16) & 65535 != 0


@inline
def sleep_until_work() -> None:
    """Wait for a loop, without using the processor."""
    pthread_mutex_lock(lock)
    sleepers.add(1, SEQ_CST)
    while not has_work():
        pthread_cond_wait(work_ready, lock)
    sleepers.sub(1, SEQ_CST)
    pthread_mutex_unlock(lock)


@native
def worker(unused: Address) -> Address:
    """A thread of the pool: takes parts of loops for ever."""
    signals = local(Signals)
    sigfillset(signals)
    pthread_sigmask(SIG_BLOCK, signals, null)
    me = heddle_thread()
    me.is_inside = 1
    moved: u64 = 0
    while True:
        limit = spin_limit.load(RELAXED)
        spins: i32 = 0
        while not has_work():
            pause()
            spins += 1
            meets = is_here(owner_cpu)
            if meets and cycle_counter() - moved > MOVE_CYCLES:
                leave_processor(current_cpu())
                moved = cycle_counter()
            elif meets | (spins >= limit):
                sleep_until_work()
                break
        drain(me, helper_cpu, False)


@cold
def start_workers(wanted: u32) -> None:
    """Start missing workers. A thread that cannot be had is done without: the caller runs what nobody
    claims."""
    id = local(u64)
    while num_workers.value < wanted:
        if pthread_create(id, null, worker, null) != 0:
            return
        pthread_detach(id.value)
        num_workers.value += 1


# ---- the caller


@inline
def sleep_until_done(parts: u64) -> None:
    """Wait until all parts of a loop are done, without using the processor."""
    pthread_mutex_lock(lock)
    caller_waits.store(1, SEQ_CST)
    while done.load(SEQ_CST) != parts:
        pthread_cond_wait(work_done, lock)
    caller_waits.store(0, SEQ_CST)
    pthread_mutex_unlock(lock)


@native
def wait_for_parts(parts: u64) -> None:
    """Wait until `done` reaches `parts`: spin, then sleep."""
    limit = spin_limit.load(RELAXED)
    spins: i32 = 0
    while done.load(ACQUIRE) != parts:
        pause()
        spins += 1
        if is_here(helper_cpu) | (spins >= limit):
            sleep_until_done(parts)
            return


@inline
def publish(me: Pointer[Thread], fn: Body, ctx: Address, extent: u64, parts: u64) -> None:
    """Tell the workers of a job whose order is set, and wake those that sleep."""
    job.fn = fn
    job.ctx = ctx
    job.extent = extent
    job.parts = parts
    job.owner = me
    job.log = part_log.load(ACQUIRE)
    job.status.store(0, RELAXED)
    done.store(0, RELAXED)
    generation = ticket.load(RELAXED) >> 32
    ticket.store((generation + 1) << 32 | parts << 16, SEQ_CST)
    if sleepers.load(SEQ_CST) != 0:
        start = cycle_counter()
        pthread_mutex_lock(lock)
        pthread_cond_broadcast(work_ready)
        pthread_mutex_unlock(lock)
        note_wake(cycle_counter() - start)


@inline
def run_shared(
    me: Pointer[Thread], fn: Body, ctx: Address, extent: u64, parts: u64, grain: u64, sweeps: bool
) -> i32:
    """Run a loop on the pool's threads."""
    need = num_threads.load(RELAXED) - 1
    if num_workers.value < need:
        start_workers(need)
    me.is_inside = 1
    set_order(fn, extent, parts, grain, sweeps)
    publish(me, fn, ctx, extent, parts)
    drain(me, owner_cpu, True)
    wait_for_parts(parts)
    settle_account(me, fn)
    me.is_inside = 0
    status = job.status.load(RELAXED)
    if status != 0:
        copy(me.error, job.error)
    return status


@inline
def run_owned(
    me: Pointer[Thread], fn: Body, ctx: Address, extent: u64, parts: u64, grain: u64, sweeps: bool
) -> i32:
    """Run a loop as the owner of `busy`."""
    if parts <= 1:
        set_order(fn, extent, 1, grain, sweeps)
        return run_chunks(fn, 0, extent, ctx)
    if is_too_small(fn, extent):
        start = cycle_counter()
        set_order(fn, extent, 1, grain, sweeps)
        status = run_chunks(fn, 0, extent, ctx)
        count_cycles(me, start, extent)
        log = part_log.load(ACQUIRE)
        if log != null:
            note_part(log, me, me, 0, extent, start)
        settle_account(me, fn)
        return status
    return run_shared(me, fn, ctx, extent, parts, grain, sweeps)


@export
def heddle_parallel_for(fn: Body, ctx: Address, extent_wish: i64, grain_wish: i64) -> i32:
    """Run fn(begin, end, ctx) over all indices below the extent; the first status that is not 0, or 0. The
    grain is the least number of indices that is worth a thread."""
    if extent_wish <= 0:
        return 0
    extent = u64(extent_wish)
    grain = max(abs(grain_wish), 1)
    sweeps = grain_wish < 0
    wanted = (extent - 1) // grain + 1
    threads = u64(num_threads.load(RELAXED))
    is_even = sweeps | (threads == 1)  # a sweep comes back to what its thread has near
    parts = min(wanted, threads if is_even else threads * PARTS_OF_A_THREAD)
    has_order = sweeps & (wanted >= 4)
    if (parts > 1) | has_order:
        me = heddle_thread()
        if me.is_inside == 0 and busy.compare_exchange(0, 1, ACQ_REL, ACQUIRE):
            status = run_owned(me, fn, ctx, extent, parts, grain, sweeps)
            busy.store(0, RELEASE)
            return status
    return fn(0, extent, ctx)
