"""A process that runs bytecode alone gives memory back."""

import subprocess
import sys

PROGRAM = """
import numpy as np, heddle
from heddle.runtime import allocator_for, cpu
from heddle.script import from_source
mod = from_source('''
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64,), "float32")) -> R.Tensor((64,), "float32"):
        a = R.nn.softmax(R.exp(x))
        return R.nn.softmax(R.negative(a))
''')
machine = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode="bytecode"), heddle.cpu())
x = np.zeros(64, "float32")
result = machine["main"](x)
before = allocator_for(cpu()).books.bytes_in_use
for _ in range(20):
    result = machine["main"](x)
assert allocator_for(cpu()).books.bytes_in_use == before, "calls keep storages"
del result
assert allocator_for(cpu()).books.bytes_in_use < before, "a dead result keeps its storage"
"""


def test_calls_leave_nothing_behind():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
