"""Whole models as C files: compiled strictly, run under sanitizers, compared with target llvm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.ir.module import IRModule
from heddle.runtime import cpu
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.native.abi import Kind
from heddle.script import parse
from heddle.support.diagnostics import UsageError
from heddle.vm.relax import VirtualMachine
from tests.e2e import c_file
from tests.e2e.command_line import heddle as command
from tests.e2e.model_zoo import LIGHT, exported, light_model, loop_model, sample_inputs, with_logits
from tests.marks import LARGE

FAST = ("squeezenet",)
DENSE = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(({rows}, 8), "float32")
    ) -> R.Tuple(R.Tensor(({rows}, 8), "float32"), R.Tensor((), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.multiply(x, x))
            z = R.sum(R.subtract(y, x))
            R.output(y, z)
        return (y, z)
"""


def on_llvm(mod: IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    value = VirtualMachine(build(mod, "llvm", exec_mode="compiled"), cpu())["main"](*arrays)
    return [value.numpy()] if hasattr(value, "numpy") else [item.numpy() for item in value]


def agree(got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float = 2e-4) -> None:
    """To a share of the greatest value: sums of terms that cancel round in other ways where C lacks fma."""
    for mine, other in zip(got, want, strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        most = max(1.0, float(np.abs(other.astype(np.float64)).max(initial=0.0)))
        np.testing.assert_allclose(
            mine.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance * most
        )


def as_c(mod: IRModule, folder: Path, with_arena: bool = False) -> Any:
    return c_file.written(build(mod, "c", exec_mode="compiled"), folder, with_arena)


def lstm(steps: int = 5, inputs: int = 7, hidden: int = 6) -> IRModule:
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.standard_normal((1, 4 * hidden, inputs)).astype(np.float32),
        "r": rng.standard_normal((1, 4 * hidden, hidden)).astype(np.float32),
        "b": rng.standard_normal((1, 8 * hidden)).astype(np.float32),
    }
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=hidden)
    graph = helper.make_graph(
        [node],
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 2, inputs])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h", "c")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@c_file.needs_compiler
@pytest.mark.parametrize("compiler", c_file.COMPILERS)
@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_free_sizes(rows: int, compiler: str, tmp_path: Path) -> None:
    mod = parse(DENSE.format(rows='"n"'))
    program = c_file.compiled(as_c(mod, tmp_path), c_file.SANITIZED, compiler)
    x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
    agree(c_file.run(program, [x], num_runs=3), on_llvm(mod, [x]))


@c_file.needs_compiler
def test_wrong_inputs_are_refused_with_a_message(tmp_path: Path) -> None:
    program = c_file.compiled(as_c(parse(DENSE.format(rows=3)), tmp_path), c_file.SANITIZED)
    for wrong, words in (
        (np.zeros((4, 8), np.float32), "expected 3, got 4"),
        (np.zeros((3, 8), np.float64), "dtype float32"),
        (np.zeros((3,), np.float32), "ndim 2, got ndim 1"),
    ):
        with pytest.raises(AssertionError, match=words):
            c_file.run(program, [wrong])
    with pytest.raises(AssertionError, match="takes 1 inputs, got 2"):
        c_file.run(program, [np.zeros((3, 8), np.float32)] * 2)


MESSAGES = """
#include <stdio.h>
#include "heddle.h"
#include "heddle_program.h"

int main(int argc, char **argv) {
  HeddleProgram *program = heddle_open();
  long long word;
  while (scanf("%lld", &word) == 1) {
    heddle_set_error(1, argv[argc - 1], -3, (int64_t)word);
    printf("%s\\n", heddle_error(program));
  }
  heddle_close(program);
  return 0;
}
"""


@c_file.needs_compiler
def test_messages_name_kinds_and_dtypes(tmp_path: Path) -> None:
    """As the native runtime's do: these name what Python calls by its own words."""
    c_file.compiled(as_c(parse(DENSE.format(rows=3)), tmp_path))
    (tmp_path / "main.c").write_text(MESSAGES)
    c_file.linked(tmp_path)

    def shown(text: str, words: Sequence[int]) -> list[str]:
        given = " ".join(str(int(word)) for word in words)
        done = subprocess.run(
            [str(tmp_path / "program"), text], input=given, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    kinds = [Kind.NONE, Kind.INT, Kind.BOOL, Kind.FLOAT, Kind.POINTER, Kind.TENSOR, Kind.SHAPE, Kind.TUPLE]
    names = ["nothing", "an int", "a bool", "a float", "a pointer", "a tensor", "a shape", "a tuple"]
    for number, name in [
        *zip(kinds, names, strict=True),
        (10, "a closure"),
        (11, "a storage"),
        (99, "a value"),
    ]:
        assert shown("%e: %v", [number]) == shown("%e: %k", [number]) == [f"-3: {name}"]
    dtypes = ["bool", "int8", "int64", "uint16", "float16", "float64", "bfloat16"]
    assert shown("%t!", [packed_dtype(DataType(name)) for name in dtypes]) == [f"{name}!" for name in dtypes]
    assert shown("100% %g", [255]) == ["100% 255"]
    assert shown("%t", [255, -1]) == ["code 255", "code 255"]


@c_file.needs_compiler
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=LARGE) for name in LIGHT]
)
def test_light_cnn(name: str, tmp_path: Path) -> None:
    model = light_model(name)
    stored = {item.name for item in model.graph.initializer}
    image = next(value for value in model.graph.input if value.name not in stored)
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    x, model = np.random.default_rng(0).random(shape, np.float32), with_logits(model)
    files = as_c(from_onnx(model), tmp_path, with_arena=True)
    assert files.arena_bytes > 0
    assert files.weights is not None
    assert files.weights.stat().st_size >= files.constant_bytes
    agree(c_file.run(c_file.compiled(files, ("-O2",)), [x], num_runs=2), on_llvm(from_onnx(model), [x]))


HOOK = """
#include "heddle_c.h"
int32_t in_threes(int32_t (*body)(int64_t, int64_t, void *), void *data, int64_t extent, int64_t grain);
int32_t in_threes(int32_t (*body)(int64_t, int64_t, void *), void *data, int64_t extent, int64_t grain) {
  int64_t end;
  (void)grain;
  for (end = extent; end > 0; end -= 3)
    if (body(end > 3 ? end - 3 : 0, end, data) != 0) return -1;
  return 0;
}
"""


@c_file.needs_compiler
def test_a_program_brings_its_own_parallel_loops(tmp_path: Path) -> None:
    mod = parse(DENSE.format(rows='"n"'))
    files = as_c(mod, tmp_path)
    (tmp_path / "hook.c").write_text(HOOK)
    flags = (*c_file.SANITIZED, "-DHEDDLE_PARALLEL_FOR=in_threes", "hook.c")
    x = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    agree(c_file.run(c_file.compiled(files, flags), [x]), on_llvm(mod, [x]))
    with pytest.raises(AssertionError, match="the arena belongs to one thread"):
        c_file.compiled(files, (*flags, "-DHEDDLE_ARENA_BYTES=64000"))


@c_file.needs_compiler
@pytest.mark.parametrize("steps", [1, 5])
def test_lstm(steps: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((steps, 2, 7)).astype(np.float32)
    program = c_file.compiled(as_c(lstm(steps), tmp_path), c_file.SANITIZED)
    agree(c_file.run(program, [x], num_runs=2), on_llvm(lstm(steps), [x]))


@c_file.needs_compiler
def test_bert_of_free_sizes(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the model is made by the package transformers")
    mod, arrays = from_onnx(onnx.load(str(exported("bert")))), sample_inputs("bert")
    program = c_file.compiled(as_c(mod, tmp_path), c_file.SANITIZED)
    agree(c_file.run(program, arrays, num_runs=2), on_llvm(mod, arrays))


@c_file.needs_compiler
def test_loops_of_a_model(tmp_path: Path) -> None:
    mod = from_onnx(loop_model())
    arrays = [np.arange(3, dtype=np.float32), np.asarray(4, np.int64), np.asarray(30, np.float32)]
    program = c_file.compiled(as_c(mod, tmp_path), c_file.SANITIZED)
    agree(c_file.run(program, arrays, num_runs=2), on_llvm(mod, arrays))


@c_file.needs_compiler
def test_an_arena_is_as_large_as_the_program_needs(tmp_path: Path) -> None:
    """One block less, and the program says that there is no room; malloc is never called."""
    mod = parse(DENSE.format(rows=50))
    files = as_c(mod, tmp_path, with_arena=True)
    text = files.source.read_text()
    assert f"#define HEDDLE_ARENA_BYTES {files.arena_bytes}\n" in text
    x = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    agree(c_file.run(c_file.compiled(files, c_file.SANITIZED), [x], num_runs=3), on_llvm(mod, [x]))
    files.source.write_text(text.replace(f"BYTES {files.arena_bytes}\n", f"BYTES {files.arena_bytes - 64}\n"))
    with pytest.raises(AssertionError, match="the arena has no room"):
        c_file.run(c_file.compiled(files, c_file.SANITIZED), [x])
    object_file = c_file.compiled_object(files)
    assert not re.search(rb"\0(malloc|calloc|free|realloc)\0", object_file)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: parse(DENSE.format(rows='"n"')), "vm.builtin.alloc_shape_heap"),
        (lambda: from_onnx(loop_model()), ""),
    ],
    ids=["free sizes", "a loop"],
)
def test_an_arena_is_refused_where_sizes_are_not_known(make: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"G0204.*main.*{reason}"):
        as_c(make(), tmp_path, with_arena=True)
    assert list(tmp_path.iterdir()) == []


def test_what_only_a_host_has_is_refused(tmp_path: Path) -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.call_packed("mine", x, ty_args=[R.Tensor((3,), "float32")])
        return y
""")
    with pytest.raises(UsageError, match=r"G0204.*mine"):
        as_c(mod, tmp_path)


def test_machine_code_is_not_written_as_c(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"(?s)D0107.*--target c"):
        c_file.written(build(parse(DENSE.format(rows=3)), "llvm", exec_mode="compiled"), tmp_path)


@c_file.needs_compiler
@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_a_process_loads_its_own_c(mode: str, tmp_path: Path) -> None:
    mod = parse(DENSE.format(rows='"n"'))
    made = heddle.compile(mod, "c", exec_mode=mode)
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    made.export_library(tmp_path / "m.heddle")
    for module in (made, heddle.runtime.load_module(tmp_path / "m.heddle")):
        value = VirtualMachine(module, cpu())["main"](x)
        agree([item.numpy() for item in value], on_llvm(mod, [x]))
    assert "heddle_kernel_" in made.get_source()


def test_the_command_line_writes_c(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(DENSE.format(rows=4))
    done = command("compile", "m.py", "--target", "c", "--arena", "-o", "m.c", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "arena: " in done.out
    assert '#include "heddle_runtime.h"' in (tmp_path / "m.c").read_text()
    command("compile", "m.py", "-o", "n.c", cwd=tmp_path).failed_with("D0107", "--target c")
    command("compile", "m.py", "--arena", "-o", "n.heddle", cwd=tmp_path).failed_with("D0107", "--arena")
