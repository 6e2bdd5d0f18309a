"""What surrounds the program: environment, standard streams, names, memory, interrupts. None of it is a fault
of Heddle."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle import relax
from heddle.driver.cli.guard import ExitCode, guarded
from heddle.frontend.onnx import from_onnx
from heddle.runtime.module import load_module
from heddle.runtime.native import llvm
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, MissingDependencyError, UsageError
from heddle.support.files import write_bytes
from heddle.support.settings import read_settings, traceback_wanted
from tests.e2e.command_line import DENSE, environment
from tests.e2e.command_line import heddle as command_line
from tests.e2e.test_cli_onnx import in_process


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("process") / "dense.py"
    path.write_text(DENSE)
    return path


# ---- environment

WRONG = [
    (name, value)
    for name in ("HEDDLE_NUM_THREADS", "OMP_NUM_THREADS")
    for value in ("abc", "0", "-1", "1.5", "²", "9" * 5000, "1e3")
]
WRONG += [
    (name, value)
    for name in ("HEDDLE_CACHE", "HEDDLE_TRACEBACK", "HEDDLE_STRICT_RULES")
    for value in ("no", "2")
]
WRONG += [("HEDDLE_CACHE_SIZE", value) for value in ("abc", "-1", "1X", "9" * 5000)]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name) as found:
        read_settings({name: value})
    assert found.value.code == "S0301"


@pytest.mark.parametrize("name", sorted({name for name, _ in WRONG}))
def test_the_command_line_names_a_wrong_variable(dense: Path, name: str) -> None:
    value = next(value for key, value in WRONG if key == name)
    for args in (("run", dense), ("ops",), ("nonsense",)):
        command_line(*args, **{"HEDDLE_NUM_THREADS": "", name: value}).failed_with("S0301", name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEDDLE_CACHE_DIR", "/dev/null"),
        ("HEDDLE_CACHE_DIR", "/proc/none"),
        ("XDG_CACHE_HOME", "relative"),
        ("HOME", ""),
        ("HEDDLE_NUM_THREADS", "  2 "),
        ("HEDDLE_CACHE", ""),
    ],
)
def test_odd_variables_do_no_harm(dense: Path, name: str, value: str) -> None:
    done = command_line("run", dense, "--repeat", 0, **{"HEDDLE_CACHE_DIR": "", name: value})
    assert done.code == 0 and "Traceback" not in done.err, done.err


def test_tracebacks_are_shown_whatever_else_is_wrong() -> None:
    assert traceback_wanted({"HEDDLE_TRACEBACK": "1", "HEDDLE_NUM_THREADS": "x"})
    assert not traceback_wanted({})


# ---- standard streams


def shell(text: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, check=False, env=environment(**env), timeout=300
    )


def test_a_closed_output_is_told() -> None:
    done = shell(f"{sys.executable} -m heddle ops >&-")
    assert done.returncode == 1 and done.stderr.startswith("error[S0702]"), done.stderr


def test_other_closed_streams_do_no_harm() -> None:
    done = shell(f"{sys.executable} -m heddle ops 2>&- <&-")
    assert done.returncode == 0 and "matmul" in done.stdout
    assert shell(f"{sys.executable} -m heddle run nothing.onnx 2>&-").returncode == 1


CLOSED = {"0<&-": 0, "0<&- 2>&-": 0, "0<&- 1>&- 2>&-": 1, "1>/dev/full": 1, "1>/dev/full 2>/dev/full": 1}


@pytest.mark.parametrize("streams", CLOSED)
def test_streams_that_are_closed_or_full_spoil_no_file(dense: Path, tmp_path: Path, streams: str) -> None:
    """A file of the model's must not be taken for a stream, nor the other way round."""
    made = tmp_path / "m.heddle"
    done = shell(f"exec {streams}; {sys.executable} -m heddle compile {dense} -o {made}")
    assert done.returncode == CLOSED[streams], done.stderr
    assert "Traceback" not in done.stderr and "fault of Heddle" not in done.stderr
    if made.exists():
        assert command_line("run", made, "--repeat", 0, "--trust").code == 0
    assert streams == "0<&- 1>&- 2>&-" or [path.name for path in tmp_path.iterdir()] == ["m.heddle"]


@pytest.mark.parametrize(("command", "code"), [("run nothing.onnx", 1), ("nonsense", 2)])
def test_an_error_that_cannot_be_told_keeps_its_code(command: str, code: int) -> None:
    assert shell(f"{sys.executable} -m heddle {command} 2>/dev/full").returncode == code


def test_a_reader_that_leaves_is_no_fault(dense: Path) -> None:
    done = shell(f"set -o pipefail; {sys.executable} -m heddle inspect {dense} | head -0")
    assert (
        "fault of Heddle" not in done.stderr
        and "Traceback" not in done.stderr
        and "Exception" not in done.stderr
    )


# ---- names


def _external(name: str) -> Any:
    stored = numpy_helper.from_array(np.ones(4, np.float32), "w")
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value=name)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [4], [stored])


def model(nodes: list[Any], shape: list[int], stored: list[Any] | None = None) -> Any:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, None)], stored or []
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _import_external(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(_external("a\0b").SerializeToString())
    from_onnx(folder / "m.onnx")


NAMED: dict[str, Callable[[Path], Any]] = {
    "external data": _import_external,
    "model": lambda folder: from_onnx(f"{folder}/a\0b.onnx"),
    "artefact": lambda folder: load_module(f"{folder}/a\0b.heddle"),
    "library": lambda folder: load_module(f"{folder}/a\0b.so"),
    "output": lambda folder: write_bytes(f"{folder}/a\0b", b""),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_zero_byte_in_a_name_is_told(tmp_path: Path, kind: str) -> None:
    with pytest.raises(HeddleError):
        NAMED[kind](tmp_path)


@pytest.mark.parametrize(
    "args", [("run", "a\0b.onnx"), ("run", "a\0.heddle"), ("compile", "{}", "-o", "a\0.heddle")]
)
def test_a_zero_byte_on_the_command_line_is_told(dense: Path, args: tuple[str, ...]) -> None:
    done = in_process(*(arg.format(dense) for arg in args))
    assert done.code in (1, 2) and "error[D0501]" not in done.err, done.err


# ---- sizes


@pytest.mark.parametrize("rank", [65, 200])
def test_tensors_of_too_many_dimensions_are_refused(rank: int) -> None:
    for nodes, shape in (
        ([helper.make_node("Neg", ["x"], ["y"])], [1] * rank),
        ([helper.make_node("Reshape", ["x", "s"], ["y"])], [4]),
    ):
        stored = [numpy_helper.from_array(np.asarray([4] + [1] * (rank - 1), np.int64), "s")]
        with pytest.raises(HeddleError, match=f"{rank} dimensions: expected at most 64"):
            from_onnx(model(nodes, shape, stored))
    with pytest.raises(HeddleError, match="at most 64"):
        from_source(f'@R.function\ndef f(x: R.Tensor({(1,) * rank}, "float32")):\n    return x\n')


@pytest.mark.parametrize("offset", [0, 3, -5, 2000])
@pytest.mark.parametrize("shape", [(1024, 1025), (1, 1 << 21), (30, 40)])
def test_identity_matrices_of_any_size(shape: tuple[int, int], offset: int) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["z"]),
        helper.make_node("EyeLike", ["z"], ["e"], k=offset),
        helper.make_node("Mul", ["e", "x"], ["y"]),
    ]
    mod = from_onnx(model(nodes, [1], [numpy_helper.from_array(np.asarray(shape, np.int64), "s")]))
    got = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](np.ones(1, np.float32)).numpy()
    assert np.array_equal(got, np.eye(*shape, k=offset, dtype=np.float32))


def test_a_matrix_that_is_too_large_is_the_systems_refusal(tmp_path: Path) -> None:
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["z"]), helper.make_node("EyeLike", ["z"], ["e"])]
    nodes.append(helper.make_node("Mul", ["e", "x"], ["y"]))
    proto = model(nodes, [1], [numpy_helper.from_array(np.asarray([60000, 60000], np.int64), "s")])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-m", "heddle", "run", str(tmp_path / "m.onnx"), "--repeat", "0"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
    )
    assert done.returncode == 1 and done.stderr.startswith("error[U0601]"), done.stderr


@pytest.mark.parametrize("mebibytes", [60, 120, 180, 240, 320, 400])
def test_too_little_memory_is_the_systems_fault(mebibytes: int) -> None:
    """While Python itself starts, or when all is well, the outcome is not ours."""
    done = subprocess.run(
        [sys.executable, "-m", "heddle", "ops"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(OPENBLAS_NUM_THREADS="1"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20,) * 2),
    )
    assert "fault of Heddle" not in done.stderr, done.stderr
    assert done.returncode != 70


@pytest.mark.parametrize("error", [SystemError("error return without exception set"), ValueError("odd")])
def test_what_fails_where_there_is_no_room_is_a_lack_of_memory(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own compiler raises ValueError then, and functions in C raise nothing."""

    def command() -> int:
        raise error

    assert guarded(command) == ExitCode.INTERNAL
    assert "error[D0501]" in capsys.readouterr().err

    def refused(*_: Any) -> Any:
        raise OSError(errno.ENOMEM, "no room")

    monkeypatch.setattr(mmap, "mmap", refused)
    assert guarded(command) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == f"error[S0701]: there is no memory: {error}\n"


def test_a_library_that_cannot_be_loaded_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise OSError(f"{name}: failed to map\nsegment")

    for name in [name for name in sys.modules if name.startswith("llvmlite.binding")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(MissingDependencyError) as found:
        llvm.llvm_linking()
    assert found.value.code == "U0514"
    assert "llvmlite, which holds LLVM, cannot be loaded: " in str(found.value).split("\n")[0]
    assert "llvmlite.binding" not in sys.modules  # the next attempt begins anew


# ---- messages


def test_a_size_that_does_not_fit_reads_as_one_sentence(dense: Path, tmp_path: Path) -> None:
    mod = from_source(DENSE)
    vm = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    wrong = [np.ones((3, 8), np.float32), np.ones((8, 5), np.float32), np.ones(3, np.int64)]
    with pytest.raises(HeddleError) as found:
        vm["main"](*wrong)
    first = str(found.value).split("\n")[0]
    assert first.startswith("error[V0401]: parameter 'w' (loc=param[1]") and first.count("error[") == 1


# ---- interrupts

AT_IMPORT = """
import os, runpy, signal, sys
import heddle  # its finder of rooms comes first, but for the one below
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["heddle", *{args!r}]
runpy.run_module("heddle", run_name="__main__", alter_sys=True)
"""
MOMENTS = [
    "heddle.driver.cli.entry",
    "heddle.driver.codes",
    "typer",
    "heddle.driver.cli.app",
    "heddle.driver.run",
    "numpy",
    "heddle.ops.load",
    "heddle.driver.compile",
    "llvmlite.binding.ffi",
]


def test_an_interrupt_while_code_runs_that_was_read_from_text(tmp_path: Path) -> None:
    """CPython notes it as one that nobody caught, and wants to end a process with `-m` by the signal."""
    (tmp_path / "interrupted.py").write_text("""
import os, signal, sys
from heddle.driver.cli.entry import guarded
from heddle.driver.cli.interrupt import end_on_interrupt
end_on_interrupt()
sys.exit(guarded(lambda: exec("os.kill(os.getpid(), signal.SIGINT)", globals())))
""")
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("name", MOMENTS)
def test_an_interrupt_while_something_is_imported(dense: Path, name: str) -> None:
    script = AT_IMPORT.format(name=name, args=["run", str(dense), "--repeat", "0"])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


ENDLESS = """
import numpy as np
import heddle
from heddle import relax
from heddle.driver.cli.interrupt import end_on_interrupt
from heddle.driver.cli.guard import ExitCode, guarded
from heddle.frontend.onnx import from_onnx
from onnx import helper
info = helper.make_tensor_value_info
nodes = [helper.make_node("Neg", ["v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])]
body = helper.make_graph(nodes, "b",
    [info("i", 7, []), info("c", 9, []), info("v", 1, [4])], [info("d", 9, []), info("w", 1, [4])])
graph = helper.make_graph([helper.make_node("Loop", ["t", "", "x"], ["y"], body=body)], "g",
    [info("x", 1, [4]), info("t", 7, [])], [info("y", 1, [4])])
with heddle.config.limits(loop_turns=1 << 41):
    mod = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    vm = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"]
end_on_interrupt()
print("ready", flush=True)
vm(np.ones(4, np.float32), np.asarray(1 << 40))
"""


MANY = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32")):
        with R.dataflow():
{lines}
            R.output({last})
        return {last}
"""


def many_kernels() -> str:
    """A model of kernels of which none is like another: softmaxes of ever longer rows."""
    lines = []
    for number in range(24):
        before = "x" if number == 0 else f"s{number - 1}"
        first = f"R.strided_slice({before}, [1], [0], [{number + 1}])"
        lines.append(f"            p{number} = R.concat(({before}, {first}), axis=1)")
        lines.append(f"            s{number} = R.nn.softmax(p{number}, axis=-1)")
    return MANY.format(lines="\n".join(lines), last="s23")


def helpers_of(pid: int) -> list[int]:
    """The processes that compile for another one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text()
        except (OSError, IndexError, ValueError):
            continue
        if parent == pid and "object_code.py" in command:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are watched on Linux")
def test_an_interrupt_while_helpers_compile(tmp_path: Path) -> None:
    """It ends them, and leaves neither a file nor a part of one."""
    (tmp_path / "m.py").write_text(many_kernels())
    command = [sys.executable, "-m", "heddle", "compile", "m.py", "-o", "m.heddle"]
    env = environment(HEDDLE_CACHE_DIR=str(tmp_path / "cache"), HEDDLE_NUM_THREADS="4")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=env) as process:
        while process.poll() is None and not (helpers := helpers_of(process.pid)):
            pass
        watched = [os.pidfd_open(pid) for pid in helpers]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "interrupted\n")
    for descriptor in watched:  # readable once its process has ended
        assert select.select([descriptor], [], [], 120)[0] == [descriptor]
        os.close(descriptor)
    assert sorted(path.name for path in tmp_path.iterdir()) in (["m.py"], ["cache", "m.py"])
    assert list(tmp_path.rglob("*.part")) == []


def test_an_interrupt_while_compiled_code_runs() -> None:
    """One loop function that takes hours: it never comes back to Python."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        begun = _processor_ticks(process.pid)
        while _processor_ticks(process.pid) < begun + 20:  # it computes, in code that nothing interrupts
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "interrupted\n")


def _processor_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def test_interrupts_that_are_ignored_stay_ignored(dense: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            AT_IMPORT.format(name="typer", args=["run", str(dense), "--repeat", "0"]),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stderr
