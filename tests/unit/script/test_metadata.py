"""Modules print as script whoever prints first, and their constants come back from the text or its file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.stages import TEXT_STAGES, stage_modules, write_stage
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.op_builder import const
from heddle.graph.types import TensorType
from heddle.ir.expr import Function
from heddle.ir.structural import assert_structural_equal
from heddle.runtime.tensor import tensor
from heddle.script import from_source
from heddle.support.diagnostics import FormatError, HeddleError
from tests.e2e.command_line import environment
from tests.e2e.command_line import heddle as command_line

DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "bool",
    "int4",
    "uint4",
]
DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SHAPES = [(9,), (3, 5), (0, 4), (2, 1, 0), (1, 1, 9), (17, 33)]


def with_constant(array: Any, dtype: str) -> Any:
    data = tensor(array, dtype=dtype)
    builder = BlockBuilder()
    x = relax.Var("x", TensorType((2,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output((x, builder.emit(const(data))))
    return builder.get()


def values(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(3)
    if dtype in ("int4", "uint4"):
        return rng.integers(0, 8, shape).astype("int8" if dtype == "int4" else "uint8")
    kind = getattr(ml_dtypes, dtype, None)
    array = rng.standard_normal(shape) * 50
    with np.errstate(invalid="ignore"):
        return array.astype(kind if kind is not None else dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_constants_come_back_from_the_text(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    mod = with_constant(values(shape, dtype), dtype)
    text = mod.script(show_meta=True)
    again = from_source(text)
    assert_structural_equal(mod, again)
    assert again.script(show_meta=True) == text
    files = write_stage(mod, "relax", tmp_path / "m.py")
    assert_structural_equal(mod, from_source(files[0].read_text(), folder=tmp_path))


def test_all_bits_of_floats_come_back() -> None:
    array = np.arange(0, 1 << 32, 0x01010101, dtype=np.uint64).astype(np.uint32).view(np.float32)
    again = from_source(with_constant(array, "float32").script(show_meta=True))
    got = again["main"].body.blocks[0].bindings[0].value.data.numpy()
    assert got.tobytes() == array.tobytes()


def test_functions_bring_their_constants() -> None:
    func = with_constant(np.ones(20, np.float32), "float32")["main"]
    assert isinstance(func, Function)
    assert_structural_equal(func, from_source(func.script(show_meta=True)))


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("", "show_meta=True"),
        ("metadata = []", "list index out of range"),
        ('metadata = [R.raw_const("float32", (9,), "AAAA")]', "has 3 bytes, expected 36"),
        ('metadata = [R.raw_const("float32", (-1,), "")]', "expected"),
        ('metadata = [R.raw_const("float32", (9,), "?")]', "is no base64"),
        ('metadata = [R.raw_const("handle", (1,), "")]', "no numpy equivalent"),
        ('metadata = R.weights("w.weights")', "the text has none"),
    ],
)
def test_metadata_that_does_not_fit_is_told_at_its_place(statement: str, words: str) -> None:
    lines = with_constant(np.ones(9, np.float32), "float32").script().split("\n")
    with pytest.raises(HeddleError, match="<script>:") as found:
        from_source("\n".join([statement, *lines]))
    assert words in str(found.value)


@pytest.mark.parametrize(
    "name", ["../w.weights", "/etc/passwd", "..", "", "a/b", "link.weights", "none.weights"]
)
def test_weights_lie_in_the_folder_of_the_text(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    mod = with_constant(np.ones(9, np.float32), "float32")
    text = write_stage(mod, "relax", tmp_path / "w.py")[0].read_text()
    (folder / "link.weights").symlink_to(tmp_path / "w.weights")
    with pytest.raises(HeddleError):
        from_source(text.replace("'w.weights'", repr(name)), folder=folder)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    files = write_stage(with_constant(np.ones(900, np.float32), "float32"), "relax", tmp_path / "m.py")
    data = bytearray(files[1].read_bytes())
    data[-5] ^= 1
    files[1].write_bytes(data)
    with pytest.raises(FormatError, match="F0104"):
        from_source(files[0].read_text(), folder=tmp_path)


def small_network() -> Any:
    weight = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    builder = BlockBuilder()
    x = relax.Var("x", TensorType((3, 8), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, const(weight)))))
        builder.emit_func_output(y)
    return builder.get(), weight


@pytest.mark.parametrize("stage", TEXT_STAGES)
def test_every_stage_is_text_that_comes_back(tmp_path: Path, stage: str) -> None:
    mod, _ = small_network()
    shown = mod if stage == "relax" else stage_modules(mod)[stage]
    files = write_stage(mod, stage, tmp_path / "m.py")
    assert_structural_equal(shown, from_source(files[0].read_text(), folder=tmp_path))


def test_the_command_line_writes_what_it_runs(tmp_path: Path) -> None:
    mod, weight = small_network()
    source = write_stage(mod, "relax", tmp_path / "a.py")[0]
    done = command_line("inspect", source, "-o", tmp_path / "b.py")
    assert (done.code, done.out.split()) == (0, [str(tmp_path / "b.py"), str(tmp_path / "b.weights")])
    again = from_source((tmp_path / "b.py").read_text(), folder=tmp_path)
    x = np.ones((3, 8), np.float32)
    got = relax.VirtualMachine(heddle.compile(again), heddle.cpu())["main"](x).numpy()
    np.testing.assert_allclose(got, np.maximum(x @ weight, 0), rtol=1e-5)
    assert command_line("run", tmp_path / "b.py", "--repeat", 0).code == 0
    command_line("inspect", source, "--stage", "asm", "-o", tmp_path / "c.py").failed_with(
        "D0301", "script text"
    )
    command_line("inspect", source, "-o", tmp_path / "c.txt").failed_with("D0106", ".py")
    command_line("inspect", source, "-o", source).failed_with("D0106", "the model itself")


ALONE = {
    "module": "from heddle.graph.block_builder import BlockBuilder\nprint(BlockBuilder().get())",
    "onnx": "from heddle.frontend.onnx import from_onnx\nimport onnx.parser\n"
    "print(from_onnx(onnx.parser.parse_model("
    "'<ir_version: 8, opset_import: [\"\" : 18]> g (float[n] x) => (float[n] y) { y = Neg (x) }')))",
    "expression": "from heddle.prim import ops\nfrom heddle.prim.nodes import Var\nprint(Var('n', 'int64') + 1)",
    "loops": "from heddle import te\nn = te.var('n')\nA = te.placeholder((n,))\n"
    "print(te.create_prim_func([A, te.compute((n,), lambda i: A[i] + 1.0)]))",
}
SHOWN = {"module": "@I.ir_module", "onnx": "@R.function", "expression": "n + ", "loops": "@T.prim_func"}


@pytest.mark.parametrize("kind", ALONE)
def test_a_process_that_prints_first_prints_script(kind: str) -> None:
    """Nothing else was imported: printing finds the printers itself."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE[kind]], capture_output=True, text=True, check=True, env=environment()
    )
    assert SHOWN[kind] in done.stdout and "Map(" not in done.stdout
