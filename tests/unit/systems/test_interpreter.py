"""Each kind of fault that the interpreter finds, with its place."""

import pytest

from heddle.support.diagnostics import Trap
from heddle.systems.interpret import Machine
from heddle.systems.models import MODELS
from heddle.systems.types import Array, Struct, i32, i64, u64
from tests.unit.systems.sources import program_of

DECLARED = """
@external
def malloc(size_bytes: u64) -> Address: ...
@external
def calloc(count: u64, size_bytes: u64) -> Address: ...
@external
def free(block: Address) -> None: ...
@external
def missing() -> None: ...
@external
def strncpy(to: Address, source: Address, count: u64) -> Address: ...
@external
def pthread_create(id: Pointer[u64], attributes: Address, start: Address, argument: Address) -> i32: ...
@external
def pthread_mutex_init(mutex: Address, attributes: Address) -> i32: ...
@external
def pthread_cond_init(condition: Address, attributes: Address) -> i32: ...
@external
def pthread_cond_wait(condition: Address, mutex: Address) -> i32: ...
@external
def pthread_cond_signal(condition: Address) -> i32: ...
@external
def pthread_cond_broadcast(condition: Address) -> i32: ...
@external
def pthread_mutex_lock(mutex: Address) -> i32: ...
@external
def pthread_mutex_unlock(mutex: Address) -> i32: ...

class Counted(Struct):
    count: i64
    data: Array[u64, 3]

kept = Global(Array[Pointer[Counted], 3])
mutexes = Global(Array[Array[u64, 16], 2])
plain = Global(i64)
flag = Global(Atomic[i32])
limit = PlatformValue("LIMIT", u64)
"""


class Counted(Struct):
    count: i64
    data: Array[u64, 3]


FAULTS = [
    ("Y0401", "x = kept[number].count", 3, "index 3 is outside an array of 3"),
    ("Y0401", "x = offset(made, 1).count", 0, "cannot read 8 bytes at byte 32 of block"),
    ("Y0401", "x = offset(made, -1).count", 0, "cannot read 8 bytes"),
    ("Y0401", "x = kept[number].count", 0, "which is no memory"),
    ("Y0401", "cast(Pointer[u8], note).value = 1", 0, "which is constant"),
    ("Y0402", "free(made)\n    made.count = 1", 0, "cannot write byte 0 of block"),
    ("Y0402", "x = room().value", 0, "cannot read byte 0 of room"),
    ("Y0403", "free(made)\n    free(made)", 0, "memory is given back twice"),
    ("Y0403", "free(offset(made, 1))", 0, "is not the start of a block"),
    ("Y0403", "free(ref(plain.value))", 0, "is not the start of a block"),
    ("Y0407", "x = number // number", 0, "division of 0 by zero"),
    ("Y0407", "x = number << number", 64, "u64 is shifted by 64"),
    ("Y0407", "x = cast(Function[[], u64], made)()", 0, "expected a function"),
    ("Y0407", "x = cast(Function[[u32], u64], twice)(3)", 0, "called as Function[[u32], u64]"),
    ("Y0407", "x = cast(Function[[u64], u32], twice)(3)", 0, "called as Function[[u64], u32]"),
    ("Y0407", "x = cast(Function[[u64, u64], u64], twice)(3, 4)", 0, "twice is Function[[u64], u64]"),
    ("Y0407", "cast(Function[[u64], None], twice)(3)", 0, "called as Function[[u64], None]"),
    ("Y0407", "copy(made, cast(Pointer[Counted], offset(cast(Address, made), 8)))", 0, "the two overlap"),
    (
        "Y0407",
        "strncpy(offset(cast(Address, made), 1), note, 8)\n    "
        "strncpy(made, offset(cast(Address, made), 4), 5)",
        0,
        "the two overlap",
    ),
    ("Y0401", "strncpy(made, note, 33)", 0, "cannot write 33 bytes"),
    ("Y0401", "strncpy(made, null, 1)", 0, "which is no memory"),
    ("Y0402", "free(made)\n    pthread_mutex_lock(made)", 0, "cannot read byte 0 of block"),
    (
        "Y0402",
        "pthread_mutex_init(made, null)\n    pthread_mutex_lock(made)\n    free(made)\n"
        "    pthread_mutex_unlock(made)",
        0,
        "cannot read byte 0 of block",
    ),
    ("Y0402", "free(made)\n    pthread_mutex_init(made, null)", 0, "cannot write byte 0 of block"),
    ("Y0402", "free(made)\n    pthread_cond_init(made, null)", 0, "cannot write byte 0 of block"),
    ("Y0402", "free(made)\n    pthread_cond_signal(made)", 0, "cannot read byte 0 of block"),
    ("Y0402", "free(made)\n    pthread_cond_broadcast(made)", 0, "cannot read byte 0 of block"),
    ("Y0402", "free(made)\n    pthread_cond_wait(made, kept)", 0, "cannot read byte 0 of block"),
    ("Y0401", "pthread_mutex_lock(null)", 0, "which is no memory"),
    ("Y0408", "pthread_mutex_lock(made)", 0, "was never written"),
    ("Y0407", "pthread_mutex_lock(kept)\n    pthread_mutex_lock(kept)", 0, "locks a mutex that it holds"),
    ("Y0407", "pthread_mutex_unlock(kept)", 0, "unlocks a mutex that it does not hold"),
    ("Y0408", "x = made.data[2]", 0, "byte 24 of block"),
    ("Y0409", "missing()", 0, "missing has no model"),
    ("Y0409", "x = limit", 0, "platform constant LIMIT has no value"),
    ("Y0410", "x = cast(Pointer[u64], offset(cast(Address, made), 4)).value", 0, "expected a multiple of 8"),
    ("Y0411", "while flag.load(RELAXED) == 0:\n        pass", 0, "too many steps"),
]


@pytest.mark.parametrize(("code", "body", "argument", "message"), FAULTS)
def test_faults_are_found_where_they_happen(tmp_path, code, body, argument, message):
    text = DECLARED + (
        'note = Text("constant")\n'
        "@native\ndef twice(x: u64) -> u64:\n    return x * 2\n"
        "@native\ndef two(x: u64, y: u64) -> u64:\n    return x * y\n"
        "@native\ndef room() -> Pointer[i64]:\n    it = local(i64)\n    it.value = 1\n    return it\n"
        f"@export\ndef run(number: u64) -> None:\n    made = cast(Pointer[Counted], malloc(32))\n    {body}\n"
    )
    machine = Machine(program_of(tmp_path, text), models=MODELS, max_steps=1000)
    with pytest.raises(Trap) as caught, machine:
        machine.call("run", argument)
    found = caught.value.diagnostics[0]
    assert found.code.name == code
    assert message in found.message
    line = found.span.source.text.splitlines()[found.span.line - 1].strip()
    assert line in body or line == "it.value = 1"


def test_what_is_allowed_is_no_fault(tmp_path):
    """No bytes may be copied and filled at null, a structure onto itself; in a function's type a pointer may
    point to anything, and an integer have another sign."""
    text = DECLARED + (
        "@native\ndef of(at: Pointer[Counted], n: u64) -> Address:\n    return offset(cast(Address, at), n)\n"
        "@export\ndef run(number: u64, nowhere: Pointer[u8]) -> i64:\n"
        "    copy(nowhere, nowhere, number)\n"
        "    fill(nowhere, 0, number)\n"
        "    made = cast(Pointer[Counted], calloc(1, 32))\n"
        "    fill(offset(cast(Address, made), 32), 1, number)\n"
        "    copy(made, made)\n"
        "    at = cast(Function[[Address, i64], Pointer[u64]], of)(made, 8)\n"
        "    at.value = 5\n"
        "    found = i64(made.data[0])\n"
        "    pthread_mutex_init(made, null)\n"
        "    pthread_mutex_lock(made)\n"
        "    pthread_mutex_unlock(made)\n"
        "    free(made)\n"
        "    return found\n"
    )
    with Machine(program_of(tmp_path, text), models=MODELS) as machine:
        assert machine.call("run", 0, 0) == 5
    with pytest.raises(Trap, match="Y0401"):
        Machine(program_of(tmp_path, text), models=MODELS).call("run", 1, 0)


@pytest.mark.parametrize("count", range(9))
def test_strncpy_reads_no_further_than_it_copies(tmp_path, count):
    """Bytes behind `count` may be missing, and be anything before: names of files need not be UTF-8."""
    text = DECLARED + (
        "@export\ndef run(to: Pointer[u8], source: Pointer[u8], count: u64) -> None:\n"
        "    strncpy(to, source, count)\n"
    )
    for source in (b"\xff\xc3abc", b"", b"a\0bcd", bytes([0xC3, 0xA9] * 4)):
        given = (
            source[:count] + b"\0" if b"\0" not in source[:count] and len(source) < count else source[:count]
        )
        machine = Machine(program_of(tmp_path, text), models=MODELS)
        block = machine.memory.allocate(max(len(given), 1), 1, "global", "given", "the test")
        machine.memory.set(block, 0, given)
        to = machine.new(Array[u64, 2])
        machine.memory.write(to, b"x" * 16)
        machine.call("run", to, block.start, count)
        cut = source[:count].split(b"\0")[0]
        assert machine.memory.read(to, 16) == cut + bytes(count - len(cut)) + b"x" * (16 - count)


def test_a_text_that_is_no_utf8_can_be_read(tmp_path):
    machine = Machine(program_of(tmp_path, DECLARED), models=MODELS)
    at = machine.new(Array[u64, 1])
    machine.memory.write(at, b"a\xff\0")
    assert machine.text(at).encode(errors="surrogateescape") == b"a\xff"


def test_a_mutex_that_is_freed_while_a_thread_may_lock_it(tmp_path):
    """Freeing is a write that nothing orders with the lock, in some orders before it."""
    text = DECLARED + (
        "@export\ndef make() -> Address:\n    made = malloc(64)\n    pthread_mutex_init(made, null)\n"
        "    return made\n"
        "@export\ndef use(mutex: Address) -> None:\n    pthread_mutex_lock(mutex)\n"
        "    pthread_mutex_unlock(mutex)\n"
        "@export\ndef end(mutex: Address) -> None:\n    free(mutex)\n"
    )
    program = program_of(tmp_path, text)

    def run(seed):
        with Machine(program, models=MODELS, seed=seed) as machine:
            mutex = machine.call("make")
            other = machine.spawn(lambda: machine.call("use", mutex))
            machine.scheduler.switch()
            machine.call("end", mutex)
            machine.join(other)

    for seed in range(20):
        with pytest.raises(Trap, match=r"Y0402|Y0405"):
            run(seed)


def test_a_thread_that_starts_with_a_function_of_another_type(tmp_path):
    text = DECLARED + (
        "@native\ndef two(x: u64, y: u64) -> u64:\n    return x * y\n"
        "@export\ndef run(id: Pointer[u64]) -> None:\n"
        "    pthread_create(id, null, cast(Address, two), null)\n"
    )
    machine = Machine(program_of(tmp_path, text), models=MODELS)
    with pytest.raises(Trap, match=r"Y0407.*two is Function\[\[u64, u64\], u64\]"), machine:
        machine.call("run", machine.new(u64))


def test_faults_name_the_calls_that_led_there(tmp_path):
    text = DECLARED + (
        "@native\ndef inner(at: Pointer[Counted]) -> None:\n    at.count = 1\n"
        "@export\ndef outer() -> None:\n    inner(null)\n"
    )
    with pytest.raises(Trap, match=r"called from outer at .*:\d+"):
        Machine(program_of(tmp_path, text), models=MODELS).call("outer")


def test_memory_that_is_still_counted_at_the_end_is_found(tmp_path):
    text = DECLARED + (
        "@export\ndef run(drops: bool) -> None:\n    made = cast(Pointer[Counted], calloc(1, 32))\n"
        "    made.count = 3\n    if drops:\n        free(made)\n"
    )
    program = program_of(tmp_path, text)
    with Machine(program, models=MODELS, counted=Counted.layout) as machine:
        machine.call("run", 1)
    machine = Machine(program, models=MODELS, counted=Counted.layout)
    with (
        pytest.raises(Trap, match=r"Y0404.*1 blocks(.|\n)*if it is counted, 3 times"),
        machine,
    ):
        machine.call("run", 0)


def test_memory_that_is_lost_before_it_was_written_is_found(tmp_path):
    text = DECLARED + "@export\ndef run() -> None:\n    malloc(32)\n"
    machine = Machine(program_of(tmp_path, text), models=MODELS, counted=Counted.layout)
    with pytest.raises(Trap, match="Y0404"), machine:
        machine.call("run")


def test_system_without_memory(tmp_path):
    text = DECLARED + "@export\ndef run() -> bool:\n    return malloc(32) == null\n"
    machine = Machine(program_of(tmp_path, text), models=MODELS)
    machine.state["failing_allocation"] = 0
    assert machine.call("run") == 1
    machine.check_end()


THREADS = (
    DECLARED
    + """
@export
def write_plain() -> None:
    plain.value += 1

@export
def write_locked() -> None:
    pthread_mutex_lock(kept)
    plain.value += 1
    pthread_mutex_unlock(kept)

@export
def publish() -> None:
    plain.value = 7
    flag.store(1, RELEASE)

@export
def publish_carelessly() -> None:
    plain.value = 7
    flag.store(1, RELAXED)

@export
def await_flag() -> i64:
    while flag.load(ACQUIRE) == 0:
        pass
    return plain.value

@export
def await_carelessly() -> i64:
    while flag.load(RELAXED) == 0:
        pass
    return plain.value

@export
def count_atomically() -> None:
    flag.add(1, RELAXED)

@export
def lock_both(first: u64, second: u64) -> None:
    pthread_mutex_lock(mutexes[first])
    flag.add(1, RELAXED)
    pthread_mutex_lock(mutexes[second])
    pthread_mutex_unlock(mutexes[second])
    pthread_mutex_unlock(mutexes[first])
"""
)


def _in_two(tmp_path, first, second, seed):
    with Machine(program_of(tmp_path, THREADS), models=MODELS, seed=seed) as machine:
        other = machine.spawn(lambda: machine.call(first))
        machine.call(second)
        machine.join(other)
        at = machine.global_at("plain")
        return machine.load(at, i64)


@pytest.mark.parametrize("seed", range(10))
def test_threads_that_lock_or_publish_do_not_race(tmp_path, seed):
    assert _in_two(tmp_path, "write_locked", "write_locked", seed) == 2
    assert _in_two(tmp_path, "publish", "await_flag", seed) == 7
    assert _in_two(tmp_path, "count_atomically", "count_atomically", seed) == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("write_plain", "write_plain"),
        ("write_plain", "write_locked"),
        ("publish_carelessly", "await_flag"),
        ("publish", "await_carelessly"),
    ],
)
@pytest.mark.parametrize("seed", range(10))
def test_races_are_found_in_every_order(tmp_path, first, second, seed):
    with pytest.raises(Trap, match=r"Y0405.*races with .*\.py:\d+"):
        _in_two(tmp_path, first, second, seed)


def test_threads_that_wait_for_each_other_are_found(tmp_path):
    program = program_of(tmp_path, THREADS)

    def run(seed):
        with Machine(program, models=MODELS, seed=seed) as machine:
            machine.spawn(lambda: machine.call("lock_both", 0, 1))
            machine.call("lock_both", 1, 0)

    codes = set()
    for seed in range(20):
        try:
            run(seed)
        except Trap as error:
            codes.add(error.code)
    assert codes == {"Y0406"}


def test_reading_a_field_from_outside(tmp_path):
    machine = Machine(program_of(tmp_path, DECLARED), models=MODELS)
    at = machine.new(Counted.layout)
    machine.store(at, i64, -5)
    machine.store(at + 8, u64, 1 << 63)
    assert machine.field(at, Counted.layout, "count") == -5
    assert machine.load(at + 8, u64) == 1 << 63
    assert machine.load(at, i32) == -5
