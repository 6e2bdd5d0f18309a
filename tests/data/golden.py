"""Executables that are kept as files, so that later versions prove that they still load and run them.

    python -m tests.data.golden tests/data/NAME

writes the files of the present version into a folder; tests never do. It was run once a version of the format
(`heddle.runtime.artefact.VERSION`) and once a version of the native interface (`NATIVE_ABI`); what is there
is never written again. Version 1 is the same program's form without memory scopes and line table.

| file | what is in it |
|---|---|
| `bytecode_v1.heddle` | constants of every kind, sizes, branches, recursion, closures, tuples; version 1 |
| `bytecode_v2.heddle` | the same in version 2, with a memory scope and places |
| `bytecode_v3.heddle` | the same in version 3 |
| `bytecode.txt` | the listing of all |
| `kernels_v2_abi1_x86_64.heddle` | a compiled model with kernels, for any x86-64 processor |
| `kernels_v3_abi1_x86_64.heddle` | the same in version 3, which says what the kernels need |
| `variants_v3_abi1_x86_64.heddle` | the model for any x86-64 processor, for x86-64-v3, and for AArch64 |
| `kernels_v3_abi2_x86_64.heddle`, `variants_v3_abi2_x86_64.heddle` | both with tensors in frames |
| `kernels_v3_abi3_x86_64.heddle`, `variants_v3_abi3_x86_64.heddle` | both with calls by words |
| `kernels_v3_abi4_x86_64.heddle`, `variants_v3_abi4_x86_64.heddle` | both with segments of stack |
| `kernels_v3_abi5_x86_64.heddle`, `variants_v3_abi5_x86_64.heddle` | both with arguments checked by a table |
| `kernels_v3_abi6_x86_64.heddle`, `variants_v3_abi6_x86_64.heddle` | both with turns of loops counted |
| `kernels_v3_abi7_x86_64.heddle`, `variants_v3_abi7_x86_64.heddle` | both with the digest of the interface |
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from heddle.runtime import DataType, Shape, tensor
from heddle.runtime.artefact import VERSION
from heddle.runtime.native.interface import NATIVE_ABI
from heddle.vm.relax import ExecBuilder, VMExecutable

FOLDER = Path(__file__).parent
MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n", 8), "float32"):
        if c:
            y = R.multiply(x, x)
        else:
            y = R.nn.relu(R.add(x, R.const(0.5, "float32")))
        return y
"""


def program() -> VMExecutable:
    """Functions that need nothing but builtins: `main(x, c)`, `values()`, `countdown(n, end)`."""
    ib = ExecBuilder()
    _main(ib)
    with ib.function("values", 0):
        constants = (
            tensor(np.array([[1.5, -0.0], [np.inf, 3]], "float16")),
            tensor(np.arange(3, dtype="int64")),
            Shape([2, 0, 7]),
            "téxt\0",
            2**60,
            -2.5,
            DataType("bfloat16"),
        )
        operands = [ib.convert_constant(value) for value in constants]
        ib.emit_call("vm.builtin.make_tuple", [*operands, ib.imm(-3)], dst=ib.r(0), place="net.py:9")
        ib.emit_ret(ib.r(0))
    with ib.function("countdown", 2, param_names=["steps", "end"]):
        steps, end = ib.r(0), ib.r(1)
        ib.emit_call("vm.builtin.read_if_cond", [steps], dst=ib.r(2))
        ib.emit_if(ib.r(2), 5)
        ib.emit_call("vm.builtin.tuple_getitem", [end, ib.imm(0)], dst=ib.r(3))
        ib.emit_call("vm.builtin.tuple_getitem", [end, ib.imm(1)], dst=ib.r(4))
        ib.emit_call("countdown", [ib.r(3), ib.r(4)], dst=ib.r(5))
        ib.emit_ret(ib.r(5))
        ib.emit_ret(end)
    ib.memory_scopes[2] = "global"
    ib.metadata["made_by"] = "tests/data/golden.py"
    return ib.get()


def _main(ib: ExecBuilder) -> None:
    """main(x: (n, 3) float32, c): `pair` bound to Shape (3, n), called with x, viewed so where c holds."""
    with ib.function("pair", 2):
        ib.emit_call("vm.builtin.make_tuple", [ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("main", 2, param_names=["x", "c"]):
        x, c, heap, sizes, view = (ib.r(number) for number in range(5))
        where = ib.convert_constant("main, parameter x")
        kind = DataType("float32")
        ib.emit_call("vm.builtin.alloc_shape_heap", [ib.vm_state(), ib.imm(1)], dst=heap, place="net.py:1")
        ib.emit_call("vm.builtin.check_tensor_info", [x, ib.imm(2), kind, where], place="net.py:2")
        codes = [ib.imm(word) for word in (1, 0, 0, 3)]
        ib.emit_call("vm.builtin.match_shape", [x, heap, ib.imm(2), *codes, where], place="net.py:2")
        codes = [ib.imm(word) for word in (0, 3, 1, 0)]
        ib.emit_call("vm.builtin.make_shape", [heap, ib.imm(2), *codes], dst=sizes, place="net.py:3")
        ib.emit_call("vm.builtin.read_if_cond", [c], dst=ib.r(5))
        ib.emit_if(ib.r(5), 3)
        ib.emit_call("vm.builtin.reshape", [x, sizes], dst=view, place="net.py:4")
        ib.emit_goto(2)
        ib.emit_call("vm.builtin.copy", [x], dst=view, place="net.py:6")
        ib.emit_call("vm.builtin.make_closure", [ib.f("pair"), sizes], dst=ib.r(6))
        ib.emit_call("vm.builtin.null_value", [], dst=heap)
        ib.emit_call("vm.builtin.invoke_closure", [ib.vm_state(), ib.r(6), view], dst=ib.r(7))
        ib.emit_ret(ib.r(7))


def compiled_model(target: Any = "llvm -mcpu=x86-64") -> Any:
    import heddle
    from heddle import ops
    from heddle.script import from_source

    ops.load()
    return heddle.compile(from_source(MODEL), target=target, exec_mode="compiled")


VARIANTS = ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"]


def main(folder: Path) -> None:
    native = f"v{VERSION}_abi{NATIVE_ABI}_x86_64"
    program().export_library(folder / f"bytecode_v{VERSION}.heddle")
    (folder / "bytecode.txt").write_text(program().as_text())
    compiled_model().export_library(folder / f"kernels_{native}.heddle")
    compiled_model(VARIANTS).export_library(folder / f"variants_{native}.heddle")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
