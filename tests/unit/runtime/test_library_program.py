"""Programs in libraries, run by nothing but the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle.relax import VirtualMachine
from heddle.runtime import LibraryProgram, library_program
from heddle.runtime.linker import shared_library_command
from heddle.runtime.processor import this_processor
from heddle.script import from_source
from heddle.support.diagnostics import FormatError, Trap, TrapTypeError, UsageError
from heddle.target import Target
from tests.e2e.command_line import environment

MAX_MODULES = 25
MAX_BYTES = 5_000_000
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


Library = Callable[..., Path]


def _library(
    folder: Path, suffix: str, dtype: str = "float32", prefix: str = "", mode: str = "compiled"
) -> Path:
    path = folder / f"{dtype}-{prefix}-{mode}.{suffix}"
    mod = from_source(SOURCE.format(dtype=dtype, prefix=prefix))
    heddle.compile(mod, exec_mode=mode).export_library(path)
    return path


@pytest.fixture(scope="module", params=["so", "heddle"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Makes files of one kind, each anew."""
    try:
        shared_library_command()
    except UsageError as error:
        if request.param == "so":
            pytest.skip(str(error))
    return partial(_library, tmp_path_factory.mktemp("programs"), request.param)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64"])
def test_dtypes_and_sizes(library: Library, dtype: str) -> None:
    program = LibraryProgram(library(dtype))
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    for rows in (0, 1, 7, 1000):
        x, k = rng.integers(0, 9, (rows, 3)).astype(kind), np.array(3, kind)
        y, z = program.run(x, k)
        assert y.dtype == z.dtype == kind
        np.testing.assert_array_equal(y, x + k)
        np.testing.assert_array_equal(z, (x + k).T)


def test_arrays_with_gaps_and_the_other_byte_order(library: Library) -> None:
    program = LibraryProgram(library())
    x = np.arange(60, dtype="float32").reshape(3, 20)
    for given in (x[:, ::4].T, x[:, ::-5].T, x.T.astype(">f4")):
        before = given.copy()
        np.testing.assert_array_equal(program.run(given, np.float32(1))[0], before + 1)
        np.testing.assert_array_equal(given, before)


def test_results_are_the_callers_own(library: Library) -> None:
    program = LibraryProgram(library())
    one, _ = program.run(np.ones((2, 3), "float32"), np.float32(0))
    program.run(np.zeros((2, 3), "float32"), np.float32(5))
    np.testing.assert_array_equal(one, np.ones((2, 3)))
    (two,) = program.run(np.ones(4, "float32"), function="twice")
    program.close()
    np.testing.assert_array_equal(two, np.full(4, 2))


def test_threads_share_a_program(library: Library) -> None:
    program = LibraryProgram(library())

    def ask(rows: int) -> bool:
        x = np.full((rows, 3), rows, "float32")
        return bool((program.run(x, np.float32(rows))[0] == 2 * rows).all())

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(200)))


def test_prefixes(library: Library) -> None:
    path = library(prefix="my_")
    if path.suffix == ".heddle":
        assert LibraryProgram(path).run(np.ones((2, 3), "float32"), np.float32(1))[0].sum() == 12
        with pytest.raises(FormatError, match="U0515"):
            LibraryProgram(path, "my_")
        return
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
def test_errors_of_the_library_name_dtypes_and_sizes(library: Library, args: tuple, words: str) -> None:
    program = LibraryProgram(library())
    shape, dtype, other_shape, other = args
    with pytest.raises(Trap) as caught:
        program.run(np.ones(shape, dtype), np.ones(other_shape, other))
    assert caught.value.code == "U0404" and words in str(caught.value)
    x = np.ones((2, 3), "float32")  # and the program goes on
    np.testing.assert_array_equal(program.run(x, np.float32(1))[0], x + 1)


def test_other_mistakes(library: Library, tmp_path: Path) -> None:
    program = LibraryProgram(library())
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
    (tmp_path / "folder.so").mkdir()
    for name in ("text.so", "none.so", "folder.so", "zero\0.so"):
        with pytest.raises(UsageError) as caught:
            LibraryProgram(tmp_path / name)
        assert caught.value.code == "S0102"
    bytecode = library(mode="bytecode")
    if bytecode.suffix == ".heddle":
        with pytest.raises(FormatError, match=r"U0515(.|\n)*'compiled'"):
            LibraryProgram(bytecode)
    else:
        with pytest.raises(Trap, match="no such function"):
            LibraryProgram(bytecode).run(x, x)


PROCESS = """
import json, sys
import numpy
before = set(sys.modules)
from heddle.runtime import LibraryProgram
y, z = LibraryProgram(sys.argv[1]).run(numpy.ones((2, 3), "float32"), numpy.float32(1))
print(json.dumps([y.tolist(), sorted(set(sys.modules) - before)]))
"""


def test_a_process_that_runs_a_library_imports_no_compiler(library: Library) -> None:
    command = [sys.executable, "-c", PROCESS, str(library())]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    values, modules = json.loads(done.stdout)
    assert values == [[2, 2, 2], [2, 2, 2]]
    own = [name for name in modules if name.split(".")[0] == "heddle"]
    assert len(own) <= MAX_MODULES, own
    assert {name.split(".")[1] for name in own if "." in name} == {"facade", "runtime", "support"}
    assert not [name for name in modules if name.split(".")[0] == "llvmlite"]


WITHOUT_LLVM = """
import os, sys
import numpy
sys.modules["llvmlite"] = None
from heddle.runtime import LibraryProgram
program, again = LibraryProgram(sys.argv[1]), LibraryProgram(sys.argv[1])
x = numpy.arange(3 * 40000, dtype="float32").reshape(-1, 3)
for which in (program, again):
    assert (which.run(x, numpy.float32(1))[0] == x + 1).all()
child = os.fork()
if not child:
    os._exit(0 if (program.run(x, numpy.float32(2))[0] == x + 2).all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert (program.run(x, numpy.float32(3))[0] == x + 3).all()
"""


@pytest.mark.parametrize("threads", ["1", "3"])
def test_without_llvm_with_threads_after_a_fork_and_to_the_end_of_the_process(
    library: Library, threads: str
) -> None:
    command = [sys.executable, "-c", WITHOUT_LLVM, str(library())]
    settings = {**environment(), "HEDDLE_NUM_THREADS": threads}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert (done.returncode, done.stderr) == (0, "")


OTHERS = {
    "shape": ("R.shape_of(x)", "no tensor"),
    "string": ("R.str('text')", "no tensor"),
    "value": ("R.prim_value(n)", "no tensor"),
    "tuple": ("(x, (x, x))", "no tensor"),
    "mixed": ("(x, R.shape_of(x))", "no tensor"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_result_that_is_no_tensor_is_refused(case: str, tmp_path: Path) -> None:
    result, words = OTHERS[case]
    path = tmp_path / "others.heddle"
    mod = from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor(('n',), 'float32')):\n"
        f"        n = T.int64()\n        return {result}\n"
    )
    heddle.compile(mod).export_library(path)
    with pytest.raises(TrapTypeError, match=words) as caught:
        LibraryProgram(path).run(np.ones(3, "float32"))
    assert caught.value.code == "U0403"


def test_a_name_with_a_zero_byte_is_no_shorter_name(library: Library) -> None:
    program = LibraryProgram(library())
    for name in ("twice\0more", "\0", "\ud800"):
        with pytest.raises(Trap, match="no such function"):
            program.run(np.ones(3, "float32"), function=name)


ADDS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, R.const({number}, "float32"))
"""


@pytest.mark.parametrize("suffix", ["so", "heddle"])
def test_a_file_that_replaced_another_is_the_new_one(suffix: str, tmp_path: Path) -> None:
    path, x = tmp_path / f"replaced.{suffix}", np.zeros(3, "float32")
    programs = []
    for number in (1, 2, 3):
        path.unlink(missing_ok=True)
        heddle.compile(from_source(ADDS.format(number=number))).export_library(path)
        programs += [LibraryProgram(path), LibraryProgram(path)]
        machine = VirtualMachine(heddle.runtime.load_module(path), heddle.cpu())
        assert machine["main"](heddle.runtime.tensor(x)).numpy()[0] == number
    assert [program.run(x)[0][0] for program in programs] == [1, 1, 2, 2, 3, 3]


def test_the_file_that_was_looked_at_is_the_one_that_is_mapped(monkeypatch, tmp_path: Path) -> None:
    """A file that takes its place meanwhile is another one, and is not known under its identity."""
    path, other, x = tmp_path / "first.heddle", tmp_path / "other.heddle", np.zeros(3, "float32")
    for file, number in ((path, 11), (other, 12)):
        heddle.compile(from_source(ADDS.format(number=number))).export_library(file)
    identity = library_program._identity

    def replaced(file):
        found = identity(file)
        if other.exists():
            other.replace(path)
        return found

    monkeypatch.setattr(library_program, "_identity", replaced)
    first = LibraryProgram(path).run(x)[0][0]
    assert (first, LibraryProgram(path).run(x)[0][0]) == (11, 12)


def test_a_library_that_was_written_over_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "over.so", tmp_path / "other.so"
    for file, number in ((path, 1), (other, 2)):
        heddle.compile(from_source(ADDS.format(number=number))).export_library(file)
    program = LibraryProgram(path)
    os.utime(path, ns=(1, 1))  # as after a copy onto it; a real one would change code that is running
    with pytest.raises(UsageError, match=r"S0102(.|\n)*written over") as caught:
        LibraryProgram(path)
    assert caught.value.code == "S0102"
    other.replace(path)
    x = np.zeros(3, "float32")
    assert (LibraryProgram(path).run(x)[0][0], program.run(x)[0][0]) == (2, 1)


ENDS = """
import sys, threading
import numpy
from heddle.runtime import LibraryProgram
program = LibraryProgram(sys.argv[1])
x = numpy.ones((20000, 3), "float32")
started = threading.Semaphore(0)
def work():
    while True:
        program.run(x, numpy.float32(1))
        started.release()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
for _ in range(8):
    started.acquire()
"""


def test_a_process_ends_while_threads_run_a_program(library: Library) -> None:
    command = [sys.executable, "-c", ENDS, str(library())]
    for _ in range(5):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
        assert (done.returncode, done.stderr) == (0, "")


STEPS = """
@I.ir_module
class Module:
    @R.function
    def steps(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int64")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        more = R.greater(k, R.const(0, "int64"))
        if more:
            y = R.multiply(R.add(x, R.const(1.5, "float32")), R.const([2.0], "float32"))
            r = Module.steps(y, R.subtract(k, R.const(1, "int64")))
        else:
            r = x
        return r
"""


def test_constants_control_flow_and_recursion(tmp_path: Path) -> None:
    path = tmp_path / "steps.heddle"
    heddle.compile(from_source(STEPS)).export_library(path)
    x = np.linspace(-1, 1, 9, dtype="float32")
    expected = x.copy()
    for k in range(7):
        made = LibraryProgram(path).run(x, np.int64(k), function="steps")[0]
        np.testing.assert_array_equal(made, expected)
        expected = (expected + np.float32(1.5)) * np.float32(2)


def test_the_variant_that_the_processor_takes(tmp_path: Path) -> None:
    path = tmp_path / "variants.heddle"
    mod = from_source(SOURCE.format(dtype="float32", prefix=""))
    machine = this_processor().platform.partition("-")[0]
    if machine != "x86_64":
        pytest.skip("variants of x86-64")
    heddle.compile(mod, target=["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3"]).export_library(path)
    x = np.ones((5, 3), "float32")
    np.testing.assert_array_equal(LibraryProgram(path).run(x, np.float32(1))[0], x + 1)
    vm, k = VirtualMachine(heddle.runtime.load_module(path), heddle.cpu()), np.array(1, "float32")
    np.testing.assert_array_equal(vm["main"](x, k)[0].numpy(), x + 1)


@pytest.mark.parametrize("what", ["mode", "platform"])
def test_code_for_another_processor_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "other.heddle"
    mod = from_source(SOURCE.format(dtype="float32", prefix=""))
    target = "llvm -mcpu=sapphirerapids" if what == "mode" else "llvm -mtriple=aarch64-unknown-linux-gnu"
    executable = heddle.compile(mod, target=target)
    if this_processor().runs(Target(target).needs):
        pytest.skip("this processor can run it")
    executable.export_library(path)
    with pytest.raises(FormatError, match="F0111"):
        LibraryProgram(path)


def test_damage_is_found_before_code_runs(tmp_path: Path) -> None:
    path = _library(tmp_path, "heddle")
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    for at in rng.integers(8, len(whole), 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
        with pytest.raises((FormatError, UsageError)):
            LibraryProgram(path)
    path.write_bytes(whole[:-7])
    with pytest.raises(FormatError, match="F01"):
        LibraryProgram(path)


RUNTIME_ALONE = """
import sys
sys.modules["llvmlite"] = None
sys.path.insert(0, sys.argv[1])
import heddle, numpy
assert heddle.__file__.startswith(sys.argv[1]), heddle.__file__
from heddle.runtime import LibraryProgram
x = numpy.ones((2, 3), "float32")
assert (LibraryProgram(sys.argv[2]).run(x, numpy.float32(1))[0] == x + 1).all()
for ask in (lambda: heddle.compile, lambda: heddle.runtime.load_module(sys.argv[2]), lambda: heddle.nonsense):
    try:
        ask()
    except ImportError as error:
        assert "S0705" in str(error) and "pip install heddle-compiler" in str(error), error
    else:
        raise AssertionError(ask)
"""


def test_the_small_distribution(tmp_path: Path) -> None:
    """`packaging/runtime` is what runs files, in a few megabytes."""
    pytest.importorskip("hatchling")
    source = Path(__file__).parents[3] / "packaging" / "runtime"
    made = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", str(source)]
    subprocess.run([*made, "-w", str(tmp_path)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("heddle_runtime-*.whl")
    folder = tmp_path / "installed"
    with ZipFile(wheel) as archive:
        assert sum(part.file_size for part in archive.infolist()) < MAX_BYTES
        archive.extractall(folder)
    command = [sys.executable, "-c", RUNTIME_ALONE, str(folder), str(_library(tmp_path, "heddle"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
