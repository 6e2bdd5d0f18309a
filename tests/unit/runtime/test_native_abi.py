"""What is made of the native interface's structures: LLVM's types, and signatures out of the text."""

import ctypes
from enum import IntEnum

import pytest

from heddle.codegen.llvm.program import VALUE
from heddle.runtime.native import abi, interface
from heddle.runtime.native.interface import (
    DIGESTS,
    NATIVE_ABI,
    OLDEST_ABI,
    PROGRAM_SYMBOLS,
    interface_of,
    interface_text,
    native_digest,
)
from heddle.runtime.native.ir_types import exported_signatures, field_offset, ir_struct
from heddle.runtime.native.memory import record_of, words_at
from heddle.systems.emit_expressions import ir_type
from heddle.systems.types import Struct, ctype_of, i32, i64
from heddle.systems.words import Linkage
from heddle.tir.kernel_abi import PAYLOAD_OFFSET_BYTES, TENSOR_FIELDS, VALUE_SIZE_BYTES
from tests.unit.runtime.native_machine import real_program


def test_layouts_that_change_need_a_new_number():
    """Where this fails, add a row to `DIGESTS`, never change one: files have the digests of the others."""
    assert native_digest() == DIGESTS[NATIVE_ABI], f"the layouts have the digest {native_digest():#x}"
    assert list(DIGESTS) == list(range(7, NATIVE_ABI + 1))
    assert len(set(DIGESTS.values())) == len(DIGESTS) and min(DIGESTS.values()) >= 1 << 63


def test_numbers_and_digests_of_files_name_interfaces():
    assert [interface_of(word) for word in range(OLDEST_ABI, 7)] == list(range(OLDEST_ABI, 7))
    assert {digest: interface_of(digest) for digest in DIGESTS.values()} == {
        digest: number for number, digest in DIGESTS.items()
    }
    assert {interface_of(word) for word in (0, 7, 8, native_digest() ^ 1, (1 << 64) - 1)} == {None}


class _Closure(Struct):
    function: i64
    num_bound: i32


class _Renamed(Struct):
    number: i64
    num_bound: i64


_MORE_KINDS = IntEnum("Kind", {**{kind.name: kind.value for kind in abi.Kind}, "MAP": 15})
_OTHER_FAMILIES = IntEnum("Family", {"TRAP": 0, "VALUE": 2, "TYPE": 1, "INDEX": 3})


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Closure", _Closure),
        ("Closure", _Renamed),
        ("Another", _Closure),
        ("Kind", _MORE_KINDS),
        ("Family", _OTHER_FAMILIES),
        ("NO_MEMORY", abi.NO_MEMORY + 1),
        ("THREAD_BYTES", 2048),
    ],
)
def test_digest_is_another_after_each_change(name, other, monkeypatch):
    before = interface_text()
    monkeypatch.setattr(abi, name, other, raising=False)
    assert interface_text() != before


def test_digest_has_the_symbols_and_their_types(monkeypatch):
    lines = interface_text().splitlines()
    assert "heddle_turn: i32 (ptr)" in lines
    monkeypatch.setattr(interface, "PROGRAM_SYMBOLS", (*PROGRAM_SYMBOLS, "heddle_new_one"))
    assert "heddle_new_one" in interface_text()


def test_types_of_the_interface_are_those_that_files_have():
    """Old object code has these numbers in it: to change one means a new version of the interface."""
    assert VALUE == "{ i32, i32, i64 }"
    assert ir_struct(abi.Head) == "{ i64, i32, i32, ptr, i64 }"
    assert ir_struct(abi.DLTensor) == "{ ptr, i32, i32, i32, i32, ptr, ptr, i64 }"
    assert ir_struct(abi.ProgramTables) == "{ i64, ptr, ptr, ptr, ptr }"
    assert ir_struct(abi.Entry) == "{ ptr, i64 }"
    assert (field_offset(abi.Context, "constants"), field_offset(abi.Context, "call_place")) == (8, 80)
    assert (VALUE_SIZE_BYTES, PAYLOAD_OFFSET_BYTES) == (16, 8)
    offsets = {name: field.offset_bytes for name, field in TENSOR_FIELDS.items()}
    expected = {"data": 0, "device_type": 8, "ndim": 16, "dtype": 20, "shape": 24, "strides": 32}
    assert offsets == expected | {"byte_offset": 40, "dtype_and_ndim": 16, "stride_array": 32}


def test_tables_of_arguments_are_those_that_files_have():
    """Each is so many words, in this order; see `tests/unit/runtime/test_arguments_checked.py`."""
    tables = (abi.ArgTable, abi.SameSize, abi.ArgCheck, abi.SizeCheck)
    assert [ctypes.sizeof(ctype_of(table)) for table in tables] == [24, 32, 56, 16]
    assert [(form.name, form.value) for form in abi.ArgForm] == [
        ("TENSOR", 0),
        ("INT", 1),
        ("FLOAT", 2),
        ("POINTER", 3),
    ]


def test_kinds_and_codes_are_those_that_files_have():
    kinds = ["NONE", "INT", "BOOL", "FLOAT", "POINTER", "", "MACHINE", "TENSOR", "SHAPE", "TUPLE", "CLOSURE"]
    kinds += ["STORAGE", "FOREIGN", "DATA", "REFERENCE"]
    assert [(kind.name, kind.value) for kind in abi.Kind] == [
        (name, number) for number, name in enumerate(kinds) if name
    ]
    assert [code.name for code in abi.MatchCode] == ["EQUALS_IMM", "STORE", "NOTHING", "EQUALS_HEAP"]
    assert [code.name for code in abi.MakeCode] == ["USE_IMM", "LOAD"]
    assert [flag.value for flag in abi.Flag] == [1, 2, 4]


def test_signatures_are_those_of_the_sources():
    found = exported_signatures()
    assert set(PROGRAM_SYMBOLS) <= set(found)
    for tree in real_program().functions.values():
        if tree.declared.linkage is Linkage.EXPORTED and tree.name in found:
            params = tuple(ir_type(kind) for _, kind in tree.params)
            result = "void" if tree.result is None else ir_type(tree.result)
            assert found[tree.name] == (result, params)


@pytest.mark.parametrize("fields", [(0, 0, 0), (1, 2, 3), ((1 << 64) - 1, 5, -(1 << 63))])
def test_records_are_the_bytes_of_their_structures(fields):
    record = record_of(abi.ProgramRecord, *fields)
    assert len(record) == ctypes.sizeof(ctype_of(abi.ProgramRecord)) == 24
    memory = ctypes.create_string_buffer(record)
    assert [word & (1 << 64) - 1 for word in words_at(ctypes.addressof(memory), 3)] == [
        field & (1 << 64) - 1 for field in fields
    ]
