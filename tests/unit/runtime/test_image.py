"""Objects linked without a linker: where symbols are, what is refused, and the fields of relocations."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

from heddle.runtime.native.image import Image, Linked
from heddle.runtime.native.library import compile_ir, core_object
from heddle.runtime.native.relocations import MACHINES
from heddle.runtime.needs import Processor, features_of_flags, processor_that_system_tells
from heddle.runtime.processor import this_processor
from heddle.support.diagnostics import FormatError
from heddle.target.features import CODE_FEATURES

AARCH64 = "aarch64-unknown-linux-gnu"
HERE = this_processor().triple
COUNTER = """
@count = internal global i64 5
@table = internal constant [2 x ptr] [ptr @twice, ptr @next]
@given = external global i64
declare i64 @labs(i64)
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
define i64 @next(i64 %x) {
  %old = load i64, ptr @count
  %new = add i64 %old, %x
  store i64 %new, ptr @count
  %g = load i64, ptr @given
  %s = add i64 %new, %g
  %r = call i64 @labs(i64 %s)
  ret i64 %r
}
define i64 @either(i64 %which, i64 %x) {
  %at = getelementptr [2 x ptr], ptr @table, i64 0, i64 %which
  %f = load ptr, ptr %at
  %r = call i64 %f(i64 %x)
  ret i64 %r
}
"""
USER = """
declare i64 @either(i64, i64)
define i64 @user(i64 %x) {
  %a = call i64 @either(i64 0, i64 %x)
  %b = call i64 @either(i64 1, i64 %a)
  ret i64 %b
}
"""


def function(image: Image, name: str) -> Any:
    address = image.address(name)
    assert address is not None
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def test_objects_call_each_other_the_c_library_and_what_is_given() -> None:
    given = np.array([-1000], "int64")
    image = Image([compile_ir(USER), compile_ir(COUNTER)], {"given": given.ctypes.data})
    user = function(image, "user")
    assert user(3) == abs(5 + 6 - 1000)
    assert user(-4) == abs(11 - 8 - 1000)
    given[0] = 7
    assert function(image, "next")(10) == 13 + 7
    assert image.address("count") is None and image.address("labs") is None
    other = Image([compile_ir(COUNTER)], {"given": given.ctypes.data})
    assert function(other, "next")(0) == 5 + 7  # data of its own


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([COUNTER, COUNTER], "two objects define either|two objects define next|two objects define twice"),
        ([USER], "needs either"),
        ([], "0 kinds of processors"),
    ],
)
def test_names_are_defined_once(objects: list[str], words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        Image([compile_ir(text) for text in objects], {"given": 1})
    assert caught.value.code == "U0502"


def test_objects_of_two_machines_or_of_another_one_are_refused() -> None:
    other = core_object(AARCH64 if "x86_64" in HERE else "x86_64-unknown-linux-gnu")
    with pytest.raises(FormatError, match="2 kinds of processors"):
        Image([compile_ir(USER), other], {})
    with pytest.raises(FormatError, match="another machine"):
        Image([other], {"heddle_program": 1, "heddle_artefact": 1})


def code_of_refusal(code: bytes) -> str:
    """The code of the error; "" where the object is linked."""
    try:
        Linked([code], {}, lambda name: 4096).at(1 << 20)
    except FormatError as error:
        return str(error.code)
    return ""


def test_damaged_objects_are_refused_and_nothing_else_happens() -> None:
    whole, rng = compile_ir(COUNTER), np.random.default_rng(11)
    codes = []
    for _ in range(3000):
        code = bytearray(whole)
        for at in rng.integers(0, len(code), rng.integers(1, 4)):
            code[at] = rng.integers(256)
        damaged = bytes(code[: rng.integers(len(code) // 2, len(code) + 1)])
        codes.append(code_of_refusal(damaged))
    assert codes.count("U0502") > 300 and set(codes) == {"U0502", ""}


def _word(kind: int, s: int, place: int, instruction: int, machine: int = 183, entry: int = 0) -> int:
    found = MACHINES[machine].kinds[kind]
    memory = bytearray(struct.pack("<Q", instruction))
    found.write(memory, 0, found.value(s, 0, place, entry, 0))
    return int(struct.unpack_from("<I", memory)[0])


@pytest.mark.parametrize(
    ("kind", "s", "place", "instruction", "expected"),
    [
        (283, 0x401000, 0x400000, 0x94000000, 0x94000400),  # bl +0x1000
        (282, 0x3FFFFC, 0x400000, 0x14000000, 0x17FFFFFF),  # b -4
        (275, 0x12345678, 0x10000000, 0x90000000, 0xB0011A20),  # adrp x0: 0x2345 pages on
        (277, 0x12345678, 0, 0x91000000, 0x9119E000),  # add x0, x0, #0x678
        (286, 0x12345678, 0, 0xF9400000, 0xF9433C00),  # ldr x0, [x0, #0x678]
        (285, 0x12345678, 0, 0xB9400000, 0xB9467800),  # ldr w0, [x0, #0x678]
        (299, 0x12345670, 0, 0x3DC00000, 0x3DC19C00),  # ldr q0, [x0, #0x670]
        (280, 0x400008, 0x400000, 0x54000000, 0x54000040),  # b.eq +8
        (279, 0x3FFFF8, 0x400000, 0x36000000, 0x3607FFC0),  # tbz w0, #0, -8
        (264, 0x123456789ABCDEF0, 0, 0xD2800000, 0xD29BDE00),  # movz x0, #0xdef0
        (269, 0x123456789ABCDEF0, 0, 0xF2E00000, 0xF2E24680),  # movk x0, #0x1234, lsl #48
    ],
)
def test_fields_of_arm_instructions(kind: int, s: int, place: int, instruction: int, expected: int) -> None:
    """By the encodings in the Arm Architecture Reference Manual."""
    assert _word(kind, s, place, instruction) == expected


def test_what_is_out_of_reach_is_no_silent_cut() -> None:
    for machine, kind, s in (
        (62, 2, 1 << 31),
        (62, 4, -(1 << 31) - 1),
        (183, 283, 1 << 27),
        (183, 275, 1 << 33),
    ):
        with pytest.raises(OverflowError):
            _word(kind, s, 0, 0, machine)
    with pytest.raises(OverflowError):
        _word(286, 0x674, 0, 0xF9400000)  # eight bytes at a multiple of four


def test_far_calls_go_through_a_jump() -> None:
    """The C library may lie farther away than a call reaches."""
    for triple, machine, jump in ((HERE, None, None), (AARCH64, 183, MACHINES[183].jump)):
        code = compile_ir(CALL, processor=Processor(triple, "", "") if machine else None)
        linked = Linked([code], {"far": 1 << 46}, lambda name: 64)
        image = linked.at(1 << 20)
        if jump is not None:
            assert jump + struct.pack("<Q", 1 << 46) in image


CALL = """
declare void @far()
define void @near() {
  call void @far()
  ret void
}
"""


def test_the_native_library_links_for_arm() -> None:
    linked = Linked(
        [core_object(AARCH64)], {"heddle_program": 1 << 30, "heddle_artefact": 1 << 30}, lambda name: 64
    )
    assert len(linked.at(1 << 32)) == linked.size_bytes
    assert linked.address("heddle_open", 1 << 32) is not None


def test_features_of_this_processor_without_llvm() -> None:
    """All that code can ask for, by what LLVM says of this machine."""
    told, known = processor_that_system_tells(), this_processor()
    assert told.platform == known.platform
    has = {text[1:] for text in known.features.split(",") if text.startswith("+")}
    for name in sorted(has & set(CODE_FEATURES[told.platform.partition("-")[0]])):
        assert f"+{name}" in told.features.split(","), name


def test_names_of_features() -> None:
    flags = "pni avx512_vnni avx512f amx_tile amx_int8 sse4_1 abm avx_vnni"
    assert features_of_flags("x86_64", flags.split()) == {
        "sse3", "avx512vnni", "avx512f", "amx-tile", "amx-int8", "sse4.1", "lzcnt", "avxvnni",
    }  # fmt: skip
    assert features_of_flags("aarch64", ["fp", "asimd", "asimddp", "i8mm", "sve", "crc32"]) == {
        "fp-armv8", "neon", "dotprod", "i8mm", "sve", "crc",
    }  # fmt: skip
