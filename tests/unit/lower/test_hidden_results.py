"""Results of products that are hidden by a condition keep the loops of their product.

`where(hidden, -1, product)` has a value at each point, whatever the product is there. A rule that computes it
in tiles of the product must know that the product is made everywhere.
"""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Sequential
from heddle.lower.default_schedule import FAILED_RULES
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, GraphInterpreter, const, op
from heddle.script import from_source
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.blocks.guarded import MADE, with_made_reads
from heddle.vm.relax import VirtualMachine


@frozen
class Case:
    """A convolution with `channels` in and out, and whether what hides its result has one channel."""

    channels: tuple[int, int]
    kernel: int
    groups: int = 1
    stride: int = 1
    dilation: int = 1
    hides_pixels: bool = False
    ndim: int = 2


CASES = {
    "plain": Case((24, 40), 3),
    "minimal filtering": Case((64, 64), 3, hides_pixels=True),
    "strided": Case((3, 32), 3, stride=2),
    "depthwise": Case((32, 32), 3, groups=32),
    "grouped": Case((32, 64), 3, groups=4),
    "pointwise": Case((32, 32), 1),
    "dilated": Case((16, 16), 3, dilation=2),
    "few channels": Case((64, 5), 1),
    "a sequence": Case((24, 40), 3, ndim=1, hides_pixels=True),
}
SIZES = [(1, (9, 9)), (3, (57, 43)), ("b", (57, 43)), (1, ("h", "w")), ("b", ("h", "w"))]


def hidden_convolution(case: Case, batch: object, image: tuple[object, ...]) -> IRModule:
    dims = [SizeVar(dim) if isinstance(dim, str) else dim for dim in (batch, *image[: case.ndim])]
    into, out = case.channels
    padding = case.kernel // 2 * case.dilation
    made = [
        (dim + 2 * padding - case.dilation * (case.kernel - 1) - 1) // case.stride + 1  # type: ignore[operator]
        for dim in dims[1:]
    ]
    x = Var("x", TensorType((dims[0], into, *dims[1:]), "float32"))
    hidden = Var("hidden", TensorType((dims[0], 1 if case.hides_pixels else out, *made), "bool"))
    shape = (out, into // case.groups, *(case.kernel,) * case.ndim)
    weight = const(np.random.default_rng(1).standard_normal(shape).astype("float32"))
    convolve = op.nn.conv1d if case.ndim == 1 else op.nn.conv2d
    builder = BlockBuilder()
    with builder.function("main", [x, hidden]):
        with builder.dataflow():
            y = builder.emit(
                convolve(
                    x,
                    weight,
                    strides=[case.stride] * case.ndim,
                    padding=[padding] * (2 * case.ndim),
                    dilation=[case.dilation] * case.ndim,
                    groups=case.groups,
                )
            )
            z = builder.emit_output(op.where(hidden, const(-1.0, "float32"), y))
        builder.emit_func_output(z)
    return builder.get()


def kernels(mod: IRModule) -> dict[str, PrimFunc]:
    target = Target("llvm")
    passes = Sequential((*optimize_passes(target), *legalize_passes(target)), "legalized")
    return {v.name_hint: f for v, f in passes(mod).functions.items() if isinstance(f, PrimFunc)}


@pytest.mark.parametrize(("batch", "image"), SIZES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_rule_of_the_product_applies(name, batch, image):
    made = kernels(hidden_convolution(CASES[name], batch, image))
    products = [func for name, func in made.items() if "conv2d" in name]
    assert {func.attrs["schedule_rule"] for func in products} <= {"ConvolutionRule", "SlidingWindow"}
    assert products and not any(FAILED_RULES in func.attrs for func in made.values())


@pytest.mark.parametrize("name", CASES)
def test_any_size_is_right(name):
    case = CASES[name]
    mod = hidden_convolution(case, "b", ("h", "w"))
    machine, reference = VirtualMachine(heddle.compile(mod), heddle.cpu()), GraphInterpreter(mod)
    rng = np.random.default_rng(2)
    for batch, *image in ((1, 7, 5), (2, 16, 43), (1, 1, 1)):
        shape = (batch, case.channels[0], *image[: case.ndim])
        x = rng.standard_normal(shape).astype("float32")
        made = [-(-each // case.stride) for each in shape[2:]]
        hidden = rng.random((batch, 1 if case.hides_pixels else case.channels[1], *made)) < 0.5
        found = machine["main"](x, hidden).numpy()
        np.testing.assert_allclose(found, reference["main"](x, hidden), rtol=1e-4, atol=1e-4)


LOOPS = """
from heddle.script import tir as T

@T.prim_func
def loops(A: T.Buffer((8,), "float32"), H: T.Buffer((8,), "bool"), C: T.Buffer((8,), "float32")):
    B = T.sblock_alloc_buffer((8,), "float32")
    for i in range({made}):
        with T.sblock("B"):
            vi = T.axis.spatial({made}, i)
            B[vi] = A[vi] + 1.0
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {value}
"""


@pytest.mark.parametrize(
    ("made", "value", "is_noted"),
    [
        (8, "T.Select(H[vi], T.float32(-1), B[vi])", True),
        (8, "T.if_then_else(H[vi], T.float32(-1), B[vi])", True),
        (5, "T.Select(H[vi], T.float32(-1), B[vi])", False),
        (8, "B[vi]", False),
        (8, "T.Select(H[vi], T.float32(-1), A[vi])", False),
    ],
)
def test_what_is_made_everywhere_is_noted(made, value, is_noted):
    func = from_source(LOOPS.format(made=made, value=value))
    noted = with_made_reads(func)
    assert (f'"{MADE}": True' in noted.script()) == is_noted and (noted is func) == (not is_noted)
