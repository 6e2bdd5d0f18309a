"""Programs without end: an interrupt ends them, in bytecode and machine code, and the machine lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.c_file import needs_compiler
from tests.e2e.test_cli_process import environment

LOOPS = {
    "loop": """
        j = R.add(i, R.const(1, "int64"))
        y = R.negative(x)
        r = cls.f(j, y)
""",
    "cycle": """
        r = cls.g(i, x)
""",
    "calls": """
        j = R.add(i, R.const(1, "int64"))
        a = cls.f(j, x)
        b = cls.f(j, a)
        r = R.add(a, b)
""",
}
"""What a function does while its condition holds: call itself at the end, call one that calls it, call itself
twice for 2**60 calls."""
CONDITIONS = dict.fromkeys(LOOPS, 'R.less(R.max(R.abs(x)), R.const(100.0, "float32"))') | {
    "calls": 'R.less(i, R.const(60, "int64"))'
}
TEXT = """
@I.ir_module
class Module:
    @R.function
    def g(i: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = R.negative(x)
        r = cls.f(i, y)
        return r
    @R.function
    def f(i: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        c = {condition}
        if c:{body}
        else:
            r = x
        return r
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        r = cls.f(R.const(0, "int64"), x)
        return r
"""
IN_PYTHON = """
import os, signal, sys, threading
import numpy as np
import heddle
from heddle import relax
from heddle.driver.models import find_model
from heddle.script import from_source

executable = heddle.compile(from_source(open(sys.argv[1]).read()), sys.argv[4], exec_mode=sys.argv[2])
vm = relax.VirtualMachine(executable, heddle.cpu())
main, endless, short = vm["main"], np.ones(4, "float32"), np.full(4, 200, "float32")
for turn in range(2):
    print("ready", flush=True)
    try:
        main(endless)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if sys.argv[3] == "lives on":
        np.testing.assert_array_equal(main(short).numpy(), short)
"""


def program(folder: Path, kind: str) -> Path:
    path = folder / "endless.py"
    body = LOOPS[kind].replace("\n", "\n    ")
    path.write_text(TEXT.format(condition=CONDITIONS[kind], body=body))
    return path


def interrupt(process: subprocess.Popen[str]) -> None:
    """Send the signal when the program computes: it has used the processor for a while."""
    stat = Path(f"/proc/{process.pid}/stat")

    def ticks() -> int:
        return int(stat.read_text().rpartition(")")[2].split()[11])

    begun = ticks()
    while ticks() < begun + 20 and process.poll() is None:
        pass
    process.send_signal(signal.SIGINT)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize(
    ("mode", "target"),
    [
        ("bytecode", "llvm"),
        ("compiled", "llvm"),
        pytest.param("compiled", "c", marks=needs_compiler),
    ],
)
def test_an_interrupt_ends_a_program_without_end_in_python(
    tmp_path: Path, mode: str, target: str, kind: str
) -> None:
    lives_on = "calls" if kind == "calls" else "lives on"  # the sum of 2**60 does not depend on its input
    command = [sys.executable, "-c", IN_PYTHON, str(program(tmp_path, kind)), mode, lives_on, target]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        for _ in range(2):
            assert process.stdout.readline() == "ready\n"
            interrupt(process)
            assert process.stdout.readline() == "interrupted\n"
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_an_interrupt_ends_the_command_line_in_a_program_without_end(tmp_path: Path, mode: str) -> None:
    path = program(tmp_path, "loop")
    command = [sys.executable, "-m", "heddle", "run", str(path), "--exec-mode", mode]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        interrupt(process)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "interrupted\n")


CALLBACKS = {
    "__del__": "class Dying:\n    def __del__(self): interrupt()\nDying()",
    "weakref": "class Seen: pass\nit = Seen()\nseen = weakref.ref(it, lambda _: interrupt())\ndel it",
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_an_interrupt_that_a_callback_takes_is_not_lost(name: str) -> None:
    """Python shows what is raised there and goes on."""
    text = f"""
import os, signal, sys, time, weakref
from heddle.driver.cli.entry import guarded
from heddle.driver.cli.interrupt import end_on_interrupt
end_on_interrupt()
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
def run():
    exec({CALLBACKS[name]!r}, globals())
    time.sleep(60)
sys.exit(guarded(run))
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
