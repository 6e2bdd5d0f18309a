"""Transpositions through registers: every size, tiles and what is left of them, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.pipeline import default_pipeline
from heddle.ir.visitor import walk
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Shuffle, Var
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.span import Source
from heddle.target import Target
from heddle.tir.nodes import For, ForKind
from heddle.tir.transform.transpose_in_registers import _Shuffles

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({shape}, "{dtype}")):
        with R.dataflow():
            {body}
            R.output(y)
        return y
"""
SIZES = (0, 1, 3, 8, 16, 17, 33, 48, 145)
TARGETS = ("llvm", "llvm -vector-width=256", "llvm -vector-width=128")


def machine(shape: str, body: str, dtype: str = "float32", target: str = "llvm", **options: Any) -> Any:
    mod = parse_source(Source("model.py", MODEL.format(shape=shape, body=body, dtype=dtype)), DEFAULT_NAMES)
    executable = heddle.compile(mod, target=Target(target), **options)
    rules = [text for name, text in executable.metadata.items() if name.startswith("kernel.")]
    assert any('"rule": "Transpose"' in text for text in rules)
    return relax.VirtualMachine(executable, heddle.cpu())["main"]


@pytest.mark.parametrize("target", TARGETS)
def test_matrices_of_symbolic_size(target: str) -> None:
    run = machine('("n", "m")', "y = R.permute_dims(x)", target=target)
    for n in SIZES:
        for m in SIZES:
            x = np.random.default_rng(n * 99 + m).standard_normal((n, m)).astype(np.float32)
            np.testing.assert_array_equal(run(x).numpy(), x.T)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int16", "uint8"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 37, 3, 24), (0, 2, 3, 1)),
        ((5, 7, 19), (2, 1, 0)),
        ((3, 21, 150), (0, 2, 1)),
        ((21, 37, 1), (1, 0, 2)),  # the last axis has one element: the one before it moves
        ((9, 20, 31, 1), (0, 2, 1, 3)),
    ],
)
def test_axes_of_more_dimensions(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    run = machine(str(shape), f"y = R.permute_dims(x, axes={axes})", dtype)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    np.testing.assert_array_equal(run(x).numpy(), x.transpose(axes))


@pytest.mark.parametrize(
    "shape",
    [(14, 16), (16, 7), (13, 30), (5, 37), (21, 12), (31, 47), (21, 1100), (40, 1290), (70, 4), (1024, 33)],
)
@pytest.mark.parametrize("target", TARGETS)
def test_what_whole_tiles_leave_of_known_sizes(shape: tuple[int, int], target: str) -> None:
    run = machine(str(shape), "y = R.permute_dims(x)", target=target)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(run(x).numpy(), x.T)


@pytest.mark.parametrize("known", [5, 7, 16, 30, 64])
@pytest.mark.parametrize("target", TARGETS)
def test_what_whole_tiles_leave_of_one_free_size(known: int, target: str) -> None:
    """Tiles under masks whose height is known when they run; sanitized code checks every access."""
    for shape, sanitize in (
        (f'({known}, "m")', False),
        (f'({known}, "m")', True),
        (f'("m", {known})', False),
    ):
        run = machine(shape, "y = R.permute_dims(x)", target=target, sanitize=sanitize)
        for m in SIZES:
            x = np.random.default_rng(m).standard_normal((known, m)).astype(np.float32)
            x = x if shape.startswith(f"({known}") else x.T
            np.testing.assert_array_equal(run(x).numpy(), x.T)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "made"), [("uint8", "int16"), ("int16", "int16"), ("int8", "uint8")])
def test_narrow_integers(dtype: str, made: str, target: str) -> None:
    """Of symbolic and of known size; tiles of them fill parts of vectors."""
    body = f'y = R.astype(R.permute_dims(x, axes=[1, 0]), dtype="{made}")'
    free = machine('("m", "n")', body, dtype, target)
    for shape in ((70, 67), (16, 40), (5, 37), (3, 5), (1, 33), (0, 9)):
        x = np.random.default_rng(0).integers(0, 120, shape).astype(dtype)
        np.testing.assert_array_equal(free(x).numpy(), x.T.astype(made))
        if min(shape) > 4:
            known = machine(str(shape), body, dtype, target)
            np.testing.assert_array_equal(known(x).numpy(), x.T.astype(made))


def test_arithmetic_on_the_way() -> None:
    run = machine('("n", 20)', "h = R.permute_dims(R.exp(x))\n            y = R.add(h, R.const(1.0))")
    for n in (1, 16, 21):
        x = np.random.default_rng(n).standard_normal((n, 20)).astype(np.float32)
        np.testing.assert_allclose(run(x).numpy(), np.exp(x).T + 1, rtol=1e-5)


@pytest.mark.parametrize("shape", ["(24, 37)", '(24, "n")'])
@pytest.mark.parametrize("along", ["columns", "rows", "both"])
def test_factors_of_columns_and_rows(shape: str, along: str) -> None:
    """What is read along the vectors' other axis alone is one value for each of them."""
    lines = ["t = R.permute_dims(x)"]
    if along != "rows":
        lines.append(f't = R.multiply(t, R.const({list(range(1, 25))}, "float32"))')
    if along != "columns":
        lines.append("t = R.add(t, R.sum(t, axis=[1], keepdims=True))")
    run = machine(shape, "\n            ".join([*lines, "y = R.nn.relu(t)"]))
    x = np.random.default_rng(1).integers(-9, 9, (24, 37)).astype(np.float32)
    expected = x.T * np.arange(1, 25, dtype=np.float32) if along != "rows" else x.T
    if along != "columns":
        expected = expected + expected.sum(1, keepdims=True)
    np.testing.assert_array_equal(run(x).numpy(), np.maximum(expected, 0))


def test_heads_of_an_attention() -> None:
    body = "h = R.reshape(x, (b, s, 3, 16))\n            y = R.permute_dims(h, axes=(0, 2, 3, 1))"
    text = MODEL.format(shape='("b", "s", 48)', dtype="float32", body=body)
    text = text.replace(
        "        with R.dataflow", "        b, s = T.int64(), T.int64()\n        with R.dataflow"
    )
    mod = parse_source(Source("model.py", text), DEFAULT_NAMES)
    run = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())["main"]
    for b, s in ((1, 1), (2, 16), (3, 37)):
        x = np.random.default_rng(s).standard_normal((b, s, 48)).astype(np.float32)
        np.testing.assert_array_equal(run(x).numpy(), x.reshape(b, s, 3, 16).transpose(0, 2, 3, 1))


@pytest.mark.parametrize(("side", "count"), [(4, 8), (8, 24), (16, 64)])
def test_shuffles_transpose_a_tile(side: int, count: int) -> None:
    columns = [Var(f"x{k}", f"float32x{side}") for k in range(side)]
    held = {column: [(k, i) for i in range(side)] for k, column in enumerate(columns)}
    made = _Shuffles().transposed(columns)
    for step in made.steps:
        if isinstance(step.value, Shuffle):
            both = [item for vector in step.value.vectors for item in held[vector]]
            held[step.var] = [both[index] for index in step.value.indices]
        else:
            held[step.var] = held[step.value]
    for i, row in enumerate(made.vectors):
        assert held[row] == [(k, i) for k in range(side)]
    assert sum(isinstance(node, Shuffle) for step in made.steps for node in walk(step)) == count


def test_a_batch_of_one_image_is_work_for_threads() -> None:
    """Tokens of an image: of free sizes too, the loop that threads share has more turns than the batch."""
    shape, body = '("n", 8, "h", "w")', "y = R.permute_dims(R.reshape(x, (n, 8, h * w)), axes=(0, 2, 1))"
    text = MODEL.format(shape=shape, body=body, dtype="float32")
    text = text.replace(
        "        with R", "        n, h, w = T.int64(), T.int64(), T.int64()\n        with R", 1
    )
    mod = parse_source(Source("model.py", text), DEFAULT_NAMES)
    lowered = default_pipeline(Target("llvm"))(mod)
    loops = [node for func in lowered.functions.values() for node in walk(func) if isinstance(node, For)]
    (shared,) = [loop for loop in loops if loop.kind is ForKind.PARALLEL]
    (taken,) = [func for func in lowered.functions.values() if any(node is shared for node in walk(func))]
    sizes = {"n": 1, "h": 40, "w": 50}
    known = {var: sizes[var.name] for var in walk(taken) if isinstance(var, Var) and var.name in sizes}
    assert evaluate(shared.extent, known) >= 8
    run = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"]
    for n, h, w in ((0, 3, 4), (1, 1, 1), (1, 40, 50), (2, 9, 7), (3, 16, 4), (1, 13, 5)):
        x = np.random.default_rng(0).standard_normal((n, 8, h, w), "float32")
        np.testing.assert_array_equal(run(x).numpy(), x.reshape(n, 8, h * w).transpose(0, 2, 1))
