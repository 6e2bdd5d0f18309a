"""What dies last: objects that die in one cycle, and with the process, may still be used by finalizers.

Each program runs in a process of its own, which a fault would end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

CYCLE = """
import gc
import numpy as np
import heddle
from heddle.script import from_source

class InCycle:
    def __init__(self, run, *kept):
        self.run, self.kept, self.own = run, kept, self

    def __del__(self):
        print(self.run(), end=" ")
"""

KERNEL = """
from heddle import te
A = te.placeholder((16,), name="A")
func = te.create_prim_func([A, te.compute((16,), lambda i: A[i] + 1.0, name="B")])
for _ in range(3):
    kernels = heddle.compile(func)
    call, x, y = kernels["main"], np.ones(16, "float32"), np.zeros(16, "float32")
    def run(call=call, x=x, y=y):
        call(x, y)
        return y.sum()
    InCycle(run, kernels)
    del kernels, call, run
    gc.collect()
"""

MACHINE = """
from heddle import relax
def python_sum(x):
    return heddle.runtime.tensor(x.numpy().sum(keepdims=True))
heddle.register_global_func("tests.finalizers.sum", python_sum)
source = '''
@I.ir_module
class M:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((1,), "float32"):
        y = R.add(x, R.const([1.0, 2.0, 3.0, 4.0], "float32"))
        z = R.call_packed("tests.finalizers.sum", y, sinfo_args=(R.Tensor((1,), "float32"),))
        return z
'''
for _ in range(3):
    executable = heddle.compile(from_source(source), exec_mode="compiled")
    machine = relax.VirtualMachine(executable, heddle.cpu())
    def run(main=machine["main"]):
        return main(np.ones(4, "float32")).numpy()[0]
    assert run() == 14
    InCycle(run, machine, executable)
    del machine, executable, run
    gc.collect()
"""

BORROWED = """
for _ in range(3):
    tensor = heddle.runtime.from_dlpack(np.ones(1 << 24, "float32"))
    InCycle(lambda tensor=tensor: tensor.numpy()[::4096].sum())
    del tensor
    gc.collect()
"""

LENT = """
import sys
import numpy as np
import heddle

def lend():
    return heddle.runtime.tensor(np.arange(1 << 18, dtype="float32"))

np.kept = np.from_dlpack(lend())
sys.kept = np.from_dlpack(lend())
np.capsule = lend().__dlpack__()
print("done")
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [
        pytest.param(CYCLE + KERNEL, "32.0 32.0 32.0 ", id="a kernel's code"),
        pytest.param(CYCLE + MACHINE, "14.0 14.0 14.0 ", id="a machine's constants and hosts"),
        pytest.param(CYCLE + BORROWED, "4096.0 4096.0 4096.0 ", id="memory of another library"),
        pytest.param(LENT, "done\n", id="memory lent until the process ends"),
    ],
)
def test_finalizers_may_use_what_dies_with_them(program: str, output: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (0, output), ended.stderr
