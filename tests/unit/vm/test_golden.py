"""Files of older versions, and of this one, load and run. See tests/data/golden.py."""

from __future__ import annotations

import platform
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heddle.driver.compile import with_machine_code
from heddle.runtime import DataType, Shape, cpu, load_module, variants_in
from heddle.runtime.artefact import OLDEST_VERSION, VERSION, read_artefact
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.library_program import TO_RUN_ALONE
from heddle.runtime.native.interface import DIGESTS, NATIVE_ABI, OLDEST_ABI
from heddle.runtime.needs import Needs, write_needs
from heddle.runtime.wire import Writer
from heddle.support.diagnostics import FormatError
from heddle.vm.relax import VirtualMachine, VMExecutable
from tests.data import golden

BYTECODE = {version: golden.FOLDER / f"bytecode_v{version}.heddle" for version in (1, 2, 3)}
KERNELS = golden.FOLDER / f"kernels_v{VERSION}_abi{NATIVE_ABI}_x86_64.heddle"
OLDER_KERNELS = golden.FOLDER / "kernels_v2_abi1_x86_64.heddle"
VARIANTS = golden.FOLDER / f"variants_v{VERSION}_abi{NATIVE_ABI}_x86_64.heddle"
OLDER_INTERFACES = [
    golden.FOLDER / f"{kind}_v3_abi{abi}_x86_64.heddle"
    for abi in range(OLDEST_ABI, NATIVE_ABI)
    for kind in ("kernels", "variants")
]
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels are for x86-64")
modes = pytest.mark.parametrize("mode", ["bytecode", "compiled"])
versions = pytest.mark.parametrize("version", BYTECODE)


def machine(executable: Any, mode: str) -> VirtualMachine:
    return VirtualMachine(with_machine_code(executable) if mode == "compiled" else executable, cpu())


def test_there_is_a_file_for_every_version() -> None:
    assert list(BYTECODE) == list(range(OLDEST_VERSION, VERSION + 1))
    for version, path in BYTECODE.items():
        assert {section.version for section in read_artefact(path).values()} == {version}
    assert KERNELS.is_file() and VARIANTS.is_file(), "the native interface has changed: write a file for it"


@pytest.mark.fact("4.5")
@versions
def test_text_constants_and_names_are_kept(version: int) -> None:
    loaded = load_module(BYTECODE[version])
    assert isinstance(loaded, VMExecutable)
    assert loaded.as_text() == (golden.FOLDER / "bytecode.txt").read_text()
    program = loaded.program
    assert {row.name: row.param_names for row in program.functions}["main"] == ("x", "c")
    assert program.metadata == {"made_by": "tests/data/golden.py"}
    assert program.memory_scopes == ({} if version == 1 else {2: "global"})
    assert (program.line_table == {}) == (version == 1)


@pytest.mark.fact("4.5")
@modes
@versions
def test_programs_run(version: int, mode: str) -> None:
    vm = machine(load_module(BYTECODE[version]), mode)
    x = np.random.default_rng(version).random((5, 3)).astype("float32")
    for c, shape in ((True, (3, 5)), (False, (5, 3))):
        view, sizes = vm["main"](x, np.array(c))
        np.testing.assert_array_equal(view.numpy(), x.reshape(shape))
        assert sizes == (3, 5)
    with pytest.raises(RuntimeError, match=r"main, parameter x.*expected 3, got 4"):
        vm["main"](np.zeros((2, 4), "float32"), True)
    half, integers, *others = vm["values"]()
    expected = np.array([[1.5, -0.0], [np.inf, 3]], "float16")
    assert half.numpy().tobytes() == expected.tobytes() and half.dtype == "float16"
    assert integers.numpy().tolist() == [0, 1, 2]
    assert others == [Shape([2, 0, 7]), "téxt\0", 2**60, -2.5, DataType("bfloat16"), -3]
    assert vm["countdown"](True, (np.array(1), (False, "end"))) == "end"


@on_x86_64
@modes
@pytest.mark.parametrize(
    "path", [KERNELS, OLDER_KERNELS, VARIANTS, *OLDER_INTERFACES], ids=lambda path: path.stem
)
def test_kernels_run(path: Path, mode: str) -> None:
    vm = VirtualMachine(load_module(path), cpu())
    if mode == "bytecode":
        vm.set_instrument(lambda *args: None)  # a machine that is watched runs its bytecode
    x = np.random.default_rng(3).standard_normal((7, 8)).astype("float32")
    np.testing.assert_allclose(vm["main"](x, np.array(True)).numpy(), x * x, rtol=1e-6)
    np.testing.assert_allclose(vm["main"](x, np.array(False)).numpy(), np.maximum(x + 0.5, 0), rtol=1e-6)


def test_files_of_the_present_version_are_written_as_they_were(tmp_path: Path) -> None:
    """All sections, in order; what a file needs to run alone, new code each time, comes behind them."""
    load_module(KERNELS).export_library(tmp_path / "again.heddle")
    again = [(name, bytes(part.data)) for name, part in read_artefact(tmp_path / "again.heddle").items()]
    before = [(name, bytes(part.data)) for name, part in read_artefact(KERNELS).items()]
    assert again[: len(before)] == before
    assert [name for name, _ in again[len(before) :]] in ([], list(TO_RUN_ALONE))
    write_artefact(tmp_path / "same.heddle", dict(before))
    assert (tmp_path / "same.heddle").read_bytes() == KERNELS.read_bytes()


def test_older_kernels_do_not_say_what_they_need() -> None:
    assert [module.needs for module in load_module(OLDER_KERNELS).imports] == [Needs()]
    assert [module.needs.platform for module in load_module(KERNELS).imports] == ["x86_64-linux"]


def test_variants_are_those_of_the_file() -> None:
    assert [row.name for row in variants_in(VARIANTS)] == ["x86-64-v3", "x86-64", "cortex-a72"]
    assert load_module(VARIANTS, variant="cortex-a72").variant == "cortex-a72"


@pytest.mark.parametrize("version", [0, VERSION + 1, 2**31])
def test_other_versions_are_refused(version: int, tmp_path: Path) -> None:
    image = bytearray(BYTECODE[1].read_bytes())
    struct.pack_into("<I", image, 8, version)
    (tmp_path / "x.heddle").write_bytes(image)
    with pytest.raises(FormatError, match=rf"F0102.*expected 1 to 3, got {version}"):
        load_module(tmp_path / "x.heddle")


def test_the_present_version_has_memory_scopes(tmp_path: Path) -> None:
    sections = {name: part.data for name, part in read_artefact(BYTECODE[2]).items()}
    write_artefact(tmp_path / "x.heddle", {k: v for k, v in sections.items() if k != "0/memory_scopes"})
    with pytest.raises(FormatError, match=r"F0105.*memory_scopes"):
        load_module(tmp_path / "x.heddle")


def word_of_interface(path: Path) -> tuple[slice, int]:
    """What a file says of its native interface, and where it does in its section `1/kernels`."""
    needs = Writer()
    write_needs(needs, load_module(path).imports[0].needs)
    head = bytes(read_artefact(path)["1/kernels"].data)
    end = len(head) - len(needs.bytes())
    return slice(end - 8, end), int.from_bytes(head[end - 8 : end], "little")


@pytest.mark.parametrize("abi", range(OLDEST_ABI, NATIVE_ABI + 1))
def test_files_name_the_interface_of_their_code(abi: int) -> None:
    """Which digest a number has cannot be changed: files of before have the other one."""
    _, word = word_of_interface(golden.FOLDER / f"kernels_v3_abi{abi}_x86_64.heddle")
    assert word == DIGESTS.get(abi, abi)


@pytest.mark.parametrize("abi", [OLDEST_ABI - 1, NATIVE_ABI, NATIVE_ABI + 1, DIGESTS[NATIVE_ABI] ^ 1])
def test_kernels_of_another_native_interface_are_refused(abi: int, tmp_path: Path) -> None:
    sections = {name: bytes(part.data) for name, part in read_artefact(KERNELS).items()}
    other = bytearray(sections["1/kernels"])
    other[word_of_interface(KERNELS)[0]] = struct.pack("<Q", abi)
    write_artefact(tmp_path / "x.heddle", {**sections, "1/kernels": bytes(other)})
    with pytest.raises(FormatError, match=r"(?s)F0110.*compile the model again"):
        load_module(tmp_path / "x.heddle")
