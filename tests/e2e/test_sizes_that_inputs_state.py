"""Sizes that an input states when the model runs, and that no machine has the memory for: the error has a
code, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CHILD = """
import resource
import sys

import numpy as np
from onnx import TensorProto, helper

import heddle
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import Trap

op, mode = sys.argv[1:]
ints = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.INT64, shape)
floats = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
if op == "OneHot":
    node = helper.make_node(op, ["i", "size", "values"], ["y"])
    inputs = [ints("i", ["n"]), ints("size", [1]), floats("values", [2])]
    given = lambda size: (np.asarray([2, 0, -1]), size, np.asarray([0, 1], np.float32))
    expected = lambda size: np.eye(size, dtype=np.float32)[[2, 0, -1]]
elif op == "ConstantOfShape":
    node = helper.make_node(op, ["size"], ["y"])
    inputs = [ints("size", [1])]
    given = lambda size: (size,)
    expected = lambda size: np.zeros(size, np.float32)
else:
    node = helper.make_node(op, ["x", "size"], ["y"])
    inputs = [floats("x", ["n"]), ints("size", [1])]
    given = lambda size: (np.ones(3, np.float32), size)
    expected = lambda size: np.ones(3 * size if op == "Tile" else size, np.float32)
graph = helper.make_graph([node], "g", inputs, [floats("y", None)])
mod = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
main = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"]


def is_right(size):
    return np.array_equal(main(*given(np.asarray([size]))).numpy(), expected(size))


resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
assert is_right(3)
for size in (10**9, 10**9 * 3, 10**12, 2**62 + 1):
    try:
        main(*given(np.asarray([size])))
    except Trap as error:
        print(size, error.code)  # the last size needs more bytes than 64 bits hold
        assert error.code in (("U0601",) if size < 2**60 else ("U0601", "U0602", "U0404")), error
    else:
        raise AssertionError(f"{size} elements fit")
assert is_right(3)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are Linux's here")
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("op", ["OneHot", "ConstantOfShape", "Tile"])
def test_a_size_beyond_the_memory_is_a_coded_error(op: str, mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, op, mode],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[:3] == [f"{size} U0601" for size in (10**9, 3 * 10**9, 10**12)]
