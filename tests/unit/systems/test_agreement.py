"""Programs of the systems language as machine code, in the interpreter, and in C's arithmetic by ctypes."""

from __future__ import annotations

import ctypes
import random

import pytest

from heddle.support.diagnostics import Trap
from heddle.systems.interpret import Machine
from heddle.systems.models import MODELS
from heddle.systems.translate import translate
from heddle.systems.types import ArrayType, ctype_of, i8, i16, i32, i64, u8, u16, u32, u64
from tests.unit.systems.sources import NativeProgram, program_of

TYPES = {kind.name: kind for kind in (i8, i16, i32, i64, u8, u16, u32, u64)}
OPERATORS = ("+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%")


def _samples(kind):
    rng = random.Random(kind.name)
    edges = [0, 1, 2, 7, kind.most, kind.least, kind.most - 1, kind.least // 2]
    return sorted({*edges, *(kind.wrap(rng.getrandbits(64)) for _ in range(4))})


def _expected(op, kind, a, b):
    results = {
        "+": a + b,
        "-": a - b,
        "*": a * b,
        "&": a & b,
        "|": a | b,
        "^": a ^ b,
    }
    if op in results:
        return ctype_of(kind)(results[op]).value
    if op in ("<<", ">>"):
        return ctype_of(kind)(a << b if op == "<<" else a >> b).value
    return a // b if op == "//" else a % b


def _is_defined(op, kind, b):
    return 0 <= b < kind.bits if op in ("<<", ">>") else b != 0 if op in ("//", "%") else True


@pytest.mark.parametrize("name", TYPES)
def test_operators_agree_on_every_type(tmp_path, name):
    kind = TYPES[name]
    operators = [op for op in OPERATORS if not (kind.is_signed and op in ("//", "%"))]
    text = ""
    for number, op in enumerate(operators):
        text += (
            f"@export\ndef heddle_kernel_op{number}(a: {name}, b: {name}) -> {name}:\n    return a {op} b\n"
        )
    for number, op in enumerate(("<", "<=", ">", ">=", "==", "!=")):
        text += (
            f"@export\ndef heddle_kernel_cmp{number}(a: {name}, b: {name}) -> u8:\n    return u8(a {op} b)\n"
        )
    for op in ("min", "max"):
        text += f"@export\ndef heddle_kernel_{op}(a: {name}, b: {name}) -> {name}:\n    return {op}(a, b)\n"
    text += f"@export\ndef heddle_kernel_not(a: {name}, b: {name}) -> {name}:\n    return ~a - -b\n"
    program = program_of(tmp_path, text)
    native, ctype = NativeProgram(program), ctype_of(kind)
    with Machine(program, models=MODELS) as machine:
        for a in _samples(kind):
            for b in _samples(kind):
                checks = [
                    (f"op{number}", _expected(op, kind, a, b))
                    for number, op in enumerate(operators)
                    if _is_defined(op, kind, b)
                ]
                compared = (a < b, a <= b, a > b, a >= b, a == b, a != b)
                checks += [(f"cmp{number}", int(answer)) for number, answer in enumerate(compared)]
                checks += [("min", min(a, b)), ("max", max(a, b)), ("not", ctype(~a + b).value)]
                for function, expected in checks:
                    result = ctypes.c_uint8 if function.startswith("cmp") else ctype
                    assert native.function(function, result, ctype, ctype)(a, b) == expected, (function, a, b)
                    assert machine.call("heddle_kernel_" + function, a, b) == expected, (function, a, b)


@pytest.mark.parametrize("source", TYPES)
def test_conversions_agree(tmp_path, source):
    text = ""
    for target in TYPES:
        text += f"@export\ndef heddle_kernel_{target}(a: {source}) -> {target}:\n    return {target}(a)\n"
    program = program_of(tmp_path, text)
    native, ctype = NativeProgram(program), ctype_of(TYPES[source])
    with Machine(program, models=MODELS) as machine:
        for target, kind in TYPES.items():
            for value in _samples(TYPES[source]):
                expected = ctype_of(kind)(value).value
                assert native.function(target, ctype_of(kind), ctype)(value) == expected
                assert machine.call(f"heddle_kernel_{target}", value) == expected


CONTROL = """
class Item(Struct):
    key: u32
    next: Pointer["Item"]
    values: Array[i16, 5]

calls = Global(i64)

@inline
def split(n: u64) -> tuple[u64, u64]:
    if n < 10:
        return n, 0
    return n % 10, n // 10

@native
def bump(n: i64) -> bool:
    calls.value += n
    return n > 2

@export
def heddle_kernel_digits(n: u64) -> u64:
    total: u64 = 0
    while n != 0:
        low, n = split(n)
        if low == 3:
            continue
        if low == 9:
            break
        total += low
    return total

@export
def heddle_kernel_logic(a: i64, b: i64) -> i64:
    calls.value = 0
    if bump(a) and not bump(b) or bump(a + b):
        calls.value += 100
    both = bump(a) and bump(b)
    chosen = calls.value if both else -calls.value
    return chosen + i64(a < b and b < 5 or a == 7)

@export
def heddle_kernel_nested(n: u64, m: u64) -> u64:
    found: u64 = 0
    i: u64 = 0
    while True:
        j: u64 = 0
        while j < m:
            j += 1
            if i * j % 7 == 3:
                break
            if j & 1 != 0:
                continue
            found += i + j
        else_value = found if found > 50 else found << 1
        if i >= n:
            return else_value + max(i, j)
        i += 1

@export
def heddle_kernel_chain(n: u32) -> i64:
    items = local(Array[Item, 8])
    head = cast(Pointer[Item], null_address())
    count: u32 = 0
    while count < min(n, 8):
        item = items[count]
        item.key = count * count
        item.next = head
        at: i64 = 0
        while at < 5:
            item.values[at] = i16(count) - i16(at)
            at += 1
        head = item
        count += 1
    total: i64 = 0
    while head != null:
        total = total * 3 + i64(head.key) + i64(head.values[count % 5])
        head = head.next
    return total

@native
def null_address() -> Address:
    return null
"""


def _digits(n):
    total = 0
    while n:
        low, n = n % 10, n // 10
        if low == 3:
            continue
        if low == 9:
            break
        total += low
    return total


def _logic(a, b):
    calls = [0]

    def bump(n):
        calls[0] += n
        return n > 2

    if (bump(a) and not bump(b)) or bump(a + b):
        calls[0] += 100
    both = bump(a) and bump(b)
    chosen = calls[0] if both else -calls[0]
    return chosen + int((a < b and b < 5) or a == 7)


def _nested(n, m):
    found = i = 0
    while True:
        j = 0
        while j < m:
            j += 1
            if i * j % 7 == 3:
                break
            if j & 1:
                continue
            found += i + j
        value = found if found > 50 else found << 1
        if i >= n:
            return value + max(i, j)
        i += 1


def _chain(n):
    count = min(n, 8)
    total = 0
    for k in reversed(range(count)):
        total = total * 3 + k * k + k - count % 5
    return total


def test_control_flow_agrees_with_python(tmp_path):
    program = program_of(tmp_path, CONTROL)
    native = NativeProgram(program)
    word, short = ctypes.c_uint64, ctypes.c_uint32
    digits = native.function("digits", word, word)
    logic = native.function("logic", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    nested = native.function("nested", word, word, word)
    chain = native.function("chain", ctypes.c_int64, short)
    with Machine(program, models=MODELS) as machine:
        for n in (0, 1, 7, 13, 9, 1234, 31415926535, 987654321):
            assert digits(n) == machine.call("heddle_kernel_digits", n) == _digits(n)
        for a in range(-2, 9):
            for b in range(-2, 9):
                assert logic(a, b) == machine.call("heddle_kernel_logic", a, b) == _logic(a, b), (a, b)
        for n in (0, 1, 2, 5, 11):
            for m in (0, 1, 2, 7, 13):
                assert nested(n, m) == machine.call("heddle_kernel_nested", n, m) == _nested(n, m)
        for n in (0, 1, 3, 5, 8, 100):
            assert chain(n) == machine.call("heddle_kernel_chain", n) == _chain(n), n


ATOMICS = """
@export
def heddle_kernel_atomics(cell: Pointer[Atomic[i64]], a: i64, b: i64) -> i64:
    cell.store(a, RELEASE)
    total = cell.add(b, ACQ_REL)
    total = total * 3 + cell.sub(1, RELAXED)
    total = total * 3 + cell.exchange(a ^ b, SEQ_CST)
    if cell.compare_exchange(a, b, ACQ_REL, ACQUIRE):
        total += 1000
    if cell.compare_exchange(a ^ b, 5, SEQ_CST, RELAXED):
        total += 2000
    return total * 3 + cell.load(ACQUIRE)
"""


def test_atomic_memory_agrees(tmp_path):
    program = program_of(tmp_path, ATOMICS)
    native = NativeProgram(program)
    run = native.function("atomics", ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    with Machine(program, models=MODELS) as machine:
        at = machine.new(i64)
        for a, b in ((0, 0), (3, 4), (-7, 5), (1 << 62, 1 << 62), (9, 9)):
            cell = ctypes.c_int64(77)
            assert run(ctypes.addressof(cell), a, b) == machine.call("heddle_kernel_atomics", at, a, b)
            assert cell.value == machine.load(at, i64) == (b if a == (a ^ b) else 5) or b == 0


def test_text_holes_and_inline_ir_reach_the_text(tmp_path):
    program = program_of(
        tmp_path,
        'SIZE = PlatformValue("SIZE", u64)\nnote = Text("100% of \\"$5\\" \\\\ é")\n'
        '@inline_ir("call i64 @llvm.ctpop.i64(i64 {n})", "declare i64 @llvm.ctpop.i64(i64)")\n'
        "def ones(n: u64) -> u64:\n    ...\n"
        "@export\ndef f(n: u64) -> u64:\n    return ones(n) + SIZE\n"
        "@export\ndef g() -> Pointer[u8]:\n    return note\n",
    )
    text = translate(program)
    assert "call i64 @llvm.ctpop.i64(i64 %n)" in text
    assert "$SIZE" in text
    assert '[18 x i8] c"100% of \\22\\245\\22 \\5C \\C3\\A9\\00"' in text
    with Machine(
        program, models={**MODELS, "ones": lambda m, n: n.bit_count()}, platform={"SIZE": 5}
    ) as machine:
        assert machine.call("f", 7) == 8
        assert machine.text(machine.call("g")) == '100% of "$5" \\ é'


ROOMS = """
class Pair(Struct):
    a: i64
    b: i64

@export
def heddle_kernel_rotate(values: Pointer[i64], count: i64, by: i64) -> i64:
    room = local(i64, count)
    copy(room, offset(values, by), count - by)
    copy(offset(room, count - by), values, by)
    copy(values, room, count)
    return count

@export
def heddle_kernel_pairs(values: Pointer[i64], count: u8) -> i64:
    pairs = local(Pair, count)
    bytes_of = cast(Address, pairs)
    copy(bytes_of, cast(Address, values), u32(count) * 16)
    total: i64 = 0
    number: u8 = 0
    while number < count:
        total = total * 3 + pairs[number].a - pairs[number].b
        number += 1
    return total
"""


@pytest.mark.parametrize("count", [0, 1, 2, 7, 13])
def test_memory_of_a_free_size_agrees(tmp_path, count):
    program = program_of(tmp_path, ROOMS)
    native, word = NativeProgram(program), ctypes.c_int64
    rotate = native.function("rotate", word, ctypes.c_void_p, word, word)
    pairs = native.function("pairs", word, ctypes.c_void_p, ctypes.c_uint8)
    rng = random.Random(count)
    given = [rng.getrandbits(40) for _ in range(2 * count)]
    memory = (word * max(2 * count, 1))(*given)
    by = rng.randint(0, 2 * count)
    with Machine(program, models=MODELS) as machine:
        at = machine.new(ArrayType(i64, max(2 * count, 1)))
        for number, value in enumerate(given):
            machine.store(at + 8 * number, i64, value)
        total = 0
        for a, b in zip(given[::2], given[1::2], strict=True):
            total = total * 3 + a - b
        expected = i64.wrap(total)
        assert pairs(memory, count) == machine.call("heddle_kernel_pairs", at, count) == expected
        assert rotate(memory, 2 * count, by) == machine.call("heddle_kernel_rotate", at, 2 * count, by)
        rotated = given[by:] + given[:by]
        assert list(memory)[: 2 * count] == rotated
        assert [machine.load(at + 8 * number, i64) for number in range(2 * count)] == rotated


def test_memory_of_a_free_size_ends_with_the_call_and_has_bounds(tmp_path):
    text = (
        "@export\ndef keep(count: i64) -> Pointer[i64]:\n    return local(i64, count)\n"
        "@export\ndef past(count: i64) -> i64:\n    room = local(i64, count)\n"
        "    room[count] = 1\n    return 0\n"
        "@export\ndef move(count: i64) -> i64:\n    room = local(i64)\n"
        "    copy(room, room, count)\n    return 0\n"
    )
    with Machine(program_of(tmp_path, text), models=MODELS) as machine:
        at = machine.call("keep", 3)
        with pytest.raises(Trap) as found:
            machine.store(at, i64, 1)
        assert found.value.code == "Y0402"
        for count in (0, 3):
            with pytest.raises(Trap) as found:
                machine.call("past", count)
            assert found.value.code == "Y0401"
        for count in (-1, -(1 << 63)):
            with pytest.raises(Trap, match=r"Y0401.*cannot copy"):
                machine.call("move", count)
        for count in (-1, 1 << 40):
            with pytest.raises(Trap) as found:
                machine.call("keep", count)
            assert found.value.code == "Y0401"


FLOATS = """
Twice = Function[[f64], f64]

class Item(Struct):
    bits: i64
    number: f64

@export
def heddle_kernel_swap(item: Pointer[Item], other: f64) -> f64:
    old = item.number
    item.number = other
    return old

@export
def heddle_kernel_through(item: Pointer[Item], f: Twice) -> i64:
    item.number = f(cast(Pointer[f64], ref(item.bits)).value)
    return cast(Pointer[i64], ref(item.number)).value
"""


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, float("inf"), 5e-324, -1.7976931348623157e308])
def test_floats_are_carried_bit_by_bit(tmp_path, number):
    program = program_of(tmp_path, FLOATS)
    native, double, word = NativeProgram(program), ctypes.c_double, ctypes.c_int64
    bits = ctypes.c_int64.from_buffer_copy(double(number)).value
    item = (word * 2)(bits, 7)
    swap = native.function("swap", double, ctypes.c_void_p, double)
    assert ctypes.c_int64.from_buffer_copy(double(swap(item, number))).value == 7
    assert item[1] == bits
    kind = ctypes.CFUNCTYPE(double, double)
    through = native.function("through", word, ctypes.c_void_p, kind)
    assert through(item, kind(lambda x: -x)) == bits ^ -(1 << 63)
    with Machine(program, models=MODELS) as machine:  # which has floats as their bits
        at = machine.new(ArrayType(i64, 2))
        machine.store(at, i64, bits)
        assert machine.call("heddle_kernel_swap", at, bits & (1 << 64) - 1) == 0
        assert machine.load(at + 8, i64) == bits
        negate = machine.function(lambda x: x ^ 1 << 63)
        assert machine.call("heddle_kernel_through", at, negate) == bits ^ -(1 << 63)
