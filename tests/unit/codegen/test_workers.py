"""LLVM in worker processes: the same code as without, and no worker's end is anybody's problem."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heddle.codegen import compile_module
from heddle.codegen.llvm import object_code, workers
from heddle.codegen.llvm.machine import compile_text
from heddle.codegen.llvm.workers import Job, Workers
from heddle.prim.nodes import Var
from heddle.support.diagnostics import HeddleError
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer

TARGET = Target("llvm")


def text_of(number: int) -> str:
    return f"define i32 @f{number}(i32 %x) {{\n  %y = mul i32 %x, {number}\n  ret i32 %y\n}}\n"


def arrived(pool: Workers, job: Job, timeout_s: float = 60.0) -> bool:
    """Wait for a worker to settle a job, without helping."""
    with pool._change:
        return pool._change.wait_for(lambda: job.is_done, timeout_s)


def elsewhere_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("compiled in this process")

    monkeypatch.setattr(workers, "compile_text", refuse)


def as_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Have workers run another program."""
    path = tmp_path / "worker.py"
    path.write_text(text)
    monkeypatch.setattr(object_code, "__file__", str(path))


def scaling(factor: int) -> PrimFunc:
    n, i = Var("n", "int64"), Var("i", "int64")
    a, b = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "B")
    body = For(i, 0, n, ForKind.SERIAL, BufferStore(b, a[i] * float(factor), (i,)))
    return PrimFunc((a, b), body, attrs={"global_symbol": f"f{factor}"})


def test_code_does_not_depend_on_the_number_of_processes() -> None:
    funcs = {f"f{factor}": scaling(factor) for factor in range(11)}
    results = [compile_module(funcs, TARGET, None, jobs) for jobs in (1, 2, 3)]
    for other in results[1:]:
        assert [k.object_code for k in other] == [k.object_code for k in results[0]]
        assert [k.functions for k in other] == [(name,) for name in funcs]


def test_workers_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [compile_text(text_of(number), TARGET).object_code for number in range(5)]
    elsewhere_only(monkeypatch)
    with Workers(TARGET, 2) as pool:
        jobs = [pool.submit(f"f{number}", text_of(number)) for number in range(5)]
        assert all(arrived(pool, job) for job in jobs)
        assert [pool.result(job) for job in jobs] == expected
        assert 1 <= len(pool._processes) <= 2
        processes = list(pool._processes)
    assert all(process.returncode == 0 for process in processes)


def test_without_workers_all_is_done_here() -> None:
    with Workers(TARGET, 0) as pool:
        jobs = [pool.submit(f"f{number}", text_of(number)) for number in range(3)]
        assert pool.result(jobs[2]) == compile_text(text_of(2), TARGET).object_code
        assert not pool._threads


@pytest.mark.parametrize("count", [0, 1])
def test_rejected_text_is_an_error_with_a_code(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if count:
        elsewhere_only(monkeypatch)
    with Workers(TARGET, count) as pool:
        job, good = pool.submit("bad", "define i32 @f( {"), pool.submit("f1", text_of(1))
        if count:
            assert arrived(pool, job)
            assert arrived(pool, good)
        with pytest.raises(HeddleError, match="G0102"):
            pool.result(job)
        assert pool.result(good)


def test_work_of_a_killed_worker_is_done_here() -> None:
    with Workers(TARGET, 1) as pool:
        first = pool.submit("f0", text_of(0))
        assert arrived(pool, first)
        (process,) = pool._processes
        process.kill()
        process.wait()
        job = pool.submit("f1", text_of(1))
        assert pool.result(job) == compile_text(text_of(1), TARGET).object_code


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(3)",
        "import sys; sys.stdin.buffer.read(20); sys.stdout.buffer.write(b'\\0' * 5)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_work_of_a_worker_that_fails_is_done_here(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_program(monkeypatch, tmp_path, program)
    with Workers(TARGET, 2) as pool:
        jobs = [pool.submit(f"f{number}", text_of(number)) for number in range(4)]
        for number, job in enumerate(jobs):
            assert pool.result(job) == compile_text(text_of(number), TARGET).object_code


@pytest.mark.parametrize("executable", ["", "nothing/python3", "/bin/false"])
def test_work_is_done_here_where_no_worker_starts(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with Workers(TARGET, 1) as pool:
        assert pool.result(pool.submit("f1", text_of(1)))


def test_crash_of_llvm_is_an_error_with_a_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    as_program(monkeypatch, tmp_path, "import os, sys; sys.stdin.buffer.read(20); os.abort()")
    elsewhere_only(monkeypatch)
    with Workers(TARGET, 1) as pool:
        job = pool.submit("conv", text_of(1))
        assert arrived(pool, job)
        with pytest.raises(HeddleError, match=r"G0104.*SIGABRT.*'conv'"):
            pool.result(job)


def interrupted(error: BaseException, processes: list[subprocess.Popen[bytes]]) -> None:
    """Raise an error while a worker is busy; note the worker."""
    with Workers(TARGET, 1) as pool:
        pool.submit("f1", text_of(1))
        deadline = time.monotonic() + 60
        while not pool._processes and time.monotonic() < deadline:
            time.sleep(0.001)
        processes.extend(pool._processes)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_ends_busy_workers(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_program(monkeypatch, tmp_path, "import time\nwhile True: time.sleep(60)")
    processes: list[subprocess.Popen[bytes]] = []
    with pytest.raises(error):
        interrupted(error(), processes)
    assert [process.returncode for process in processes] == [-signal.SIGKILL]


def test_worker_ends_with_its_input() -> None:
    command = [sys.executable, object_code.__file__, str(os.getpid())]
    for given in (b"", b"\1\0\0", object_code.REQUEST_HEAD.pack(2, 50) + b"{}"):
        done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
        assert done.stdout == b""


BUSY = """
import os, runpy, sys, time
import llvmlite.binding
def busy(text, context):
    open({mark!r}, "w").write(str(os.getpid()))
    os.rename({mark!r}, {mark!r} + ".done")
    time.sleep(600)
llvmlite.binding.parse_assembly = busy
sys.platform = {platform!r}
runpy.run_path({path!r}, run_name="__main__")
"""
"""A worker that works on its text for minutes, and says so in a file."""
COMPILES = """
import sys, time
from heddle.codegen.llvm import object_code
from heddle.codegen.llvm.workers import Workers
from heddle.target import Target
object_code.__file__ = sys.argv[1]
pool = Workers(Target("llvm"), 1)
pool.submit("slow", "")
time.sleep(600)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs kill")
@pytest.mark.parametrize("platform", [sys.platform, "elsewhere"])
def test_no_worker_outlives_a_process_that_is_killed(platform: str, tmp_path: Path) -> None:
    """On Linux the kernel ends it, on other systems a thread that sees the end of the input."""
    mark, program = tmp_path / "worker", tmp_path / "worker.py"
    program.write_text(BUSY.format(mark=str(mark), platform=platform, path=object_code.__file__))
    done = mark.with_suffix(".done")
    with subprocess.Popen([sys.executable, "-c", COMPILES, str(program)]) as process:
        try:
            wait_until(done.exists)
        finally:
            process.kill()
    worker = int(done.read_text())
    wait_until(lambda: not is_running(worker))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended: nobody may have waited for an orphan yet."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")
