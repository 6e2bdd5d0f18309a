"""What functions of the C library do in the interpreter."""

from __future__ import annotations

from collections.abc import Callable

from heddle.systems.codes import Y0403, Y0407
from heddle.systems.running import Running, Value
from heddle.systems.types import Address, FunctionType, u8, u32, u64

_START = FunctionType((Address,), Address)
_AT_EXIT = FunctionType((Address,), None)


def malloc(machine: Running, size_bytes: int) -> int:
    """A block aligned to 16 bytes. Null where `aligned_alloc` gives it."""
    return aligned_alloc(machine, 16, size_bytes)


def aligned_alloc(machine: Running, align_bytes: int, size_bytes: int) -> int:
    """Null where the state `failing_allocation` counts down to this call."""
    left = machine.state.get("failing_allocation")
    if left is not None:
        machine.state["failing_allocation"] = left - 1
        if left == 0:
            return 0
    if size_bytes % align_bytes and align_bytes > 16:
        machine.fail(Y0407, f"size {size_bytes} is no multiple of the alignment {align_bytes}")
    return machine.memory.allocate(size_bytes, align_bytes, "heap", "block", machine.place()).start


def calloc(machine: Running, count: int, size_bytes: int) -> int:
    """A block of zeros aligned to 16 bytes. Null where `aligned_alloc` gives it."""
    start = aligned_alloc(machine, 16, count * size_bytes)
    if start:
        block = machine.memory.at(start)
        assert block is not None
        machine.memory.set(block, 0, bytes(count * size_bytes))
    return start


def free(machine: Running, address: int) -> None:
    """Freeing is a write: whoever still reads races with it."""
    if not address:
        return
    block = machine.memory.release(address, machine.place())
    block.freed_at = None
    machine.touch(block.start, len(block.data), writes=True)
    block.freed_at = machine.place()


def strncpy(machine: Running, to: int, source: int, count: int) -> int:
    """At most `count` bytes of a string, then zeros up to `count`. Gives `to`. Nothing is read behind the
    string's zero byte, nor behind `count` bytes; fails where what is read and written overlap."""
    text = machine.string(source, count)
    num_read = min(len(text) + 1, count)
    if max(to, source) < min(to + count, source + num_read):
        machine.fail(Y0407, f"strncpy from {source:#x} to {to:#x}: the two overlap")
    if count:
        machine.memory.write(to, text + bytes(count - len(text)))
        machine.touch(source, num_read, writes=False)
        machine.touch(to, count, writes=True)
    return to


# ---- threads


def _make(machine: Running, at: int) -> None:
    """A mutex or condition is made: its memory, of which models use the first byte, is set."""
    machine.memory.write(at, b"\0")
    machine.touch(at, 1, writes=True)


def _use(machine: Running, at: int) -> None:
    """A mutex or condition is used: its memory is alive and set. Threads may do so at once."""
    machine.memory.write(at, machine.memory.read(at, 1))
    machine.touch(at, 1, writes=True, is_atomic=True)


def mutex_init(machine: Running, mutex: int, attributes: int) -> None:
    """A mutex that nobody holds."""
    _make(machine, mutex)
    machine.state["mutex", mutex] = None


def mutex_lock(machine: Running, mutex: int) -> None:
    """Fails where the thread holds it already: it would wait for itself."""
    _use(machine, mutex)
    thread = machine.scheduler.current.number
    if machine.state.get(("mutex", mutex)) == thread:
        machine.fail(Y0407, "a thread locks a mutex that it holds")
    machine.scheduler.switch(lambda: machine.state.get(("mutex", mutex)) is None)
    machine.state["mutex", mutex] = thread
    machine.races.acquire(thread, ("mutex", mutex))


def mutex_unlock(machine: Running, mutex: int) -> None:
    """Fails where the thread does not hold it."""
    _use(machine, mutex)
    thread = machine.scheduler.current.number
    if machine.state.get(("mutex", mutex)) != thread:
        machine.fail(Y0407, "a thread unlocks a mutex that it does not hold")
    machine.races.release(thread, ("mutex", mutex))
    machine.state["mutex", mutex] = None


def cond_init(machine: Running, condition: int, attributes: int) -> None:
    """A condition that nobody waits for."""
    _make(machine, condition)
    machine.state["condition", condition] = []


def cond_wait(machine: Running, condition: int, mutex: int) -> None:
    """Never wakes without a signal, so that a lost one is found."""
    _use(machine, condition)
    waiters: list[object] = machine.state.setdefault(("condition", condition), [])
    token = object()
    waiters.append(token)
    mutex_unlock(machine, mutex)
    machine.scheduler.switch(lambda: token not in waiters)
    mutex_lock(machine, mutex)


def cond_signal(machine: Running, condition: int) -> None:
    """One of the threads that wait may go on; the seed decides which."""
    _use(machine, condition)
    waiters = machine.state.get(("condition", condition), [])
    if waiters:
        waiters.remove(machine.scheduler.random.choice(waiters))


def cond_broadcast(machine: Running, condition: int) -> None:
    """All threads that wait may go on."""
    _use(machine, condition)
    machine.state.get(("condition", condition), []).clear()


def create(machine: Running, id: int, attributes: int, start: int, argument: int) -> int:
    """11 (EAGAIN) where the state `max_threads` allows no more threads."""
    scheduler = machine.scheduler
    if len(scheduler.threads) >= machine.state.get("max_threads", 64):
        return 11
    thread = machine.spawn(lambda: _run(machine, start, argument))
    machine.store(id, u64, thread.number)
    return 0


def _run(machine: Running, start: int, argument: int) -> None:
    machine.call_address(start, (argument,), _START)
    _end_specific(machine, machine.scheduler.current.number)


def detach(machine: Running, id: int) -> None:
    """Fails for a number that no started thread has; does nothing else."""
    if not 0 < id < len(machine.scheduler.threads):
        machine.fail(Y0403, f"{id} is no thread")


def key_create(machine: Running, key: int, at_exit: int) -> int:
    """At the end of the machine the threads that still run end, too."""
    number = machine.state["keys"] = machine.state.get("keys", 0) + 1
    machine.store(key, u32, number)
    machine.state["at_exit", number] = at_exit

    def end() -> None:
        for thread in machine.scheduler.threads:
            _end_specific(machine, thread.number)

    machine.at_end.append(end)
    return 0


def _end_specific(machine: Running, thread: int) -> None:
    for number in range(1, machine.state.get("keys", 0) + 1):
        value = machine.state.pop(("specific", thread, number), 0)
        if value:
            machine.call_address(machine.state["at_exit", number], (value,), _AT_EXIT)


def getspecific(machine: Running, key: int) -> int:
    """The running thread's value of a key; null where it has none."""
    found: int = machine.state.get(("specific", machine.scheduler.current.number, key), 0)
    return found


def setspecific(machine: Running, key: int, value: int) -> int:
    """12 (ENOMEM) where the state `fails_specific` says so."""
    if machine.state.get("fails_specific"):
        return 12
    machine.state["specific", machine.scheduler.current.number, key] = value
    return 0


def sigfillset(machine: Running, signals: int) -> None:
    """Set the first byte of the set, and no other."""
    machine.store(signals, u8, 255)


def nothing(machine: Running, *args: int) -> None:
    """A function whose effects the interpreter does not see."""


def pause(machine: Running) -> None:
    """Let another thread go on."""
    machine.step()
    machine.scheduler.switch()


MODELS: dict[str, Callable[..., Value | None]] = {
    "malloc": malloc,
    "aligned_alloc": aligned_alloc,
    "calloc": calloc,
    "free": free,
    "strncpy": strncpy,
    "pthread_mutex_init": mutex_init,
    "pthread_mutex_lock": mutex_lock,
    "pthread_mutex_unlock": mutex_unlock,
    "pthread_cond_init": cond_init,
    "pthread_cond_wait": cond_wait,
    "pthread_cond_signal": cond_signal,
    "pthread_cond_broadcast": cond_broadcast,
    "pthread_create": create,
    "pthread_detach": detach,
    "pthread_key_create": key_create,
    "pthread_getspecific": getspecific,
    "pthread_setspecific": setspecific,
    "pthread_sigmask": nothing,
    "sigfillset": sigfillset,
    "pause": pause,
}
