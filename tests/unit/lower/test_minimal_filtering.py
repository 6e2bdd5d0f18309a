"""Which loops are convolutions that minimal filtering may take: those that only look like one stay sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.script import from_source
from tests.unit.lower.test_convolutions import correlated, rules, scheduled

SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def middle(A: T.Buffer((1, 64, 28, 28), "float32"), W: T.Buffer((64, 64, 3, 3), "float32"),
               C: T.Buffer((1, 64, 28, 28), "float32")):
        P = T.sblock_alloc_buffer((1, 64, 30, 30), "float32")
        for n, c, h, w in T.grid(1, 64, 30, 30):
            with T.sblock("pad"):
                vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
                P[vn, vc, vh, vw] = {pad}
        for n, o, h, w, c, r, s in T.grid(1, 64, 28, 28, 64, 3, 3):
            with T.sblock("conv2d"):
                vn, vo, vh, vw, vc, vr, vs = T.axis.remap("SSSSRRR", [n, o, h, w, c, r, s])
                with T.init():
                    C[vn, vo, vh, vw] = T.float32({first})
                C[vn, vo, vh, vw] = {sum}
    @R.function
    def main(x: R.Tensor((1, 64, 28, 28), "float32"), u: R.Tensor((64, 64, 3, 3), "float32")):
        cls = Module
        with R.dataflow():
            a = R.nn.conv2d(x, u, padding=1)
            b = R.call_tir(cls.middle, (a, u), out_ty=R.Tensor((1, 64, 28, 28), "float32"))
            y = R.nn.conv2d(b, u, padding=1)
            R.output(y)
        return y
"""
INSIDE = "vh >= 1 and vh < 29 and vw >= 1 and vw < 29"
HERE = "A[vn, vc, vh - 1, vw - 1]"
PAD = f"T.if_then_else({INSIDE}, {HERE}, T.float32(0))"
SUMS, DATA, WEIGHT = "C[vn, vo, vh, vw]", "P[vn, vc, vh + vr, vw + vs]", "W[vo, vc, vr, vs]"
SUM = f"{SUMS} + {DATA} * {WEIGHT}"


def compiled(pad: str = PAD, sum: str = SUM, first: str = "0") -> tuple[Any, Any, Any, Any]:
    """The rules of the kernels, the input, the weights and the output of a network around a function. Its
    first convolution reads an image in no blocks, and is never filtered."""
    rng = np.random.default_rng(4)
    u = (rng.standard_normal((64, 64, 3, 3)) / 24).astype("float32")
    x = rng.standard_normal((1, 64, 28, 28)).astype("float32")
    mod = from_source(SOURCE.replace("{pad}", pad).replace("{sum}", sum).replace("{first}", first))
    mod = relax.transform.BindParams("main", {"u": u})(mod)
    machine = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    return rules(scheduled(mod)), x, u, machine["main"](x).numpy()


def check(got: Any, x: Any, u: Any, middle: Any) -> None:
    want = correlated(middle(correlated(x, u, padding=1)), u, padding=1)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_a_convolution_by_hand_is_taken() -> None:
    found, x, u, got = compiled()
    assert found.count("Winograd") == 2
    check(got, x, u, lambda a: correlated(a, u, padding=1))


@pytest.mark.parametrize("sum", [f"{DATA} * {WEIGHT} + {SUMS}", f"{SUMS} + {WEIGHT} * {DATA}"])
def test_terms_and_factors_in_another_order(sum: str) -> None:
    found, x, u, got = compiled(sum=sum)
    assert found.count("Winograd") == 2
    check(got, x, u, lambda a: correlated(a, u, padding=1))


def padded(a: Any, value: Any) -> Any:
    made = np.empty((1, 64, 30, 30))
    made[:] = value
    made[:, :, 1:29, 1:29] = a
    return made


def without_first_rows(a: Any) -> Any:
    made = padded(a, 0)
    made[:, :, :4] = 0
    return made


@pytest.mark.parametrize(
    ("pad", "image"),
    [
        (PAD.replace("T.float32(0)", "T.float32(1)"), lambda a: padded(a, 1)),
        (PAD.replace("T.float32(0)", "T.Cast('float32', vh)"), lambda a: padded(a, np.arange(30)[:, None])),
        (PAD.replace(HERE, f"{HERE} * T.float32(2)"), lambda a: padded(2 * a, 0)),
        (PAD.replace(HERE, f"T.max({HERE}, T.float32(0))"), lambda a: padded(np.maximum(a, 0), 0)),
        (PAD.replace("vh >= 1", "vh >= 4"), without_first_rows),
        (
            PAD.replace(INSIDE, f"{INSIDE} and vc >= 2"),
            lambda a: padded(a * (np.arange(64) >= 2)[:, None, None], 0),
        ),
    ],
    ids=["ones", "numbers", "twice", "relu", "fewer-rows", "fewer-channels"],
)
def test_images_that_are_more_than_padded(pad: str, image: Any) -> None:
    found, x, u, got = compiled(pad=pad)
    assert found.count("Winograd") == 1
    check(got, x, u, lambda a: correlated(image(a), u))


@pytest.mark.parametrize(
    ("sum", "first", "made"),
    [
        (f"{SUMS} + {DATA} * {WEIGHT} * T.float32(2)", "0", lambda y: 2 * y),
        (f"{SUMS} - {DATA} * {WEIGHT}", "0", lambda y: -y),
        (SUM, "1", lambda y: 1 + y),
    ],
    ids=["twice", "minus", "from-one"],
)
def test_sums_of_something_else(sum: str, first: str, made: Any) -> None:
    found, x, u, got = compiled(sum=sum, first=first)
    assert found.count("Winograd") == 1
    check(got, x, u, lambda a: made(correlated(a, u, padding=1)))


def test_other_reductions() -> None:
    found, x, u, got = compiled(sum=f"T.max({SUMS}, {DATA} * {WEIGHT})")
    assert found.count("Winograd") == 1
    a = padded(correlated(x, u, padding=1), 0)
    taps = np.lib.stride_tricks.sliding_window_view(a, (3, 3), (2, 3))[0]  # c, h, w, r, s
    b = np.stack([np.einsum("chwrs,crs->chwrs", taps, w).max((0, 3, 4)) for w in u.astype("float64")])[None]
    want = correlated(np.maximum(b, 0), u, padding=1)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()
