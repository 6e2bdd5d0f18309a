"""Several models in one library: `system_lib_prefix`, static libraries, `runtime.system_lib`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle.runtime import cpu, linker, load_module, system_lib
from heddle.runtime import native as native_package
from heddle.runtime.native.elf import defined_symbols, prefix_symbols
from heddle.script import from_source
from heddle.support import cc
from heddle.support.diagnostics import FormatError, UsageError
from heddle.vm.relax import VirtualMachine

MODEL = """
@I.ir_module
class Module:
    I.module_attrs({{"system_lib_prefix": "{prefix}"}})

    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = R.add(R.exp(x), R.const({offset}, "float32"))
        return y
"""
OFFSETS = {"libA_": 1.0, "libB_": 2.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libA_.a, libB_.a, and both.so made of them: models whose functions have the same names."""
    try:
        linker.shared_library_command(), linker.archive_command()
    except UsageError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("system")
    archives = []
    for prefix, offset in OFFSETS.items():
        mod = from_source(MODEL.format(prefix=prefix, offset=offset))
        executable = heddle.compile(mod, exec_mode="compiled")
        archives.append(path / f"{prefix}.a")
        executable.export_library(archives[-1], fcompile=cc.create_staticlib)
        executable.export_library(path / f"{prefix}.so")
    cc.create_shared(path / "both.so", ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive"])
    return path


IN_PROCESS = """
import ctypes, sys
import numpy as np
import heddle
from heddle import relax
ctypes.CDLL(sys.argv[1])
x = np.linspace(-1, 1, 7, dtype="float32")
for prefix, offset in {offsets}.items():
    vm = relax.VirtualMachine(heddle.runtime.system_lib(prefix), heddle.cpu())
    np.testing.assert_allclose(vm["main"](x).numpy(), np.exp(x) + offset, rtol=1e-6)
print("good")
"""


@pytest.mark.fact("4.4")
def test_two_models_in_one_library(folder: Path) -> None:
    """In a process of its own: a library stays loaded."""
    program = IN_PROCESS.format(offsets=OFFSETS)
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "both.so")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


@pytest.mark.fact("4.4")
def test_libraries_with_prefixes_load_by_their_path(folder: Path) -> None:
    x = np.linspace(-1, 1, 7, dtype="float32")
    for prefix, offset in OFFSETS.items():
        loaded = load_module(folder / f"{prefix}.so")
        assert loaded.library_prefix == prefix
        found = VirtualMachine(loaded, cpu())["main"](x)
        np.testing.assert_allclose(found.numpy(), np.exp(x) + offset, rtol=1e-6)
        assert system_lib(prefix)["as_text"]() == loaded["as_text"]()
    with pytest.raises(FormatError, match=r"F0109.*several artefacts: libA_, libB_"):
        load_module(folder / "both.so")
    with pytest.raises(UsageError, match=r"U0507.*'libC_'"):
        system_lib("libC_")


C_PROGRAM = r"""
#include <stdio.h>
#include "heddle.h"
HEDDLE_DECLARE(libA_)
HEDDLE_DECLARE(libB_)
int main(void) {
  float data[3] = {0, 1, -1};
  int64_t shape[1] = {3};
  DLTensor x = {data, {1, 0}, 1, {2, 32, 1}, shape, NULL, 0};
  const DLTensor* inputs[] = {&x};
  HeddleProgram *a = libA_heddle_open(), *b = libB_heddle_open();
  if (libA_heddle_run(a, "main", inputs, 1) || libB_heddle_run(b, "main", inputs, 1)) return 1;
  for (int i = 0; i < 3; ++i) {
    printf("%.5f ", ((float*)libA_heddle_output(a, 0)->data)[i]);
    printf("%.5f ", ((float*)libB_heddle_output(b, 0)->data)[i]);
  }
  libA_heddle_close(a);
  libB_heddle_close(b);
  return 0;
}
"""


@pytest.mark.fact("4.4")
def test_a_c_program_runs_both(folder: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    (folder / "both.c").write_text(C_PROGRAM)
    include = f"-I{Path(str(native_package.__file__)).parent}"
    subprocess.run(
        [compiler, "-c", "-Wall", "-Werror", include, "both.c", "-o", "both.o"], cwd=folder, check=True
    )
    inputs = [folder / name for name in ("both.o", "libA_.a", "libB_.a")]
    cc.create_executable(folder / "both", inputs, ["-lpthread", "-lm"])
    done = subprocess.run([str(folder / "both")], capture_output=True, text=True, check=True)
    x = np.array([0, 1, -1], "float32")
    expected = np.stack([np.exp(x) + 1, np.exp(x) + 2], axis=1).reshape(-1)
    np.testing.assert_allclose(np.array(done.stdout.split(), float), expected, rtol=1e-4)


def test_prefixes_that_cannot_be(folder: Path) -> None:
    mod = from_source(MODEL.format(prefix="no name", offset=0.0))
    with pytest.raises(UsageError, match="U0506"):
        heddle.compile(mod).export_library(folder / "wrong.so")
    with pytest.raises(UsageError, match="U0506"):
        prefix_symbols([b"\xcf\xfa\xed\xfe not elf"], "a_")


def test_only_what_is_defined_is_renamed(folder: Path) -> None:
    source = (
        "int helper(void); static int own(void) { return 1; }\nint both(void) { return helper() + own(); }\n"
    )
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    objects = []
    for name, text in (
        ("first", source),
        ("second", 'int puts(const char*); int helper(void) { return puts(""); }'),
    ):
        (folder / f"{name}.c").write_text(text)
        subprocess.run([compiler, "-c", f"{name}.c"], cwd=folder, check=True)
        objects.append((folder / f"{name}.o").read_bytes())
    first, second = prefix_symbols(objects, "p_")
    assert defined_symbols(first) == {b"p_both"}
    assert defined_symbols(second) == {b"p_helper"}
    assert b"\0p_helper\0" in first and b"p_puts" not in second


def test_linker_options_reach_a_plain_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def run(command: list[str]) -> None:
        seen.append(command[:-1])
        Path(command[-1]).write_bytes(b"library")

    monkeypatch.setattr(linker, "run_tool", run)
    monkeypatch.setattr(linker, "shared_library_command", lambda: ["ld.lld", "-shared"])
    cc.create_shared(tmp_path / "out.so", ["-Wl,--whole-archive,x.a", "y.o"])
    assert seen == [["ld.lld", "-shared", "--whole-archive", "x.a", "y.o", "-o"]]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out.so": b"library"}


@pytest.mark.parametrize("create", [cc.create_shared, cc.create_staticlib, cc.create_executable])
def test_a_linker_that_fails_leaves_the_old_file(create: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(UsageError, match=r"U050[45]"):
        create(tmp_path / "out", [tmp_path / "missing.o"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out": b"old"}
