"""Programs in libraries, run by nothing but the library."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle.runtime import LibraryProgram
from heddle.runtime.linker import shared_library_command
from heddle.script import from_source
from heddle.support.diagnostics import FormatError, Trap, TrapTypeError, UsageError
from tests.e2e.command_line import environment

MAX_MODULES = 25
SOURCE = """
@I.ir_module
class Module:
    I.module_attrs({{"system_lib_prefix": "{prefix}"}})

    @R.function
    def main(
        x: R.Tensor(("n", 3), "{dtype}"), k: R.Tensor((), "{dtype}")
    ) -> R.Tuple(R.Tensor(("n", 3), "{dtype}"), R.Tensor((3, "n"), "{dtype}")):
        y = R.add(x, k)
        z = R.permute_dims(y, axes=[1, 0])
        return (y, z)

    @R.function
    def twice(x: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
        y = R.add(x, x)
        return y
"""


def _library(folder: Path, dtype: str = "float32", prefix: str = "", mode: str = "compiled") -> Path:
    path = folder / f"{dtype}-{prefix}-{mode}.so"
    mod = from_source(SOURCE.format(dtype=dtype, prefix=prefix))
    heddle.compile(mod, exec_mode=mode).export_library(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        shared_library_command()
    except UsageError as error:
        pytest.skip(str(error))
    return tmp_path_factory.mktemp("libraries")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64"])
def test_dtypes_and_sizes(folder: Path, dtype: str) -> None:
    program = LibraryProgram(_library(folder, dtype))
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    for rows in (0, 1, 7, 1000):
        x, k = rng.integers(0, 9, (rows, 3)).astype(kind), np.array(3, kind)
        y, z = program.run(x, k)
        assert y.dtype == z.dtype == kind
        np.testing.assert_array_equal(y, x + k)
        np.testing.assert_array_equal(z, (x + k).T)


def test_arrays_with_gaps_and_the_other_byte_order(folder: Path) -> None:
    program = LibraryProgram(_library(folder))
    x = np.arange(60, dtype="float32").reshape(3, 20)
    for given in (x[:, ::4].T, x[:, ::-5].T, x.T.astype(">f4")):
        before = given.copy()
        np.testing.assert_array_equal(program.run(given, np.float32(1))[0], before + 1)
        np.testing.assert_array_equal(given, before)


def test_results_are_the_callers_own(folder: Path) -> None:
    program = LibraryProgram(_library(folder))
    one, _ = program.run(np.ones((2, 3), "float32"), np.float32(0))
    program.run(np.zeros((2, 3), "float32"), np.float32(5))
    np.testing.assert_array_equal(one, np.ones((2, 3)))
    (two,) = program.run(np.ones(4, "float32"), function="twice")
    program.close()
    np.testing.assert_array_equal(two, np.full(4, 2))


def test_threads_share_a_program(folder: Path) -> None:
    program = LibraryProgram(_library(folder))

    def ask(rows: int) -> bool:
        x = np.full((rows, 3), rows, "float32")
        return bool((program.run(x, np.float32(rows))[0] == 2 * rows).all())

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(200)))


def test_prefixes(folder: Path) -> None:
    path = _library(folder, prefix="my_")
    with pytest.raises(FormatError, match="prefix") as caught:
        LibraryProgram(path)
    assert caught.value.code == "U0515"
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(LibraryProgram(path, "my_").run(x, np.float32(1))[0], x + 1)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (((2, 3), "float64", (), "float32"), "expected a tensor with dtype float32, got dtype float64"),
        (((2, 3), "float32", (), "int8"), "expected a tensor with dtype float32, got dtype int8"),
        (((2, 3), "float32", (), "bool"), "expected a tensor with dtype float32, got dtype bool"),
        (((2, 3), "float32", (), "uint16"), "expected a tensor with dtype float32, got dtype uint16"),
        (((2, 3), ml_dtypes.bfloat16, (), "float32"), "got dtype bfloat16"),
        (((2, 3), ml_dtypes.float8_e4m3fn, (), "float32"), "got dtype float8_e4m3fn"),
        (((2, 4), "float32", (), "float32"), "size of dimension 1: expected 3, got 4"),
    ],
)
def test_errors_of_the_library_name_dtypes_and_sizes(folder: Path, args: tuple, words: str) -> None:
    program = LibraryProgram(_library(folder))
    shape, dtype, other_shape, other = args
    with pytest.raises(Trap) as caught:
        program.run(np.ones(shape, dtype), np.ones(other_shape, other))
    assert caught.value.code == "U0404" and words in str(caught.value)
    x = np.ones((2, 3), "float32")  # and the program goes on
    np.testing.assert_array_equal(program.run(x, np.float32(1))[0], x + 1)


def test_other_mistakes(folder: Path, tmp_path: Path) -> None:
    program = LibraryProgram(_library(folder))
    x = np.ones((2, 3), "float32")
    for call, kind, words in (
        (lambda: program.run(x), Trap, "takes 2 arguments, and got 1"),
        (lambda: program.run(), Trap, "takes 2 arguments, and got 0"),
        (lambda: program.run(x, "text"), TrapTypeError, "argument 1"),
        (lambda: program.run(x, x.astype(ml_dtypes.int4)), TrapTypeError, "int4"),
        (lambda: program.run(x, x, function="none"), Trap, "no such function"),
    ):
        with pytest.raises(kind, match=words):
            call()
    program.close()
    program.close()
    with pytest.raises(UsageError, match="closed") as caught:
        program.run(x, x)
    assert caught.value.code == "U0515"
    (tmp_path / "text.so").write_text("no library")
    for name in ("text.so", "none.so", "zero\0.so"):
        with pytest.raises(UsageError) as caught:
            LibraryProgram(tmp_path / name)
        assert caught.value.code == "S0102"
    with pytest.raises(Trap, match="no such function"):
        LibraryProgram(_library(folder, mode="bytecode")).run(x, x)


PROCESS = """
import json, sys
import numpy
before = set(sys.modules)
from heddle.runtime import LibraryProgram
y, z = LibraryProgram(sys.argv[1]).run(numpy.ones((2, 3), "float32"), numpy.float32(1))
print(json.dumps([y.tolist(), sorted(set(sys.modules) - before)]))
"""


def test_a_process_that_runs_a_library_imports_no_compiler(folder: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(_library(folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    values, modules = json.loads(done.stdout)
    assert values == [[2, 2, 2], [2, 2, 2]]
    own = [name for name in modules if name.split(".")[0] == "heddle"]
    assert len(own) <= MAX_MODULES, own
    assert {name.split(".")[1] for name in own if "." in name} == {"facade", "runtime", "support"}
    assert not [name for name in modules if name.split(".")[0] == "llvmlite"]
