"""Images whose columns lie side by side are interpolated a row at a time: along the other axes in order, then
along the columns. Images whose channels do are not, and give the same."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.visitor import walk
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.prim.nodes import Cast
from heddle.script import from_source
from heddle.script import relax as R
from heddle.target import Target
from heddle.tir.nodes import BufferLoad

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({shape}), "float32"), like: R.Tensor(("a", "b"), "float32")):
        a, b = T.int64(), T.int64()
        y = R.nn.relu(R.image.resize2d(R.add(x, x), R.shape([{size}]), layout="{layout}", method="{method}"))
        return y
"""
SHAPES = (
    ((2, 3, 7, 9), (5, 19)),
    ((1, 2, 16, 33), (37, 70)),
    ((1, 1, 1, 1), (4, 3)),
    ((2, 1, 9, 80), (20, 9)),
)


def program(shape: str, size: str, layout: str, method: str) -> str:
    return PROGRAM.format(shape=shape, size=size, layout=layout, method=method)


def resized(
    x: np.ndarray, size: tuple[int, int], shape: str, text: str, layout: str, method: str
) -> np.ndarray:
    machine = relax.VirtualMachine(
        heddle.compile(from_source(program(shape, text, layout, method))), heddle.cpu()
    )
    result: np.ndarray = machine["main"](x, np.zeros(size, "float32")).numpy()
    return result


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("is_free", [True, False])
def test_values(method: str, is_free: bool) -> None:
    rng = np.random.default_rng(3)
    for shape, size in SHAPES[: None if is_free else 2]:
        x = rng.standard_normal(shape).astype("float32")
        dims = '"n", "c", "h", "w"' if is_free else ", ".join(map(str, shape))
        got = resized(x, size, dims, "a, b" if is_free else f"{size[0]}, {size[1]}", "NCHW", method)
        moved = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        want = resized(moved, size, '"n", "h", "w", "c"', "a, b", "NHWC", method)
        np.testing.assert_allclose(got, want.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "size"),
    [('"n", "c", "h", "w"', "a, b"), ('"n", "c", "h", "w"', "a, 0"), ("1, 2, 0, 5", "a, b")],
)
def test_no_columns_of_no_rows(shape: str, size: str) -> None:
    """Nothing is read where nothing is asked for, whether sizes are free or stated."""
    x = np.zeros((1, 2, 0, 5), "float32")
    mod = from_source(program(shape, size, "NCHW", "linear"))
    machine = relax.VirtualMachine(heddle.compile(mod, sanitize=True), heddle.cpu())
    assert machine["main"](x, np.zeros((4, 0), "float32")).numpy().shape == (1, 2, 4, 0)


@pytest.mark.parametrize(("shape", "size"), [('"n", "c", "h", 56', "a, 112"), ("1, 8, 56, 56", "112, 112")])
def test_the_image_is_read_in_order(shape: str, size: str) -> None:
    mod = relax.transform.LegalizeOps()(from_source(program(shape, size, "NCHW", "linear")))
    mod = ApplyDefaultSchedule(Target("llvm"))(mod)
    (func,) = (f for f in mod.functions.values() if f.dialect == "tir" and "resize" in f.script())
    image = func.buffers[0]
    loads = [
        node for node in walk(func.body) if isinstance(node, BufferLoad) and node.buffer.data is image.data
    ]
    assert loads
    assert not [node for load in loads for node in walk(load.indices[-1]) if isinstance(node, Cast)]


def test_a_scalar_that_is_read_twice_has_no_rows() -> None:
    """Graph seed 34,005,554 of the fuzzer."""
    x = relax.Var("x", R.Tensor((), "float32"))
    mask = relax.Var("mask", R.Tensor((4, 11), "bool"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, mask]):
        made = bb.emit(relax.op.less_equal(x, x))
        bb.emit_func_output(bb.emit(relax.op.where(mask, made, made)))
    machine = relax.VirtualMachine(heddle.compile(bb.get()), heddle.cpu())
    result = machine["main"](np.asarray(2, "float32"), np.zeros((4, 11), bool)).numpy()
    np.testing.assert_array_equal(result, np.ones((4, 11), bool))
