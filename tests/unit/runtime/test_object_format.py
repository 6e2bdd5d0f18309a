"""Every object of an output is for its target, by the header that the test reads itself."""

from __future__ import annotations

import platform
import struct
from pathlib import Path
from typing import Any

import pytest

import heddle
from heddle.runtime import linker, shared_library
from heddle.runtime.artefact import open_artefact
from heddle.runtime.native.elf import data_object, defined_symbols
from heddle.runtime.native.object_format import check_library, format_of, object_format
from heddle.runtime.processor import this_processor
from heddle.script.parser import parse
from heddle.support.diagnostics import UsageError

ELF, COFF, MACHO, WASM = b"\x7fELF", b"", b"\xcf\xfa\xed\xfe", b"\0asm"
TRIPLES: dict[str, tuple[bytes, int]] = {
    "x86_64-unknown-linux-gnu": (ELF, 62),
    "aarch64-linux-gnu": (ELF, 183),
    "riscv64-unknown-linux-gnu": (ELF, 243),
    "armv7-linux-gnueabihf": (ELF, 40),
    "x86_64-pc-windows-gnu": (COFF, 0x8664),
    "aarch64-pc-windows-msvc": (COFF, 0xAA64),
    "arm64-apple-macosx11": (MACHO, 0x0100000C),
    "x86_64-apple-darwin": (MACHO, 0x01000007),
    "arm64-apple-ios": (MACHO, 0x0100000C),
    "wasm32-unknown-unknown": (WASM, 0),
}
MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32")):
        with R.dataflow():
            z = R.nn.relu(R.matmul(x, w))
            R.output(z)
        return z
"""


def header(code: bytes) -> tuple[bytes, int]:
    """Container and machine."""
    if code[:4] == ELF:
        return ELF, struct.unpack_from("<H", code, 18)[0]
    if code[:4] == MACHO:
        return MACHO, struct.unpack_from("<I", code, 4)[0]
    if code[:4] == WASM:
        return WASM, 0
    return COFF, struct.unpack_from("<H", code)[0]


def compiled(triple: str, mode: str = "compiled") -> Any:
    return heddle.compile(parse(MODEL), f"llvm -mtriple={triple}", exec_mode=mode)


def members(path: Path) -> list[bytes]:
    """The objects of an archive of `ar`."""
    data, at, found = path.read_bytes(), 8, []
    assert data[:8] == b"!<arch>\n"
    while at < len(data):
        name, size = data[at : at + 16].strip(), int(data[at + 48 : at + 58])
        if name not in (b"/", b"//"):
            found.append(data[at + 60 : at + 60 + size])
        at += 60 + size + size % 2
    return found


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("triple", TRIPLES)
def test_one_file_holds_objects_of_the_target_and_says_so(triple: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "m.heddle"
    compiled(triple, mode).export_library(path)
    objects = [bytes(part.data) for name, part in open_artefact(path).items() if "/object." in name]
    assert objects
    assert {header(code) for code in objects} == {TRIPLES[triple]}
    assert {object_format(code) for code in objects} == {format_of(triple)}
    if "linux" in triple and triple.startswith(this_processor().triple.split("-")[0]):
        return
    with pytest.raises(heddle.support.diagnostics.FormatError, match="F0111"):
        heddle.relax.VirtualMachine(heddle.runtime.load_module(path), heddle.cpu())["main"]


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-linux-gnu"])
def test_static_libraries_hold_objects_of_the_target(triple: str, tmp_path: Path) -> None:
    path = tmp_path / "m.a"
    compiled(triple).export_library(path)
    found = members(path)
    assert len(found) > 3
    assert {header(code) for code in found} == {TRIPLES[triple]}
    names = set().union(*map(defined_symbols, found))
    assert {b"heddle_artefact", b"heddle_artefact_end", b"heddle_program"} <= names


def test_a_shared_library_is_linked_of_objects_of_the_target(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def link(output: str, files: list[str]) -> None:
        seen.extend(Path(file).read_bytes() for file in files)
        Path(output).write_bytes(b"linked")

    compiled("aarch64-linux-gnu").export_library(tmp_path / "m.so", link)
    assert {header(code) for code in seen} == {(ELF, 183)}


LINUX = ("x86_64-unknown-linux-gnu", "aarch64-linux-gnu")


@pytest.mark.parametrize("suffix", [".so", ".a", ".dylib"])
@pytest.mark.parametrize("triple", [triple for triple in TRIPLES if triple not in LINUX])
def test_libraries_that_cannot_be_made_are_refused(triple: str, suffix: str, tmp_path: Path) -> None:
    module, path = compiled(triple), tmp_path / f"m{suffix}"
    if this_processor().platform.endswith("darwin") and "apple" in triple:
        pytest.skip("libraries for this platform can be made")
    with pytest.raises(UsageError, match="U0510"):
        module.export_library(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_there_are_no_libraries_with_narrow_pointers(suffix: str) -> None:
    for triple in ("x86_64-linux-gnux32", "x86_64-unknown-linux-muslx32", "aarch64-linux-gnu_ilp32"):
        with pytest.raises(UsageError, match="U0510"):
            check_library(f"m{suffix}", triple)


@pytest.mark.parametrize("library", ["musl", "android24", "uclibc"])
def test_another_c_library_wants_a_linker_of_its_own(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's would have the file load its own C library, which is not there."""
    machine, there = platform.machine(), dict[str, str]()
    monkeypatch.setattr(linker.shutil, "which", there.get)
    monkeypatch.setattr(linker, "_zig", lambda tool: None)
    triple = f"{machine}-unknown-linux-{library}"
    there["cc"] = there[f"{machine}-linux-gnu-gcc"] = "/usr/bin/cc"
    with pytest.raises(UsageError, match="U0504"):
        shared_library._linker_for(tmp_path / "m.so", triple)
    there[f"{triple}-clang"] = "/usr/bin/clang"
    assert linker.shared_library_command(triple)[:2] == [f"{triple}-clang", "-shared"]


def test_a_dylib_is_for_macos(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"U0510.*a name for macOS"):
        compiled("aarch64-linux-gnu").export_library(tmp_path / "m.dylib")


def test_an_object_of_another_machine_is_not_let_in(tmp_path: Path) -> None:
    module = compiled("aarch64-linux-gnu", "bytecode")
    kernels = module.imports[0]
    kernels.objects = compiled("x86_64-unknown-linux-gnu", "bytecode").imports[0].objects
    with pytest.raises(UsageError, match=r"U0510.*ELF x86_64.*needs ELF aarch64"):
        module.export_library(tmp_path / "m.a")


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000])
def test_data_as_an_object(size: int) -> None:
    code = (
        data_object(183, bytes(range(256)) * 4, "begin", "end")
        if size == 1000
        else data_object(62, b"x" * size, "begin", "end")
    )
    assert defined_symbols(code) == {b"begin", b"end"}


@pytest.mark.parametrize("code", [b"", b"\x7fEL", b"\x7fELF", b"MZ", b"x" * 100])
def test_what_is_no_object(code: bytes) -> None:
    assert object_format(code) is None
