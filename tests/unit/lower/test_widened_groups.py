"""Which loops are grouped convolutions whose weights may be widened: those that only look like one stay."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.transform import PassContext
from heddle.lower.widen_groups import WidenGroups
from heddle.script import from_source
from heddle.target import Target

TARGET = Target("llvm -mcpu=skylake-avx512")

SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(A: T.Buffer((1, 8, 4, 8), "float32"), W: T.Buffer((48, 2, 1, 1), "float32"),
          C: T.Buffer((1, 48, 4, 8), "float32")):
        for n, c, y, x, i, a, b in T.grid(1, 48, 4, 8, 2, 1, 1):
            with T.sblock("conv"):
                vn, vc, vh, vw, ri, rh, rw = T.axis.remap("SSSSRRR", [n, c, y, x, i, a, b])
                with T.init():
                    C[vn, vc, vh, vw] = T.float32({first})
                C[vn, vc, vh, vw] = {sum}
    @R.function
    def main(a: R.Tensor((1, 8, 4, 8), "float32"), w: R.Tensor((48, 2, 1, 1), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.f, (a, w), out_ty=R.Tensor((1, 48, 4, 8), "float32"))
            R.output(y)
        return y
"""
SUM, DATA, WEIGHT = "C[vn, vc, vh, vw]", "A[vn, vc // 12 * 2 + ri, vh + rh, vw + rw]", "W[vc, ri, rh, rw]"
PLAIN = f"{SUM} + {DATA} * {WEIGHT}"


def results(sum: str, first: str = "0") -> tuple[np.ndarray, np.ndarray]:
    """What a program gives with weights as arguments, and with constant ones."""
    rng = np.random.default_rng(8)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((1, 8, 4, 8), (48, 2, 1, 1)))
    plain = from_source(SOURCE.replace("{sum}", sum).replace("{first}", first))
    bound = relax.transform.BindParams("main", {"w": w})(plain)
    machines = [relax.VirtualMachine(heddle.compile(mod), heddle.cpu()) for mod in (plain, bound)]
    return machines[0]["main"](a, w).numpy(), machines[1]["main"](a).numpy()


def is_widened(sum: str, first: str = "0") -> bool:
    """Whether the pass takes the function of a program."""
    mod = from_source(SOURCE.replace("{sum}", sum).replace("{first}", first))
    weights = np.ones((48, 2, 1, 1), "float32")
    mod = relax.transform.BindParams("main", {"w": weights})(mod)
    steps = (*optimize_passes(TARGET), *legalize_passes(TARGET))
    at = next(k for k, step in enumerate(steps) if isinstance(step, WidenGroups))
    with PassContext():
        for step in steps[:at]:
            mod = step(mod)
        return steps[at](mod) is not mod


def test_a_grouped_convolution_is_widened() -> None:
    assert is_widened(PLAIN)
    plain, widened = results(PLAIN)
    np.testing.assert_allclose(widened, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("sum", "first"),
    [
        (f"{PLAIN} + T.float32(1)", "0"),
        (f"T.max({SUM}, {DATA} * {WEIGHT})", "0"),
        (f"{SUM} + T.exp({DATA} * {WEIGHT})", "0"),
        (f"{SUM} + T.min({DATA} * {WEIGHT}, T.float32(-1))", "0"),
        (f"{SUM} + {DATA} * T.exp({WEIGHT})", "0"),
        (f"{SUM} + {DATA} * ({WEIGHT} + T.float32(1))", "0"),
        (f"{SUM} - {DATA} * {WEIGHT}", "0"),
        (PLAIN, "1"),
        (f"{SUM} + A[vn, 7 - (vc // 12 * 2 + ri), vh + rh, vw + rw] * {WEIGHT}", "0"),
        (f"{SUM} + A[vn, vc // 12 + ri * 4, vh + rh, vw + rw] * {WEIGHT}", "0"),
    ],
)
def test_what_only_looks_like_one_keeps_its_numbers(sum: str, first: str) -> None:
    assert not is_widened(sum, first)
    plain, bound = results(sum, first)
    np.testing.assert_allclose(bound, plain, rtol=1e-5, atol=1e-5)
