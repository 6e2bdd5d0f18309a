import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.runtime import FunctionModule, load_module
from heddle.runtime.artefact import parse_artefact, read_artefact
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.module import modules_from_sections
from heddle.runtime.native.interface import native_digest
from heddle.runtime.needs import Needs, write_needs
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import FormatError, HeddleError, UsageError

SECTIONS = {"a": b"hello", "empty": b"", "big/b": bytes(range(256)) * 3, "ünicode": b"\0" * 65}


@pytest.fixture
def image(tmp_path):
    write_artefact(tmp_path / "x.heddle", SECTIONS)
    return (tmp_path / "x.heddle").read_bytes()


def test_round_trip_and_alignment(tmp_path, image):
    found = read_artefact(tmp_path / "x.heddle")
    assert {name: bytes(section.data) for name, section in found.items()} == SECTIONS
    assert all(section.offset % 64 == 0 for section in found.values())


def test_writing_is_deterministic(tmp_path, image):
    write_artefact(tmp_path / "y.heddle", SECTIONS)
    assert (tmp_path / "y.heddle").read_bytes() == image


def test_every_truncation_is_a_typed_error(image):
    for size in range(len(image)):
        with pytest.raises(FormatError):
            parse_artefact(memoryview(image[:size]))


def test_every_flipped_byte_is_a_typed_error(image):
    rng = random.Random(7)
    for at in range(len(image)):
        damaged = bytearray(image)
        damaged[at] ^= 1 << rng.randrange(8)
        with pytest.raises(FormatError):
            parse_artefact(memoryview(bytes(damaged)))


def test_appended_bytes_are_refused(image):
    with pytest.raises(FormatError, match="F0104"):
        parse_artefact(memoryview(image + b"\0"))


def test_errors_name_what_and_where(image):
    with pytest.raises(FormatError, match="F0101"):
        parse_artefact(memoryview(b"PK\3\4" + image))
    with pytest.raises(FormatError, match=r"F0102.*byte 8: expected 1 to 3, got 9"):
        parse_artefact(memoryview(image[:8] + struct.pack("<I", 9) + image[12:]))
    with pytest.raises(FormatError, match=r"F0103.*expected \d+ bytes, got 70"):
        parse_artefact(memoryview(image[:70]))
    with pytest.raises(FormatError, match=r"F0104.*'a' at byte \d+ is damaged"):
        parse_artefact(memoryview(image.replace(b"hello", b"hellO")))


@given(st.binary(max_size=300))
def test_noise_is_a_typed_error(data):
    with pytest.raises(FormatError):
        parse_artefact(memoryview(b"HEDDLE\0\1" + data))


def test_missing_file_folder_and_empty_file(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FormatError, match="F0101"):
        load_module(tmp_path / "empty")
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="S0102"):
            load_module(path)
    with pytest.raises(UsageError, match="S0101"):
        write_artefact(tmp_path / "no" / "such", SECTIONS)


@given(st.binary(max_size=200))
def test_wire_reader_never_fails_otherwise(data):
    for method in ("text", "words", "texts", "blob", "u64", "f64"):
        reader = Reader(data, "s")
        try:
            getattr(reader, method)()
        except FormatError as error:
            assert error.code == "F0106"  # noqa: PT017 (reading may succeed as well)


def test_wire_round_trip():
    writer = Writer()
    writer.u8(3)
    writer.i64(-5)
    writer.f64(0.1)
    writer.text("héé")
    writer.words([1, -2, 1 << 62])
    writer.texts(["a", ""])
    reader = Reader(writer.bytes(), "s")
    assert (reader.u8(), reader.i64(), reader.f64()) == (3, -5, 0.1)
    assert (reader.text(), reader.words(), reader.texts()) == ("héé", [1, -2, 1 << 62], ["a", ""])
    reader.done()


def test_text_is_of_characters():
    """A lone surrogate is none: it is stored as an escape, and refused in a file."""
    writer = Writer()
    writer.text("a\udcffb")
    assert Reader(writer.bytes(), "s").text() == "a\\udcffb"
    writer = Writer()
    writer.blob("a\ud800b".encode("utf-8", "surrogatepass"))
    with pytest.raises(FormatError, match=r"F0106.*not utf-8"):
        Reader(writer.bytes(), "s").text()


def module_index(rows):
    writer = Writer()
    writer.u64(len(rows))
    for kind, children in rows:
        writer.text(kind)
        writer.words(children)
    return {"modules": writer.bytes()}


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ({}, "F0105"),
        (module_index([]), "F0106"),
        (module_index([("no such kind", [])]), "F0107"),
        (module_index([("llvm", [])]), "F0105"),
        ({"modules": b"\xff" * 8}, "F0106"),
    ],
)
def test_bad_module_trees(tmp_path, sections, code):
    write_artefact(tmp_path / "x", sections)
    with pytest.raises(FormatError, match=code):
        load_module(tmp_path / "x")


def test_import_cycles_are_refused(tmp_path):
    head = Writer()
    head.text("llvm")
    head.texts([])
    head.u64(0)
    for children in ([0], [1], [-1], [7]):
        write_artefact(tmp_path / "x", {**module_index([("llvm", children)]), "0/kernels": head.bytes()})
        with pytest.raises(HeddleError, match="F0106"):
            modules_from_sections(read_artefact(tmp_path / "x"))


def test_names_that_no_linker_takes_are_refused(tmp_path):
    head = Writer()
    head.text("llvm")
    head.texts(["fine", "zero \0 byte"])
    head.u64(0)
    head.u64(native_digest())
    write_needs(head, Needs())
    write_artefact(tmp_path / "x", {**module_index([("llvm", [])]), "0/kernels": head.bytes()})
    with pytest.raises(FormatError, match=r"F0106.*none that a linker takes"):
        load_module(tmp_path / "x")


def test_module_without_stored_form_leaves_no_file(tmp_path):
    with pytest.raises(UsageError, match="U0503"):
        FunctionModule({"f": len}).export_library(tmp_path / "x.heddle")
    assert list(tmp_path.iterdir()) == []
