"""Programs with JIT: they start on quick code, and faster code takes its place between calls."""

import errno
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.driver import program_cache
from heddle.driver.jit import background
from heddle.driver.jit.background import BackgroundCompiler
from heddle.driver.jit.compilers import first_program, full_program
from heddle.driver.jit.guards import MOST_COUNTED, Code, Dispatch, Guard
from heddle.driver.jit.request import (
    Request,
    places_of,
    read_executable,
    read_program,
    setup_for,
    write_executable,
    write_program,
)
from heddle.driver.program_cache import ProgramCache
from heddle.driver.signature import Signature, TensorSpec
from heddle.ir.structural import structural_equal
from heddle.ir.transform import PassContext
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.support.private_cache import PrivateCache
from heddle.support.settings import environment_of_python
from heddle.target import Target

RNG = np.random.default_rng(20261124)
WEIGHTS = RNG.standard_normal((24, 96)).astype("float32")
BIAS = RNG.standard_normal(96).astype("float32")
LIMIT_S = 300


def network():
    mod = from_source("""
from heddle.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 24), "float32"), w: R.Tensor((24, 96), "float32"), b: R.Tensor((96,), "float32")
    ):
        with R.dataflow():
            y = R.nn.softmax(R.nn.relu(R.add(R.matmul(x, w), b)), axis=-1)
            R.output(y)
        return y

    @R.function
    def twice(x: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y
""")
    return heddle.relax.transform.BindParams("main", {"w": WEIGHTS, "b": BIAS})(mod)


def expected(x):
    y = np.maximum(x.astype("float64") @ WEIGHTS + BIAS, 0)
    made = np.exp(y - y.max(-1, keepdims=True))
    return made / made.sum(-1, keepdims=True)


def rows(count):
    return RNG.standard_normal((count, 24)).astype("float32")


def check(program, count):
    x = rows(count)
    np.testing.assert_allclose(program["main"](heddle.tensor(x)).numpy(), expected(x), rtol=2e-5, atol=1e-6)


@pytest.fixture
def program():
    with heddle.jit(network(), specialisations=2, hot_calls=3) as made:
        yield made


def test_code_comes_in_between_calls(program):
    for _ in range(2):
        for count in (0, 1, 5, 37):
            check(program, count)
    assert program.wait(LIMIT_S)
    (first,) = program.swaps
    assert (dict(first.sizes), first.error) == ({}, None)
    assert first.compile_s > 0
    for count in (5, 5, 5, 37, 37, 0, 1):
        check(program, count)
    assert program.wait(LIMIT_S)
    assert sorted(swap.sizes.get("n", -1) for swap in program.swaps) == [-1, 5, 37]
    before = program.statistics()
    for count in (5, 37, 6):
        check(program, count)
    after = program.statistics()
    assert after.sized_calls - before.sized_calls == 2
    assert after.full_calls - before.full_calls == 1
    assert (after.swaps, after.failed, after.waiting) == (3, 0, 0)
    assert after.quick_calls >= 1
    shown = "\n".join(map(str, program.swaps))
    assert "every size" in shown
    assert "n=5" in shown


def test_sizes_that_come_later_take_the_place_of_idle_ones(program):
    program.wait(LIMIT_S)
    for count in (2, 3):
        for _ in range(3):
            check(program, count)
    assert program.wait(LIMIT_S)
    for _ in range(4):
        check(program, 3)
    for _ in range(3):
        check(program, 9)
    assert program.wait(LIMIT_S)
    assert program.swaps[-1].sizes == {"n": 9}
    assert program.swaps[-1].dropped == {"n": 2}
    assert program.statistics().dropped == 1
    for count in (2, 3, 9):
        check(program, count)


def test_sizes_as_often_as_those_in_place_do_not_replace_them(program):
    program.wait(LIMIT_S)
    for count in (2, 3):
        for _ in range(3):
            check(program, count)
    assert program.wait(LIMIT_S)
    for _ in range(4):
        for count in (2, 3, 4):
            check(program, count)
    assert program.wait(LIMIT_S)
    assert {swap.sizes.get("n") for swap in program.swaps} == {None, 2, 3}


def test_another_function_has_sizes_of_its_own(program):
    program.wait(LIMIT_S)
    x = rows(4)
    for _ in range(4):
        made = program["twice"](heddle.tensor(x)).numpy()
        np.testing.assert_array_equal(made, x + x)
    assert program.wait(LIMIT_S)
    assert program.swaps[-1].function == "twice"
    assert program.swaps[-1].sizes == {"n": 4, "m": 24}
    np.testing.assert_array_equal(program["twice"](heddle.tensor(x)).numpy(), x + x)


def test_programs_share_weights(tmp_path):
    graph, setup = network(), setup_for("relax", Target("llvm"), "compiled", "fp32")
    path, base = tmp_path / "made", full_program(graph, setup, "", {})
    write_executable(path, base, {})
    base = read_executable(path, None)
    sized = full_program(graph, setup, "main", {"n": 24})  # 7 rows have panels of their own
    alone = tmp_path / "alone"
    write_executable(alone, sized, {})
    write_executable(path, sized, places_of(base))
    assert path.stat().st_size + WEIGHTS.nbytes <= alone.stat().st_size
    found = read_executable(path, base)
    kept = {id(value) for value in base.program.constants}
    weights = [
        value for value in found.program.constants if getattr(value, "size_bytes", 0) >= WEIGHTS.nbytes
    ]
    assert weights
    assert all(id(value) in kept for value in weights)
    x = rows(24)
    made = heddle.relax.VirtualMachine(found, heddle.cpu())["main"](heddle.tensor(x)).numpy()
    np.testing.assert_allclose(made, expected(x), rtol=2e-5, atol=1e-6)


def test_wrong_calls_are_refused_by_whatever_code_there_is(program):
    for _ in range(2):
        for wrong in ((), (heddle.tensor(rows(3)[:, :5]),), (3,), ("text", "text")):
            with pytest.raises((HeddleError, TypeError)):
                program["main"](*wrong)
        check(program, 3)
        check(program, 3)
        check(program, 3)
        assert program.wait(LIMIT_S)
    with pytest.raises(AttributeError, match="V0301"):
        program["nothing"]


def test_no_code_for_sizes():
    with heddle.jit(network(), specialisations=0, hot_calls=1) as program:
        for _ in range(3):
            check(program, 4)
        assert program.wait(LIMIT_S)
        assert [dict(swap.sizes) for swap in program.swaps] == [{}]


def test_the_process_that_compiles_may_die(program):
    assert program.wait(LIMIT_S)
    os.kill(program._compiler._process.pid, signal.SIGKILL)
    for _ in range(3):
        check(program, 4)
    assert program.wait(LIMIT_S)
    assert "ended with status -9" in program.swaps[-1].error
    assert program.statistics().failed == 1
    for _ in range(3):
        check(program, 6)
    assert program.wait(LIMIT_S)  # a new process has begun
    assert (program.swaps[-1].sizes, program.swaps[-1].error) == ({"n": 6}, None)
    check(program, 6)


def test_the_full_program_is_asked_for_again_where_its_process_dies(monkeypatch):
    started = []

    def start(self):
        found = BackgroundCompiler._running(self)
        if len(started) < deaths:
            found.kill()
            found.wait()
        started.append(found)
        return found

    class Dying(BackgroundCompiler):
        _running = start

    monkeypatch.setattr("heddle.driver.jit.program.BackgroundCompiler", Dying)
    for deaths in (1, background.MAX_STARTS):
        started.clear()
        with heddle.jit(network(), specialisations=0) as program:
            check(program, 4)
            assert program.wait(LIMIT_S)
            (swap,) = program.swaps
            if deaths == 1:
                assert swap.error is None and len(started) == 2
            else:
                assert "ended with status -9" in swap.error and len(started) == background.MAX_STARTS
            check(program, 4)


@pytest.mark.skipif(os.name != "posix", reason="there are no signals that stop a process")
def test_a_process_that_hangs_stops_nothing(program):
    assert program.wait(LIMIT_S)
    process = program._compiler._process
    os.kill(process.pid, signal.SIGSTOP)
    for _ in range(20):
        check(program, 4)
    assert not program.wait(0.1)
    program.close()
    assert process.poll() == -signal.SIGKILL
    check(program, 4)


def test_data_types_of_relay():
    mod = relay.parse("""
#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
def @sum(%xs: List[Tensor[(?, 2), float32]], %acc: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  match (%xs) {
    Cons(%x, %rest) => @sum(%rest, add(%acc, %x)),
    Nil => %acc,
  }
}
def @main(%x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  @sum(Cons(%x, Cons(multiply(%x, %x), Nil)), %x)
}
""")
    with heddle.jit(mod, hot_calls=2) as program:
        for turn in range(8):
            x = rows(2 + turn % 2)[:, :2].copy()
            np.testing.assert_allclose(program["main"](heddle.tensor(x)).numpy(), x + x + x * x, rtol=1e-6)
            if turn == 4:
                assert program.wait(LIMIT_S)
        assert program.statistics().full_calls + program.statistics().sized_calls > 0


def test_after_close_the_code_stays():
    program = heddle.jit(network(), hot_calls=1)
    folder = program._compiler._folder
    check(program, 3)
    program.close()
    program.close()
    assert not folder.exists()
    assert program._compiler._process is None
    for _ in range(3):
        check(program, 3)
    assert program.wait(0)


def test_a_program_that_nobody_has_ends_its_process():
    program = heddle.jit(network())
    assert program.wait(LIMIT_S)
    compiler = program._compiler
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None
    compiler._thread.join(LIMIT_S)
    assert compiler._process is None
    assert not compiler._folder.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_in_a_forked_child_the_code_stays(program):
    assert program.wait(LIMIT_S)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for _ in range(5):
                check(program, 4)
            status = 0 if program.wait(5) and len(program.swaps) == 1 else 2
            program.close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert program._compiler._folder.exists()
    for _ in range(3):
        check(program, 4)
    assert program.wait(LIMIT_S)
    assert program.swaps[-1].sizes == {"n": 4}


def test_passes_and_limits_of_the_caller_reach_the_process(tmp_path):
    with PassContext(disabled_pass=["FuseOps"]), heddle.config.limits(nesting=7):
        setup = setup_for("relax", Target("llvm"), "compiled", "fp32")
    write_program(tmp_path, setup, network())
    found, graph = read_program(tmp_path)
    assert found == setup
    assert found.passes["disabled_pass"] == ["FuseOps"]
    assert found.limits["nesting"] == 7
    assert structural_equal(graph, network())
    with heddle.jit(network()) as program:
        assert program.wait(LIMIT_S)
        fused = len(program._machine.executable.imports[0].function_names())
    with PassContext(disabled_pass=["FuseOps"]):
        program = heddle.jit(network())
    with program:
        assert program.wait(LIMIT_S)
        assert len(program._machine.executable.imports[0].function_names()) > fused
        check(program, 3)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"specialisations": -1}, "D0103"),
        ({"specialisations": True}, "D0103"),
        ({"hot_calls": 0}, "D0103"),
        ({"exec_mode": "fast"}, "D0103"),
        ({"machine": "relay"}, "D0103"),
        ({"machine": "other"}, "D0103"),
        ({"precision": "fp8"}, "D0103"),
        ({"target": "llvm -mcpu=nonsense"}, "H"),
    ],
)
def test_refused_options(options, code):
    with pytest.raises(UsageError, match=code):
        heddle.jit(network(), **options)


def test_no_model():
    with pytest.raises(UsageError, match="D0108"):
        heddle.jit(3)


CALLS_ITSELF = """
from heddle.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), twice: R.Tensor((), "bool")) -> R.Tensor("float32", ndim=2):
        if twice:
            y = Module.main(R.concat([x, x], axis=0), R.const(False, "bool"))
            z = R.add(y, R.const(1.0, "float32"))
        else:
            z = R.multiply(x, R.const(2.0, "float32"))
        return z
"""


def test_functions_that_call_themselves_with_other_sizes():
    with heddle.jit(from_source(CALLS_ITSELF), hot_calls=2) as program:
        assert program.wait(LIMIT_S)
        for _ in range(4):
            for count in (0, 3):
                x = RNG.standard_normal((count, 4)).astype("float32")
                for twice in (True, False):
                    made = program["main"](heddle.tensor(x), heddle.tensor(np.bool_(twice))).numpy()
                    wanted = np.concatenate([x, x]) * 2 + 1 if twice else x * 2
                    np.testing.assert_array_equal(made, wanted)
            assert program.wait(LIMIT_S)
        assert not program.statistics().failed, program.swaps
        assert program.statistics().sized_calls > 0


def never_fast(program, why):
    """Nothing comes, nobody waits for it, and the program runs on."""
    with program:
        assert program.wait(LIMIT_S)
        assert why in program.swaps[0].error
        for _ in range(9):
            check(program, 3)
        assert program.wait(LIMIT_S)
        assert program.statistics().failed == 2
        assert program.statistics().swaps == 0


def test_no_room_for_the_program(monkeypatch):
    def full(*_what):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(background, "write_program", full)
    never_fast(heddle.jit(network()), "No space left")


def test_no_folder_for_temporary_files(monkeypatch):
    def refuse(**_options):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(background.tempfile, "mkdtemp", refuse)
    never_fast(heddle.jit(network()), "no folder can be made")


@pytest.mark.parametrize("name", ["", "/usr/bin/an-application"])
def test_no_python_to_start(monkeypatch, name):
    monkeypatch.setattr(sys, "executable", name)
    never_fast(heddle.jit(network()), "knows no Python")


def test_a_process_that_cannot_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    never_fast(heddle.jit(network()), "cannot be started")


def test_the_folder_may_vanish(program):
    assert program.wait(LIMIT_S)
    shutil.rmtree(program._compiler._folder)
    for _ in range(4):
        check(program, 4)
    assert program.wait(LIMIT_S)
    assert program.statistics().failed == 1
    check(program, 4)


def test_memory_is_collected_by_a_thread_that_the_compiler_waits_for():
    program = heddle.jit(network())
    thread = program._compiler._thread
    with background._turns_lock:  # which the compiler's thread needs to put code in place
        seen = weakref.ref(program)
        del program
        until = time.monotonic() + LIMIT_S
        while seen() is not None and time.monotonic() < until:
            gc.collect()  # does nothing while another thread collects
            time.sleep(0.001)
    thread.join(LIMIT_S)
    assert not thread.is_alive()


KILLED = """
import os, signal, sys
import heddle
from tests.unit.driver.test_jit import network, LIMIT_S
program = heddle.jit(network())
assert program.wait(LIMIT_S)
child = os.fork() if sys.argv[1] == "fork" else 1
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(program._compiler._folder, program._compiler._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("way", ["alone", "fork"])
def test_a_program_that_is_killed_leaves_nothing(way):
    """Not even while a forked child of it has the pipe."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_of_python(),
        text=True,
    )
    with process:
        folder, pid = process.stdout.readline().split()
        worker = os.pidfd_open(int(pid)) if Path(f"/proc/{pid}").exists() else None
        try:
            assert process.wait() == -signal.SIGKILL
            if worker is not None:
                assert select.select([worker], [], [], LIMIT_S)[0]
        finally:
            if worker is not None:
                os.close(worker)
        assert not Path(folder).exists()


RELAY = """#[version = "0.0.5"]
def @sum_down(%x: Tensor[(?, 8), float32], %n: int32) -> Tensor[(?, 8), float32] {
  if (%n == 0) { %x } else { @sum_down(add(%x, nn.relu(%x)), subtract(%n, 1)) }
}
def @main(%x: Tensor[(?, 8), float32], %n: int32) -> Tensor[(?, 8), float32] { @sum_down(%x, %n) }
"""


@pytest.mark.parametrize("machine", ["relay", "relax"])
def test_relay_programs(machine):
    mod = relay.fromtext(RELAY)
    with heddle.jit(mod, machine=machine, hot_calls=2) as program:
        for _ in range(2):
            for count in (0, 3, 3, 3):
                x = RNG.standard_normal((count, 8)).astype("float32")
                made = program["main"](heddle.tensor(x), heddle.tensor(np.int32(4))).numpy()
                wanted = x
                for _step in range(4):
                    wanted = wanted + np.maximum(wanted, 0)
                np.testing.assert_allclose(made, wanted, rtol=1e-5)
            assert program.wait(LIMIT_S)
            assert not program.statistics().failed, program.swaps
        assert program.statistics().sized_calls > 0


def test_turns_of_threads_are_as_before():
    before = sys.getswitchinterval()
    with background.short_turns(), background.short_turns():
        assert sys.getswitchinterval() == pytest.approx(background.TURN_S)
    assert sys.getswitchinterval() == before


# The parts alone


def signature(*shapes):
    return Signature(tuple(TensorSpec(f"x{i}", "float32", shape) for i, shape in enumerate(shapes)), ())


def test_guards_look_at_sizes_that_stand_alone():
    guard = Guard(signature((3, "n"), ("n", "m", "n + m"), None))
    assert guard.names == ("n", "m")
    x, y = np.zeros((3, 4)), np.zeros((4, 5, 9))
    assert guard.key((x, y, 0)) == (4, 5)
    assert guard.sizes((4, 5)) == {"n": 4, "m": 5}
    assert guard.key((x,)) is None
    assert guard.key((1, 2, 3)) is None
    assert Guard(signature((3,))).key((x,)) == ()


def test_a_name_with_two_sizes_has_no_code_of_its_own():
    guard = Guard(signature(("n", 3), ("n",), ("n", "m")))
    assert guard.key((np.zeros((4, 3)), np.zeros(4), np.zeros((4, 2)))) == (4, 2)
    assert guard.key((np.zeros((4, 3)), np.zeros(5), np.zeros((4, 2)))) is None
    assert guard.key((np.zeros((4, 3)), np.zeros(4), np.zeros((1, 2)))) is None


def test_sizes_of_all_kinds_do_not_fill_the_memory():
    asked = []
    code = Code(lambda x: x.shape[0])
    dispatch = Dispatch("main", signature(("n",)), code, 3, lambda *what: asked.append(what) or True)
    for size in range(3 * MOST_COUNTED):
        assert dispatch.call(np.zeros(size % 7 if size % 2 else size)) == (size % 7 if size % 2 else size)
    assert len(dispatch._missed) <= MOST_COUNTED + 1
    assert {sizes["n"] for _, sizes, _ in asked} >= set(range(7))
    assert len(asked) == len({sizes["n"] for _, sizes, _ in asked})


def test_a_request_is_a_line():
    request = Request(3, "main", {"n": 4})
    assert Request(**json.loads(json.dumps(asdict(request)))) == request


def test_a_program_that_was_compiled_before_is_the_first_code(tmp_path, monkeypatch):
    kept = ProgramCache(PrivateCache(tmp_path / "cache", 1 << 30), least_s=0.0)
    monkeypatch.setattr(program_cache, "_shared", [kept])
    setup = setup_for("relax", Target("llvm"), "compiled", "fp32")
    quick = first_program(network(), setup)
    made = heddle.compile(network(), "llvm", exec_mode="compiled")
    first = first_program(network(), setup)
    assert first.as_text() == made.as_text() != quick.as_text()
    other = setup_for("relax", Target("llvm"), "bytecode", "fp32")
    assert first_program(network(), other).as_text() == quick.as_text()
